/**
 * What is compared: the shipped lanes, the same with parts left out, fixed numbers, and other rules for the cap. Each is the owner and
 * the lanes themselves under other settings, or with another rule in the place of the shipped one.
 */
import type { BatchCap, CapSignals } from '../../../src/admit/batch-cap.ts';
import { laneDefaults, type LaneSettings } from '../../../src/admit/lane-settings.ts';
import { createAimd, createQueueSignal } from './aimd.ts';
import type { Gaps } from './gaps.ts';
import { createGradient } from './gradient.ts';
import { slo } from './settings.ts';

export interface Candidate {
  readonly name: string;
  /**
   * How it stands to the shipped one; `bar`: what the shipped one must not be worse than in both columns; `again`: online alone on
   * engines whose steps take a little more or less, which is what any two plays differ by.
   */
  readonly kind: 'online only' | 'again' | 'unbounded' | 'bar' | 'shipped' | 'without';
  readonly lanes: LaneSettings;
  /** of the engines */
  readonly scheduling: 'fcfs' | 'priority';
  readonly makeCap?: (about: CapAbout) => BatchCap;
  /** Added to that of the engines, whose steps vary by 2 %. */
  readonly engineSeed?: number;
}

/** What a rule for one backend may look at besides the signals. */
export interface CapAbout {
  readonly beganMs: number;
  readonly gaps: Gaps;
  readonly nowMs: () => number;
}

type Change<Part> = { readonly [Key in keyof Part]?: Part[Key] };

export interface LaneChange {
  readonly batch?: Change<LaneSettings['batch']>;
  readonly control?: Change<LaneSettings['control']>;
  readonly reclaim?: Change<LaneSettings['reclaim']>;
}

/** The shipped settings for the objective that all are judged by, but for what is changed. */
export function lanesWith({ batch, control, reclaim }: LaneChange = {}): LaneSettings {
  return {
    ...laneDefaults,
    batch: { ...laneDefaults.batch, ...batch },
    control: { ...laneDefaults.control, ttftMs: slo.ttftMs, tpotMs: slo.tpotMs, ...control },
    reclaim: { ...laneDefaults.reclaim, ...reclaim },
    refuseBeyond: 0,
  };
}

const bare = { gate: false, enginePriority: true } as const;
const kept = { reclaim: { enabled: false } } as const;

function fixed(cap: number): LaneSettings {
  return lanesWith({ control: { ...bare, cap }, ...kept });
}

const shipped = { kind: 'shipped', scheduling: 'priority', lanes: lanesWith() } as const;
const without = { kind: 'without', scheduling: 'priority' } as const;

/** On one signal, with nothing beside it but the engines' priorities. */
function aimd(signal: string, makePick: (about: CapAbout) => (signals: CapSignals) => number | undefined): Candidate {
  return {
    name: `AIMD on ${signal}`,
    kind: 'bar',
    scheduling: 'priority',
    lanes: lanesWith({ control: bare, ...kept }),
    makeCap: (about) => createAimd(about.beganMs, makePick(about)),
  };
}

/** @param boundMs of the p95 of gaps between tokens */
function itlP95(boundMs: number) {
  return ({ gaps, nowMs }: CapAbout) =>
    () => {
      const p95 = gaps.p95(nowMs());
      return p95 === undefined ? undefined : p95 / boundMs;
    };
}

/** A step with a prompt of 1,024 tokens takes 0.1 s: a p95 that is bound to the TPOT forbids prompts, whoever sends them. */
const wideItlMs = 2.5 * slo.tpotMs;

export const laneCandidates: readonly Candidate[] = [
  { name: 'online only', kind: 'online only', scheduling: 'priority', lanes: fixed(0) },
  { name: 'online only, other engines', kind: 'again', scheduling: 'priority', lanes: fixed(0), engineSeed: 100 },
  { name: 'no control: 64, first come', kind: 'unbounded', scheduling: 'fcfs', lanes: fixed(64) },
  { name: 'engine priority alone: 64', kind: 'bar', scheduling: 'priority', lanes: fixed(64) },
  ...[4, 8, 16].map((cap): Candidate => ({
    name: `fixed ${cap}`,
    kind: 'bar',
    scheduling: 'priority',
    lanes: fixed(cap),
  })),
  aimd(
    'running TPOT',
    () =>
      ({ feel }) =>
        feel.tpot,
  ),
  aimd(
    'mean gaps',
    () =>
      ({ feel }) =>
        feel.itl,
  ),
  aimd(`p95 of ITL, ${slo.tpotMs} ms`, itlP95(slo.tpotMs)),
  aimd(`p95 of ITL, ${wideItlMs} ms`, itlP95(wideItlMs)),
  aimd(
    'TTFT',
    () =>
      ({ feel }) =>
        feel.ttft,
  ),
  aimd('waiting', createQueueSignal),
  {
    name: 'Gradient2 on TTFT + gaps',
    kind: 'bar',
    scheduling: 'priority',
    lanes: lanesWith({ control: bare, ...kept }),
    makeCap: ({ beganMs }) => createGradient(beganMs),
  },
  { name: 'shipped', ...shipped },
  { name: 'without gate', ...without, lanes: lanesWith({ control: { gate: false } }) },
  { name: 'without reclaiming', ...without, lanes: lanesWith(kept) },
  { name: 'on engines without priority', ...without, scheduling: 'fcfs', lanes: lanesWith() },
  { name: 'increase .3', ...without, lanes: lanesWith({ control: { increase: 0.3 } }) },
  { name: 'minShare .05', ...without, lanes: lanesWith({ batch: { minShare: 0.05 } }) },
];
