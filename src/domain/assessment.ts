/** What is said of a finished request by those who know the settings and the other requests. Values only. */
import type { Phase } from './names.ts';
import type { PromptPlace } from './prefix.ts';
import type { MissCause } from './routing.ts';

export type SloBound = 'ttft' | 'ttfa' | 'itl' | 'tpot' | 'e2e';

/**
 * Where a request's time went. `engine_queue`: waiting in the engine, where that can be told from its prefill; else it is in
 * `prefill`. `stalled`: another request's prefill held the stream up. `failed_attempts`: backends that failed before this one.
 */
export type SloPhase = Phase | 'failed_attempts' | 'engine_queue' | 'prefill' | 'decode' | 'stalled';

/** One bound of a profile that a request broke. */
export interface SloBreach {
  readonly bound: SloBound;
  /** ms; for `itl` the gap that the profile allows */
  readonly limitMs: number;
  /** ms; for `itl` the largest gap; of a request that was left or failed: what it had waited by then */
  readonly valueMs: number;
  /** where most of the excess was spent: the phase that took the largest part of the time that the bound measures */
  readonly phase: SloPhase;
  /** for `itl`: share of the gaps within the limit */
  readonly shareWithin?: number;
}

export interface SloVerdict {
  /** name of the profile */
  readonly profile: string;
  readonly met: boolean;
  /** worst first; empty when met, or when the request failed before anything could be judged */
  readonly breaches: readonly SloBreach[];
  /** smooth goodput's share of this request: tokens less the penalty for the reader's waiting (may be negative) */
  readonly benefitTokens?: number;
}

export type UselessReason = 'tool_arguments' | 'response_format' | 'cut_by_length';

/** Prompt tokens that did not come from the cache, and why. */
export interface MissedTokens {
  readonly cause: MissCause;
  /** above 0 */
  readonly tokens: number;
}

export interface Assessment {
  /** absent when no profile applies, or the request can't be judged by it */
  readonly slo?: SloVerdict;
  /** absent when checks are off or nothing could be checked; an empty list: usable */
  readonly useless?: readonly UselessReason[];
  /** the same request came from the same client a short while before, and failed, was left or was useless */
  readonly retry?: true;
  /** mean number of streams that decoded on the backend while this one did, itself included */
  readonly decodeConcurrency?: number;
  /** one entry for each cause: together the prompt less its cached tokens. Absent unless both and the decision are known */
  readonly missed?: readonly MissedTokens[];
  /** where its prompt differs from all seen before, though most of what follows there was seen */
  readonly unstableAt?: PromptPlace;
}
