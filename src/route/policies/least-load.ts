/** Policy: the smallest share of what a backend can run at once, then the one used longest ago. Pure. */
import type { Candidate, Ranking, RouteJob } from '../policy.ts';

export function leastLoad(_job: RouteJob, candidates: readonly Candidate[]): Ranking {
  const ranked = candidates.toSorted(compareLoad).map(({ backend }) => ({ backend, reason: 'least_load' as const }));
  return { ranked, hold: false };
}

export function compareLoad(a: Candidate, b: Candidate): number {
  return loadShare(a) - loadShare(b) || a.jobs / a.weight - b.jobs / b.weight || a.lastUsed - b.lastUsed;
}

/** Load as a share of what it can start at once; without a limit, jobs count against a nominal 32. */
export function loadShare({ backend, jobs, slots, weight }: Candidate): number {
  if (backend.slots === undefined) return jobs / 32 / weight;
  return (slots + backend.ghostSlots) / Math.max(1, backend.slots) / weight;
}
