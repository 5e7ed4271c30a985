/**
 * Two windows side by side: each figure before and after, their difference, and whether it is more than the spread between
 * slices of the same window. All differences that are shown together share one confidence, so that of many figures none is
 * likely to differ by chance. What is compared is the server under the load that it had: the loads are shown beside.
 */
import { middleOf } from '../../platform/sketch.ts';
import {
  type BootstrapSettings,
  differenceInterval,
  type Interval,
  type Windows as DrawnWindows,
} from './bootstrap.ts';
import {
  type ComparedFigure,
  comparedFigures,
  type ComparedShare,
  comparedShares,
  sketchKey,
  type Slice,
  type Slices,
} from './slices.ts';

export type Verdict = 'higher' | 'lower' | 'no_difference_seen' | 'too_little_data';

export interface Difference {
  /** ms for `ttft`, `tpot`, `itl`, `e2e`; 0…1 for `failed`, `hitRate`, `sloMet`; tokens/s for `decodeSpeed` */
  readonly figure: ComparedFigure | ComparedShare;
  /** of which requests; absent: all */
  readonly warmth?: string;
  /** of a figure; a share has none */
  readonly quantile?: 'p50' | 'p95';
  /** values or, of a share, what it is a share of; slices that have any */
  readonly before: Side;
  readonly after: Side;
  /** after − before, and the interval in which it lies */
  readonly difference?: number;
  readonly interval?: Interval;
  readonly verdict: Verdict;
}

export interface Side {
  readonly n: number;
  readonly slices: number;
  readonly value?: number;
}

export interface WindowLoad {
  readonly requests: number;
  readonly slices: number;
  readonly sliceSeconds: number;
  readonly promptTokensMean: number;
  readonly outputTokensMean: number;
}

export interface Comparison {
  readonly before: WindowLoad;
  readonly after: WindowLoad;
  /** that all of the intervals hold the truth, and that each of them does */
  readonly confidence: number;
  readonly confidenceEach: number;
  readonly differences: readonly Difference[];
}

const confidence = 0.95;
const draws = 400;
const seed = 20_240_229;
/** With fewer slices on a side nothing is said. */
const fewestSlices = 6;
/** Each of the two quantiles is within half a bucket. */
const sketchError = 2 * 0.0055;
const comparedQuantiles = { p50: 0.5, p95: 0.95 } as const;
const fewestValues = { p50: 20, p95: 100 } as const;
const warmths = ['cold_start', 'resident', 'prefix_hit', 'replayed', 'unknown'];

type Statistic = DrawnWindows['statistic'];

interface Question {
  readonly figure: ComparedFigure | ComparedShare;
  readonly warmth?: string;
  readonly quantile?: 'p50' | 'p95';
  readonly before: Side;
  readonly after: Side;
  readonly answerable: boolean;
  readonly statistic: Statistic;
}

export function compare(before: Slices, after: Slices): Comparison {
  const windows = { before: before.list(), after: after.list() };
  const questions = [
    ...comparedFigures.flatMap((figure) => warmths.flatMap((warmth) => figureQuestions(windows, figure, warmth))),
    ...comparedShares.flatMap((name) => shareQuestion(windows, name)),
  ];
  const asked = questions.filter(({ answerable }) => answerable).length;
  // Bonferroni's correction.
  const confidenceEach = 1 - (1 - confidence) / Math.max(1, asked);
  const settings = { seed, draws, confidence: confidenceEach };
  return {
    before: loadOf(windows.before, before.sliceMs),
    after: loadOf(windows.after, after.sliceMs),
    confidence,
    confidenceEach,
    differences: questions.map((question) => answer(question, windows, settings)),
  };
}

type Windows = Readonly<Record<'before' | 'after', readonly Slice[]>>;

function figureQuestions(windows: Windows, figure: ComparedFigure, warmth: string): readonly Question[] {
  const dense = denseOf([...windows.before, ...windows.after], sketchKey(warmth, figure));
  const [isBefore, isAfter] = masks(windows);
  return (['p50', 'p95'] as const).flatMap((quantile) => {
    const statistic: Statistic = (times) => dense.quantile(comparedQuantiles[quantile], times);
    const side = (times: readonly number[]): Side => {
      const value = statistic(times);
      return { ...dense.counts(times), ...(value === undefined ? {} : { value }) };
    };
    const sides = { before: side(isBefore), after: side(isAfter) };
    if (sides.before.n === 0 || sides.after.n === 0) return [];
    return [{ figure, warmth, quantile, ...sides, answerable: enough(sides, fewestValues[quantile]), statistic }];
  });
}

/** Which of the slices of both are those of one. */
function masks({ before, after }: Windows): readonly [readonly number[], readonly number[]] {
  return [
    [...before.map(() => 1), ...after.map(() => 0)],
    [...before.map(() => 0), ...after.map(() => 1)],
  ];
}

function shareQuestion(windows: Windows, name: ComparedShare): readonly Question[] {
  const all = [...windows.before, ...windows.after];
  const statistic: Statistic = (times) => ratio(all, name, times);
  const side = (slices: readonly Slice[]): Side => {
    const telling = slices.filter((slice) => slice.shares[name].whole > 0);
    const value = ratio(slices, name);
    const n = telling.reduce((sum, slice) => sum + slice.shares[name].whole, 0);
    return { n: Math.round(n), slices: telling.length, ...(value === undefined ? {} : { value }) };
  };
  const sides = { before: side(windows.before), after: side(windows.after) };
  if (sides.before.n === 0 || sides.after.n === 0) return [];
  return [{ figure: name, ...sides, answerable: enough(sides, 1), statistic }];
}

function enough({ before, after }: { before: Side; after: Side }, values: number): boolean {
  return Math.min(before.slices, after.slices) >= fewestSlices && Math.min(before.n, after.n) >= values;
}

function answer(question: Question, windows: Windows, settings: BootstrapSettings): Difference {
  const { figure, warmth, quantile, before, after, answerable, statistic } = question;
  const difference = before.value === undefined || after.value === undefined ? undefined : after.value - before.value;
  const sizes = { before: windows.before.length, after: windows.after.length };
  const filled = { before: before.slices, after: after.slices };
  const resolution = quantile === undefined ? 0 : sketchError * Math.max(before.value ?? 0, after.value ?? 0);
  const interval =
    answerable && difference !== undefined
      ? differenceInterval({ sizes, filled, difference, resolution, statistic }, settings)
      : undefined;
  return {
    figure,
    ...(warmth === undefined ? {} : { warmth }),
    ...(quantile === undefined ? {} : { quantile }),
    before,
    after,
    ...(difference === undefined ? {} : { difference }),
    ...(interval === undefined ? {} : { interval }),
    verdict: verdictOf(interval),
  };
}

function verdictOf(interval: Interval | undefined): Verdict {
  if (interval === undefined) return 'too_little_data';
  if (interval.low > 0) return 'higher';
  return interval.high < 0 ? 'lower' : 'no_difference_seen';
}

function ratio(slices: readonly Slice[], name: ComparedShare, times?: readonly number[]): number | undefined {
  let part = 0;
  let whole = 0;
  slices.forEach((slice, i) => {
    const weight = times?.[i] ?? 1;
    part += slice.shares[name].part * weight;
    whole += slice.shares[name].whole * weight;
  });
  return whole === 0 ? undefined : part / whole;
}

interface Dense {
  /** ms; each slice counted so many times */
  quantile(share: number, times: readonly number[]): number | undefined;
  /** values, and slices that have any */
  counts(times: readonly number[]): { readonly n: number; readonly slices: number };
}

/** The slices' sketches laid over one another, so that drawing them again is adding rows of numbers. */
function denseOf(slices: readonly Slice[], key: string): Dense {
  const sketches = slices.map(({ sketches: all }) => all.get(key)?.data());
  const known = sketches.flatMap((data) => (data === undefined || data.count === 0 ? [] : [data]));
  const first = Math.min(...known.map((data) => data.first));
  const width = Math.max(0, ...known.map((data) => data.first + data.counts.length - first));
  const sums = new Float64Array(width);

  function quantile(share: number, times: readonly number[]): number | undefined {
    sums.fill(0);
    let zeros = 0;
    let count = 0;
    for (let i = 0; i < sketches.length; i += 1) {
      const data = sketches[i];
      const weight = times[i] ?? 0;
      if (data === undefined || weight === 0) continue;
      zeros += data.zeros * weight;
      count += data.count * weight;
      const { counts } = data;
      const offset = data.first - first;
      for (let cell = 0; cell < counts.length; cell += 1) {
        const at = offset + cell;
        sums[at] = (sums[at] ?? 0) + (counts[cell] ?? 0) * weight;
      }
    }
    return count === 0 ? undefined : atRank(Math.max(1, Math.ceil(share * count)), zeros) * 1000;
  }

  function atRank(rank: number, zeros: number): number {
    let seen = zeros;
    if (rank <= seen) return 0;
    for (let cell = 0; cell < width; cell += 1) {
      seen += sums[cell] ?? 0;
      if (rank <= seen) return middleOf(first + cell);
    }
    return middleOf(first + width - 1);
  }

  return {
    quantile,
    counts(times) {
      const telling = sketches.flatMap((data, i) => (data === undefined || times[i] === 0 ? [] : [data.count]));
      return { n: telling.reduce((sum, count) => sum + count, 0), slices: telling.length };
    },
  };
}

function loadOf(slices: readonly Slice[], sliceMs: number): WindowLoad {
  const requests = slices.reduce((sum, slice) => sum + slice.requests, 0);
  const mean = (of: (slice: Slice) => number) =>
    requests === 0 ? 0 : slices.reduce((sum, slice) => sum + of(slice), 0) / requests;
  return {
    requests,
    slices: slices.length,
    sliceSeconds: sliceMs / 1000,
    promptTokensMean: mean(({ promptTokens }) => promptTokens),
    outputTokensMean: mean(({ outputTokens }) => outputTokens),
  };
}
