/**
 * What an engine counts. Plain numbers; who moves them and when is said beside each.
 * The dialects render them in their own names; nothing here knows those.
 */
import type { EndReason } from './sequence.ts';

/** What happened since the start. Counts only rise. */
export interface EngineCounters {
  readonly submitted: number;
  readonly ended: Readonly<Record<EndReason, number>>;
  /** Whole prompts of sequences that got their first token. */
  readonly promptTokens: number;
  /** Of those, found in the cache. */
  readonly cachedTokens: number;
  /** Prompt and recomputed tokens that were computed, finished or not. */
  readonly computedTokens: number;
  readonly generatedTokens: number;
  /** Prompt tokens looked up, and found, when sequences first started. */
  readonly prefixQueries: number;
  readonly prefixHits: number;
  readonly preemptions: number;
  readonly steps: number;
  /** Sequences in each step, summed. */
  readonly stepSequences: number;
  /** Longest sequence seen, in computed tokens. */
  readonly longestSequence: number;
}

export type MutableCounters = { -readonly [Key in keyof EngineCounters]: EngineCounters[Key] } & {
  ended: Record<EndReason, number>;
};

export function emptyCounters(): MutableCounters {
  return {
    submitted: 0,
    ended: { stop: 0, length: 0, aborted: 0, failed: 0 },
    promptTokens: 0,
    cachedTokens: 0,
    computedTokens: 0,
    generatedTokens: 0,
    prefixQueries: 0,
    prefixHits: 0,
    preemptions: 0,
    steps: 0,
    stepSequences: 0,
    longestSequence: 0,
  };
}
