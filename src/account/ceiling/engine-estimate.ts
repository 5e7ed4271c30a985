/**
 * An engine's own estimates of its FLOPs and bytes (vLLM with --enable-mfu-metrics), as shares of one card's peak. Made of
 * what its counters rose by between readings, so that a restart is passed over here as it is everywhere else. Counts all
 * traffic of the engine, not only what came through here. Pure.
 */
import type { EngineSeries } from '../engines/engine-series.ts';

/** What an engine told of itself in the last hour. */
export type EngineHour = Pick<EngineSeries, 'points' | 'latest' | 'totals'>;

export interface EngineEstimate {
  readonly flopsPerSecond: number;
  readonly bytesPerSecond: number;
  readonly mfu?: number;
  readonly mbu?: number;
}

/**
 * @param card FLOP/s and bytes/s of one card, for which the engine's counters are
 * @returns undefined where the engine exports none, or told none in the window
 */
export function engineEstimate(
  engine: EngineHour,
  { nowMs, windowMs }: { readonly nowMs: number; readonly windowMs: number },
  { flops, bandwidth }: { readonly flops?: number | undefined; readonly bandwidth?: number | undefined },
): EngineEstimate | undefined {
  if (!exportsEstimates(engine)) return undefined;
  const sums = { flops: 0, bytes: 0, ms: 0 };
  for (const { deltas, fromMs, toMs } of engine.points()) {
    if (toMs <= nowMs - windowMs || deltas.flops === undefined || deltas.readBytes === undefined) continue;
    sums.flops += deltas.flops;
    sums.bytes += deltas.readBytes + (deltas.writeBytes ?? 0);
    sums.ms += toMs - fromMs;
  }
  if (sums.ms === 0) return undefined;
  const flopsPerSecond = (sums.flops * 1000) / sums.ms;
  const bytesPerSecond = (sums.bytes * 1000) / sums.ms;
  return {
    flopsPerSecond,
    bytesPerSecond,
    ...(flops === undefined ? {} : { mfu: flopsPerSecond / flops }),
    ...(bandwidth === undefined ? {} : { mbu: bytesPerSecond / bandwidth }),
  };
}

/** Without its flag the counters are there, and 0. */
export function exportsEstimates(engine: EngineHour): boolean {
  return (engine.latest()?.counters.flops ?? engine.totals().flops ?? 0) > 0;
}
