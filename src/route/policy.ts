/**
 * The port of a routing policy: pure, it takes plain data and returns an order with reasons. Never awaits, keeps nothing.
 * Eligibility (model, health, context) is settled before (`route.ts`); a policy only orders who is left.
 */
import type { BackendView } from '../domain/fleet.ts';
import type { RouteCost, RouteReason } from '../domain/routing.ts';

/** What is learnt of one backend's pace. */
export interface EngineSpeed {
  readonly prefillTokensPerSecond: number;
  /** ms of one decode step = base + perStream × streams + perContextToken × live KV tokens */
  readonly decodeBaseMs: number;
  readonly decodePerStreamMs: number;
  readonly decodePerContextTokenMs: number;
}

/** One backend as it stands to one job. */
export interface Candidate {
  readonly backend: BackendView;
  /** permits out, and engine slots that they hold */
  readonly jobs: number;
  readonly slots: number;
  /** grows with every grant anywhere; the smallest was used longest ago */
  readonly lastUsed: number;
  /** uncached prompt tokens of jobs sent there whose first token has not come */
  readonly pendingTokens: number;
  /** of those, jobs; absent: 0 */
  readonly pendingJobs?: number;
  /** sequences that decode there, and their KV tokens */
  readonly decoding: number;
  readonly contextTokens: number;
  /** of this prompt, as the index believes */
  readonly heldTokens: number;
  /** how near that is to being pushed out there, 0 to 1; absent: 1 */
  readonly heldAge?: number;
  /** all that the index believes to be held there */
  readonly indexTokens: number;
  /** how full its cache is believed to be, 0 to 1; absent: full */
  readonly fullShare?: number;
  readonly speed: EngineSpeed;
  readonly networkSeconds: number;
  /** relative capacity: the config's weight, less while it starts slowly; above 0 */
  readonly weight: number;
  /** streams beyond which its engine was seen to let jobs wait, where it doesn't tell; absent: none waited yet */
  readonly seenSlots?: number | undefined;
  /** jobs that wait for a place there and came before this one; absent: 0 */
  readonly aheadJobs?: number;
  /** share of its time that it computes prompts, of late; absent: 0 */
  readonly prefillShare?: number;
}

/** What a policy needs to know of a job. */
export interface RouteJob {
  readonly promptTokens: number;
  /** expected output of one choice */
  readonly outputTokens: number;
  readonly choices: number;
  readonly generates: boolean;
  /** key of the prompt's first 1 to 2 KiB; breaks ties alike everywhere. 0 where nothing is known of the prompt */
  readonly prefixKey: number;
  /** hash of the session hint; absent without one */
  readonly sessionKey?: number;
  /** backend that served the session last */
  readonly sessionHome?: string;
  /** how long it has waited for a place so far; absent: 0 */
  readonly waitedSeconds?: number;
}

export interface Ranked {
  readonly backend: BackendView;
  readonly reason: RouteReason;
  readonly cost?: RouteCost;
}

export interface Ranking {
  /** Best first, never empty. Those not worth going to while a better one is merely full are left out: the job waits for it. */
  readonly ranked: readonly Ranked[];
  /** Nobody is to be given the job now: every backlog is over the bound (late binding). */
  readonly hold: boolean;
  /** The ranking is worth no more after so long, even if nothing changes: waiting has its price. */
  readonly againMs?: number;
}

/** @param candidates never empty */
export type Policy = (job: RouteJob, candidates: readonly Candidate[]) => Ranking;
