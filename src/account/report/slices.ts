/**
 * One window cut into slices of equal time, each with the sums that a comparison needs. Requests that ran side by side share
 * their luck, so that the slice, not the request, is what is drawn when the spread is estimated. How long the window will be
 * is not known beforehand: when there are too many slices, each two neighbours become one.
 */
import { failedOutcomes } from '../../domain/names.ts';
import { Sketch } from '../../platform/sketch.ts';
import { generates, type Row } from './row.ts';

export const comparedFigures = ['ttft', 'tpot', 'itl', 'e2e'] as const;
export type ComparedFigure = (typeof comparedFigures)[number];

/** Shares and rates: a sum over another. */
export const comparedShares = ['failed', 'hitRate', 'sloMet', 'decodeSpeed'] as const;
export type ComparedShare = (typeof comparedShares)[number];

export interface Slice {
  requests: number;
  promptTokens: number;
  outputTokens: number;
  /** seconds; by warmth and figure */
  readonly sketches: Map<string, Sketch>;
  readonly shares: Record<ComparedShare, { part: number; whole: number }>;
}

export interface Slices {
  add(row: Row): void;
  /** Those with requests, in the order of time. */
  list(): readonly Slice[];
  readonly sliceMs: number;
}

const mostSlices = 64;
const firstSliceMs = 1000;
/** A window's slices beyond so many warmths are joined under the last. */
const warmths = new Set(['cold_start', 'resident', 'prefix_hit', 'replayed']);

export function createSlices(): Slices {
  let sliceMs = firstSliceMs;
  let slices = new Map<number, Slice>();

  /** Slices are numbered from the epoch on, so that rows may come in any order. */
  function sliceAt(atMs: number): Slice {
    for (;;) {
      const index = Math.floor(atMs / sliceMs);
      const known = slices.get(index);
      if (known !== undefined) return known;
      const made = emptySlice();
      slices.set(index, made);
      const indexes = [...slices.keys()];
      if (Math.max(...indexes) - Math.min(...indexes) < mostSlices) return made;
      slices = halved(slices);
      sliceMs *= 2;
    }
  }

  return {
    add(row) {
      if (generates(row)) addTo(sliceAt(row.startedAtMs), row);
    },
    list: () => [...slices].toSorted(([a], [b]) => a - b).flatMap(([, slice]) => (slice.requests > 0 ? [slice] : [])),
    get sliceMs() {
      return sliceMs;
    },
  };
}

export function sketchKey(warmth: string, figure: ComparedFigure): string {
  return `${warmth}\n${figure}`;
}

function emptySlice(): Slice {
  const none = () => ({ part: 0, whole: 0 });
  return {
    requests: 0,
    promptTokens: 0,
    outputTokens: 0,
    sketches: new Map(),
    shares: { failed: none(), hitRate: none(), sloMet: none(), decodeSpeed: none() },
  };
}

function halved(slices: ReadonlyMap<number, Slice>): Map<number, Slice> {
  const joined = new Map<number, Slice>();
  for (const [index, slice] of slices) {
    const at = Math.floor(index / 2);
    const other = joined.get(at);
    if (other === undefined) joined.set(at, slice);
    else joinInto(other, slice);
  }
  return joined;
}

function joinInto(slice: Slice, other: Slice): void {
  slice.requests += other.requests;
  slice.promptTokens += other.promptTokens;
  slice.outputTokens += other.outputTokens;
  for (const [key, sketch] of other.sketches) {
    const own = slice.sketches.get(key);
    if (own === undefined) slice.sketches.set(key, sketch);
    else own.join(sketch);
  }
  for (const name of comparedShares) {
    slice.shares[name].part += other.shares[name].part;
    slice.shares[name].whole += other.shares[name].whole;
  }
}

function addTo(slice: Slice, row: Row): void {
  const { promptTokens, cachedTokens, outputTokens = 0, tpotMs, itl } = row;
  slice.requests += 1;
  slice.promptTokens += promptTokens ?? 0;
  slice.outputTokens += outputTokens;
  const warmth = warmths.has(row.warmth) ? row.warmth : 'unknown';
  const observe = (figure: ComparedFigure, valueMs: number | undefined) => {
    if (valueMs !== undefined) sketchOf(slice, sketchKey(warmth, figure)).add(valueMs / 1000);
  };
  observe('ttft', row.ttftMs);
  observe('tpot', tpotMs);
  observe('e2e', row.e2eMs);
  if (itl !== undefined) sketchOf(slice, sketchKey(warmth, 'itl')).join(itl);
  share(slice, 'failed', failedOutcomes.has(row.outcome) ? 1 : 0, 1);
  if (promptTokens !== undefined && cachedTokens !== undefined) share(slice, 'hitRate', cachedTokens, promptTokens);
  if (row.slo !== undefined) share(slice, 'sloMet', row.sloMet === true ? 1 : 0, 1);
  // Tokens that a user got per second of decoding.
  if (tpotMs !== undefined && tpotMs > 0 && outputTokens > 1)
    share(slice, 'decodeSpeed', outputTokens - 1, ((outputTokens - 1) * tpotMs) / 1000);
}

function share(slice: Slice, name: ComparedShare, part: number, whole: number): void {
  slice.shares[name].part += part;
  slice.shares[name].whole += whole;
}

function sketchOf(slice: Slice, key: string): Sketch {
  const known = slice.sketches.get(key);
  if (known !== undefined) return known;
  const made = new Sketch();
  slice.sketches.set(key, made);
  return made;
}
