/**
 * What a simulated engine is told: sizes, cache and the coefficients of its step time, with two presets for each dialect.
 * Figures are plausible, not measured claims: a laptop with a small model, and one L40S with an 8 B model in 16 bits
 * (weights 16 GB at 864 GB/s, half of 362 TFLOPS, 131 kB of KV a token).
 */

/** Milliseconds of one engine step; see `step-time.ts` for the sum. */
export interface StepTimeSettings {
  /** Each step, whatever is in it: reading the weights. */
  readonly baseMs: number;
  /** Each sequence that decodes in it. */
  readonly perSequenceMs: number;
  /** Each token of context of the sequences that decode. */
  readonly perContextTokenMs: number;
  /** Each prompt token that is computed. */
  readonly perPrefillTokenMs: number;
  /** Each pair of a computed prompt token and a token before it: attention, the quadratic part. */
  readonly perPrefillPairMs: number;
  /** Each step that computes prompt tokens. */
  readonly prefillBaseMs: number;
  /** `sum`: the parts follow one another; `max`: memory (base, context) and arithmetic (prefill, sequences) overlap. */
  readonly combine: 'sum' | 'max';
  /** Seeded relative noise, for example 0.1 for ±10 %. */
  readonly jitterShare: number;
}

/** vLLM: full blocks shared by the hash of all that comes before, evicted in LRU order. */
export interface BlockCacheSettings {
  readonly kind: 'blocks';
  readonly blockTokens: number;
  readonly blocks: number;
  readonly prefixCaching: boolean;
}

/** llama.cpp: each slot keeps its last sequence, reused token by token. */
export interface SlotCacheSettings {
  readonly kind: 'slots';
  /** Context of one slot; with `unified` of all together. */
  readonly slotTokens: number;
  /** One context shared by all slots: may run full in the middle of an answer. */
  readonly unified: boolean;
  /** Tokens of sequences kept aside when a slot is taken; 0: none. */
  readonly ramTokens: number;
  /** A slot is chosen for its content when this share of the prompt is in it. */
  readonly minSimilarity: number;
}

export interface EngineSettings {
  readonly seed: number;
  /** Sequences running at once; llama.cpp: slots. */
  readonly maxSequences: number;
  /** Tokens computed in one step at most: vLLM's batched-token budget, llama.cpp's `-b`. */
  readonly stepTokens: number;
  /** False: a prompt is computed in one step, even past the budget when it is alone. */
  readonly chunkedPrefill: boolean;
  readonly scheduling: 'fcfs' | 'priority';
  /** When KV blocks run out: true drops the least important running sequence for a while; false lets none start that might not fit. */
  readonly preemption: boolean;
  /** When an abort frees its place: at once, or when the step under way is over (llama.cpp: a border of `-b`). */
  readonly abortBorder: 'at_once' | 'step';
  readonly cache: BlockCacheSettings | SlotCacheSettings;
  readonly stepTime: StepTimeSettings;
}

/** vLLM's ways with a small model on a laptop: 55 tokens/s alone, 1,600 prompt tokens/s. */
export const laptopVllm: EngineSettings = {
  seed: 1,
  maxSequences: 16,
  stepTokens: 512,
  chunkedPrefill: true,
  scheduling: 'fcfs',
  preemption: true,
  abortBorder: 'at_once',
  cache: { kind: 'blocks', blockTokens: 16, blocks: 2048, prefixCaching: true },
  stepTime: {
    baseMs: 16,
    perSequenceMs: 1.5,
    perContextTokenMs: 0.002,
    perPrefillTokenMs: 0.6,
    perPrefillPairMs: 0,
    prefillBaseMs: 4,
    combine: 'sum',
    jitterShare: 0.05,
  },
};

/** llama.cpp's ways on the same laptop: four slots, 45 tokens/s alone, 1,100 prompt tokens/s. */
export const laptopLlama: EngineSettings = {
  ...laptopVllm,
  seed: 2,
  maxSequences: 4,
  stepTokens: 2048,
  abortBorder: 'step',
  cache: { kind: 'slots', slotTokens: 8192, unified: false, ramTokens: 32_768, minSimilarity: 0.1 },
  stepTime: { ...laptopVllm.stepTime, baseMs: 19, perSequenceMs: 3, perPrefillTokenMs: 0.9 },
};

/** vLLM on one L40S, 8 B model: about 50 tokens/s alone, 11,000 prompt tokens/s, 198k tokens of KV. */
export const l40sVllm: EngineSettings = {
  ...laptopVllm,
  maxSequences: 256,
  stepTokens: 2048,
  cache: { kind: 'blocks', blockTokens: 16, blocks: 12_400, prefixCaching: true },
  stepTime: {
    baseMs: 19,
    perSequenceMs: 0.05,
    perContextTokenMs: 0.000_15,
    perPrefillTokenMs: 0.09,
    perPrefillPairMs: 0.000_002_9,
    prefillBaseMs: 1,
    combine: 'sum',
    jitterShare: 0.02,
  },
};

/** llama.cpp on one L40S: eight slots. */
export const l40sLlama: EngineSettings = {
  ...l40sVllm,
  maxSequences: 8,
  abortBorder: 'step',
  cache: { kind: 'slots', slotTokens: 16_384, unified: false, ramTokens: 65_536, minSimilarity: 0.1 },
  stepTime: { ...l40sVllm.stepTime, perSequenceMs: 0.4, perPrefillTokenMs: 0.12 },
};

/** No model's pace: as fast as the machine allows, for tests and for moving many requests. */
export const instantVllm: EngineSettings = {
  ...l40sVllm,
  stepTokens: 65_536,
  stepTime: {
    baseMs: 0.2,
    perSequenceMs: 0,
    perContextTokenMs: 0,
    perPrefillTokenMs: 0,
    perPrefillPairMs: 0,
    prefillBaseMs: 0,
    combine: 'sum',
    jitterShare: 0,
  },
};

export const instantLlama: EngineSettings = { ...l40sLlama, stepTokens: 65_536, stepTime: instantVllm.stepTime };
