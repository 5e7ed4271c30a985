/**
 * Policy: consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, arXiv:1608.01350) over the prompt's
 * beginning: the first backend on the ring that holds less than 1.25 times its part of all jobs. Pure: the ring follows from
 * the backends' names and weights; it is kept only so as not to be made for each job.
 */
import { LRUCache } from 'lru-cache';
import { hashText, mixKey } from '../hash.ts';
import type { Candidate, Policy, Ranked } from '../policy.ts';
import { leastLoad } from './least-load.ts';

const nodesEach = 256;
const loadFactor = 1.25;
/** Sets of candidates whose rings are kept. */
const maxRings = 16;

interface Ring {
  /** Ascending. */
  readonly points: Float64Array;
  /** Names' indices, as long as `points`. */
  readonly owners: Int32Array;
}

export function createChwbl(): Policy {
  const rings = new LRUCache<string, Ring>({ max: maxRings });

  function ringOf(candidates: readonly Candidate[]): Ring {
    const key = candidates.map(({ backend }) => `${backend.name} ${backend.weight ?? 1}`).join('\n');
    const known = rings.get(key);
    if (known !== undefined) return known;
    const made = makeRing(candidates);
    rings.set(key, made);
    return made;
  }

  return (job, candidates) => {
    if (job.prefixKey === 0) return leastLoad(job, candidates);
    const order = walk(ringOf(candidates), mixKey(job.prefixKey, 0), candidates);
    const jobs = candidates.reduce((sum, candidate) => sum + candidate.jobs, 1);
    const weights = candidates.reduce((sum, { weight }) => sum + weight, 0);
    const isOver = ({ jobs: held, weight }: Candidate) =>
      held + 1 > Math.max(1, Math.ceil((loadFactor * jobs * weight) / weights));
    const within: Ranked[] = [];
    const over: Ranked[] = [];
    for (const candidate of order) {
      const ranked = { backend: candidate.backend, reason: 'hash' as const };
      if (isOver(candidate)) over.push(ranked);
      else within.push(ranked);
    }
    // The bound leaves room for one more job in all, so somebody is within it.
    return { ranked: [...within, ...over], hold: false };
  };
}

function makeRing(candidates: readonly Candidate[]): Ring {
  const nodes = candidates.flatMap(({ backend }, owner) => {
    const count = Math.max(1, Math.min(16 * nodesEach, Math.round(nodesEach * (backend.weight ?? 1))));
    return Array.from({ length: count }, (_, index) => ({ at: mixKey(index + 1, hashText(backend.name)), owner }));
  });
  nodes.sort((a, b) => a.at - b.at || a.owner - b.owner);
  return { points: Float64Array.from(nodes, ({ at }) => at), owners: Int32Array.from(nodes, ({ owner }) => owner) };
}

/** All candidates, in the order in which the ring meets them from `at` on. */
function walk({ points, owners }: Ring, at: number, candidates: readonly Candidate[]): Candidate[] {
  const met: Candidate[] = [];
  const seen = new Uint8Array(candidates.length);
  const start = firstFrom(points, at);
  for (let step = 0; step < owners.length && met.length < candidates.length; step += 1) {
    const owner = owners[(start + step) % owners.length] ?? 0;
    const candidate = candidates[owner];
    if (candidate === undefined || seen[owner] === 1) continue;
    seen[owner] = 1;
    met.push(candidate);
  }
  return met;
}

/** Index of the first point not below `at`. */
function firstFrom(points: Float64Array, at: number): number {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((points[middle] ?? Infinity) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
