/**
 * Policy: llm-d's rule of August 2026. Among the backends that hold at least 0.8 of the prompt the one with the fewest
 * uncached tokens in flight, this prompt's own among them; but the best of all as soon as that one has so many fewer that the
 * difference takes longer than a limit to compute. In seconds: tokens over the rate of prefill. Pure.
 */
import type { Candidate, Ranked, Ranking, RouteJob } from '../policy.ts';
import { leastLoad, loadShare } from './least-load.ts';

const warmShare = 0.8;
/** T_max as shipped there: 18 s of the engine's best rate. */
const saturatedSeconds = 18;

interface Scored {
  readonly candidate: Candidate;
  readonly isWarm: boolean;
  /** seconds to the end of this prompt's prefill */
  readonly seconds: number;
}

export function stickyUntilSaturated(job: RouteJob, candidates: readonly Candidate[]): Ranking {
  if (job.promptTokens === 0) return leastLoad(job, candidates);
  const scored = candidates.map((candidate): Scored => {
    const { pendingTokens, heldTokens, speed, weight } = candidate;
    const uncached = Math.max(0, job.promptTokens - heldTokens);
    return {
      candidate,
      isWarm: heldTokens >= warmShare * job.promptTokens,
      seconds: (pendingTokens + uncached) / (speed.prefillTokensPerSecond * weight),
    };
  });
  scored.sort((a, b) => a.seconds - b.seconds || loadShare(a.candidate) - loadShare(b.candidate) || older(a, b));
  const warm = scored.filter(({ isWarm }) => isWarm);
  const best = scored[0];
  const warmest = warm[0];
  if (best === undefined || warmest === undefined) return ranking(scored, 'least_load');
  if (warmest.seconds - best.seconds > saturatedSeconds) return ranking(scored, 'load_over_prefix');
  return ranking([...warm, ...scored.filter(({ isWarm }) => !isWarm)], 'prefix');
}

function older(a: Scored, b: Scored): number {
  return a.candidate.lastUsed - b.candidate.lastUsed;
}

function ranking(scored: readonly Scored[], reason: Ranked['reason']): Ranking {
  return { ranked: scored.map(({ candidate: { backend } }) => ({ backend, reason })), hold: false };
}
