/**
 * Distributions in constant-factor buckets: adding costs a logarithm, joining is exact, quantiles are within 0.55 % of a
 * value that was seen. Every percentile, Prometheus bucket and OTLP histogram of warmlane comes from these (decision 17).
 */
import { sketchScale, type SketchData } from '../domain/sketch.ts';

const perOctave = 2 ** sketchScale;
/** Below this there is no bucket: a nanosecond, in seconds. */
const smallest = 1e-9;
/** 2^34: beyond any duration in seconds and any count of tokens or bytes. Larger values count in the last bucket. */
const lastBucket = 34 * perOctave - 1;
const growth = 64;

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

export class Sketch {
  count = 0;
  sum = 0;
  zeros = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  #first = 0;
  #counts: number[] = [];

  static of(data: SketchData): Sketch {
    const sketch = new Sketch();
    sketch.join(data);
    return sketch;
  }

  /** @param value not negative; what is not a finite number ≥ 0 is not counted */
  add(value: number, times = 1): void {
    if (!(value >= 0) || value === Number.POSITIVE_INFINITY || times <= 0) return;
    this.count += times;
    this.sum += value * times;
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    if (value < smallest) this.zeros += times;
    else this.#bump(bucketOf(value), times);
  }

  /** Exact: as if every observation of the other had been made here. */
  join(other: SketchData | Sketch): void {
    const data = other instanceof Sketch ? other.data() : other;
    if (data.count === 0) return;
    this.count += data.count;
    this.sum += data.sum;
    this.zeros += data.zeros;
    this.min = Math.min(this.min, data.min ?? this.min);
    this.max = Math.max(this.max, data.max ?? this.max);
    for (let i = 0; i < data.counts.length; i += 1) {
      const times = data.counts[i] ?? 0;
      if (times > 0) this.#bump(data.first + i, times);
    }
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
    if (bound >= this.max) return this.count;
    let seen = this.zeros;
    for (let i = 0; i < this.#counts.length; i += 1) {
      if (middleOf(this.#first + i) > bound) break;
      seen += this.#counts[i] ?? 0;
    }
    return seen;
  }

  data(): SketchData {
    let from = 0;
    let to = this.#counts.length;
    while (from < to && this.#counts[from] === 0) from += 1;
    while (to > from && this.#counts[to - 1] === 0) to -= 1;
    return {
      count: this.count,
      sum: this.sum,
      zeros: this.zeros,
      first: from === to ? 0 : this.#first + from,
      counts: this.#counts.slice(from, to),
      ...(this.count === 0 ? {} : { min: this.min, max: this.max }),
    };
  }

  #bump(bucket: number, times: number): void {
    if (this.#counts.length === 0) this.#first = bucket;
    if (bucket < this.#first) {
      // Room to spare below, so that falling values don't shift the array each time; at most the bucket's own distance.
      const spare = Math.max(this.#first - bucket, growth);
      this.#counts = [...Array.from({ length: spare }, () => 0), ...this.#counts];
      this.#first -= spare;
    }
    const at = bucket - this.#first;
    while (this.#counts.length <= at) this.#counts.push(0);
    this.#counts[at] = (this.#counts[at] ?? 0) + times;
  }
}
