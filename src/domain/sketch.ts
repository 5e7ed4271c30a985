/**
 * A distribution as plain data: counts in buckets that grow by a constant factor, as OpenTelemetry's exponential
 * histogram has them at scale 6. `platform/sketch.ts` makes, joins and reads them. Imports nothing.
 */

/**
 * Bucket `i` holds values in (2^(i/64), 2^((i+1)/64)]: any value in it is within 0.55 % of its middle.
 * Source: OpenTelemetry metrics data model, exponential histogram, scale 6.
 */
export const sketchScale = 6;

export interface SketchData {
  /** observations, zeros included */
  readonly count: number;
  readonly sum: number;
  /** absent when count is 0 */
  readonly min?: number;
  readonly max?: number;
  /** observations that are 0 or too small to have a bucket */
  readonly zeros: number;
  /** index of the first bucket in `counts` */
  readonly first: number;
  /** without empty buckets at either end; empty when all are zeros */
  readonly counts: readonly number[];
}
