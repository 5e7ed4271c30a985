/**
 * One prompt in tokens: how many it has, how many lie before the end of each chunk, and whether it goes on behind an earlier
 * prompt's end with the answer sent back. What was told of an earlier prompt goes before what its bytes let expect.
 */
import type { PrefixChain } from '../../domain/prefix.ts';
import { reusableTokens } from './cache-policy.ts';
import type { ForkDepths } from './fork-depths.ts';
import type { Holder } from './holder.ts';
import { residentAbove } from './horizon.ts';
import type { FoundEnd, PromptEnds } from './prompt-ends.ts';
import type { TokenRates } from './token-rates.ts';

export interface PromptView {
  readonly chain: PrefixChain;
  readonly model: string | undefined;
  readonly promptTokens: number;
  /** tokens up to and including each chunk */
  readonly tokensAt: Float64Array;
  /** longest earlier prompt that it goes through and whose length was told */
  readonly told: FoundEnd | undefined;
  /** answers of this model were seen to be found again when sent back */
  readonly answersKept: boolean;
  readonly forks: ForkDepths;
}

/** What lies behind the end of an earlier prompt: most likely its answer. */
export interface Continuation {
  /** tokens of the earlier prompt */
  readonly fromTokens: number;
  /** tokens of the answer that may be held as well */
  readonly tokens: number;
}

/** An answer is taken as sent back unchanged when its bytes let expect at least this share of its tokens. */
const unchangedShare = 0.75;

export function viewPrompt(
  chain: PrefixChain,
  model: string | undefined,
  { rates, ends, forks }: { readonly rates: TokenRates; readonly ends: PromptEnds; readonly forks: ForkDepths },
): PromptView {
  const tokensAt = new Float64Array(chain.keys.length);
  let promptTokens = rates.estimate(chain, model, tokensAt);
  const told = ends.lastTold(chain);
  const toldTokens = told?.end.promptTokens;
  if (told !== undefined && toldTokens !== undefined) {
    const estimated = tokensAt[told.chunk] ?? 1;
    const whole = told.chunk === tokensAt.length - 1 && chain.ends[told.chunk] === chain.bytes;
    promptTokens = whole ? toldTokens : promptTokens - estimated + toldTokens;
    for (let chunk = 0; chunk < tokensAt.length; chunk += 1) {
      const tokens = tokensAt[chunk] ?? 0;
      tokensAt[chunk] = chunk <= told.chunk ? (tokens * toldTokens) / estimated : tokens - estimated + toldTokens;
    }
  }
  return {
    chain,
    model,
    promptTokens: Math.max(1, Math.round(promptTokens)),
    tokensAt,
    told,
    answersKept: rates.answersKept(model),
    forks,
  };
}

/** @param chunks held by `holder` */
export function continuationOn(holder: Holder, view: PromptView, chunks: number): Continuation | undefined {
  const { told, tokensAt } = view;
  if (told === undefined || told.chunk + 1 !== chunks || chunks >= tokensAt.length) return undefined;
  const { owner, stamp, promptTokens, outputTokens } = told.end;
  if (owner !== holder.owner || promptTokens === undefined || outputTokens === undefined) return undefined;
  if (stamp <= residentAbove(holder.horizon)) return undefined;
  return { fromTokens: promptTokens, tokens: answerSentBack(view, chunks, outputTokens) };
}

/** Tokens of an answer that the part behind the first `chunks` chunks may be. */
export function answerSentBack({ chain, tokensAt }: PromptView, chunks: number, outputTokens: number): number {
  const part = chain.parts[chunks];
  let last = chunks;
  while (last + 1 < tokensAt.length && chain.parts[last + 1] === part) last += 1;
  const expected = (tokensAt[last] ?? 0) - (tokensAt[chunks - 1] ?? 0);
  return expected >= outputTokens * unchangedShare ? outputTokens : Math.max(0, Math.floor(expected));
}

/** Tokens that the engine will take from its cache when it holds so many chunks, and the answer behind them. */
export function tokensHeld(
  view: PromptView,
  { policy }: Pick<Holder, 'policy'>,
  held: { readonly chunks: number; readonly answerTokens: number; readonly scale: number },
): number {
  const { tokensAt, promptTokens, chain } = view;
  if (held.chunks === 0) return 0;
  const whole = held.chunks === tokensAt.length && chain.ends[held.chunks - 1] === chain.bytes;
  const tokens = whole ? promptTokens : (tokensAt[held.chunks - 1] ?? 0) + held.answerTokens;
  return reusableTokens(policy, Math.round(tokens * held.scale), Math.round(promptTokens * held.scale));
}
