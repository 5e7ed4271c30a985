/**
 * The figures that windows keep of each request, in seconds, and the form in which a closed slice of time keeps their
 * distributions: only buckets that hold something, so that memory follows the traffic. Pure.
 */
import type { Outcome } from '../domain/names.ts';
import type { RequestRecord } from '../domain/record.ts';
import type { SketchData } from '../domain/sketch.ts';
import { Sketch } from '../platform/sketch.ts';
import { addToCache, type CacheSums, joinCache, noCacheSums } from './prompt-cache.ts';

export const figureNames = ['ttft', 'ttfa', 'itl', 'tpot', 'e2e', 'queue', 'overhead'] as const;
export const itlAt = figureNames.indexOf('itl');

export const outcomes = [
  'ok',
  'client_abort',
  'client_error',
  'upstream_error',
  'upstream_truncated',
  'timeout',
  'rejected',
  'shutdown',
  'proxy_error',
] as const satisfies readonly Outcome[];

/** In the order of `figureNames`, in ms; of ITL there is a whole distribution, so its place is empty. */
export function figuresMs({ figures }: RequestRecord): readonly (number | undefined)[] {
  const { ttftMs, ttfaMs, tpotMs, e2eMs, queueMs, overheadMs } = figures;
  return [ttftMs, ttfaMs, undefined, tpotMs, e2eMs, queueMs, overheadMs];
}

/** One population in one slice of time. */
export class Tally {
  /** requests by outcome */
  readonly requests = new Float64Array(outcomes.length);
  /** requests that have the figure, by figure and outcome */
  readonly having = new Float64Array(outcomes.length * figureNames.length);
  readonly sketches = figureNames.map(() => new Sketch());
  readonly cache = noCacheSums();

  add(record: RequestRecord): void {
    const outcome = outcomes.indexOf(record.outcome);
    this.requests[outcome] = (this.requests[outcome] ?? 0) + 1;
    const values = figuresMs(record);
    for (let figure = 0; figure < values.length; figure += 1) {
      const valueMs = values[figure];
      if (valueMs !== undefined) {
        this.sketches[figure]?.add(valueMs / 1000);
        this.#has(figure, outcome);
      }
    }
    if (record.itl !== undefined) {
      this.sketches[itlAt]?.join(record.itl);
      this.#has(itlAt, outcome);
    }
    addToCache(this.cache, record);
  }

  join(other: Tally | ClosedTally): void {
    for (let i = 0; i < this.requests.length; i += 1)
      this.requests[i] = (this.requests[i] ?? 0) + (other.requests[i] ?? 0);
    for (let i = 0; i < this.having.length; i += 1) this.having[i] = (this.having[i] ?? 0) + (other.having[i] ?? 0);
    joinCache(this.cache, other.cache);
    for (const [figure, sketch] of this.sketches.entries()) {
      const more = other.sketches[figure];
      if (more === undefined) continue;
      if (more instanceof Sketch) sketch.join(more);
      else sketch.join(opened(more));
    }
  }

  #has(figure: number, outcome: number): void {
    const at = figure * outcomes.length + outcome;
    this.having[at] = (this.having[at] ?? 0) + 1;
  }
}

export interface ClosedTally {
  readonly requests: Float64Array;
  readonly having: Float64Array;
  readonly sketches: readonly (SparseSketch | undefined)[];
  readonly cache: CacheSums;
}

/** Buckets that hold something, in rising order. */
export interface SparseSketch {
  readonly count: number;
  readonly sum: number;
  readonly min: number;
  readonly max: number;
  readonly zeros: number;
  readonly buckets: Int16Array;
  readonly counts: Uint32Array;
}

export function closedTally(tally: Tally): ClosedTally {
  const { requests, having, sketches, cache } = tally;
  return { requests, having, sketches: sketches.map(sparse), cache };
}

function sparse(sketch: Sketch): SparseSketch | undefined {
  if (sketch.count === 0) return undefined;
  const { first, counts } = sketch.data();
  const filled = counts.reduce((sum, times) => sum + (times > 0 ? 1 : 0), 0);
  const kept = {
    count: sketch.count,
    sum: sketch.sum,
    min: sketch.min,
    max: sketch.max,
    zeros: sketch.zeros,
    buckets: new Int16Array(filled),
    // At most a few minutes' tokens: far below 2^32.
    counts: new Uint32Array(filled),
  };
  let at = 0;
  for (const [i, times] of counts.entries()) {
    if (times === 0) continue;
    kept.buckets[at] = first + i;
    kept.counts[at] = times;
    at += 1;
  }
  return kept;
}

function opened({ count, sum, min, max, zeros, buckets, counts }: SparseSketch): SketchData {
  const first = buckets[0] ?? 0;
  const last = buckets[buckets.length - 1] ?? first - 1;
  const dense = Array.from({ length: buckets.length === 0 ? 0 : last - first + 1 }, () => 0);
  for (let i = 0; i < buckets.length; i += 1) dense[(buckets[i] ?? first) - first] = counts[i] ?? 0;
  return { count, sum, min, max, zeros, first, counts: dense };
}

/** About what it takes in memory: objects and array headers as V8 has them. */
export function bytesOf({ sketches }: ClosedTally): number {
  let bytes = 1100;
  for (const sketch of sketches) if (sketch !== undefined) bytes += 450 + 6 * sketch.counts.length;
  return bytes;
}
