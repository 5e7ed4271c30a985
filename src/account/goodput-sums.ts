/**
 * The sums that a window keeps of its requests. Numbers only.
 */
import type { RequestRecord } from '../domain/record.ts';
import { usefulTokens } from './slo/useful.ts';

export interface GoodputSums {
  requests: number;
  /** output tokens, whatever became of their requests */
  tokens: number;
  judged: number;
  met: number;
  /** output tokens of requests that met their profile */
  metTokens: number;
  /** smooth goodput, tokens; may be negative */
  benefitTokens: number;
  /** whole answers that could not be used */
  useless: number;
  usefulTokens: number;
  retries: number;
}

export function noSums(): GoodputSums {
  return {
    requests: 0,
    tokens: 0,
    judged: 0,
    met: 0,
    metTokens: 0,
    benefitTokens: 0,
    useless: 0,
    usefulTokens: 0,
    retries: 0,
  };
}

export function addRecord(sums: GoodputSums, record: RequestRecord): void {
  const { slo, useless, retry } = record.assessment ?? {};
  const tokens = record.tokens.output?.value ?? 0;
  sums.requests += 1;
  sums.tokens += tokens;
  sums.usefulTokens += usefulTokens(record);
  if (useless !== undefined && useless.length > 0) sums.useless += 1;
  if (retry === true) sums.retries += 1;
  if (slo === undefined) return;
  sums.judged += 1;
  sums.benefitTokens += slo.benefitTokens ?? 0;
  if (!slo.met) return;
  sums.met += 1;
  sums.metTokens += tokens;
}

export function joinSums(to: GoodputSums, from: GoodputSums): void {
  to.requests += from.requests;
  to.tokens += from.tokens;
  to.judged += from.judged;
  to.met += from.met;
  to.metTokens += from.metTokens;
  to.benefitTokens += from.benefitTokens;
  to.useless += from.useless;
  to.usefulTokens += from.usefulTokens;
  to.retries += from.retries;
}
