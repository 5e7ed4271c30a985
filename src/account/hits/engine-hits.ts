/**
 * The engine's own counters of its prefix cache over a window, to be laid beside what its answers told. Pure. What lies
 * around a restart is unknown and left out, so nothing here is negative and no rate is above what the engine said (C156).
 */
import type { EngineCounter } from '../../domain/engine-reading.ts';
import type { CounterDeltas } from '../engines/counter-deltas.ts';
import type { EnginePoint } from '../engines/engine-point.ts';
import { ratio } from './hit-sums.ts';

const counters = ['promptTokens', 'cachedTokens', 'prefixQueries', 'prefixHits'] as const satisfies EngineCounter[];

export interface EngineHits {
  /** absent: since warmlane began to read it */
  readonly overMs?: number;
  /** its process was another one within the window */
  readonly restarted?: true;
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly cachedPercent?: number;
  readonly prefixQueryTokens?: number;
  readonly prefixHitTokens?: number;
  readonly prefixHitPercent?: number;
}

/** @returns undefined where nothing was read of it in that time */
export function engineHits(points: readonly EnginePoint[], nowMs: number, windowMs: number): EngineHits | undefined {
  const sums: { [Counter in EngineCounter]?: number } = {};
  let overMs = 0;
  let restarted = false;
  for (const { toMs, fromMs, deltas, restarted: fell } of points) {
    if (toMs <= nowMs - windowMs) continue;
    if (fell) {
      restarted = true;
      continue;
    }
    overMs += toMs - fromMs;
    for (const counter of counters) {
      const rise = deltas[counter];
      if (rise !== undefined) sums[counter] = (sums[counter] ?? 0) + rise;
    }
  }
  return overMs === 0 ? undefined : { overMs, ...(restarted ? { restarted } : {}), ...hitsOf(sums) };
}

/** Of counters, or of what they rose by. */
export function hitsOf({ promptTokens, cachedTokens, prefixQueries, prefixHits }: CounterDeltas): EngineHits {
  const cachedPercent = percentOf(cachedTokens, promptTokens);
  const prefixHitPercent = percentOf(prefixHits, prefixQueries);
  return {
    ...(promptTokens === undefined ? {} : { promptTokens }),
    ...(cachedTokens === undefined ? {} : { cachedTokens }),
    ...(cachedPercent === undefined ? {} : { cachedPercent }),
    ...(prefixQueries === undefined ? {} : { prefixQueryTokens: prefixQueries }),
    ...(prefixHits === undefined ? {} : { prefixHitTokens: prefixHits }),
    ...(prefixHitPercent === undefined ? {} : { prefixHitPercent }),
  };
}

function percentOf(part: number | undefined, of: number | undefined): number | undefined {
  const share = part === undefined || of === undefined ? undefined : ratio(part, of);
  return share === undefined ? undefined : 100 * share;
}
