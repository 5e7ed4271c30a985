/**
 * Engines to replay traces against, by name: sizes, cache and pace. Figures are plausible, not measured claims; each says where it
 * comes from. What a user's own engines can do is set by options.
 */
import { l40sLlama, l40sVllm, laptopLlama, laptopVllm, type EngineSettings } from '../settings.ts';

/**
 * vLLM with Qwen3-32B in 16 bits on two H100: 64 GB of weights read in 15 ms, 262 kB of KV a token at some 4.4 TB/s, a step of 8,192
 * prompt tokens in 0.40 s (as llm-d calibrated it), a prompt of 126,000 tokens in 10 s, 307,200 tokens of KV.
 */
const h100Vllm: EngineSettings = {
  ...l40sVllm,
  maxSequences: 256,
  stepTokens: 8192,
  cache: { kind: 'blocks', blockTokens: 16, blocks: 19_200, prefixCaching: true },
  stepTime: {
    baseMs: 15,
    perSequenceMs: 0.02,
    perContextTokenMs: 0.000_06,
    perPrefillTokenMs: 0.045,
    perPrefillPairMs: 0.000_000_5,
    prefillBaseMs: 0,
    combine: 'sum',
    jitterShare: 0.02,
  },
};

export interface EngineModel {
  readonly settings: EngineSettings;
  readonly says: string;
}

export const engineModels = {
  'vllm-h100': { settings: h100Vllm, says: 'vLLM, Qwen3-32B on two H100: 20,000 prompt tokens/s, 307k tokens of KV' },
  'vllm-l40s': {
    settings: l40sVllm,
    says: 'vLLM, an 8 B model on one L40S: 11,000 prompt tokens/s, 198k tokens of KV',
  },
  'vllm-laptop': {
    settings: laptopVllm,
    says: 'vLLM, a small model on a laptop: 1,600 prompt tokens/s, 33k tokens of KV',
  },
  'llama-l40s': { settings: l40sLlama, says: 'llama-server, an 8 B model on one L40S: eight slots of 16k tokens' },
  'llama-laptop': { settings: laptopLlama, says: 'llama-server, a small model on a laptop: four slots of 8k tokens' },
} as const satisfies Readonly<Record<string, EngineModel>>;

export type EngineModelName = keyof typeof engineModels;

export interface EngineChange {
  readonly kvTokens?: number;
  /** prompt tokens computed in one step at most */
  readonly stepTokens?: number;
  /** sequences at once; llama-server: slots */
  readonly maxSequences?: number;
}

/** The same engine with other sizes. KV is shared out to slots where there are slots. */
export function changed(
  settings: EngineSettings,
  { kvTokens, stepTokens, maxSequences }: EngineChange,
): EngineSettings {
  const sequences = maxSequences ?? settings.maxSequences;
  const { cache } = settings;
  return {
    ...settings,
    maxSequences: sequences,
    stepTokens: stepTokens ?? settings.stepTokens,
    cache:
      kvTokens === undefined
        ? cache
        : cache.kind === 'blocks'
          ? { ...cache, blocks: Math.max(1, Math.floor(kvTokens / cache.blockTokens)) }
          : { ...cache, slotTokens: Math.max(1, Math.floor(kvTokens / sequences)) },
  };
}

/** All that one engine can hold for reuse. */
export function kvTokensOf({ cache, maxSequences }: EngineSettings): number {
  if (cache.kind === 'blocks') return cache.blocks * cache.blockTokens;
  return cache.slotTokens * (cache.unified ? 1 : maxSequences) + cache.ramTokens;
}

/** Of these, in llama-server's cache in RAM beside its slots. */
export function ramTokensOf({ cache }: EngineSettings): number {
  return cache.kind === 'blocks' ? 0 : cache.ramTokens;
}

/** Ms to the first token of a prompt that meets an idle engine with an empty cache. */
export function coldPrefillMs(promptTokens: number, { stepTime, stepTokens, chunkedPrefill }: EngineSettings): number {
  const steps = chunkedPrefill ? Math.ceil(promptTokens / stepTokens) : 1;
  const pairs = (promptTokens * (promptTokens - 1)) / 2;
  const workMs = promptTokens * stepTime.perPrefillTokenMs + pairs * stepTime.perPrefillPairMs;
  const prefillMs = steps * stepTime.prefillBaseMs + workMs;
  const baseMs = steps * stepTime.baseMs;
  return stepTime.combine === 'sum' ? baseMs + prefillMs : Math.max(baseMs, prefillMs);
}
