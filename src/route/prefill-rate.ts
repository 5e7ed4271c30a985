/**
 * How many prompt tokens a second one backend computes: the weighted median of its last answers. What an engine says of its
 * own prefill counts; else the time to the first token of prompts that had nobody before them.
 */
export interface PrefillSample {
  readonly tokensPerSecond: number;
  /** how much it says; long prompts say more, since the fixed part of a step blurs short ones */
  readonly weight: number;
}

export interface PrefillTold {
  readonly uncachedTokens: number;
  /** prompt tokens that stood before it when it was sent */
  readonly pendingTokens: number;
  readonly ttftMs?: number | undefined;
  /** the engine's own figure */
  readonly tokensPerSecond?: number | undefined;
  /** of that time what is no prefill: the way there, one step */
  readonly fixedMs: number;
}

const kept = 32;
/** Tokens per second; less is no rate of anything that serves, and its reciprocal breaks sums. */
const slowest = 0.01;
/** So many tokens fill an engine's step well enough for their rate to be its rate. */
const fullTokens = 512;
const fewestTokens = 32;
/** On a slow server short prompts take long enough to tell as well. */
const slowMs = 250;

/** undefined: this answer says nothing of the rate. */
export function prefillSample(told: PrefillTold): PrefillSample | undefined {
  const { uncachedTokens, ttftMs, tokensPerSecond, fixedMs } = told;
  if (uncachedTokens < fewestTokens) return undefined;
  const weight = Math.min(1, uncachedTokens / fullTokens);
  if (tokensPerSecond !== undefined)
    return tokensPerSecond >= slowest && Number.isFinite(tokensPerSecond) ? { tokensPerSecond, weight } : undefined;
  if (ttftMs === undefined || told.pendingTokens > 0) return undefined;
  if (uncachedTokens < fullTokens && ttftMs < slowMs) return undefined;
  // The fixed part is a guess as well: it never explains most of the time.
  const prefillMs = Math.max(ttftMs - fixedMs, ttftMs / 2);
  return prefillMs > 0 ? { tokensPerSecond: (uncachedTokens * 1000) / prefillMs, weight } : undefined;
}

export class PrefillRate {
  readonly #samples: PrefillSample[] = [];
  #next = 0;
  /** undefined until something was learnt */
  tokensPerSecond: number | undefined;

  learn(sample: PrefillSample): void {
    this.#samples[this.#next] = sample;
    this.#next = (this.#next + 1) % kept;
    this.tokensPerSecond = weightedMedian(this.#samples);
  }
}

function weightedMedian(samples: readonly PrefillSample[]): number | undefined {
  const sorted = samples.toSorted((a, b) => a.tokensPerSecond - b.tokensPerSecond);
  const half = sorted.reduce((sum, { weight }) => sum + weight, 0) / 2;
  let sum = 0;
  for (const { tokensPerSecond, weight } of sorted) {
    sum += weight;
    if (sum >= half) return tokensPerSecond;
  }
  return undefined;
}
