/**
 * Watches whether the event loop was held up: a timing that was taken meanwhile can't be trusted to the millisecond, and
 * the record says so (design decision 12). Owns one timer for the whole process.
 */
import type { Clock, Timer } from '../platform/clock.ts';

/** Pause between two looks. */
export const lagTickMs = 25;
/** A look that comes so much late means a lag; what is shorter, timers and scheduling do by themselves. */
export const lagLimitMs = 25;

export interface LoopLag {
  /** The loop was held up at some moment since `sinceMs` (monotonic ms), this very moment included. */
  laggedSince(sinceMs: number): boolean;
  stop(): void;
}

/** @param late told at each look how much late it came, ms */
export function createLoopLag(clock: Clock, late?: (ms: number) => void): LoopLag {
  let lookedMs = clock.nowMs();
  let lagEndMs: number | undefined;
  let timer: Timer | undefined;

  function look(): number {
    const nowMs = clock.nowMs();
    if (nowMs - lookedMs - lagTickMs > lagLimitMs) lagEndMs = nowMs;
    return nowMs;
  }

  function tick(): void {
    const beforeMs = lookedMs;
    lookedMs = look();
    late?.(Math.max(0, lookedMs - beforeMs - lagTickMs));
    timer = clock.timer(lagTickMs, tick);
  }

  timer = clock.timer(lagTickMs, tick);
  return {
    laggedSince(sinceMs) {
      if (timer !== undefined) look();
      return lagEndMs !== undefined && lagEndMs >= sinceMs;
    },
    stop() {
      timer?.cancel();
      timer = undefined;
    },
  };
}
