/**
 * Words and values of the two lanes: what batch may use of a backend, why no more, and what people are shown of it.
 * Values only. Absent is unknown, never zero.
 */
import type { Lane } from './names.ts';

/** Who is the cause of batch's bound on one backend, as a short machine word. */
export type CapCause =
  /** nobody is online: batch takes all that there is */
  | 'no_online'
  /** below its threshold: the cap grows */
  | 'growing'
  /** quiet, but batch doesn't use what it has: no reason to grow */
  | 'app_limited'
  /** all slots but the reserve */
  | 'slots'
  /** pressure, by the signal that was highest */
  | 'tpot'
  | 'itl'
  | 'ttft'
  | 'kv'
  | 'waiting'
  | 'preemptions'
  /** the backend refused a request: 429, 503 */
  | 'busy'
  /** many more online jobs are there than a moment ago */
  | 'rise'
  /** an online request needed the place of a batch job */
  | 'reclaimed'
  /** the configured minimum share holds it up */
  | 'min_share'
  /** fixed by the config */
  | 'fixed';

/** What batch may use of one backend now. */
export interface BatchRule {
  /** batch jobs that may run there; a whole number, may be Infinity */
  readonly cap: number;
  /** places kept free of batch; only where a backend has a number of places */
  readonly reserveSlots: number;
  /** at most one batch prompt is computed there at a time, and none while an online prompt waits for its first token */
  readonly gate: boolean;
  /** With the gate: no batch prompt begins there so long after an online stream's first token. Absent: at once. */
  readonly settleMs?: number;
  /** batch jobs may be taken back there for online ones; absent: they may */
  readonly reclaim?: boolean;
}

/** One signal divided by its bound: 1 is at the bound. */
export interface Pressures {
  readonly tpot?: number;
  readonly itl?: number;
  readonly ttft?: number;
  readonly kv?: number;
  readonly waiting?: number;
  readonly preemptions?: number;
  readonly busy?: number;
  readonly rise?: number;
}

/** How batch stands on one backend, for people and metrics. */
export interface BackendLanes {
  readonly backend: string;
  readonly cap: number;
  readonly cause: CapCause;
  /** monotonic ms since when that cause holds */
  readonly sinceMs: number;
  /** the highest of `pressures`; absent: none known */
  readonly pressure?: number;
  readonly pressures: Pressures;
  /** kept free of batch now; none while nobody is online */
  readonly reserveSlots: number;
  /** looked at four times a second; false: there is no batch work, and `pressures` are of the moment in which this was asked for */
  readonly watched: boolean;
  /** batch jobs that run there whatever online wants: the minimum share of its places, rounded up */
  readonly guaranteed: number;
  /** what its settings come to there, where that is hardly what was meant */
  readonly note?: string;
  readonly running: { readonly [lane in Lane]: number };
  /** batch jobs that were taken back there, and the tokens that are computed again for it */
  readonly reclaimed: number;
  readonly wastedTokens: number;
  /** whether ending a request there was seen to free its place; absent: not tried yet */
  readonly abortsWork?: boolean;
  /** what cut the cap last */
  readonly lastCut?: { readonly cause: CapCause; readonly atMs: number };
}

/** The waiting room of one lane. */
export interface LaneDepth {
  readonly lane: Lane;
  readonly jobs: number;
  /** prompt tokens, estimated from their bytes */
  readonly tokens: number;
  /** of the one that waits longest; absent: nobody waits */
  readonly oldestMs?: number;
  /** tenants with somebody waiting */
  readonly tenants: number;
}
