/**
 * From one request's moments and counts to its figures. Pure: the definitions of `domain/record.ts`, nothing else.
 * A figure whose parts are missing is absent; none is ever NaN, negative or made up.
 */
import type { Engine } from '../domain/names.ts';
import type { Figures, Timeline, TokenCounts } from '../domain/record.ts';
import type { ChoiceTrack } from './choices.ts';
import type { EngineTimes } from './dialect/facts.ts';
import type { Tpot } from './tpot.ts';

export interface FigureInput {
  readonly timeline: Readonly<Timeline>;
  /** When the last attempt began, and the first: what lies between was lost to failed attempts. */
  readonly attemptMs: number | undefined;
  readonly firstAttemptMs: number | undefined;
  readonly endMs: number;
  readonly streamed: boolean;
  readonly engine: Engine | undefined;
  readonly choices: readonly ChoiceTrack[];
  readonly tokens: TokenCounts;
  readonly tpot: Tpot;
  readonly engineTimes: EngineTimes | undefined;
  readonly overheadPerEventMicros: number | undefined;
}

export function takeFigures(input: FigureInput): Figures {
  const { timeline, streamed, endMs, tpot } = input;
  const from = timeline.receivedLast ?? timeline.received;
  const e2eMs = streamed ? between(from, timeline.lastToken) : between(from, timeline.end);
  const output = input.tokens.output?.value;
  const figures: Writable<Figures> = {
    tpotWindow: tpot.window,
    durationMs: Math.max(0, (timeline.end ?? endMs) - from),
  };
  if (streamed) addStreamed(figures, input, from);
  if (output !== undefined && output > 0 && e2eMs) figures.overallTokensPerSecond = (output * 1000) / e2eMs;
  if (e2eMs !== undefined) figures.e2eMs = e2eMs;
  // Who was refused a place, or left, waited until then; who was refused at once was never queued.
  const queueMs = between(timeline.queued, timeline.admitted ?? timeline.end ?? endMs);
  if (queueMs !== undefined) figures.queueMs = queueMs;
  const connectMs = between(input.attemptMs ?? timeline.admitted, timeline.connected);
  if (connectMs !== undefined) figures.connectMs = connectMs;
  const { prefillMs, prefillKind, engineQueueMs } = splitPrefill(input);
  if (prefillMs !== undefined) figures.prefillMs = prefillMs;
  if (prefillKind !== undefined) figures.prefillKind = prefillKind;
  if (engineQueueMs !== undefined) figures.engineQueueMs = engineQueueMs;
  const overheadMs = overheadOf(input, from);
  if (overheadMs !== undefined) figures.overheadMs = overheadMs;
  if (input.overheadPerEventMicros !== undefined) figures.overheadPerEventMicros = input.overheadPerEventMicros;
  return figures;
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };

/** What only a stream has. */
function addStreamed(figures: Writable<Figures>, { timeline, tpot, choices }: FigureInput, from: number): void {
  const { tpotMs } = tpot;
  const ttftMs = between(from, timeline.firstToken);
  if (ttftMs !== undefined) figures.ttftMs = ttftMs;
  const upstreamTtftMs = between(timeline.sent, timeline.firstToken);
  if (upstreamTtftMs !== undefined) figures.upstreamTtftMs = upstreamTtftMs;
  const firstEventMs = between(from, timeline.firstEvent);
  if (firstEventMs !== undefined) figures.firstEventMs = firstEventMs;
  const ttfaMs = between(from, timeline.firstAnswer);
  if (ttfaMs !== undefined) figures.ttfaMs = ttfaMs;
  if (tpotMs !== undefined) {
    figures.tpotMs = tpotMs;
    figures.decodeTokensPerSecond = 1000 / tpotMs;
  }
  const maxItlMs = largestGap(choices);
  if (maxItlMs !== undefined) figures.maxItlMs = maxItlMs;
}

/** Milliseconds from one moment to another; absent when either is, or when they are not in this order. */
function between(fromMs: number | undefined, toMs: number | undefined): number | undefined {
  return fromMs === undefined || toMs === undefined || toMs < fromMs ? undefined : toMs - fromMs;
}

type Prefill = Pick<Figures, 'prefillMs' | 'prefillKind' | 'engineQueueMs'>;

/**
 * Time in the engine before its first token (R28). Apart from the engine's queue where the engine itself says so, and on
 * llama-server, whose head comes when a slot starts; elsewhere the two can't be told apart, and the figure says `joint`.
 */
function splitPrefill(input: FigureInput): Prefill {
  const { timeline, engine, engineTimes, streamed, choices } = input;
  if (engineTimes?.prefillMs !== undefined) {
    const { prefillMs, queueMs } = engineTimes;
    return { prefillMs, prefillKind: 'split', ...(queueMs === undefined ? {} : { engineQueueMs: queueMs }) };
  }
  if (!streamed) {
    const prefillMs = choices.find((choice) => choice.timedPromptMs !== undefined)?.timedPromptMs;
    return prefillMs === undefined ? {} : { prefillMs, prefillKind: 'split' };
  }
  const split = engine === 'llama-server';
  const engineQueueMs = split ? between(timeline.sent, timeline.head) : undefined;
  const prefillMs = between(split ? timeline.head : timeline.sent, firstOutputMs(input, split));
  return {
    ...(prefillMs === undefined ? {} : { prefillMs, prefillKind: split ? 'split' : 'joint' }),
    ...(engineQueueMs === undefined ? {} : { engineQueueMs }),
  };
}

/** The role chunk comes with the first token; it is the better moment where a parser swallowed the first ones (R15). */
function firstOutputMs(input: FigureInput, split: boolean): number | undefined {
  const { timeline, choices } = input;
  const parsed = choices.some((choice) => choice.sawReasoning || choice.sawTool);
  const roles = choices.flatMap((choice) => choice.roleMs ?? []);
  const firstRole = roles.length === 0 ? undefined : Math.min(...roles);
  return split || parsed ? (firstRole ?? timeline.firstToken) : timeline.firstToken;
}

/** What of a request's figures is known once its backend's head is there; ms. */
export interface HeadTimes {
  readonly queueMs: number | undefined;
  readonly connectMs: number | undefined;
  readonly overheadMs: number | undefined;
  /** sent → head */
  readonly upstreamMs: number | undefined;
}

export function headTimesOf(input: Pick<FigureInput, 'timeline' | 'attemptMs' | 'firstAttemptMs'>): HeadTimes {
  const { timeline, attemptMs } = input;
  return {
    queueMs: between(timeline.queued, timeline.admitted),
    connectMs: between(attemptMs ?? timeline.admitted, timeline.connected),
    overheadMs: overheadOf(input, timeline.receivedLast ?? timeline.received),
    upstreamMs: between(timeline.sent, timeline.head),
  };
}

/** Received → sent, without the queue, the connecting, and what failed attempts took. */
function overheadOf(
  input: Pick<FigureInput, 'timeline' | 'attemptMs' | 'firstAttemptMs'>,
  from: number,
): number | undefined {
  const { timeline, attemptMs, firstAttemptMs } = input;
  const beforeSent = between(from, timeline.sent);
  if (beforeSent === undefined) return undefined;
  // A streamed upload is queued and connected before its last byte: only what lies after that is in `beforeSent`.
  const after = (moment: number | undefined) => (moment === undefined ? undefined : Math.max(moment, from));
  const queueMs = between(after(timeline.queued), timeline.admitted) ?? 0;
  const connectMs = between(after(attemptMs ?? timeline.admitted), timeline.connected) ?? 0;
  const lostMs = between(after(firstAttemptMs), attemptMs) ?? 0;
  return Math.max(0, beforeSent - queueMs - connectMs - lostMs);
}

function largestGap(choices: readonly ChoiceTrack[]): number | undefined {
  const gaps = choices.flatMap((choice) => choice.maxGapMs ?? []);
  return gaps.length === 0 ? undefined : Math.max(...gaps);
}
