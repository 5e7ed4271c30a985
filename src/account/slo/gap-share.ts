/**
 * How many of a request's gaps between token events were within a limit. Pure. Gaps are of one choice each and of events,
 * not tokens: exact, from the stamps.
 */
import type { RequestRecord, TokenStamps } from '../../domain/record.ts';

export interface GapShare {
  readonly gaps: number;
  readonly within: number;
  readonly largestMs: number;
  /** what the gaps beyond the limit took beyond it, all together */
  readonly excessMs: number;
}

/** A nanosecond: moments are sums of fractions. */
export const toleranceMs = 1e-6;

/** @param pendingMs silence after the last token of a request that was left or failed: a gap at least as long as that */
export function gapShare({ stamps }: RequestRecord, limitMs: number, pendingMs: number | undefined): GapShare {
  const tally = { gaps: 0, within: 0, largestMs: 0, excessMs: 0 };
  const count = (gapMs: number) => {
    tally.gaps += 1;
    if (gapMs > tally.largestMs) tally.largestMs = gapMs;
    if (gapMs <= limitMs + toleranceMs) tally.within += 1;
    else tally.excessMs += gapMs - limitMs;
  };
  if (stamps !== undefined) eachGap(stamps, count);
  // While it is within the limit nobody knows how long it would have become.
  if (pendingMs !== undefined && pendingMs > limitMs + toleranceMs) count(pendingMs);
  return tally;
}

function eachGap({ atMs, choice }: TokenStamps, count: (gapMs: number) => void): void {
  if (choice === undefined) {
    for (let i = 1; i < atMs.length; i += 1) count((atMs[i] ?? 0) - (atMs[i - 1] ?? 0));
    return;
  }
  const lastMs = new Map<number, number>();
  for (let i = 0; i < atMs.length; i += 1) {
    const at = atMs[i] ?? 0;
    const of = choice[i] ?? 0;
    const before = lastMs.get(of);
    if (before !== undefined) count(at - before);
    lastMs.set(of, at);
  }
}
