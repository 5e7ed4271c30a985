/**
 * How long a backend holds what nobody touches, in tokens inserted meanwhile: Che's characteristic time, learnt from answers
 * that told their cached tokens, so that no capacity need be known.
 * Source: Fricker, Robert, Roberts, "A versatile and accurate approximation for LRU cache performance", arXiv:1202.3974.
 * Mutable numbers and rules on them; knows no chain and no table.
 */

export interface Horizon {
  /** tokens ever inserted there: prompt tokens that were computed, and generated ones */
  inserted: number;
  /** of those, before it was last emptied */
  emptiedAt: number;
  /** what was touched before so many inserted tokens is gone */
  tokens: number;
  /** stamps up to this one are known to be gone, whatever the horizon says */
  watermark: number;
  /** answers that told something of it */
  observations: number;
}

const quickRate = 0.3;
const slowRate = 0.1;
const quickObservations = 200;
/** No engine holds less than one short prompt. */
const leastTokens = 1024;

export function createHorizon(tokens: number): Horizon {
  return { inserted: 0, emptiedAt: 0, tokens: Math.max(leastTokens, tokens), watermark: -Infinity, observations: 0 };
}

/** Held: stamps above this one. */
export function residentAbove({ inserted, tokens, watermark }: Horizon): number {
  return Math.max(watermark, inserted - tokens);
}

function rateOf({ observations }: Horizon): number {
  return observations <= quickObservations ? quickRate : slowRate;
}

/**
 * It was taken to be held and was not.
 * @param age of the first chunk that was missing; nothing older can be there where the oldest goes first
 * @param stamp that chunk's; undefined where the engine does not drop the oldest first
 */
export function noteFalseHit(horizon: Horizon, age: number, stamp: number | undefined): void {
  if (age < horizon.tokens)
    horizon.tokens = Math.max(leastTokens, horizon.tokens + rateOf(horizon) * (age - horizon.tokens));
  if (stamp !== undefined && stamp > horizon.watermark) horizon.watermark = stamp;
}

/** It was taken to be gone and was there. @param age of the oldest chunk that was delivered, @param stamp that chunk's */
export function noteFalseMiss(horizon: Horizon, age: number, stamp: number): void {
  if (age > horizon.tokens) horizon.tokens += 3 * rateOf(horizon) * (age - horizon.tokens);
  if (stamp <= horizon.watermark) horizon.watermark = stamp - 1;
}
