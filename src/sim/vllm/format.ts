/**
 * The port between a running generation and the wire form in which vLLM tells it: one writer for each request.
 * Holds what the forms share, such as the sums of usage.
 */
import type { OutputPlan } from '../output-plan.ts';
import type { Reply } from '../reply.ts';
import type { SequenceEnd } from '../sequence.ts';
import type { VllmAsk } from './intake.ts';
import type { VllmRefusal } from './words.ts';

export interface FormatDeps {
  readonly ask: VllmAsk;
  readonly plans: readonly OutputPlan[];
  readonly reply: Reply;
  /** Engine's id of the request, without prefix. */
  readonly id: string;
  readonly model: string;
  readonly createdSeconds: number;
  readonly promptTokensDetails: boolean;
  /** Tokens of a full block; 0 when there is no block cache. */
  readonly blockTokens: number;
}

export interface VllmFormat {
  /** The head is out, nothing was computed yet. */
  opened?(): void;
  /** A streamed token; the last of a choice carries its finish reason. */
  token(choice: number, index: number): void;
  /** Every choice of a streamed answer ended well. */
  finish(ends: readonly SequenceEnd[]): void;
  /** A streamed answer breaks off. */
  fail(refusal: VllmRefusal): void;
  /** Body of an answer that isn't streamed. */
  body(ends: readonly SequenceEnd[]): string;
}

export interface UsageFacts {
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Of the first prompt only, as vLLM reports it. */
  readonly cachedTokens: number;
  readonly createdTokens: number;
}

/** Sums over choices; a prompt with several choices counts once. */
export function usageFacts(ends: readonly SequenceEnd[], deps: FormatDeps): UsageFacts {
  const { ask, blockTokens } = deps;
  const cachedTokens = ends.find((end) => end.choice === 0)?.cachedTokens ?? 0;
  const firstTokens = ask.generation.prompts[0]?.length ?? 0;
  const stored = blockTokens === 0 ? 0 : Math.floor(firstTokens / blockTokens) * blockTokens;
  return {
    promptTokens: promptTokensOf(ask),
    outputTokens: ends.reduce((sum, end) => sum + end.outputTokens, 0),
    cachedTokens,
    createdTokens: Math.max(0, stored - cachedTokens),
  };
}

export function promptTokensOf(ask: VllmAsk): number {
  return ask.generation.prompts.reduce((sum, prompt) => sum + prompt.length, 0);
}
