/** The streams that a job will decode among. Pure. */
import type { Candidate, RouteJob } from '../policy.ts';

/**
 * Those that decode there now, and those whose prompts come before its own: as many as its engine was seen to run at once, since
 * more only wait. Prompts that aren't computed yet are taken to be as long as those that are, or as its own.
 */
export function crowdOf(
  job: RouteJob,
  { decoding, contextTokens, pendingJobs = 0, seenSlots = Infinity }: Candidate,
): { readonly streams: number; readonly contextTokens: number } {
  const more = Math.min(pendingJobs, Math.max(0, seenSlots - decoding));
  if (more === 0) return { streams: decoding, contextTokens };
  const each = decoding > 0 ? contextTokens / decoding : job.promptTokens;
  return { streams: decoding + more, contextTokens: contextTokens + more * each };
}
