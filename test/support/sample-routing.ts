/** A routing decision for tests, with what a test doesn't care about filled in: 1,000 tokens, all told. */
import type { RouteCost, RouteNote } from '../../src/domain/routing.ts';

export function sampleNote(over: Partial<RouteNote> = {}): RouteNote {
  return {
    policy: 'warm',
    promptTokens: 1000,
    reusableTokens: 512,
    reusableAt: 'b2',
    predictedTokens: 512,
    cause: 'diverged',
    divergence: { part: 0, startBytes: 0, endBytes: 256 },
    cost: sampleCost(),
    considered: [
      { backend: 'b1', heldTokens: 0, cost: sampleCost({ total: 1.2, prefill: 1.2 }) },
      { backend: 'b2', heldTokens: 512, cost: sampleCost() },
    ],
    ...over,
  };
}

/** An idle backend. */
export function sampleCost(over: Partial<RouteCost> = {}): RouteCost {
  return {
    total: 0.31,
    queue: 0,
    slot: 0,
    prefill: 0.31,
    copy: 0,
    stall: 0,
    decode: 0,
    burden: 0,
    network: 0,
    bonus: 0,
    ...over,
  };
}
