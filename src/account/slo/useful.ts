/**
 * Which tokens were of use. Pure.
 *
 * Useful are the output tokens of an answer that came whole (`ok`) and of which no check found that it could not be used;
 * an unchecked one counts. One that failed, was left or was useless counts nothing, so a request that had to be sent again
 * counts once, with the answer that served.
 */
import type { RequestRecord } from '../../domain/record.ts';

export function usefulTokens({ outcome, assessment, tokens }: RequestRecord): number {
  if (outcome !== 'ok' || (assessment?.useless?.length ?? 0) > 0) return 0;
  return tokens.output?.value ?? 0;
}
