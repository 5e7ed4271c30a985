/**
 * How many streams of one backend decoded at once, from the begins and ends in a log alone: the time spent at each number,
 * and each stream's mean. Rows come by their ends, so a moment is settled only when it lies further back than the longest
 * stream that is waited for; a stream that began before that is taken from there on. Bounded by what its owner lets wait.
 */
import { levelOf } from '../concurrency-levels.ts';

export interface SweptStream {
  fromMs: number;
  readonly toMs: number;
  /** choices that decode at once */
  readonly weight: number;
  /** told the mean number that decoded while it did, once that is settled; undefined where nobody asks */
  readonly ended: ((concurrency: number) => void) | undefined;
  /** of level × ms, when it began */
  begun: number;
}

/** How far back a stream may have begun. */
const horizonMs = 15 * 60_000;
export const sweepEvery = 4096;

export class DecodeSweep {
  streams = 0;
  clipped = 0;
  #waiting: SweptStream[] = [];
  #running: SweptStream[] = [];
  #sweptMs = Number.NEGATIVE_INFINITY;
  #latestMs = Number.NEGATIVE_INFINITY;
  #sinceSweep = 0;
  #level = 0;
  /** level × ms since the beginning */
  #integral = 0;
  readonly #levelMs = new Map<number, number>();

  /** @param ended not called for a stream whose whole time is settled already */
  add(fromMs: number, toMs: number, { weight, ended }: Pick<SweptStream, 'weight' | 'ended'>): void {
    this.#latestMs = Math.max(this.#latestMs, toMs);
    this.streams += 1;
    if (fromMs < this.#sweptMs) this.clipped += 1;
    if (toMs <= this.#sweptMs) return;
    this.#waiting.push({ fromMs: Math.max(fromMs, this.#sweptMs), toMs, weight, ended, begun: 0 });
    this.#sinceSweep += 1;
    // Often enough that not much waits, seldom enough that each sweep settles much.
    if (this.#sinceSweep < sweepEvery && this.#latestMs - this.#sweptMs < 2 * horizonMs) return;
    this.#sinceSweep = 0;
    this.#sweepTo(this.#latestMs - horizonMs);
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  sweepHalf(): void {
    this.#sweepTo(middleOf(this.#waiting));
  }

  /** Ends the sweep: nothing may be added after it. @returns ms by level, see `levelOf` */
  finish(): ReadonlyMap<number, number> {
    this.#sweepTo(Number.MAX_SAFE_INTEGER);
    return this.#levelMs;
  }

  /** Settles all moments up to this one. */
  #sweepTo(untilMs: number): void {
    const begins = this.#waiting.filter(({ fromMs }) => fromMs <= untilMs).toSorted((a, b) => a.fromMs - b.fromMs);
    if (begins.length === 0 && this.#running.length === 0) {
      this.#sweptMs = Math.max(this.#sweptMs, Math.min(untilMs, this.#latestMs));
      return;
    }
    this.#waiting = this.#waiting.filter(({ fromMs }) => fromMs > untilMs);
    const ends = [...this.#running, ...begins].toSorted((a, b) => a.toMs - b.toMs);
    let nextEnd = 0;
    for (const stream of begins) {
      nextEnd = this.#endUntil(ends, nextEnd, stream.fromMs);
      this.#moveTo(stream.fromMs);
      this.#level += stream.weight;
      stream.begun = this.#integral;
    }
    nextEnd = this.#endUntil(ends, nextEnd, untilMs);
    this.#running = ends.slice(nextEnd);
    this.#moveTo(untilMs);
  }

  #endUntil(ends: readonly SweptStream[], from: number, untilMs: number): number {
    let next = from;
    for (let stream = ends[next]; stream !== undefined && stream.toMs <= untilMs; stream = ends[next]) {
      this.#moveTo(stream.toMs);
      this.#level -= stream.weight;
      stream.ended?.((this.#integral - stream.begun) / (stream.toMs - stream.fromMs));
      next += 1;
    }
    return next;
  }

  #moveTo(atMs: number): void {
    const passedMs = atMs - this.#sweptMs;
    if (this.#level > 0 && passedMs > 0) {
      const at = levelOf(this.#level);
      this.#levelMs.set(at, (this.#levelMs.get(at) ?? 0) + passedMs);
      this.#integral += passedMs * this.#level;
    }
    this.#sweptMs = Math.max(this.#sweptMs, atMs);
  }
}

function middleOf(streams: readonly SweptStream[]): number {
  const moments = streams.map(({ fromMs }) => fromMs).toSorted((a, b) => a - b);
  return moments[Math.floor(moments.length / 2)] ?? Number.NEGATIVE_INFINITY;
}
