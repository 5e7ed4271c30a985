/** Candidates and jobs as policies see them, with what a test doesn't care about filled in. */
import type { BackendView } from '../../src/domain/fleet.ts';
import type { Candidate, Ranking, RouteJob } from '../../src/route/policy.ts';
import { speedDefaults } from '../../src/route/speeds.ts';
import { sampleBackend } from './sample.ts';

export type CandidateChange = Partial<Omit<Candidate, 'backend'>> & { readonly view?: Partial<BackendView> };

export function sampleCandidate(name: string, { view, ...over }: CandidateChange = {}): Candidate {
  return {
    backend: sampleBackend(name, view),
    jobs: 0,
    slots: 0,
    lastUsed: 0,
    pendingTokens: 0,
    decoding: 0,
    contextTokens: 0,
    heldTokens: 0,
    indexTokens: 0,
    speed: speedDefaults,
    networkSeconds: 0,
    weight: 1,
    ...over,
  };
}

export function sampleRouteJob(over: Partial<RouteJob> = {}): RouteJob {
  return { promptTokens: 2000, outputTokens: 300, choices: 1, generates: true, prefixKey: 0, ...over };
}

export function namesOf({ ranked }: Ranking): string[] {
  return ranked.map(({ backend }) => backend.name);
}

/** `a:prefix` */
export function shown({ ranked }: Ranking): string[] {
  return ranked.map(({ backend, reason }) => `${backend.name}:${reason}`);
}
