/**
 * Netflix's Gradient2 (concurrency-limits, Apache-2.0) as a rule for the cap: limit × the long average of latency over its latest
 * value, within [.5, 1], plus room for a queue, smoothed. Latency is what online users wait: to the first token and a hundred
 * further ones. Its constants are those of the library: tolerance 1.5, smoothing .2, a window of 600 samples, queue of 4.
 */
import type { BatchCap } from '../../../src/admit/batch-cap.ts';
import { mostJobs, workConserving } from './work-conserving.ts';

const tolerance = 1.5;
const smoothing = 0.2;
const windowSamples = 600;
const queue = 4;
const tokens = 100;

const firstJobs = 4;

export function createGradient(beganMs: number): BatchCap {
  let limit = firstJobs;
  let longMs: number | undefined;
  return workConserving(beganMs, firstJobs, (_nowMs, { feel: { itlMs, ttftMs }, running }) => {
    if (itlMs === undefined || ttftMs === undefined) return limit;
    const shortMs = ttftMs + tokens * itlMs;
    longMs = longMs === undefined ? shortMs : longMs + (shortMs - longMs) * (2 / (windowSamples + 1));
    // As the library has it: an average that stays far above what is seen now is let down faster.
    if (longMs / shortMs > 2) longMs *= 0.95;
    // It doesn't grow what isn't used.
    if (running.batch >= limit / 2) {
      const gradient = Math.max(0.5, Math.min(1, (tolerance * longMs) / shortMs));
      limit = Math.max(1, Math.min(mostJobs, limit * (1 - smoothing) + smoothing * (limit * gradient + queue)));
    }
    return limit;
  });
}
