/**
 * Upper bounds of histograms in Prometheus text. Fine enough at both ends: an interpolated quantile lies in the bucket
 * that the exact one lies in, and from 0.1 to 10 s a bucket is no wider than a third of its value. The bounds of the
 * shipped SLO profiles are among them (30, 40, 150, 180, 200, 450 ms, 2 s), so that the share within one can be read off.
 * Imports nothing.
 */

/** 1 ms … 10 minutes. */
const seconds = [
  0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.125, 0.15, 0.18, 0.2, 0.25,
  0.3, 0.35, 0.45, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 450, 600,
] as const;

/** 10 µs … 10 minutes, for what takes warmlane itself no time at all when all is well. */
const fineSeconds = [
  0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10,
  30, 60, 120, 300, 600,
] as const;

/** 1 … 1,048,576 by powers of two: the sizes of contexts. */
const tokens = Array.from({ length: 21 }, (_, power) => 2 ** power);

export const bucketBounds: Readonly<Record<'seconds' | 'fineSeconds' | 'tokens', readonly number[]>> = {
  seconds,
  fineSeconds,
  tokens,
};
