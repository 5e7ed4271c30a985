/** Gaps between two tokens of online streams on one backend, of the last two seconds: what a rule on the p95 of ITL looks at. */
import { percentile } from '../../../src/admit/online-feel.ts';

export interface Gaps {
  add(gapMs: number, atMs: number): void;
  /** undefined: no tokens came */
  p95(nowMs: number): number | undefined;
}

const recentMs = 2000;
/** Two seconds of twenty streams at full pace. */
const maxKnown = 4096;

export function createGaps(): Gaps {
  const ring: { readonly gapMs: number; readonly atMs: number }[] = [];
  let next = 0;
  return {
    add(gapMs, atMs) {
      ring[next] = { gapMs, atMs };
      next = (next + 1) % maxKnown;
    },
    p95(nowMs) {
      const recent: number[] = [];
      for (const { gapMs, atMs } of ring) if (nowMs - atMs < recentMs) recent.push(gapMs);
      return percentile(recent, 0.95);
    },
  };
}
