/**
 * A profile's limits for one request: the flat part, and what its prompt adds. Pure.
 */
import type { SloBound } from '../../domain/assessment.ts';
import type { RequestRecord } from '../../domain/record.ts';
import type { SloProfile } from './slo-settings.ts';

/** Milliseconds; a bound that the profile doesn't ask for is absent. */
export type Limits = { readonly [bound in SloBound]?: number };

/** About so many bytes of a request make a prompt token. */
const bytesPerToken = 4;

export function limitsOf(profile: SloProfile, record: RequestRecord): Limits {
  const limits: { -readonly [bound in SloBound]?: number } = {};
  const { ttftMs, ttfaMs, itlMs, tpotMs, e2eMs } = profile;
  if (ttftMs !== undefined) limits.ttft = ttftMs + addition(profile.ttftPerKilotokenMs, record);
  if (ttfaMs !== undefined) limits.ttfa = ttfaMs + addition(profile.ttfaPerKilotokenMs, record);
  if (itlMs !== undefined) limits.itl = itlMs + addition(profile.itlPerKilotokenMs, record);
  if (tpotMs !== undefined) limits.tpot = tpotMs + addition(profile.tpotPerKilotokenMs, record);
  if (e2eMs !== undefined) limits.e2e = e2eMs + addition(profile.e2ePerKilotokenMs, record);
  return limits;
}

function addition(perKilotokenMs: number | undefined, record: RequestRecord): number {
  return perKilotokenMs === undefined ? 0 : (perKilotokenMs * uncachedTokens(record)) / 1000;
}

/**
 * Prompt tokens that had to be computed. Where the engine told no cached ones, the whole prompt; where it told no prompt
 * either (a request that failed or was left), a token for each 4 bytes of the request.
 */
export function uncachedTokens({ tokens, requestBytes }: RequestRecord): number {
  const { prompt, cached } = tokens;
  if (prompt === undefined) return (requestBytes ?? 0) / bytesPerToken;
  return Math.max(0, prompt.value - (cached?.value ?? 0));
}
