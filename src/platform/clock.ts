/**
 * Time: one monotonic clock for every measurement, the wall clock only for people, and timers that tests can drive.
 */

export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Monotonic milliseconds with nanosecond fraction; never steps with the wall clock. */
  nowMs(): number;
  /** Wall clock, ms since the epoch. */
  wallMs(): number;
  /** Calls `fire` once after `delayMs` (at least 0). The timer does not keep the process alive. */
  timer(delayMs: number, fire: () => void): Timer;
}

const longestDelayMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  timer(delayMs, fire) {
    const handle = setTimeout(fire, Math.min(Math.max(0, delayMs), longestDelayMs));
    handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
};
