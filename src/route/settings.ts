/** What routing may be told: the policy of each pool, the weights of the cost, and how caches are believed to work. */
import type { PolicyName } from '../domain/routing.ts';
import type { CachePolicy } from './warm/port.ts';

/** Backends that serve these models are chosen from by one policy. */
export interface PoolSettings {
  /** As the backends know them (aliases resolved). */
  readonly models: readonly string[];
  readonly policy: PolicyName;
}

/** Weights of the marginal cost; see `policies/warm.ts`. */
export interface CostSettings {
  /** What a prefill takes from each stream that decodes beside it, as a share of the prefill. */
  readonly lambda: number;
  /**
   * What a millisecond more for each further token counts, in milliseconds before the first one: the bound on that over the bound on
   * these. A second of decoding never counts for more than one before the first token.
   */
  readonly nu: number;
  /** What computing a token evicts where the cache is full, as a multiple of computing it. */
  readonly rho: number;
  /** What computing a token again that another backend holds costs beside that, where the cache is full, as a multiple of computing it. */
  readonly kappa: number;
  /** Taken off the cost of the backend that served the session last. */
  readonly sessionBonusMs: number;
  /** Nobody is given a prompt while the backlog of every candidate takes longer than this, or than one engine step. */
  readonly holdMs: number;
}

export interface RouteSettings {
  /** For all that no pool names. */
  readonly policy: PolicyName;
  readonly pools: readonly PoolSettings[];
  readonly cost: CostSettings;
  /** Sessions whose last backend is remembered, and how long. */
  readonly maxSessions: number;
  readonly sessionTtlMs: number;
  /** A backend that comes back takes its full share only after so long; 0: at once. */
  readonly slowStartMs: number;
  readonly index: {
    /** Chunks of prompts times backends that hold them. */
    readonly maxEntries: number;
  };
  /** By backend name: what is told of its cache; the engine's own way where nothing is. */
  readonly caches: Readonly<Record<string, Partial<CachePolicy>>>;
}

export const costDefaults: CostSettings = {
  // Engines compute one step at a time: what a prompt takes, streams wait.
  lambda: 1,
  // 5 s to the first token, 100 ms for each further one.
  nu: 50,
  // Of what had to make room, about half is asked for again.
  rho: 0.5,
  // In simulation anything from 2 to 4 gives as many good answers; from 3 on 92 % of the hits that all caches in one would give.
  kappa: 3,
  sessionBonusMs: 500,
  // A quarter of 5 s, the longest wait for a first token that most services bear.
  holdMs: 1250,
};

export const routeDefaults: RouteSettings = {
  policy: 'warm',
  pools: [],
  cost: costDefaults,
  maxSessions: 20_000,
  sessionTtlMs: 3_600_000,
  slowStartMs: 30_000,
  index: { maxEntries: 1_000_000 },
  caches: {},
};
