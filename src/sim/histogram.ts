/**
 * Histograms and numbers as a model server's Prometheus text has them, filled from a simulated engine.
 * Only numbers and text: which metrics there are is the dialect's business.
 */

export interface Histogram {
  observe(value: number): void;
  readonly count: number;
  readonly sum: number;
  /** Cumulative counts, one for each bound and one for +Inf. */
  cumulative(): readonly number[];
  readonly bounds: readonly number[];
}

/** @param bounds ascending upper bounds, without +Inf */
export function createHistogram(bounds: readonly number[]): Histogram {
  const counts = new Float64Array(bounds.length + 1);
  let count = 0;
  let sum = 0;
  return {
    bounds,
    observe(value) {
      const index = bounds.findIndex((bound) => value <= bound);
      const at = index < 0 ? bounds.length : index;
      counts[at] = (counts[at] ?? 0) + 1;
      count += 1;
      sum += value;
    },
    get count() {
      return count;
    },
    get sum() {
      return sum;
    },
    cumulative() {
      let total = 0;
      return Array.from(counts, (own) => (total += own));
    },
  };
}

/** A number as Python's client writes it: whole ones with `.0`. */
export function pythonNumber(value: number): string {
  if (Number.isInteger(value)) return value.toFixed(1);
  return String(value);
}
