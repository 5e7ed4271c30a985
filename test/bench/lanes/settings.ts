/**
 * The settings in which lanes are compared: a smooth load, one in bursts, one whose engines have few places, and steps out of silence.
 * Engines are an 8 B model in 16 bits on an A100 of 80 GB; figures are plausible, not measured claims. Each setting is played in
 * parts: the shipped constants were chosen on those that are not held out.
 */
import { l40sVllm, type EngineSettings } from '../../../src/sim/settings.ts';

export interface LanePart {
  readonly fromSeconds: number;
  readonly seconds: number;
  readonly seed: number;
  /** nothing was chosen by it */
  readonly heldOut: boolean;
}

export interface LaneSetting {
  readonly name: string;
  /** `conv`, `code`: Azure's traces of 2023, else a generator with the same statistics; `step`: twenty seconds on, forty off or low */
  readonly online: 'conv' | 'code' | 'step';
  readonly backends: number;
  readonly engine: EngineSettings;
  /** The proxy knows how many places a backend has. */
  readonly tellsPlaces: boolean;
  readonly parts: readonly LanePart[];
  /** for the short form */
  readonly shortPart: LanePart;
  /** Of `step`: online requests a second before each step; absent: none. */
  readonly stepFromRate?: number;
  /** Names of the candidates that are played; absent: all. */
  readonly compares?: readonly string[];
}

export const slo = { ttftMs: 1000, tpotMs: 60 } as const;

/** Not counted: paces are being learnt and queues fill. */
export const warmUpSeconds = 60;

/** Of `step`: online requests a second while it is on. */
export const stepRatePerSecond = 5.5;
export const step = { onMs: 20_000, everyMs: 60_000, firstMs: 90_000 } as const;

/**
 * Weights of 16 GB at 1.6 TB/s, 131 kB of KV a token, 60 % of 312 TFLOPS: a step of 1,024 prompt tokens takes 0.1 s, 64 sequences
 * of 1,700 tokens decode in 21 ms; 400,000 tokens of KV.
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

const shortPart: LanePart = { fromSeconds: 2100, seconds: 240, seed: 4, heldOut: true };

/** The trace is 59 minutes long and busiest in its middle: the second part begins there. */
const ofTrace: readonly LanePart[] = [
  { fromSeconds: 0, seconds: 2100, seed: 1, heldOut: false },
  { fromSeconds: 2040, seconds: 1500, seed: 2, heldOut: true },
];

const common = { engine: a100, tellsPlaces: false, backends: 2, shortPart } as const;

const fewPlaces = { engine: { ...a100, maxSequences: 24 }, tellsPlaces: true } as const;

/** Forty steps each. */
const stepped = {
  ...common,
  online: 'step',
  parts: [
    { fromSeconds: 0, seconds: 2460, seed: 6, heldOut: false },
    { fromSeconds: 0, seconds: 2460, seed: 5, heldOut: true },
  ],
} as const;

/** Of the many settings with steps only some are for all. */
const stepCandidates: readonly string[] = [
  'online only',
  'online only, other engines',
  'fixed 4',
  'AIMD on running TPOT',
  'shipped',
  'increase .3',
];

export const laneSettings: readonly LaneSetting[] = [
  { ...common, name: 'conv', online: 'conv', parts: ofTrace },
  {
    ...common,
    name: 'code',
    online: 'code',
    backends: 10,
    parts: [
      { fromSeconds: 0, seconds: 660, seed: 1, heldOut: false },
      { fromSeconds: 0, seconds: 960, seed: 2, heldOut: true },
    ],
  },
  {
    ...common,
    name: 'conv, 24 places',
    online: 'conv',
    ...fewPlaces,
    parts: ofTrace,
  },
  { ...stepped, name: 'step' },
  { ...stepped, ...fewPlaces, name: 'step, 24 places' },
  ...[2, 4, 8].map((times): LaneSetting => ({
    ...stepped,
    name: `step x${times}`,
    stepFromRate: stepRatePerSecond / times,
    compares: stepCandidates,
  })),
  {
    ...stepped,
    ...fewPlaces,
    name: 'step x4, 24 places',
    stepFromRate: stepRatePerSecond / 4,
    compares: stepCandidates,
  },
];
