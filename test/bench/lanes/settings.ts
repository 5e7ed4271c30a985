/**
 * The settings in which lanes are compared: one smooth load, one in bursts, one whose engines have few places. Engines are an 8 B model
 * in 16 bits on an A100 of 80 GB; figures are plausible, not measured claims.
 */
import { l40sVllm, type EngineSettings } from '../../../src/sim/settings.ts';

export interface LaneSetting {
  readonly name: string;
  readonly online: 'conv' | 'code' | 'smooth' | 'bursty';
  readonly backends: number;
  readonly engine: EngineSettings;
  /** The proxy knows how many places a backend has. */
  readonly tellsPlaces: boolean;
  readonly fromSeconds: number;
  readonly seconds: number;
  readonly seed: number;
  /** online requests a second, of generators; traces keep their own times */
  readonly ratePerSecond?: number;
}

export const slo = { ttftMs: 1000, tpotMs: 60 } as const;

/** Not counted: paces are being learnt and queues fill. */
export const warmUpSeconds = 60;

/**
 * Weights of 16 GB at 1.6 TB/s, 131 kB of KV a token, half of 312 TFLOPS: a step of 1,024 prompt tokens takes 0.11 s,
 * 64 sequences of 1,700 tokens decode in 21 ms; 400,000 tokens of KV.
 */
export const a100: EngineSettings = {
  ...l40sVllm,
  maxSequences: 256,
  stepTokens: 1024,
  cache: { kind: 'blocks', blockTokens: 16, blocks: 25_000, prefixCaching: true },
  stepTime: {
    baseMs: 10,
    perSequenceMs: 0.03,
    perContextTokenMs: 0.000_082,
    perPrefillTokenMs: 0.085,
    perPrefillPairMs: 0.000_003_4,
    prefillBaseMs: 1,
    combine: 'sum',
    jitterShare: 0.02,
  },
};

const common = { engine: a100, tellsPlaces: false, seed: 1, fromSeconds: 0, seconds: 720 } as const;

export const laneSettings: readonly LaneSetting[] = [
  { ...common, name: 'conv', online: 'conv', backends: 2 },
  { ...common, name: 'code', online: 'code', backends: 10 },
  {
    ...common,
    name: 'conv, 24 places',
    online: 'conv',
    backends: 2,
    engine: { ...a100, maxSequences: 24 },
    tellsPlaces: true,
  },
];
