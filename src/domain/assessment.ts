/** What is said of a finished request by those who know the settings and the other requests. Values only. */
import type { Phase } from './names.ts';

export type SloBound = 'ttft' | 'ttfa' | 'itl' | 'tpot' | 'e2e';

/** One bound of a profile that a request broke. */
export interface SloBreach {
  readonly bound: SloBound;
  /** ms; for `itl` the gap that the profile allows */
  readonly limitMs: number;
  /** ms; for `itl` the largest gap */
  readonly valueMs: number;
  /** where most of the excess was spent */
  readonly phase: Phase | 'prefill' | 'decode' | 'stalled';
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

export interface Assessment {
  /** absent when no profile applies */
  readonly slo?: SloVerdict;
  /** absent when checks are off or nothing could be checked; an empty list: usable */
  readonly useless?: readonly UselessReason[];
  /** the same request came from the same client a short while before, and failed or was left */
  readonly retry?: true;
  /** mean number of streams that decoded on the backend while this one did, itself included */
  readonly decodeConcurrency?: number;
}
