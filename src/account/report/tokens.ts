/**
 * Tokens and cache hits: sums of what the engines counted, how much of it is an estimate, and of how many answers nothing
 * is known. The hit rate is weighted by tokens, over the answers whose engine reported it: never an average of ratios.
 */
import { generates, type Row } from './row.ts';
import { otherName, ownText } from './tally.ts';

export interface TokenResult {
  /** answers that came whole, of endpoints that generate */
  readonly answers: number;
  readonly prompt: number;
  readonly cached: number;
  readonly output: number;
  readonly reasoning: number;
  /** output tokens that are only a count of events */
  readonly estimatedOutput: number;
  /** requests that ended well without a count of their prompt, their output */
  readonly promptUnknown: number;
  readonly outputUnknown: number;
  readonly cache: CacheResult;
}

export interface CacheResult {
  /** answers that said how much of their prompt was cached; share of all that generated */
  readonly reported: number;
  readonly coverage?: number;
  /** their prompt tokens, and of these the cached ones */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** cachedTokens / promptTokens; absent when nobody reported */
  readonly hitRate?: number;
}

export interface TokenAccount {
  add(row: Row): void;
  result(): TokenAccountResult;
}

export interface TokenAccountResult {
  readonly all: TokenResult;
  readonly byModel: Readonly<Record<string, TokenResult>>;
  readonly byBackend: Readonly<Record<string, TokenResult>>;
}

const mostNames = 50;

export function createTokenAccount(): TokenAccount {
  const all = new TokenSums();
  const byModel = new Map<string, TokenSums>();
  const byBackend = new Map<string, TokenSums>();
  return {
    add(row) {
      all.add(row);
      if (!generates(row)) return;
      if (row.model !== undefined) named(byModel, row.model).add(row);
      if (row.backend !== undefined) named(byBackend, row.backend).add(row);
    },
    result: () => ({ all: all.result(), byModel: results(byModel), byBackend: results(byBackend) }),
  };
}

function named(sums: Map<string, TokenSums>, name: string): TokenSums {
  const key = sums.has(name) || sums.size < mostNames ? name : otherName;
  const known = sums.get(key);
  if (known !== undefined) return known;
  const made = new TokenSums();
  sums.set(ownText(key), made);
  return made;
}

function results(sums: ReadonlyMap<string, TokenSums>): Readonly<Record<string, TokenResult>> {
  return Object.fromEntries([...sums].map(([name, of]) => [name, of.result()]));
}

class TokenSums {
  #answers = 0;
  #prompt = 0;
  #cached = 0;
  #output = 0;
  #reasoning = 0;
  #estimatedOutput = 0;
  #promptUnknown = 0;
  #outputUnknown = 0;
  #reported = 0;
  #reportedPrompt = 0;
  #reportedCached = 0;
  #generated = 0;

  add(row: Row): void {
    const { promptTokens, cachedTokens, outputTokens, reasoningTokens } = row;
    this.#prompt += promptTokens ?? 0;
    this.#cached += cachedTokens ?? 0;
    this.#output += outputTokens ?? 0;
    this.#reasoning += reasoningTokens ?? 0;
    if (row.tokensFrom === 'events_estimate') this.#estimatedOutput += outputTokens ?? 0;
    if (!generates(row)) return;
    if (row.outcome === 'ok') {
      this.#answers += 1;
      if (promptTokens === undefined) this.#promptUnknown += 1;
      if (outputTokens === undefined) this.#outputUnknown += 1;
    }
    const reported = cachedTokens !== undefined && promptTokens !== undefined;
    if (row.outcome === 'ok' || reported) this.#generated += 1;
    if (!reported) return;
    this.#reported += 1;
    this.#reportedPrompt += promptTokens;
    this.#reportedCached += cachedTokens;
  }

  result(): TokenResult {
    return {
      answers: this.#answers,
      prompt: this.#prompt,
      cached: this.#cached,
      output: this.#output,
      reasoning: this.#reasoning,
      estimatedOutput: this.#estimatedOutput,
      promptUnknown: this.#promptUnknown,
      outputUnknown: this.#outputUnknown,
      cache: {
        reported: this.#reported,
        ...(this.#generated === 0 ? {} : { coverage: this.#reported / this.#generated }),
        promptTokens: this.#reportedPrompt,
        cachedTokens: this.#reportedCached,
        ...(this.#reportedPrompt === 0 ? {} : { hitRate: this.#reportedCached / this.#reportedPrompt }),
      },
    };
  }
}
