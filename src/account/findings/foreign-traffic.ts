/**
 * Foreign traffic: the engine works for somebody who doesn't come by this warmlane. Its counters rose by more tokens than
 * warmlane's own requests account for. Pure.
 *
 * Counters and records don't move at the same moment: vLLM's counters lag a step, llama.cpp's jump by a whole answer when
 * its slot is free, a record comes at its request's end, and an answer that isn't streamed doesn't tell when its tokens came.
 * So only readings are compared in which no own request is still under way; own tokens that may have come within count as
 * if they had; and where a request's tokens aren't known for certain (aborted, failed, unread), nothing is said.
 */
import type { EnginePoint } from '../engines/engine-point.ts';
import type { Sighting } from './finding.ts';
import { round, sumOf, type Window } from './window.ts';

const shareFrom = 0.05;
/** Fewer tokens than this prove nothing: somebody may have tried a prompt. */
const leastTokens = 32;
const leastPromptTokens = 256;
/** A short window shows much of it soon, a long one little of it surely. */
const windowsMs = [30_000, 120_000, 300_000];
const maxPoints = 400;

interface Excess {
  readonly kind: 'output' | 'prompt';
  readonly engineTokens: number;
  readonly ownTokens: number;
  readonly excess: number;
  readonly overMs: number;
}

export function findForeignTraffic(window: Window): Sighting | undefined {
  const { points, oldestOwnMs, nowMs } = window;
  const settled = points.slice(-maxPoints).filter(({ toMs }) => toMs < oldestOwnMs && toMs > nowMs - 600_000);
  const output = largest(settled, 'output', leastTokens);
  const prompt = largest(settled, 'prompt', leastPromptTokens);
  const worst = output ?? prompt;
  if (worst === undefined) return undefined;
  const { engineTokens, ownTokens, excess, overMs, kind } = worst;
  const last = points.at(-1);
  return {
    weight: excess,
    says:
      `the engine counted ${round(engineTokens)} ${kind} tokens in ${round(overMs / 1000)} s, ` +
      `requests by this warmlane account for ${round(ownTokens)}: somebody else uses it`,
    evidence: {
      tokens: kind,
      engineTokens: round(engineTokens),
      ownTokens: round(ownTokens),
      foreignTokens: round(excess),
      foreignPercent: round((100 * excess) / engineTokens, 1),
      overMs: round(overMs),
      ...(last?.running === undefined ? {} : { runningThere: last.running, runningHere: last.ownRunning }),
    },
  };
}

function largest(settled: readonly EnginePoint[], kind: Excess['kind'], leastExcess: number): Excess | undefined {
  let found: Excess | undefined;
  for (const ms of windowsMs) {
    const excess = excessWithin(settled, kind, ms);
    if (excess === undefined || excess.excess < leastExcess) continue;
    if (excess.excess > shareFrom * excess.ownTokens && excess.excess > (found?.excess ?? 0)) found = excess;
  }
  return found;
}

/** Over the newest readings that together take up to `ms`, less the very newest, whose neighbour isn't there yet. */
function excessWithin(settled: readonly EnginePoint[], kind: Excess['kind'], ms: number): Excess | undefined {
  const to = settled.length - 1;
  const endMs = settled[to]?.toMs;
  if (endMs === undefined) return undefined;
  let from = to;
  while (isKnown(settled[from - 1], settled[from], kind)) {
    // One reading may be longer than the window: nothing was asked for a while.
    if (from < to && (settled[from - 1]?.fromMs ?? 0) < endMs - ms) break;
    from -= 1;
  }
  const within = settled.slice(from, to);
  const first = within[0];
  const last = within.at(-1);
  const next = settled[to];
  if (first === undefined || last === undefined || next === undefined || blindIn(next, kind)) return undefined;
  const engineTokens = sumOf(within, (point) => engineOf(point, kind));
  const before = settled[from - 1];
  const edges =
    ownOf(next, kind) + crossing(next, kind) + crossing(first, kind) + (before === undefined ? 0 : ownOf(before, kind));
  const ownTokens = sumOf(within, (point) => ownOf(point, kind)) + edges;
  return { kind, engineTokens, ownTokens, excess: engineTokens - ownTokens, overMs: last.toMs - first.fromMs };
}

function isKnown(point: EnginePoint | undefined, next: EnginePoint | undefined, kind: Excess['kind']): boolean {
  if (point === undefined || next === undefined || point.restarted || next.fromMs !== point.toMs) return false;
  return engineOf(point, kind) !== undefined && !blindIn(point, kind);
}

function blindIn({ own }: EnginePoint, kind: Excess['kind']): boolean {
  return own.blind > 0 || (kind === 'prompt' && own.blindPrompts > 0);
}

function engineOf({ deltas }: EnginePoint, kind: Excess['kind']): number | undefined {
  return kind === 'output' ? deltas.generatedTokens : deltas.promptTokens;
}

function ownOf({ own }: EnginePoint, kind: Excess['kind']): number {
  return kind === 'output' ? own.outputTokens : own.promptTokens;
}

function crossing({ own }: EnginePoint, kind: Excess['kind']): number {
  return kind === 'output' ? own.crossingOutput : own.crossingPrompt;
}
