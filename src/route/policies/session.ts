/**
 * Policy: a session, else a prompt's beginning, has one home (weighted rendezvous hashing) for as long as that backend takes
 * work, whatever its load: a job waits there for a place. Pure. Jobs of which neither is known go by load.
 */
import { rendezvous } from '../hash.ts';
import type { Candidate, Ranking, RouteJob } from '../policy.ts';
import { leastLoad } from './least-load.ts';

export function session(job: RouteJob, candidates: readonly Candidate[]): Ranking {
  const key = job.sessionKey ?? job.prefixKey;
  if (key === 0) return leastLoad(job, candidates);
  let home: Candidate | undefined;
  let most = 0;
  for (const candidate of candidates) {
    const part = rendezvous(key, candidate.backend.name, candidate.weight);
    if (home !== undefined && part <= most) continue;
    home = candidate;
    most = part;
  }
  const reason = job.sessionKey === undefined ? ('hash' as const) : ('session' as const);
  return { ranked: home === undefined ? [] : [{ backend: home.backend, reason }], hold: false };
}
