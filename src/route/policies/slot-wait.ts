/**
 * Waiting for a slot: how long it will take at a backend whose slots are all busy, and whether it is worth it. Pure.
 * A slot that an abandoned request may still hold counts as busy (R10). Engines that don't tell their slots queue by
 * themselves beyond as many streams as they were seen to run at once.
 */
import type { Candidate, RouteJob } from '../policy.ts';
import { crowdOf } from './crowd.ts';
import type { Costed } from './warm.ts';

/**
 * An engine's queue behind a limit that was only seen counts up to this. It tells the crowded from the idle; where all are
 * crowded, sending prompts away from what is held makes it worse.
 */
const mostSeenSeconds = 0.5;

/** Slots that must become free before this job can start there, of `limit` slots; 0: it can start at once. */
function missingSlots(job: RouteJob, { backend, slots, aheadJobs = 0 }: Candidate, limit: number): number {
  return Math.max(0, slots + backend.ghostSlots + Math.min(job.choices, limit) + aheadJobs - limit);
}

/** It would wait here, not there. */
function isFull(job: RouteJob, candidate: Candidate): boolean {
  const { slots } = candidate.backend;
  return slots !== undefined && missingSlots(job, candidate, Math.max(1, slots)) > 0;
}

/**
 * Seconds until it starts there, expected: every job that runs has as much before it as a new one would, since how long
 * answers get isn't known, and one of m ends in an m-th of that.
 */
export function slotWaitSeconds(job: RouteJob, candidate: Candidate): number {
  const { speed, backend, slots, seenSlots = Infinity } = candidate;
  const missing = missingSlots(job, candidate, Math.max(1, backend.slots ?? seenSlots));
  if (missing === 0) return 0;
  const { streams, contextTokens } = crowdOf(job, candidate);
  const stepMs = speed.decodeBaseMs + speed.decodePerStreamMs * streams + speed.decodePerContextTokenMs * contextTokens;
  const jobSeconds = (job.outputTokens * stepMs) / 1000 + job.promptTokens / speed.prefillTokensPerSecond;
  const waitSeconds = (missing * jobSeconds) / Math.max(1, slots + backend.ghostSlots);
  return backend.slots === undefined ? Math.min(waitSeconds, mostSeenSeconds) : waitSeconds;
}

export interface Waiting {
  /** Those to go to, best first; without the others the job waits for one of these. */
  readonly going: readonly Costed[];
  /** Until waiting has cost what it saves. */
  readonly againMs?: number;
}

/**
 * Where the best backends are full, a job waits for them as long as the wait, what it has waited already included, costs
 * no more than the best one with room costs more; then it goes there. So nobody waits longer than waiting saves.
 * @param costed ascending by cost
 */
export function waitFor(job: RouteJob, costed: readonly Costed[]): Waiting {
  const best = costed[0];
  const isFree = ({ candidate }: Costed) => !isFull(job, candidate);
  const free = costed.findIndex(isFree);
  const other = costed[free];
  if (best === undefined || other === undefined || free === 0) return { going: costed };
  // What a copy takes from others is no reason to let this one wait.
  const saved = other.cost.total - other.cost.copy - (best.cost.total - best.cost.copy - best.cost.slot);
  const spare = saved - best.cost.slot - (job.waitedSeconds ?? 0);
  if (spare > 0) return { going: costed.slice(0, free), againMs: Math.ceil(spare * 1000) };
  return { going: [...costed.filter(isFree), ...costed.filter((one) => !isFree(one))] };
}
