/**
 * A clock that stands still until a test moves it. Starts at 1, since a moment 0 is taken for "never" by some libraries.
 * Timers fire in the order of their moments, each seeing its own moment as now; those set meanwhile fire too, if due.
 */
import type { Clock } from '../../src/platform/clock.ts';

export interface FakeClock extends Clock {
  /** Moves time on by `ms`, firing what falls due. */
  advance(ms: number): void;
  /** Timers that are set and neither fired nor cancelled. */
  pending(): number;
}

interface Waiting {
  readonly atMs: number;
  readonly order: number;
  readonly fire: () => void;
}

export function createFakeClock(): FakeClock {
  let nowMs = 1;
  let order = 0;
  const waiting = new Set<Waiting>();

  function nextUntil(endMs: number): Waiting | undefined {
    let next: Waiting | undefined;
    for (const timer of waiting) {
      if (timer.atMs > endMs) continue;
      if (next === undefined || timer.atMs < next.atMs || (timer.atMs === next.atMs && timer.order < next.order))
        next = timer;
    }
    return next;
  }

  return {
    nowMs: () => nowMs,
    wallMs: () => 1_800_000_000_000 + nowMs,
    timer(delayMs, fire) {
      const timer: Waiting = { atMs: nowMs + Math.max(0, delayMs), order: (order += 1), fire };
      waiting.add(timer);
      return { cancel: () => void waiting.delete(timer) };
    },
    advance(ms) {
      const endMs = nowMs + ms;
      for (let next = nextUntil(endMs); next !== undefined; next = nextUntil(endMs)) {
        waiting.delete(next);
        nowMs = Math.max(nowMs, next.atMs);
        next.fire();
      }
      nowMs = endMs;
    },
    pending: () => waiting.size,
  };
}

/** Lets everything that only waits for promises run to its end. */
export async function settle(): Promise<void> {
  await new Promise((resolve) => void setImmediate(resolve));
}
