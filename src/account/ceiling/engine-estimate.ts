/**
 * An engine's own estimates of its FLOPs and bytes, as totals that rise (vLLM with --enable-mfu-metrics), turned into shares
 * of one card's peak. Counts all traffic of the engine, not only what came through here. Bounded; time is given.
 */
import { slotSize } from '../concurrency.ts';
import { createTimeRing } from '../time-ring.ts';

/** Totals for one card. Absent: not exported. */
export interface EngineTotals {
  readonly flopsTotal?: number | undefined;
  readonly readBytesTotal?: number | undefined;
  readonly writeBytesTotal?: number | undefined;
}

export interface EngineEstimate {
  readonly flopsPerSecond: number;
  readonly bytesPerSecond: number;
  readonly mfu?: number;
  readonly mbu?: number;
}

export interface EngineEstimates {
  note(totals: EngineTotals, nowMs: number): void;
  /** @param card FLOP/s and bytes/s of one card @returns undefined while the engine exports none */
  view(
    window: { readonly nowMs: number; readonly windowMs: number },
    card: { readonly flops?: number | undefined; readonly bandwidth?: number | undefined },
  ): EngineEstimate | undefined;
}

interface Slot {
  flops: number;
  bytes: number;
  /** Time between scrapes that these were made in. */
  seconds: number;
}

export function createEngineEstimates(beganMs: number): EngineEstimates {
  const ring = createTimeRing<Slot>(slotSize, beganMs, () => ({ flops: 0, bytes: 0, seconds: 0 }));
  let last: { readonly flops: number; readonly bytes: number; readonly atMs: number } | undefined;
  let exported = false;

  return {
    note({ flopsTotal, readBytesTotal, writeBytesTotal }, nowMs) {
      if (flopsTotal === undefined || readBytesTotal === undefined) return;
      const now = { flops: flopsTotal, bytes: readBytesTotal + (writeBytesTotal ?? 0), atMs: nowMs };
      // Without the flag they are there, and 0.
      exported ||= now.flops > 0;
      const before = last;
      last = now;
      const slot = ring.at(nowMs);
      if (before === undefined || slot === undefined || nowMs <= before.atMs) return;
      // A total that fell is another process's: all of it is new.
      slot.flops += now.flops < before.flops ? now.flops : now.flops - before.flops;
      slot.bytes += now.bytes < before.bytes ? now.bytes : now.bytes - before.bytes;
      slot.seconds += (nowMs - before.atMs) / 1000;
    },
    view({ nowMs, windowMs }, { flops, bandwidth }) {
      if (!exported) return undefined;
      const sums = { flops: 0, bytes: 0, seconds: 0 };
      for (const slot of ring.within(nowMs, windowMs)) {
        sums.flops += slot.flops;
        sums.bytes += slot.bytes;
        sums.seconds += slot.seconds;
      }
      if (sums.seconds === 0) return undefined;
      const flopsPerSecond = sums.flops / sums.seconds;
      const bytesPerSecond = sums.bytes / sums.seconds;
      return {
        flopsPerSecond,
        bytesPerSecond,
        ...(flops === undefined ? {} : { mfu: flopsPerSecond / flops }),
        ...(bandwidth === undefined ? {} : { mbu: bytesPerSecond / bandwidth }),
      };
    },
  };
}
