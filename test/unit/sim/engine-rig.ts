/** An engine on a virtual clock with a log of what happened to each request, for the simulator's tests. */
import type { Clock } from '../../../src/platform/clock.ts';
import { createEngine, type Engine, type EngineHandle } from '../../../src/sim/engine.ts';
import { tokenPrompt, type SimPrompt } from '../../../src/sim/prompt.ts';
import type { SequenceEnd } from '../../../src/sim/sequence.ts';
import { laptopVllm, type EngineSettings } from '../../../src/sim/settings.ts';
import { createVirtualClock, type VirtualClock } from '../../../src/sim/virtual-clock.ts';

/** A step of 10 ms, 1 ms a decoding sequence, 0.01 ms a token of context, 0.1 ms a prompt token; no noise. */
export const plainTime: EngineSettings['stepTime'] = {
  baseMs: 10,
  perSequenceMs: 1,
  perContextTokenMs: 0.01,
  perPrefillTokenMs: 0.1,
  perPrefillPairMs: 0,
  prefillBaseMs: 0,
  combine: 'sum',
  jitterShare: 0,
};

export const plainBlocks: EngineSettings = {
  ...laptopVllm,
  maxSequences: 8,
  stepTokens: 100_000,
  cache: { kind: 'blocks', blockTokens: 16, blocks: 1000, prefixCaching: true },
  stepTime: plainTime,
};

export const plainSlots: EngineSettings = {
  ...plainBlocks,
  maxSequences: 2,
  stepTokens: 2048,
  abortBorder: 'step',
  cache: { kind: 'slots', slotTokens: 4096, unified: false, ramTokens: 0, minSimilarity: 0.1 },
};

export interface Run {
  readonly handle: EngineHandle;
  startedMs: number | undefined;
  cachedTokens: number | undefined;
  slot: number | undefined;
  readonly tokensMs: number[];
  readonly progress: number[];
  readonly ends: SequenceEnd[];
}

export interface Rig {
  readonly clock: VirtualClock;
  readonly engine: Engine;
  readonly submit: (prompt: SimPrompt | number, outputTokens: number, more?: Partial<Asked>) => Run;
}

interface Asked {
  readonly priority: number;
  readonly choices: number;
  readonly outputIds: readonly number[];
}

export function rig(settings: EngineSettings): Rig {
  const clock = createVirtualClock();
  const engine = createEngine(settings, { clock });
  return { clock, engine, submit: (prompt, outputTokens, more) => submitTo(engine, prompt, { outputTokens, ...more }) };
}

export function rigOn(clock: Clock, settings: EngineSettings): Omit<Rig, 'clock'> {
  const engine = createEngine(settings, { clock });
  return { engine, submit: (prompt, outputTokens, more) => submitTo(engine, prompt, { outputTokens, ...more }) };
}

function submitTo(
  engine: Engine,
  prompt: SimPrompt | number,
  asked: Partial<Asked> & { readonly outputTokens: number },
): Run {
  const tokensMs: number[] = [];
  const progress: number[] = [];
  const ends: SequenceEnd[] = [];
  const ids = asked.outputIds;
  const plan = {
    outputTokens: asked.outputTokens,
    endsBy: 'length' as const,
    ...(ids === undefined ? {} : { output: { idAt: (index: number) => ids[index] ?? 0 } }),
  };
  const run: { -readonly [Key in keyof Run]: Run[Key] } = {
    handle: { abort() {} },
    startedMs: undefined,
    cachedTokens: undefined,
    slot: undefined,
    tokensMs,
    progress,
    ends,
  };
  run.handle = engine.submit(
    {
      prompt: typeof prompt === 'number' ? distinctPrompt(prompt) : prompt,
      choices: Array.from({ length: asked.choices ?? 1 }, () => plan),
      ...(asked.priority === undefined ? {} : { priority: asked.priority }),
    },
    {
      started(choice, start) {
        if (choice > 0) return;
        run.startedMs = start.atMs;
        run.cachedTokens = start.cachedTokens;
        run.slot = start.slot;
      },
      progress: (_choice, processed) => progress.push(processed) > 0,
      token: (_choice, _index, atMs) => tokensMs.push(atMs),
      ended: (end) => ends.push(end),
    },
  );
  return run;
}

let prompts = 0;

/** A prompt that shares no token with any other. */
export function distinctPrompt(tokenCount: number): SimPrompt {
  prompts += 1;
  return tokenPrompt(Uint32Array.from({ length: tokenCount }, (_, index) => prompts * 1_000_003 + index));
}

/** Tokens `first`, `first` + 1, … */
export function countingIds(tokenCount: number, first = 0): number[] {
  return Array.from({ length: tokenCount }, (_, index) => first + index);
}

export function promptOf(...parts: readonly (readonly number[])[]): SimPrompt {
  return tokenPrompt(Uint32Array.from(parts.flat()));
}
