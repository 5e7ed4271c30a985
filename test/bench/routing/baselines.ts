/**
 * Other routers' rules, to compare with: made anew after their published descriptions, as policies of this router, so that they are
 * given the same index, the same learnt speeds and the same queue. That favours them: most of theirs are worse informed.
 */
import type { PrefixChain } from '../../../src/domain/prefix.ts';
import { mixKey, rendezvous } from '../../../src/route/hash.ts';
import { compareLoad, leastLoad } from '../../../src/route/policies/least-load.ts';
import type { Candidate, Policy, Ranking, RouteJob } from '../../../src/route/policy.ts';
import { createSeededRandom } from '../../../src/sim/seeded-random.ts';

export const baselineNames = [
  'random',
  'two-choices',
  'dynamo-linear',
  'lmetric',
  'aibrix',
  'dualmap',
  'least-prefill',
] as const;

export type BaselineName = (typeof baselineNames)[number];

/** @param chain of the prompt that is chosen for */
export function createBaseline(name: BaselineName, chain: () => PrefixChain | undefined): Policy {
  const random = createSeededRandom(7);
  switch (name) {
    case 'random':
      return (_job, candidates) => inOrder(candidates.map((candidate) => ({ candidate, score: random() })));
    case 'two-choices':
      return twoChoices(random);
    case 'dynamo-linear':
      return byScore(dynamoLinear);
    case 'lmetric':
      return byScore(lmetric);
    case 'aibrix':
      return aibrix;
    case 'dualmap':
      return dualMap(chain);
    case 'least-prefill':
      return byScore((job, candidate) => prefillTokens(job, candidate));
  }
}

interface Scored {
  readonly candidate: Candidate;
  readonly score: number;
}

/** The smallest score first, then the least loaded. */
function inOrder(scored: readonly Scored[]): Ranking {
  const ordered = scored.toSorted((a, b) => a.score - b.score || compareLoad(a.candidate, b.candidate));
  return {
    ranked: ordered.map(({ candidate: { backend } }) => ({ backend, reason: 'least_load' as const })),
    hold: false,
  };
}

function byScore(score: (job: RouteJob, candidate: Candidate) => number): Policy {
  return (job, candidates) => inOrder(candidates.map((candidate) => ({ candidate, score: score(job, candidate) })));
}

/** Tokens to be computed there, this prompt's among them. */
function prefillTokens({ promptTokens }: RouteJob, { pendingTokens, heldTokens }: Candidate): number {
  return pendingTokens + Math.max(1, promptTokens - heldTokens);
}

/** NVIDIA Dynamo's KV router: blocks to be computed, and blocks that decode there, this prompt's among both. */
function dynamoLinear(job: RouteJob, candidate: Candidate): number {
  const blockTokens = candidate.backend.blockTokens ?? 16;
  return (prefillTokens(job, candidate) + candidate.contextTokens + job.promptTokens) / blockTokens;
}

/** LMetric (arXiv:2603.15202): new tokens times the batch that they would join. */
function lmetric(job: RouteJob, candidate: Candidate): number {
  return prefillTokens(job, candidate) * (candidate.jobs + 1);
}

const aibrixImbalance = 16;

/** AIBrix, prefix-cache: the best match that isn't far above the mean load; by load alone while that is uneven. */
function aibrix(job: RouteJob, candidates: readonly Candidate[]): Ranking {
  const loads = candidates.map(({ jobs }) => jobs);
  const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length;
  if (Math.max(...loads) - Math.min(...loads) > aibrixImbalance) return leastLoad(job, candidates);
  const variance = loads.reduce((sum, load) => sum + (load - mean) ** 2, 0) / loads.length;
  const bound = mean + 2 * Math.sqrt(variance);
  const fit = candidates.filter(({ jobs, heldTokens }) => heldTokens > 0 && jobs <= bound);
  if (fit.length === 0) return leastLoad(job, candidates);
  const rest = candidates.filter((candidate) => !fit.includes(candidate));
  const first = inOrder(fit.map((candidate) => ({ candidate, score: -candidate.heldTokens })));
  return { ranked: [...first.ranked, ...leastLoad(job, rest).ranked], hold: false };
}

function twoChoices(random: () => number): Policy {
  return (job, candidates) => {
    const one = candidates[Math.floor(random() * candidates.length)];
    const other = candidates[Math.floor(random() * candidates.length)];
    const two = candidates.filter((candidate) => candidate === one || candidate === other);
    const rest = candidates.filter((candidate) => !two.includes(candidate));
    return { ranked: [...leastLoad(job, two).ranked, ...leastLoad(job, rest).ranked], hold: false };
  };
}

/** The part of the prompt that its two homes are chosen by: some two thousand tokens, beyond most shared system prompts. */
const homeBytes = 8192;
const dualMapTtftSeconds = 5;

/** After DualMap (arXiv:2602.06502): two homes for each beginning, the warmer one unless its queue breaks the objective. */
function dualMap(chain: () => PrefixChain | undefined): Policy {
  return (job, candidates) => {
    const { keys, ends } = chain() ?? {};
    const within = ends?.findIndex((end) => end >= homeBytes) ?? -1;
    const key = within < 0 ? keys?.at(-1) : keys?.[within];
    if (key === undefined) return leastLoad(job, candidates);
    const pull = (turn: number) => (candidate: Candidate) => ({
      candidate,
      score: -rendezvous(mixKey(key, turn), candidate.backend.name, 1),
    });
    const homes = [1, 2].map((turn) => candidates.map(pull(turn)).toSorted((a, b) => a.score - b.score)[0]?.candidate);
    const two = candidates.filter((candidate) => homes.includes(candidate));
    const seconds = (candidate: Candidate) => prefillTokens(job, candidate) / candidate.speed.prefillTokensPerSecond;
    const warmest = two.toSorted((a, b) => b.heldTokens - a.heldTokens || compareLoad(a, b))[0];
    const isLate = warmest === undefined || seconds(warmest) > dualMapTtftSeconds;
    const first = isLate ? two.toSorted((a, b) => seconds(a) - seconds(b)) : [warmest, ...two];
    const order = [...new Set([...first, ...candidates])];
    return { ranked: order.map(({ backend }) => ({ backend, reason: 'hash' as const })), hold: false };
  };
}
