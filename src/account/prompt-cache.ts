/**
 * How much of the prompts came from the prefix cache, weighted by tokens, with what it is known of: answers that told
 * their cached tokens, and those that didn't. Never an average of ratios. Numbers only.
 */
import { generatingEndpoints } from '../domain/names.ts';
import type { RequestRecord } from '../domain/record.ts';

export interface CacheSums {
  /** answers that told how much of their prompt was cached */
  told: number;
  /** whole answers of generating endpoints that didn't */
  untold: number;
  /** prompt tokens of those that told, and of these the cached ones */
  promptTokens: number;
  cachedTokens: number;
}

export function noCacheSums(): CacheSums {
  return { told: 0, untold: 0, promptTokens: 0, cachedTokens: 0 };
}

export function addToCache(sums: CacheSums, { endpoint, outcome, tokens }: RequestRecord): void {
  if (!generatingEndpoints.has(endpoint)) return;
  const { prompt, cached } = tokens;
  if (prompt === undefined || cached === undefined) {
    if (outcome === 'ok') sums.untold += 1;
    return;
  }
  sums.told += 1;
  sums.promptTokens += prompt.value;
  sums.cachedTokens += cached.value;
}

export function joinCache(to: CacheSums, from: CacheSums): void {
  to.told += from.told;
  to.untold += from.untold;
  to.promptTokens += from.promptTokens;
  to.cachedTokens += from.cachedTokens;
}

/** As pages show it; where nobody told, nothing is known, which is not 0. */
export function cacheView({ told, untold, promptTokens, cachedTokens }: CacheSums) {
  return {
    toldAnswers: told,
    untoldAnswers: untold,
    ...(told === 0 ? {} : { promptTokens, cachedTokens }),
    ...(promptTokens > 0 ? { cachedPercent: (100 * cachedTokens) / promptTokens } : {}),
  };
}
