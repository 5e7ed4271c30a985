/**
 * Policy: the marginal cost of a job in seconds, its own and what it costs the others there. Pure.
 *
 *   queue    prompts sent there before and not computed yet, at the backend's rate of prefill
 *   slot     the wait for a slot, where all are busy (`slot-wait.ts`)
 *   prefill  (1 + rho × how full the cache is) × its own uncached tokens / the share of its time that the backend is free of prompts, of late
 *   copy     kappa × how full the cache is × those of its tokens that another one holds, but not this one × how little they are asked for
 *   stall    d × lambda × streams there × strain × its prefill
 *   decode   d × its output × what the streams, their tokens and the prompts there add to each step
 *   burden   d × lambda × streams there × strain × its output × what it adds to each step itself
 *   network  the way there;  bonus is taken off at the session's home
 *
 * What is to be kept low is time to the first token + nu × time per further token, of all jobs. So d, what a second of decoding
 * counts, is nu / output, and 1 for short answers: half a second is little in an answer of minutes, and the ruin of one of
 * twenty tokens. A prefill delays
 * those who come there after it, the more the busier the backend is (U / (1 − U) of itself where work comes at random); where
 * nobody comes, a copy of a prefix costs its own prefill and the room that it takes. So no backend gathers all that begin alike.
 * What a new prompt pushes out is asked for less than the prompt itself, or the oldest would not be the one to go. A copy pushes
 * out as much and adds nothing to what all of them hold together: that is kappa's, and no matter of how busy anybody is. It is
 * nothing for what is asked for so often that each backend would see it again before it is pushed out there: n backends, and a
 * use by the time that the holder's cache has taken in an nth of its size.
 * Streams are those that decode there and those that will when its own turn comes: prompts that were sent before it. Else
 * nobody would see a crowd that arrives at once at a prefix that is held, since such prompts are next to no work.
 * Strain is how much longer a token takes there than with one stream alone. Whoever slows a backend down keeps its streams there for longer, so
 * that more of them are there to be slowed down. Where n = r T streams come at a rate r and a token takes T = (b + s n) / (1 − U)
 * (b alone, s for each stream, U the share of prompts), T = b / (1 − U − r s): what adds x to U or to r s adds x T² / b to T, which
 * n streams wait for, so n T / b times x in all; b with one stream's own s, which a base that came out near nothing doesn't blow up. Without it a crowd looks as harmless as it is at this very moment, and each job of
 * a hot prefix follows the one before it.
 * With nu and rho 0, on idle backends, it is the least work left.
 */
import { rendezvous } from '../hash.ts';
import type { Candidate, EngineSpeed, Policy, Ranked, Ranking, RouteJob } from '../policy.ts';
import type { CostSettings } from '../settings.ts';
import { alikeCosts, type RouteCost, type RouteReason } from '../../domain/routing.ts';
import { crowdOf } from './crowd.ts';
import { loadShare } from './least-load.ts';
import { slotWaitSeconds, waitFor } from './slot-wait.ts';

/** Prompt tokens of one engine step, at most: the usual budget of vLLM and batch of llama.cpp. */
const stepTokens = 2048;
/** However much comes there: a rush passes, and what it is told from is some seconds. */
const leastFreeShare = 0.25;
/** What a token takes with one stream is learnt from crowds as well, and can come out near nothing: no engine is that fast. */
const leastAloneMs = 3;
/** A backend that is so many times slower than alone has failed its streams already: they can't be failed more. */
const mostStrain = 8;

export interface Costed {
  readonly candidate: Candidate;
  readonly cost: RouteCost;
}

export function createWarm(settings: CostSettings): Policy {
  return (job, candidates) => {
    const copied = copiedFrom(candidates);
    const costed = candidates.map((candidate) => ({ candidate, cost: costOf(job, candidate, settings, copied) }));
    costed.sort((a, b) => a.cost.total - b.cost.total);
    breakTies(costed, job);
    const { going, againMs } = waitFor(job, costed);
    const ranking: Ranking = { ranked: withReasons(job, going, candidates), hold: isHeld(candidates, settings) };
    return againMs === undefined ? ranking : { ...ranking, againMs };
  };
}

interface Copied {
  readonly mostHeld: number;
  readonly unused: number;
}

/** Of those that hold most, the one that was asked last tells how often it is asked for. */
function copiedFrom(candidates: readonly Candidate[]): Copied {
  let mostHeld = 0;
  let age = 1;
  for (const { heldTokens, heldAge = 1 } of candidates) {
    if (heldTokens < mostHeld) continue;
    age = heldTokens > mostHeld ? heldAge : Math.min(age, heldAge);
    mostHeld = heldTokens;
  }
  // What is asked for once while a cache takes in its whole size would, shared out, be pushed out everywhere.
  return { mostHeld, unused: Math.min(1, age * candidates.length) };
}

/**
 * @param copied `mostHeld` of the prompt's tokens are held by some backend that could take the job; `unused` says how little these
 * are asked for: 1 too seldom to be kept by each backend, 0 all the time
 */
export function costOf(
  job: RouteJob,
  candidate: Candidate,
  settings: CostSettings,
  copied: Copied = { mostHeld: candidate.heldTokens, unused: 1 },
): RouteCost {
  const { lambda, nu, rho, kappa } = settings;
  const { speed, weight } = candidate;
  const { streams, contextTokens } = crowdOf(job, candidate);
  const rate = speed.prefillTokensPerSecond * weight;
  const own = Math.max(1, job.promptTokens - candidate.heldTokens) / rate;
  const { decodePerContextTokenMs: perContextToken, decodePerStreamMs: perStream } = speed;
  const decodeWeight = Math.min(1, nu / job.outputTokens);
  const perStepMs = (decodeWeight * job.outputTokens) / 1000 / weight;
  const queue = candidate.pendingTokens / rate;
  const slot = slotWaitSeconds(job, candidate);
  const again = Math.max(0, copied.mostHeld - candidate.heldTokens) / rate;
  const fullShare = candidate.fullShare ?? 1;
  const prefill = ((1 + rho * fullShare) * own) / freeShare(candidate);
  const copy = kappa * fullShare * again * copied.unused;
  const stepMs = speed.decodeBaseMs + perContextToken * contextTokens + perStream * streams;
  const tokenMs = stepMs / freeShare(candidate);
  const slowed = lambda * streams * strainOf(tokenMs, speed);
  const stall = slowed * own * decodeWeight;
  const decode = perStepMs * (tokenMs - speed.decodeBaseMs);
  const burden = perStepMs * slowed * job.choices * (perContextToken * job.promptTokens + perStream);
  const network = candidate.networkSeconds;
  const bonus = job.sessionHome === candidate.backend.name ? settings.sessionBonusMs / 1000 : 0;
  const total = queue + slot + prefill + copy + stall + decode + burden + network - bonus;
  return { total, queue, slot, prefill, copy, stall, decode, burden, network, bonus };
}

function freeShare({ prefillShare = 0, weight }: Candidate): number {
  return Math.max(leastFreeShare, 1 - prefillShare / weight);
}

function strainOf(tokenMs: number, { decodeBaseMs, decodePerStreamMs }: EngineSpeed): number {
  const aloneMs = Math.max(leastAloneMs, decodeBaseMs + decodePerStreamMs);
  return Math.min(mostStrain, Math.max(1, tokenMs / aloneMs));
}

/** Among those whose cost is as good as the least: the least loaded, then the one that the prompt's beginning points to. */
function breakTies(costed: Costed[], job: RouteJob): void {
  const least = costed[0];
  if (least === undefined) return;
  const spent = least.cost.total + least.cost.bonus;
  const bound = least.cost.total + Math.min(alikeCosts.atMostSeconds, alikeCosts.seconds + alikeCosts.share * spent);
  const count = costed.findIndex(({ cost }) => cost.total > bound);
  const alike = costed.slice(0, count < 0 ? costed.length : count);
  if (alike.length < 2) return;
  const pull = ({ candidate }: Costed) => rendezvous(job.prefixKey, candidate.backend.name, candidate.weight);
  const pulls = job.prefixKey === 0 ? undefined : new Map(alike.map((one) => [one, pull(one)]));
  alike.sort(
    (a, b) =>
      loadShare(a.candidate) - loadShare(b.candidate) ||
      a.candidate.jobs - b.candidate.jobs ||
      (pulls === undefined ? a.candidate.lastUsed - b.candidate.lastUsed : (pulls.get(b) ?? 0) - (pulls.get(a) ?? 0)),
  );
  costed.splice(0, alike.length, ...alike);
}

/**
 * Late binding: what stands in an engine's queue can't be sent elsewhere any more, so nobody is sent there while every
 * backlog lasts longer than the bound. Somebody who is idle has none.
 */
function isHeld(candidates: readonly Candidate[], { holdMs }: CostSettings): boolean {
  return candidates.every(({ pendingTokens, speed }) => {
    const rate = speed.prefillTokensPerSecond;
    return pendingTokens / rate > Math.max(holdMs / 1000, stepTokens / rate);
  });
}

function withReasons(job: RouteJob, going: readonly Costed[], candidates: readonly Candidate[]): Ranked[] {
  let most = 0;
  let least = Infinity;
  for (const { heldTokens } of candidates) {
    most = Math.max(most, heldTokens);
    least = Math.min(least, heldTokens);
  }
  const reasonOf = ({ heldTokens, backend }: Candidate): RouteReason => {
    if (most > least && heldTokens === most) return 'prefix';
    if (job.sessionHome === backend.name) return 'session';
    return most > least ? 'load_over_prefix' : 'least_load';
  };
  return going.map(({ candidate, cost }) => ({ backend: candidate.backend, reason: reasonOf(candidate), cost }));
}
