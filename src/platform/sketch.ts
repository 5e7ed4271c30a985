/**
 * Distributions in constant-factor buckets: adding costs a logarithm, joining is exact, quantiles are within 0.55 % of a
 * value that was seen. Every percentile, Prometheus bucket and OTLP histogram of warmlane comes from these (decision 17).
 * Bounded: values from a nanosecond to 2^34 span 4,100 buckets, and only those between smallest and largest are kept.
 */
import { sketchScale, type SketchData } from '../domain/sketch.ts';

const perOctave = 2 ** sketchScale;
/** Below this there is no bucket: a nanosecond, in seconds. */
const smallest = 1e-9;
/** 2^34: beyond any duration in seconds and any count of tokens or bytes. Larger values count in the last bucket. */
const lastBucket = 34 * perOctave - 1;
/** Buckets made ready beyond the one that is wanted, so that scattered values don't move the counts each time. */
const spare = 64;

/** @returns the bucket of a value > 0 (OpenTelemetry's mapping: upper bound inclusive) */
export function bucketOf(value: number): number {
  return Math.min(Math.ceil(Math.log2(value) * perOctave) - 1, lastBucket);
}

/** Upper bound of a bucket. */
export function upperBound(bucket: number): number {
  return 2 ** ((bucket + 1) / perOctave);
}

/** The value that stands for a bucket: none in it is further away than 0.55 %. */
export function middleOf(bucket: number): number {
  const low = 2 ** (bucket / perOctave);
  const high = 2 ** ((bucket + 1) / perOctave);
  return (2 * low * high) / (low + high);
}

/** The last bucket whose middle is at most `bound`. */
export function lastUpTo(bound: number): number {
  if (bound < smallest) return Number.NEGATIVE_INFINITY;
  const bucket = bucketOf(bound);
  return middleOf(bucket) <= bound ? bucket : bucket - 1;
}

/** Buckets of OpenTelemetry's exponential histogram: `counts[i]` is of (base^(offset+i), base^(offset+i+1)]. */
export interface ExponentialBuckets {
  /** base = 2^(2^-scale) */
  readonly scale: number;
  readonly offset: number;
  readonly counts: readonly number[];
}

const noCounts = new Float64Array(0);

export class Sketch {
  count = 0;
  sum = 0;
  zeros = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  /** Of `#counts[0]`. */
  #first = 0;
  #counts = noCounts;

  static of(data: SketchData): Sketch {
    const sketch = new Sketch();
    sketch.join(data);
    return sketch;
  }

  /** @param value not negative; what is not a finite number ≥ 0 is not counted */
  add(value: number, times = 1): void {
    if (!(value >= 0) || value === Number.POSITIVE_INFINITY || !(times > 0)) return;
    this.count += times;
    this.sum += value * times;
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    if (value < smallest) {
      this.zeros += times;
      return;
    }
    const bucket = bucketOf(value);
    let at = bucket - this.#first;
    if (at < 0 || at >= this.#counts.length) {
      this.#reach(bucket, bucket);
      at = bucket - this.#first;
    }
    this.#counts[at] = (this.#counts[at] ?? 0) + times;
  }

  /** Exact: as if every observation of the other had been made here. */
  join(other: SketchData | Sketch): void {
    if (other.count === 0) return;
    this.count += other.count;
    this.sum += other.sum;
    this.zeros += other.zeros;
    this.min = Math.min(this.min, other.min ?? this.min);
    this.max = Math.max(this.max, other.max ?? this.max);
    if (other instanceof Sketch) this.#joinCounts(other.#first, other.#counts);
    else this.#joinCounts(other.first, other.counts);
  }

  /** As if new, with the room that it has: for one that many requests use in turn. */
  clear(): void {
    this.count = 0;
    this.sum = 0;
    this.zeros = 0;
    this.min = Number.POSITIVE_INFINITY;
    this.max = Number.NEGATIVE_INFINITY;
    this.#counts.fill(0);
  }

  /** @param share 0…1 @returns undefined without observations; never outside what was seen */
  quantile(share: number): number | undefined {
    if (this.count === 0) return undefined;
    const rank = Math.max(1, Math.ceil(share * this.count));
    if (rank >= this.count) return this.max;
    let seen = this.zeros;
    if (rank <= seen) return Math.max(0, this.min);
    for (let i = 0; i < this.#counts.length; i += 1) {
      seen += this.#counts[i] ?? 0;
      if (rank <= seen) return Math.min(this.max, Math.max(this.min, middleOf(this.#first + i)));
    }
    return this.max;
  }

  /** How many observations count as at most `bound`: whole buckets, by their middle (so within 0.55 % of the bound). */
  countUpTo(bound: number): number {
    return this.countsUpTo([bound])[0] ?? 0;
  }

  /**
   * `countUpTo` of each bound, in one pass.
   * @param bounds rising
   * @param lasts `lastUpTo` of each, where many sketches are asked for the same bounds
   */
  countsUpTo(bounds: readonly number[], lasts: readonly number[] = bounds.map(lastUpTo)): number[] {
    const counts: number[] = [];
    let seen = this.zeros;
    let i = 0;
    for (let at = 0; at < bounds.length; at += 1) {
      const bound = bounds[at] ?? 0;
      const end = Math.min(this.#counts.length, (lasts[at] ?? 0) - this.#first + 1);
      for (; i < end; i += 1) seen += this.#counts[i] ?? 0;
      counts.push(bound >= this.max ? this.count : bound < 0 ? 0 : seen);
    }
    return counts;
  }

  /** Exact: two neighbours become one until there are at most so many. @param maxBuckets at least 2: below and above 1 never meet */
  exponential(maxBuckets: number): ExponentialBuckets {
    const [from, to] = this.#used();
    let scale: number = sketchScale;
    let offset = from === to ? 0 : this.#first + from;
    let last = offset + (to - from) - 1;
    while (last - offset >= maxBuckets) {
      offset >>= 1;
      last >>= 1;
      scale -= 1;
    }
    const shift = sketchScale - scale;
    const counts = Array.from({ length: Math.max(0, last - offset + 1) }, () => 0);
    for (let i = from; i < to; i += 1) {
      const at = ((this.#first + i) >> shift) - offset;
      counts[at] = (counts[at] ?? 0) + (this.#counts[i] ?? 0);
    }
    return { scale, offset, counts };
  }

  data(): SketchData {
    const [from, to] = this.#used();
    return {
      count: this.count,
      sum: this.sum,
      zeros: this.zeros,
      first: from === to ? 0 : this.#first + from,
      counts: Array.from(this.#counts.subarray(from, to)),
      ...(this.count === 0 ? {} : { min: this.min, max: this.max }),
    };
  }

  /** Where the counts that aren't 0 begin and end. */
  #used(): readonly [number, number] {
    let from = 0;
    let to = this.#counts.length;
    while (from < to && this.#counts[from] === 0) from += 1;
    while (to > from && this.#counts[to - 1] === 0) to -= 1;
    return [from, to];
  }

  #joinCounts(first: number, counts: ArrayLike<number>): void {
    if (counts.length === 0) return;
    this.#reach(first, first + counts.length - 1);
    const shift = first - this.#first;
    for (let i = 0; i < counts.length; i += 1) {
      const times = counts[i] ?? 0;
      if (times > 0) this.#counts[shift + i] = (this.#counts[shift + i] ?? 0) + times;
    }
  }

  /** Makes room for these buckets. */
  #reach(low: number, high: number): void {
    const { length } = this.#counts;
    const end = this.#first + length;
    if (length > 0 && low >= this.#first && high < end) return;
    const first = length === 0 ? low - spare / 4 : low < this.#first ? low - spare : this.#first;
    const last = length === 0 ? high + spare / 4 : high >= end ? high + spare : end - 1;
    const wider = new Float64Array(last - first + 1);
    wider.set(this.#counts, length === 0 ? 0 : this.#first - first);
    this.#first = first;
    this.#counts = wider;
  }
}
