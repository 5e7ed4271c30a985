/**
 * Windows as the admin page `/stats` shows them: what may be asked, and the figures of one population. Milliseconds, as
 * in all admin JSON. Requests that lack a figure are named beside it, by outcome: a percentile is of those that have it.
 */
import { type Lane, warmths } from '../domain/names.ts';
import type { Sketch } from '../platform/sketch.ts';
import { cacheView } from './prompt-cache.ts';
import { readWindow, windowMessage, type WindowName } from './window-lengths.ts';
import type { Population } from './windows.ts';
import { figureNames, outcomes, type Tally } from './windows-figures.ts';

export interface WindowQuery {
  readonly window: WindowName;
  readonly wanted: Partial<Population>;
}

/** What is wrong with a question, and which part of it. */
export interface WrongQuery {
  readonly message: string;
  readonly param: string;
}

const words = {
  lane: ['online', 'batch'],
  warmth: warmths,
} as const satisfies { lane: readonly Lane[]; warmth: typeof warmths };
export const windowParams = ['window', 'model', 'backend', 'lane', 'warmth'] as const;

/** `window` is 5m unless given; the others narrow the selection. @param query of `windowParams` only, each once */
export function readWindowQuery(query: URLSearchParams): WindowQuery | WrongQuery {
  const window = readWindow(query.get('window') ?? '5m');
  if (window === undefined) return { param: 'window', message: windowMessage };
  const lane = oneOf(query.get('lane'), words.lane);
  if (lane === undefined && query.has('lane')) return wrong('lane', words.lane);
  const warmth = oneOf(query.get('warmth'), words.warmth);
  if (warmth === undefined && query.has('warmth')) return wrong('warmth', words.warmth);
  const model = query.get('model');
  const backend = query.get('backend');
  return {
    window,
    wanted: {
      ...(model === null ? {} : { model }),
      ...(backend === null ? {} : { backend }),
      ...(lane === undefined ? {} : { lane }),
      ...(warmth === undefined ? {} : { warmth }),
    },
  };
}

function oneOf<Word extends string>(value: string | null, allowed: readonly Word[]): Word | undefined {
  return allowed.find((word) => word === value);
}

function wrong(param: keyof typeof words, allowed: readonly string[]): WrongQuery {
  return { param, message: `${param} must be one of ${allowed.join(', ')}` };
}

/** The figures of what a tally holds. */
export function tallyView(tally: Tally): object {
  return {
    requests: tally.requests.reduce((sum, times) => sum + times, 0),
    outcomes: byOutcome((outcome) => tally.requests[outcome] ?? 0),
    cache: cacheView(tally.cache),
    figures: Object.fromEntries(
      figureNames.map((name, figure) => [name, figureView(tally, { name, figure })] as const),
    ),
  };
}

function figureView(tally: Tally, { name, figure }: { readonly name: string; readonly figure: number }): object {
  const having = (outcome: number) => tally.having[figure * outcomes.length + outcome] ?? 0;
  const sketch = tally.sketches[figure];
  return {
    requests: outcomes.reduce((sum, _, outcome) => sum + having(outcome), 0),
    without: byOutcome((outcome) => (tally.requests[outcome] ?? 0) - having(outcome)),
    ...(name === 'itl' ? { gaps: sketch?.count ?? 0 } : {}),
    ...(sketch === undefined || sketch.count === 0 ? {} : spread(sketch)),
  };
}

function spread(sketch: Sketch): object {
  const atMs = (share: number) => (sketch.quantile(share) ?? 0) * 1000;
  return {
    p50Ms: atMs(0.5),
    p90Ms: atMs(0.9),
    p95Ms: atMs(0.95),
    p99Ms: atMs(0.99),
    p999Ms: atMs(0.999),
    meanMs: (sketch.sum / sketch.count) * 1000,
    minMs: sketch.min * 1000,
    maxMs: sketch.max * 1000,
  };
}

/** Only those that occur. */
function byOutcome(count: (outcome: number) => number): object {
  return Object.fromEntries(
    outcomes.flatMap((name, outcome) => (count(outcome) > 0 ? [[name, count(outcome)] as const] : [])),
  );
}
