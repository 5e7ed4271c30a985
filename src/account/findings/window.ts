/**
 * What detectors look at: one backend's recent points and requests, and what is known beside. A detector is a pure
 * function of it: the same window, the same answer.
 */
import type { EnginePoint } from '../engines/engine-point.ts';
import type { Digest } from './digest.ts';
import type { BackendFacts, Sighting } from './finding.ts';

export interface Window {
  readonly nowMs: number;
  readonly facts: BackendFacts;
  /** Oldest first; empty where the engine's metrics aren't read. */
  readonly points: readonly EnginePoint[];
  /** Finished requests that no later reading can shed another light on, oldest first. */
  readonly digests: readonly Seen[];
  /** When the oldest own request that still runs there began; Infinity without any. */
  readonly oldestOwnMs: number;
  /** The same of those that ended and are not among the digests yet. */
  readonly oldestUnseenMs: number;
  /** The finding held when it was last looked. */
  readonly was: boolean;
}

export interface Seen {
  readonly digest: Digest;
  /** When it became part of the window. */
  readonly sinceMs: number;
}

export type Detector = (window: Window) => Sighting | undefined;

/** Points that end within the last `ms`, oldest first. */
export function lastPoints({ points, nowMs }: Window, ms: number): readonly EnginePoint[] {
  let from = points.length;
  while (from > 0 && (points[from - 1]?.toMs ?? -Infinity) > nowMs - ms) from -= 1;
  return points.slice(from);
}

export function lastDigests({ digests, nowMs }: Window, ms: number): readonly Digest[] {
  return digests.filter(({ sinceMs }) => sinceMs > nowMs - ms).map(({ digest }) => digest);
}

export function tokensPerSecond(points: readonly EnginePoint[]): number | undefined {
  let tokens = 0;
  let ms = 0;
  for (const { deltas, fromMs, toMs } of points) {
    if (deltas.generatedTokens === undefined) continue;
    tokens += deltas.generatedTokens;
    ms += toMs - fromMs;
  }
  return ms > 0 ? (1000 * tokens) / ms : undefined;
}

export function round(value: number, digits = 0): number {
  const factor = 10 ** digits;
  return Math.round(value * factor) / factor;
}

export function sumOf<T>(items: readonly T[], pick: (item: T) => number | undefined): number {
  return items.reduce((total, item) => total + (pick(item) ?? 0), 0);
}
