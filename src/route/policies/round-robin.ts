/**
 * Policy: each in turn. Pure: whose turn it is follows from when each was last given a job, so that probes and refused asks
 * move nothing. With weights, the time since then counts as often as the weight says.
 */
import type { Candidate, Ranking, RouteJob } from '../policy.ts';

export function roundRobin(_job: RouteJob, candidates: readonly Candidate[]): Ranking {
  const now = candidates.reduce((latest, { lastUsed }) => Math.max(latest, lastUsed), 0) + 1;
  const due = ({ lastUsed, weight }: Candidate) => (now - lastUsed) * weight;
  const ranked = candidates
    .toSorted((a, b) => due(b) - due(a) || b.weight - a.weight || a.lastUsed - b.lastUsed)
    .map(({ backend }) => ({ backend, reason: 'round_robin' as const }));
  return { ranked, hold: false };
}
