/**
 * Effective request capacity: the highest load, as a multiple of the trace's own, at which at least nine requests in ten are
 * within both bounds. Found by halving; each look is a whole play.
 */

export interface CapacitySearch {
  /** share of good requests that counts as enough */
  readonly enough: number;
  /** the answer is right within this share */
  readonly precision: number;
}

export const capacitySearch: CapacitySearch = { enough: 0.9, precision: 0.03 };

/** Loads beyond these are not looked at. */
const least = 1 / 64;
const most = 64;

/**
 * @param goodAt share of good requests at this multiple of the load
 * @param startScale where to look first
 * @returns 0 when even the smallest load is too much, Infinity when the largest is not
 */
export function findCapacity(
  goodAt: (scale: number) => number,
  startScale: number,
  { enough, precision }: CapacitySearch = capacitySearch,
): number {
  const isEnough = (scale: number) => goodAt(scale) >= enough;
  let low = startScale;
  let high = startScale;
  if (isEnough(startScale)) {
    do {
      low = high;
      high *= 1.5;
      if (high > most) return Infinity;
    } while (isEnough(high));
  } else {
    do {
      high = low;
      low /= 1.5;
      if (low < least) return 0;
    } while (!isEnough(low));
  }
  while (high / low > 1 + precision) {
    const middle = Math.sqrt(low * high);
    if (isEnough(middle)) low = middle;
    else high = middle;
  }
  return low;
}
