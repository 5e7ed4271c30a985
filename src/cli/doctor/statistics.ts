/**
 * Few and noisy timings: median, spread, and whether one group is clearly below another. Prefers "unclear" to a guess:
 * a busy machine makes single values worthless.
 */

export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** @returns undefined without values */
export function spreadOf(values: readonly number[]): Spread | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const [low] = sorted;
  const high = sorted.at(-1);
  if (low === undefined || high === undefined) return undefined;
  return { median: medianOf(sorted), low, high, count: sorted.length };
}

/** @param values at least one */
export function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

/** `below`: the first group is clearly below the second; `alike`: no sign of it; `unclear`: too few, or in between. */
export type Comparison = 'below' | 'alike' | 'unclear';

/** Fewer on either side prove nothing. */
export const leastEach = 4;
/** Share of pairs in which the first is smaller: from here on it is no accident with four against four. */
const clearShare = 0.9;
/** A difference below a quarter isn't what a cache hit looks like. */
const clearRatio = 0.75;
const alikeRatio = 0.9;

/** `below` wants both: ranks (how often a value of the first group is below one of the second) and medians. */
export function compareGroups(first: readonly number[], second: readonly number[]): Comparison {
  if (first.length < leastEach || second.length < leastEach) return 'unclear';
  let smaller = 0;
  for (const a of first) for (const b of second) smaller += a < b ? 1 : a === b ? 0.5 : 0;
  const share = smaller / (first.length * second.length);
  const ratio = medianOf(first) / medianOf(second);
  if (share >= clearShare && ratio <= clearRatio) return 'below';
  return ratio >= alikeRatio ? 'alike' : 'unclear';
}

/** `12.3 ms (11–15, n 6)`; whole milliseconds from 100 on. */
export function spreadText(spread: Spread | undefined): string {
  if (spread === undefined) return 'not seen';
  const { median, low, high, count } = spread;
  return `${msText(median)} (${msText(low, false)}–${msText(high, false)}, n ${count})`;
}

export function msText(ms: number, unit = true): string {
  const digits = ms >= 100 ? 0 : ms >= 10 ? 1 : 2;
  return `${ms.toFixed(digits)}${unit ? ' ms' : ''}`;
}
