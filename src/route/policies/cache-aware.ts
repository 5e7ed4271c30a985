/**
 * Policy: SGLang's rule (sgl-router, `cache_aware`, with its defaults). While the load is balanced, the backend that holds the
 * longest match if that is long enough, else the one with the smallest tree; by load while it isn't. One change: a prompt that
 * matches nowhere goes to the smallest tree only among those that have no more than the mean load. By tree size alone it went
 * to an overloaded backend while others stood idle (sgl-project/sglang#14305). Pure.
 */
import type { Candidate, Ranked, Ranking, RouteJob } from '../policy.ts';
import { compareLoad, leastLoad } from './least-load.ts';

const balanceAbsolute = 64;
const balanceRelative = 1.5;
const matchThreshold = 0.3;

export function cacheAware(job: RouteJob, candidates: readonly Candidate[]): Ranking {
  if (job.promptTokens === 0 || isImbalanced(candidates)) return leastLoad(job, candidates);
  const longest = Math.max(...candidates.map(({ heldTokens }) => heldTokens));
  if (longest > matchThreshold * job.promptTokens) {
    const ordered = candidates.toSorted((a, b) => b.heldTokens - a.heldTokens || compareLoad(a, b));
    return ranking(ordered, 'prefix');
  }
  const mean = candidates.reduce((sum, one) => sum + loadOf(one), 0) / candidates.length;
  const isOver = (candidate: Candidate) => Number(loadOf(candidate) > mean);
  const ordered = candidates.toSorted(
    (a, b) => isOver(a) - isOver(b) || a.indexTokens / a.weight - b.indexTokens / b.weight || compareLoad(a, b),
  );
  return ranking(ordered, 'least_load');
}

function isImbalanced(candidates: readonly Candidate[]): boolean {
  const loads = candidates.map(loadOf);
  const most = Math.max(...loads);
  const least = Math.min(...loads);
  return most - least > balanceAbsolute && most > balanceRelative * least;
}

function loadOf({ jobs, weight }: Candidate): number {
  return jobs / weight;
}

function ranking(ordered: readonly Candidate[], reason: Ranked['reason']): Ranking {
  return { ranked: ordered.map(({ backend }) => ({ backend, reason })), hold: false };
}
