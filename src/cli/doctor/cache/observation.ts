/**
 * What one request of the cache experiment showed. Plain values: the experiment makes them, the interpretation reads them.
 */

export type Step =
  /** the very first request of the run, short */
  | 'first'
  /** a prompt that nobody sent before */
  | 'fresh'
  /** a short one that nobody sent before */
  | 'short'
  /** the same prompt again */
  | 'repeat'
  /** begins as an earlier one, then differs */
  | 'prefix'
  /** an earlier one, its answer, and one more turn */
  | 'continuation'
  /** an earlier one but for its first word */
  | 'changed_first'
  /** the same again under another user and session */
  | 'session'
  /** the same again while the first still runs */
  | 'concurrent'
  /** the same again after other prompts took the slots */
  | 'displaced'
  | 'no_tools'
  | 'tools'
  | 'tools_same'
  | 'tools_reordered'
  /** the same again under another model or adapter */
  | 'other_model';

export type Source = 'usage' | 'timings' | 'progress' | 'counters';

export interface Observation {
  readonly step: Step;
  readonly promptTokens?: number;
  /** Leading tokens that it has in common with what was sent before; exact where the server's own tokeniser said so. */
  readonly shared?: { readonly tokens: number; readonly exact: boolean };
  /** What came from the cache, as the server reports it. */
  readonly cached?: number;
  /** Where that was reported; the first is the one that was taken. */
  readonly sources: readonly Source[];
  readonly ttftMs?: number;
  /** It was refused or broke. */
  readonly failed?: string;
}

export function only(observations: readonly Observation[], step: Step): readonly Observation[] {
  return observations.filter((seen) => seen.step === step && seen.failed === undefined);
}

/** Times to first token of one step. */
export function timesOf(observations: readonly Observation[], step: Step): readonly number[] {
  return only(observations, step)
    .map(({ ttftMs }) => ttftMs)
    .filter((ms) => ms !== undefined);
}
