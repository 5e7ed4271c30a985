/**
 * Tokens from bytes, without a tokeniser: for each model how many tokens an ASCII byte, a wide byte, a message and a prompt
 * as such make, learnt from prompts whose length was told. A Kalman filter over four numbers that hardly move; its first
 * belief is 4 bytes a token, 1.5 for wide ones, and 3 tokens of template a message.
 * Also whether this model's answers, sent back, are found in the cache: its template may drop their reasoning.
 */
import { LRUCache } from 'lru-cache';

import type { PrefixChain } from '../../domain/prefix.ts';

export interface TokenRates {
  /** Fills `tokensAt` with the tokens up to the end of each chunk. @returns the whole prompt's */
  estimate(chain: PrefixChain, model: string | undefined, tokensAt: Float64Array): number;
  /** A prompt's true length was told. */
  learn(chain: PrefixChain, model: string | undefined, promptTokens: number): void;
  /** An answer was sent back: was it found in the cache? */
  learnAnswerKept(model: string | undefined, kept: boolean): void;
  /** False until it was seen. */
  answersKept(model: string | undefined): boolean;
}

const maxModels = 256;
const unknowns = 4;
/** asciiBytes/4, wideBytes/1.5, parts, 1 */
const firstBelief = [1, 1, 3, 0];
/** How sure it is: a factor of two for bytes, a few tokens a message, a system prompt of the template's own. */
const firstVariance = [0.25, 0.25, 16, 900];
/** How much they may change from prompt to prompt: text and code differ. */
const drift = [1e-4, 1e-4, 1e-3, 1e-2];
const least = [0.2, 0.2, 0, 0];
const most = [6, 3, 200, 4000];
/** What one prompt may differ from the rule. */
const noiseShare = 0.04;
const noiseTokens = 2;

interface Rates {
  readonly belief: Float64Array;
  readonly covariance: Float64Array;
  /** share of answers that were found; undefined until one was looked for */
  answersKept: number | undefined;
}

export function createTokenRates(): TokenRates {
  const models = new LRUCache<string, Rates>({ max: maxModels });
  const unread = newRates();
  const input = new Float64Array(unknowns);
  const gain = new Float64Array(unknowns);

  function ratesOf(model: string | undefined): Rates {
    const name = model ?? '';
    const known = models.get(name);
    if (known !== undefined) return known;
    const fresh = newRates();
    models.set(name, fresh);
    return fresh;
  }

  return {
    estimate(chain, model, tokensAt) {
      const { belief } = models.get(model ?? '') ?? unread;
      const { ends, parts, bytes } = chain;
      const perByte = tokensPerByte(chain, belief);
      const perPart = belief[2] ?? 0;
      let fixed = belief[3] ?? 0;
      for (let chunk = 0; chunk < ends.length; chunk += 1) {
        if (chunk === 0 || parts[chunk] !== parts[chunk - 1]) fixed += perPart;
        tokensAt[chunk] = fixed + perByte * (ends[chunk] ?? 0);
      }
      return Math.max(1, fixed + perByte * bytes);
    },
    learn(chain, model, promptTokens) {
      if (!(promptTokens > 0) || chain.bytes === 0) return;
      const { belief, covariance } = ratesOf(model);
      input[0] = (chain.bytes - chain.wideBytes) / 4;
      input[1] = chain.wideBytes / 1.5;
      input[2] = partsIn(chain);
      input[3] = 1;
      update({ belief, covariance, input, gain }, promptTokens);
    },
    learnAnswerKept(model, kept) {
      const rates = ratesOf(model);
      const seen = kept ? 1 : 0;
      rates.answersKept =
        rates.answersKept === undefined ? seen : rates.answersKept + (seen - rates.answersKept) * 0.25;
    },
    answersKept: (model) => (models.get(model ?? '')?.answersKept ?? 0) > 0.5,
  };
}

function newRates(): Rates {
  const covariance = new Float64Array(unknowns * unknowns);
  firstVariance.forEach((variance, at) => (covariance[at * unknowns + at] = variance));
  return { belief: Float64Array.from(firstBelief), covariance, answersKept: undefined };
}

/** Only the whole prompt's share of wide bytes is known: they count as spread evenly. */
function tokensPerByte({ bytes, wideBytes }: PrefixChain, belief: Float64Array): number {
  if (bytes === 0) return 0;
  return (((belief[0] ?? 0) * (bytes - wideBytes)) / 4 + ((belief[1] ?? 0) * wideBytes) / 1.5) / bytes;
}

function partsIn({ parts }: PrefixChain): number {
  let count = 0;
  for (let chunk = 0; chunk < parts.length; chunk += 1)
    if (chunk === 0 || parts[chunk] !== parts[chunk - 1]) count += 1;
  return count;
}

interface Filter {
  readonly belief: Float64Array;
  readonly covariance: Float64Array;
  readonly input: Float64Array;
  readonly gain: Float64Array;
}

/** One step of a Kalman filter with a scalar observation (R. E. Kalman, 1960); what surprises too much counts less. */
function update({ belief, covariance, input, gain }: Filter, told: number): void {
  for (let at = 0; at < unknowns; at += 1) {
    const own = at * unknowns + at;
    covariance[own] = Math.min((covariance[own] ?? 0) + (drift[at] ?? 0), firstVariance[at] ?? 0);
  }
  let expected = 0;
  let spread = 0;
  for (let row = 0; row < unknowns; row += 1) {
    let sum = 0;
    for (let column = 0; column < unknowns; column += 1)
      sum += (covariance[row * unknowns + column] ?? 0) * (input[column] ?? 0);
    gain[row] = sum;
    expected += (belief[row] ?? 0) * (input[row] ?? 0);
    spread += sum * (input[row] ?? 0);
  }
  const noise = (noiseShare * told) ** 2 + noiseTokens ** 2;
  const surprise = told - expected;
  const bearable = 9 * (spread + noise);
  const total = spread + noise * Math.max(1, surprise ** 2 / bearable);
  for (let row = 0; row < unknowns; row += 1) {
    const moved = (belief[row] ?? 0) + ((gain[row] ?? 0) / total) * surprise;
    belief[row] = Math.min(most[row] ?? 0, Math.max(least[row] ?? 0, moved));
    for (let column = 0; column < unknowns; column += 1) {
      const at = row * unknowns + column;
      covariance[at] = (covariance[at] ?? 0) - ((gain[row] ?? 0) * (gain[column] ?? 0)) / total;
    }
  }
}
