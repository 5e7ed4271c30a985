/**
 * The port between a running generation and the wire form in which llama-server tells it. Each method gives the text of one HTTP
 * chunk, since the server writes one chunk for each result of its engine; an empty text is no chunk.
 */
import type { OutputPlan } from '../output-plan.ts';
import type { LlamaAsk } from './intake.ts';
import type { ChoiceRun } from './timings.ts';

export interface LlamaFormatDeps {
  readonly ask: LlamaAsk;
  readonly plans: readonly OutputPlan[];
  readonly model: string;
  /** 32 letters and digits, anew for each id. */
  nextId(): string;
  /** Seconds since the epoch, read anew for each event. */
  nowSeconds(): number;
}

export interface LlamaFormat {
  /** A part of the prompt was done, or the slot has just started. Asked for by `return_progress` only. */
  progress(run: ChoiceRun): string;
  /** A token with text to show. */
  token(run: ChoiceRun, text: string): string;
  /** A choice has ended. */
  ended(run: ChoiceRun): string;
  /** After the last choice; a chunk of its own. */
  readonly endMarker: string;
  /** Body of an answer that isn't streamed. */
  body(runs: readonly ChoiceRun[]): string;
}

export function usageOf(run: ChoiceRun): string {
  return `{"completion_tokens":${run.tokens},"prompt_tokens":${run.promptTokens},"total_tokens":${run.promptTokens + run.tokens},"prompt_tokens_details":{"cached_tokens":${run.cachedTokens}}}`;
}

/** True when a stop string ended it; then its last text event carries timings too. */
export function endsByStopString(plan: OutputPlan | undefined, run: ChoiceRun): boolean {
  return plan?.stopString !== undefined && run.tokens === plan.outputTokens;
}
