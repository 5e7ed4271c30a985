/** The median of values that weigh differently: half of the weight lies below it. Pure. */

export interface Weighted {
  readonly value: number;
  readonly weight: number;
}

/** @returns the middle of the two where the halves meet exactly; undefined without weight */
export function weightedMedian(values: readonly Weighted[]): number | undefined {
  const sorted = values.filter(({ weight }) => weight > 0).toSorted((a, b) => a.value - b.value);
  const half = sorted.reduce((sum, { weight }) => sum + weight, 0) / 2;
  let below = 0;
  for (const [index, { value, weight }] of sorted.entries()) {
    below += weight;
    if (below > half) return value;
    if (below === half) return (value + (sorted[index + 1]?.value ?? value)) / 2;
  }
  return sorted.at(-1)?.value;
}
