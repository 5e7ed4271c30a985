/**
 * Who stalled whom: time that streams lost to other requests' prefills, by the request that was prefilled. Of each stream
 * the line names the longest stall only; of all its stalls it tells what they took together. Bounded: the least of those that caused stalls are counted together.
 */
import type { Row } from './row.ts';
import { ownText } from './tally.ts';

export interface StallCause {
  readonly requestId: string;
  readonly backend?: string;
  /** prompt tokens computed for it; absent where it had not told yet */
  readonly promptTokens?: number;
  /** streams whose longest stall it was, and what those stalls took */
  readonly streams: number;
  readonly stallMs: number;
  readonly longestMs: number;
  /** the stream that waited longest for it */
  readonly longestOf: string;
}

export interface StallResult {
  /** streams that were stalled, of all that streamed */
  readonly streams: number;
  readonly ofStreams: number;
  /** by all their stalls */
  readonly stalledMs: number;
  readonly longestMs: number;
  /** requests that caused them; a count that can be too high where many were dropped and came again */
  readonly causes: number;
  /** worst first */
  readonly worst: readonly StallCause[];
}

export interface Stalls {
  add(row: Row): void;
  result(most: number): StallResult;
}

const mostCauses = 2000;

type Writable<T> = { -readonly [key in keyof T]: T[key] };

export function createStalls(): Stalls {
  let causes = new Map<string, Writable<StallCause>>();
  let dropped = 0;
  let streams = 0;
  let ofStreams = 0;
  let stalledMs = 0;
  let longestMs = 0;

  function note(row: Row, byMs: number, by: string): void {
    let cause = causes.get(by);
    if (cause === undefined) {
      const requestId = ownText(by);
      cause = { requestId, streams: 0, stallMs: 0, longestMs: 0, longestOf: '' };
      if (row.backend !== undefined) cause.backend = ownText(row.backend);
      causes.set(requestId, cause);
    }
    cause.streams += 1;
    cause.stallMs += byMs;
    if (row.stalledByTokens !== undefined) cause.promptTokens = row.stalledByTokens;
    if (byMs > cause.longestMs) {
      cause.longestMs = byMs;
      cause.longestOf = ownText(row.requestId);
    }
    if (causes.size > mostCauses) {
      const kept = worstOf(causes).slice(0, mostCauses / 2);
      dropped += causes.size - kept.length;
      causes = new Map(kept.map((each) => [each.requestId, each]));
    }
  }

  return {
    add(row) {
      if (row.streamed && row.ttftMs !== undefined) ofStreams += 1;
      if (row.stallMs === undefined) return;
      streams += 1;
      stalledMs += row.stalledMs ?? row.stallMs;
      longestMs = Math.max(longestMs, row.stallMs);
      if (row.stalledBy !== undefined) note(row, row.stallMs, row.stalledBy);
    },
    result: (most) => ({
      streams,
      ofStreams,
      stalledMs,
      longestMs,
      causes: causes.size + dropped,
      worst: worstOf(causes).slice(0, most),
    }),
  };
}

function worstOf(causes: ReadonlyMap<string, StallCause>): StallCause[] {
  return [...causes.values()].toSorted((a, b) => b.stallMs - a.stallMs);
}
