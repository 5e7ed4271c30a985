/**
 * warmlane's own view of one backend over the last hour, for where the engine's metrics aren't read and nothing can be laid
 * beside readings: what requests came to, in the slot in which they ended. Bounded by its ring; knows no clock.
 */
import type { RequestRecord } from '../../domain/record.ts';
import { addToCache, type CacheSums, joinCache, noCacheSums } from '../prompt-cache.ts';
import { createTimeRing } from '../time-ring.ts';
import type { OwnLife } from './own-life.ts';

export interface OwnSums {
  requests: number;
  promptTokens: number;
  outputTokens: number;
  ttftMs: number;
  ttftCount: number;
  /** requests whose tokens aren't known for certain: aborted, failed, unread or estimated */
  blind: number;
  readonly cache: CacheSums;
}

export interface OwnTraffic {
  add(record: RequestRecord, life: OwnLife, nowMs: number): void;
  view(nowMs: number, windowMs: number): { readonly overMs: number; readonly sums: OwnSums };
}

/** An hour, and the slot under way. */
const size = { slotMs: 10_000, slots: 361 };

export function createOwnTraffic(beganMs: number): OwnTraffic {
  const ring = createTimeRing(size, beganMs, emptySums);
  return {
    add(record, life, nowMs) {
      const sums = ring.at(nowMs);
      if (sums === undefined) return;
      sums.requests += 1;
      sums.promptTokens += life.promptTokens ?? 0;
      sums.outputTokens += life.outputTokens ?? 0;
      if (life.upstreamTtftMs !== undefined) {
        sums.ttftMs += life.upstreamTtftMs;
        sums.ttftCount += 1;
      }
      if (life.blind) sums.blind += 1;
      addToCache(sums.cache, record);
    },
    view(nowMs, windowMs) {
      const sums = emptySums();
      for (const slot of ring.within(nowMs, windowMs)) join(sums, slot);
      return { overMs: ring.coveredMs(nowMs, windowMs), sums };
    },
  };
}

function emptySums(): OwnSums {
  return { requests: 0, promptTokens: 0, outputTokens: 0, ttftMs: 0, ttftCount: 0, blind: 0, cache: noCacheSums() };
}

function join(to: OwnSums, from: OwnSums): void {
  to.requests += from.requests;
  to.promptTokens += from.promptTokens;
  to.outputTokens += from.outputTokens;
  to.ttftMs += from.ttftMs;
  to.ttftCount += from.ttftCount;
  to.blind += from.blind;
  joinCache(to.cache, from.cache);
}
