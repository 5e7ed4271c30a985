/**
 * What the cache experiment will ask, before it asks anything: how long the prompts are, where they part, what all of it
 * costs. Pure.
 */
import type { Budget } from '../purse.ts';

export interface CachePlan {
  /** Length of the long prompts. */
  readonly longTokens: number;
  /** Length at which each prefix prompt parts from the base, longest first: a slot keeps only what it was cut back to. */
  readonly prefixTokens: readonly number[];
  readonly rounds: number;
  /** Other prompts that are sent in between to take the slots. */
  readonly displacing: number;
  readonly toolTokens: number;
}

export interface PlanFacts {
  readonly contextTokens: number | undefined;
  /** As the engine tells it: prompts must hold some of its blocks, else no prefix could hit. */
  readonly blockTokens: number | undefined;
  readonly slots: number | undefined;
  readonly promptTokens: number | undefined;
  readonly rounds: number;
}

const usualTokens = 600;
/** Of the context: base prompt, its continuation and the answer must fit. */
const contextShare = 0.4;
export const shortTokens = 60;
export const displacingTokens = 120;
/** Past this many slots others are not displaced one by one. */
const mostDisplacing = 8;

/**
 * Odd multiples of 16 plus 7: blocks of 16, 32, 64, 128 and 256 then each give other hits, and single tokens give
 * numbers without a common divisor. Scaled down in steps of 16 for short contexts.
 */
const usualPrefixes = [535, 407, 311, 183, 87] as const;

export function planCache({ contextTokens, blockTokens, slots, promptTokens, rounds }: PlanFacts): CachePlan {
  const most = contextTokens === undefined ? Number.POSITIVE_INFINITY : Math.floor(contextTokens * contextShare);
  const longTokens = promptTokens ?? Math.min(Math.max(usualTokens, 3 * (blockTokens ?? 0)), most);
  const factor = longTokens / usualTokens;
  return {
    longTokens,
    prefixTokens: usualPrefixes.map((tokens) =>
      factor === 1 ? tokens : 16 * (2 * Math.floor(((tokens * factor) / 16 - 1) / 2) + 1) + 7,
    ),
    rounds,
    displacing: Math.min(mostDisplacing, slots ?? 4),
    toolTokens: Math.min(400, Math.floor(longTokens / 2) + 60),
  };
}

/** Prompt tokens past which `--yes` is wanted. */
const largeTokens = 100_000;

export interface CacheCost extends Budget {
  readonly large: boolean;
}

/** The most that the plan can cost, whatever the answers turn out to be. */
export function costOf(plan: CachePlan, timeoutMs: number): CacheCost {
  const { longTokens: long, prefixTokens, rounds, displacing, toolTokens } = plan;
  const parts: readonly (readonly [requests: number, tokensEach: number])[] = [
    [2, shortTokens],
    [2, long],
    [1, long],
    ...prefixTokens.map((tokens) => [1, tokens + 40] as const),
    [2, long],
    [2, long + 80],
    [1, long],
    [1, long],
    [2, long],
    [2 + displacing, displacingTokens],
    [1, shortTokens],
    [3, toolTokens],
    [1, long],
    // Where nothing is reported each round also has a short, a prefix and a changed prompt.
    [rounds, shortTokens],
    [4 * rounds, long],
  ];
  const requests = parts.reduce((sum, [count]) => sum + count, 0);
  // A tenth more, since the tokeniser isn't known yet.
  const promptTokens = Math.ceil(1.1 * parts.reduce((sum, [count, tokens]) => sum + count * tokens, 0));
  return { requests, promptTokens, timeoutMs, large: promptTokens > largeTokens };
}

/** Estimated seconds, slow and quick, for a person. */
export function durationText({ promptTokens }: Budget): string {
  const at = (rate: number) => Math.max(1, Math.round(promptTokens / rate));
  return `about ${at(10_000)} s on a GPU (10,000 prompt tokens/s), ${at(400)} s on a CPU (400)`;
}
