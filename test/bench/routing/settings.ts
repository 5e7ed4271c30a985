/** The fleets and loads on which policies are compared: what each stresses stands in its name. */
import type { EngineSettings } from '../../../src/sim/settings.ts';
import { changed, engineModels } from '../../../src/sim/fleet/engine-models.ts';
import type { GeneratorName } from '../../../src/sim/traces/generators/generator.ts';

export interface EvaluationSetting {
  readonly name: string;
  readonly source: 'mooncake' | GeneratorName;
  readonly requests: number;
  readonly seed: number;
  readonly backends: number;
  readonly engine: EngineSettings;
  readonly scale: number;
  readonly ttftMs: number;
  /** what the router is told of times, as a multiple of the truth: 2 makes every engine look half as fast */
  readonly toldTimes?: number;
}

const h100 = engineModels['vllm-h100'].settings;
const big = changed(h100, { kvTokens: 1_228_800 });

/**
 * An engine whose step time has another form than the rule's cost: memory and arithmetic overlap, so that prefill is free up to a
 * point; a small budget of tokens per step; little KV, so that sequences are preempted.
 */
const overlapping: EngineSettings = {
  ...changed(h100, { kvTokens: 614_400, stepTokens: 2048 }),
  stepTime: { ...h100.stepTime, perSequenceMs: 0.1, prefillBaseMs: 3, combine: 'max', jitterShare: 0.1 },
};

const common = { requests: 6000, seed: 1, backends: 8, engine: big, ttftMs: 5000 } as const;

export const evaluationSettings: readonly EvaluationSetting[] = [
  ...[1, 2, 2.5, 3].map((scale) => ({ ...common, name: `mooncake ×${scale}`, source: 'mooncake' as const, scale })),
  { ...common, name: 'mooncake, 4 backends ×1.25', source: 'mooncake', backends: 4, scale: 1.25 },
  { ...common, name: 'mooncake, 307k of KV ×1.5', source: 'mooncake', engine: h100, scale: 1.5 },
  {
    ...common,
    name: 'mooncake, steps of 2048 ×2.25',
    source: 'mooncake',
    engine: changed(big, { stepTokens: 2048 }),
    scale: 2.25,
  },
  { ...common, name: 'mooncake, overlapping engine ×2.25', source: 'mooncake', engine: overlapping, scale: 2.25 },
  { ...common, name: 'mooncake ×2.25', source: 'mooncake', scale: 2.25 },
  { ...common, name: 'mooncake ×2.25, told 2× slow', source: 'mooncake', scale: 2.25, toldTimes: 2 },
  { ...common, name: 'mooncake ×2.25, told 2× fast', source: 'mooncake', scale: 2.25, toldTimes: 0.5 },
  { ...common, name: 'conversation ×2.25', source: 'conversation', requests: 3000, scale: 2.25 },
  { ...common, name: 'conversation, seed 9 ×2.5', source: 'conversation', requests: 3000, seed: 9, scale: 2.5 },
  ...[1.5, 2, 2.5].map((scale) => ({
    ...common,
    name: `shared-prompts ×${scale}`,
    source: 'shared-prompts' as const,
    requests: 3000,
    engine: h100,
    scale,
    ttftMs: 2000,
  })),
  ...[2, 3].map((scale) => ({
    ...common,
    name: `agents, 4 backends ×${scale}`,
    source: 'agents' as const,
    requests: 4000,
    backends: 4,
    engine: h100,
    scale,
    ttftMs: 3000,
  })),
  ...[2, 3].map((scale) => ({
    ...common,
    name: `documents ×${scale}`,
    source: 'documents' as const,
    requests: 3000,
    scale,
  })),
  {
    ...common,
    name: 'documents, overlapping engine ×2',
    source: 'documents',
    requests: 3000,
    engine: overlapping,
    scale: 2,
  },
  { ...common, name: 'smooth ×20', source: 'smooth', requests: 3000, engine: h100, scale: 20, ttftMs: 1000 },
  { ...common, name: 'bursty ×12', source: 'bursty', requests: 3000, engine: h100, scale: 12, ttftMs: 1000 },
];
