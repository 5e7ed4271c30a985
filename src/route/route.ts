/**
 * The pure choice of backends for one job: who may take it (`eligible.ts`), best first by the pool's policy, each with its
 * reason and what it costs. Never awaits, reads no clock, keeps nothing: same inputs, same answer.
 */
import type { BackendView } from '../domain/fleet.ts';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import { eligible, type EligibleRequest, type Left } from './eligible.ts';
import type { Candidate, Policy, Ranked, RouteJob } from './policy.ts';

export interface RouteRequest extends EligibleRequest {
  readonly policy: Policy;
  readonly routeJob: RouteJob;
  /** A backend as it stands to this job; asked once for each that may take it. */
  readonly candidate: (backend: BackendView) => Candidate;
}

export interface Decision {
  /** Best first, never empty. */
  readonly ranked: readonly Ranked[];
  /** Nobody is to be given the job now. */
  readonly hold: boolean;
  /** After so long this decision is to be made anew, though nothing changed meanwhile. */
  readonly againMs?: number;
  /** Who may not take it, or is not worth going to now. */
  readonly left: readonly Left[];
  readonly candidates: readonly Candidate[];
}

/** Ranked targets, or the refusal to answer with (see `eligible`). */
export function route(request: RouteRequest): Decision | Refusal {
  const found = eligible(request);
  if (isRefusal(found)) return found;
  const candidates = found.backends.map(request.candidate);
  const { ranked, hold, againMs } = request.policy(request.routeJob, candidates);
  const { reason } = found;
  // With nobody else to go to, holding a job back spares nothing; one in need isn't held back either.
  if (reason !== undefined || candidates.length === 1)
    return {
      ranked: reason === undefined ? ranked : ranked.map((one) => renamed(one, reason)),
      hold: false,
      left: found.left,
      candidates,
    };
  const left = ranked.length === candidates.length ? found.left : [...found.left, ...leftBy(candidates, ranked)];
  return againMs === undefined ? { ranked, hold, left, candidates } : { ranked, hold, againMs, left, candidates };
}

function renamed({ backend, cost }: Ranked, reason: Ranked['reason']): Ranked {
  return cost === undefined ? { backend, reason } : { backend, reason, cost };
}

function leftBy(candidates: readonly Candidate[], ranked: readonly Ranked[]): Left[] {
  const kept = new Set(ranked.map(({ backend }) => backend));
  return candidates.flatMap(({ backend }) => (kept.has(backend) ? [] : [{ backend, why: 'not_worth_waiting' }]));
}
