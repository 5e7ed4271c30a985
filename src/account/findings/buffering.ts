/**
 * Something before the client's stream buffers it: the backend itself or a proxy between it and warmlane. Whole answers
 * come in one burst after a wait in which they were made, or in few large lumps. One such answer may be an accident, so
 * several of the last are needed. Pure.
 */
import type { Digest } from './digest.ts';
import type { Sighting } from './finding.ts';
import { lastDigests, round, type Window } from './window.ts';

const lookBackMs = 600_000;
/** The newest answers that say something of the way. */
const looked = 5;
const leastBuffered = 3;
/** Once named, it holds until it is this rare. */
const heldBy = 2;

export function findBuffering(window: Window): Sighting | undefined {
  const telling = lastDigests(window, lookBackMs).filter(({ arrival }) => arrival !== undefined);
  const newest = telling.slice(-looked);
  const buffered = newest.filter(({ arrival }) => arrival !== 'spread');
  if (buffered.length < (window.was ? heldBy : leastBuffered)) return undefined;
  const worst = buffered.toSorted((a, b) => b.waitMs - a.waitMs)[0];
  if (worst === undefined) return undefined;
  return {
    weight: window.nowMs,
    says: `${buffered.length} of the last ${newest.length} streamed answers came ${wayOf(worst)}: something before warmlane buffers`,
    evidence: {
      buffered: buffered.length,
      of: newest.length,
      worstRequest: worst.requestId,
      events: worst.events,
      waitMs: round(worst.waitMs),
      burstMs: round(worst.decodeMs, 1),
    },
  };
}

function wayOf({ arrival, events, waitMs, decodeMs }: Digest): string {
  if (arrival === 'lumps') return `in few lumps (${events} events within ${round(decodeMs)} ms)`;
  return `in one burst (${events} events within ${round(decodeMs, 1)} ms, after ${round(waitMs)} ms)`;
}
