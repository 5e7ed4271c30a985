/**
 * One finished request as hit accounting sees it: what was reusable, captured and delivered of its prompt, or why nothing is
 * known of that. A prediction is never taken for a hit; an answer that doesn't tell its cached tokens is none with 0 (C152,
 * C153). One that leaves the count out stays untold, even from a backend that told before (C154). Pure.
 */
import { generatingEndpoints } from '../../domain/names.ts';
import { isReplayed, isWarmUp, type RequestRecord } from '../../domain/record.ts';
import type { ToldAnswer } from './miss-causes.ts';

export type AnswerHit =
  /** the one denominator: its engine told, and routing had read its prompt */
  | ({ readonly kind: 'told'; readonly clamped: boolean } & ToldAnswer)
  /** its engine told, but nothing was known of its prompt when it was sent */
  | { readonly kind: 'unpredicted'; readonly promptTokens: number; readonly deliveredTokens: number }
  | { readonly kind: 'untold' };

/** @returns undefined for what has no prompt in a cache: other endpoints, failures, answers that no engine made, warm-ups */
export function hitOf(record: RequestRecord): AnswerHit | undefined {
  const { endpoint, outcome, tokens, routing, marks } = record;
  if (!generatingEndpoints.has(endpoint) || record.backend === undefined) return undefined;
  if (isReplayed(record) || isWarmUp(record)) return undefined;
  const { prompt, cached } = tokens;
  if (prompt === undefined || cached === undefined) return outcome === 'ok' ? { kind: 'untold' } : undefined;
  const promptTokens = prompt.value;
  const deliveredTokens = Math.min(cached.value, promptTokens);
  if (routing === undefined) return { kind: 'unpredicted', promptTokens, deliveredTokens };
  const predictedTokens = Math.min(Math.max(0, routing.predictedTokens), promptTokens);
  return {
    kind: 'told',
    promptTokens,
    deliveredTokens,
    predictedTokens,
    reusableTokens: Math.min(Math.max(routing.reusableTokens, predictedTokens), promptTokens),
    clamped: cached.value > promptTokens || marks.includes('cached_clamped'),
  };
}
