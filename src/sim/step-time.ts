/**
 * How long one engine step takes: a pure function of what is in it. The only place where simulated time comes from.
 */
import type { StepTimeSettings } from './settings.ts';

export interface StepLoad {
  /** Sequences that produce their next token. */
  decodeSequences: number;
  /** Tokens of context that they read. */
  contextTokens: number;
  /** Prompt tokens computed. */
  prefillTokens: number;
  /** For each computed prompt token the tokens before it, summed. */
  prefillPairs: number;
}

/** @param chance uniform in [0, 1), for the jitter @returns ms */
export function stepMs(load: StepLoad, settings: StepTimeSettings, chance: number): number {
  const memoryMs = settings.baseMs + load.contextTokens * settings.perContextTokenMs;
  const sequencesMs = load.decodeSequences * settings.perSequenceMs;
  const prefillMs =
    load.prefillTokens === 0
      ? 0
      : settings.prefillBaseMs +
        load.prefillTokens * settings.perPrefillTokenMs +
        load.prefillPairs * settings.perPrefillPairMs;
  const totalMs =
    settings.combine === 'sum' ? memoryMs + sequencesMs + prefillMs : Math.max(memoryMs, sequencesMs + prefillMs);
  return totalMs * (1 + settings.jitterShare * (2 * chance - 1));
}
