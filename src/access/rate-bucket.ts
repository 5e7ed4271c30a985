/**
 * A token bucket: as much as is allowed in a minute at once, then at the pace at which it fills again. It may be overdrawn by
 * what turned out to be more than was thought; the debt is paid before anything is let in again. Pure but for its own level.
 */

const minuteMs = 60_000;
/** Whoever waits as long as was said is let in, whatever floating point makes of it. */
const rounding = 1e-6;

export class RateBucket {
  readonly perMinute: number;
  #level: number;
  #atMs: number;

  /** @param level what is in it at first; full unless given */
  constructor(perMinute: number, nowMs: number, level = perMinute) {
    this.perMinute = perMinute;
    this.#level = Math.min(level, perMinute);
    this.#atMs = nowMs;
  }

  /** What can be taken at once; below 0: overdrawn. */
  level(nowMs: number): number {
    if (nowMs > this.#atMs) {
      this.#level = Math.min(this.perMinute, this.#level + ((nowMs - this.#atMs) * this.perMinute) / minuteMs);
      this.#atMs = nowMs;
    }
    return this.#level;
  }

  /** ms until so much can be taken, 0 when it can now; more than it ever holds waits until it is full */
  waitMs(amount: number, nowMs: number): number {
    const missing = Math.min(amount, this.perMinute) - this.level(nowMs);
    return missing <= rounding ? 0 : (missing * minuteMs) / this.perMinute;
  }

  /** ms until it is full */
  fullMs(nowMs: number): number {
    return this.waitMs(this.perMinute, nowMs);
  }

  /** Whatever is in it. @param amount below 0: given back, up to what it holds */
  take(amount: number, nowMs: number): void {
    this.#level = Math.min(this.perMinute, this.level(nowMs) - amount);
  }
}
