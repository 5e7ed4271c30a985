import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { createSeededRandom } from '../../../src/sim/seeded-random.ts';
import { createVirtualClock } from '../../../src/sim/virtual-clock.ts';
import { countingIds, plainBlocks, plainSlots, plainTime, promptOf, rig, rigOn } from './engine-rig.ts';

describe('engine', () => {
  it('computes a prompt at its rate, then yields a token a step', () => {
    const { clock, submit } = rig(plainBlocks);
    const run = submit(200, 4);
    clock.runAll();
    // 1 (the clock's start) + 10 + 200 × 0.1; then steps of 10 + 1 + 0.01 for each token of context.
    expect(run.tokensMs.map((atMs) => Math.round(atMs * 1000) / 1000)).toEqual([31, 44, 57.01, 70.03]);
    expect(run.ends).toMatchObject([
      { reason: 'length', promptTokens: 200, cachedTokens: 0, computedTokens: 200, outputTokens: 4, firstTokenMs: 31 },
    ]);
  });

  it('lets the step grow with the batch and with the context', () => {
    const gapWith = (sequences: number, context: number) => {
      const { clock, submit } = rig(plainBlocks);
      const runs = Array.from({ length: sequences }, () => submit(context, 30));
      clock.runAll();
      const [run] = runs;
      return (run?.tokensMs[20] ?? 0) - (run?.tokensMs[19] ?? 0);
    };
    expect(gapWith(1, 100)).toBeCloseTo(10 + 1 + 0.01 * 119, 6);
    expect(gapWith(4, 100)).toBeGreaterThan(gapWith(1, 100) + 3 * 1 + 3 * 0.9);
    expect(gapWith(1, 2000)).toBeCloseTo(10 + 1 + 0.01 * 2019, 6);
  });

  it('can overlap memory and arithmetic instead of adding them', () => {
    const { clock, submit } = rig({ ...plainBlocks, stepTime: { ...plainTime, combine: 'max' } });
    const run = submit(200, 2);
    clock.runAll();
    expect(run.tokensMs[0]).toBeCloseTo(1 + 20, 6);
    expect((run.tokensMs[1] ?? 0) - (run.tokensMs[0] ?? 0)).toBeCloseTo(10 + 2, 6);
  });

  it('R21 stalls running streams for the whole prefill of another prompt, or for many short pieces of it', () => {
    const gaps = (stepTokens: number) => {
      const { clock, submit } = rig({ ...plainBlocks, stepTokens });
      const stream = submit(50, 200);
      clock.runUntil(200);
      submit(5000, 5);
      clock.runAll();
      return stream.tokensMs.slice(1).map((atMs, index) => atMs - (stream.tokensMs[index] ?? 0));
    };
    const whole = gaps(100_000);
    expect(Math.max(...whole)).toBeGreaterThan(500);
    expect(whole.filter((gap) => gap > 40)).toHaveLength(5 /* the stall, then four steps beside a long context */);
    const pieces = gaps(257);
    expect(Math.max(...pieces)).toBeLessThan(70);
    expect(pieces.filter((gap) => gap > 30).length).toBeGreaterThan(15);
  });

  it('computes prompts whole when chunks are off, even one past the budget, but then alone', () => {
    const { clock, submit, engine } = rig({ ...plainBlocks, chunkedPrefill: false, stepTokens: 100 });
    const long = submit(250, 1);
    const next = submit(60, 1);
    clock.runUntil(2);
    expect(engine.view()).toMatchObject({ running: 1, waiting: 1 });
    clock.runAll();
    expect(long.tokensMs[0]).toBeCloseTo(1 + 10 + 25, 6);
    expect(next.tokensMs[0]).toBeCloseTo(36 + 10 + 6, 6);
  });

  it('makes what is over its places wait, first come first served', () => {
    const { clock, submit, engine } = rig({ ...plainBlocks, maxSequences: 2 });
    const runs = [submit(10, 5), submit(10, 50), submit(10, 5), submit(10, 5)];
    clock.runUntil(20);
    expect(engine.view()).toMatchObject({ running: 2, waiting: 2 });
    clock.runAll();
    expect(runs[2]?.startedMs).toBeCloseTo(runs[0]?.ends[0]?.endMs ?? 0, 6);
    expect(runs[3]?.startedMs).toBeCloseTo(runs[2]?.ends[0]?.endMs ?? 0, 6);
    expect(engine.view()).toMatchObject({ running: 0, waiting: 0 });
  });

  it('serves lower priorities first when asked to, and ignores them otherwise', () => {
    const order = (scheduling: 'fcfs' | 'priority') => {
      const { clock, submit } = rig({ ...plainBlocks, maxSequences: 1, scheduling });
      submit(10, 20);
      const runs = [submit(10, 2, { priority: 10 }), submit(10, 2, { priority: 0 }), submit(10, 2, { priority: 0 })];
      clock.runAll();
      return runs.map((run) => run.startedMs ?? 0);
    };
    const [late = 0, first = 0, second = 0] = order('priority');
    expect(first).toBeLessThan(second);
    expect(second).toBeLessThan(late);
    const fcfs = order('fcfs');
    expect(fcfs).toEqual(fcfs.toSorted((a, b) => a - b));
  });

  it('drops the last comer when blocks run out, and lets it finish later with its whole answer', () => {
    const { clock, submit, engine } = rig({
      ...plainBlocks,
      cache: { kind: 'blocks', blockTokens: 16, blocks: 12, prefixCaching: true },
    });
    const first = submit(64, 100);
    const second = submit(64, 100);
    clock.runAll();
    expect(engine.view().counters.preemptions).toBeGreaterThan(0);
    expect(first.ends[0]).toMatchObject({ reason: 'length', outputTokens: 100, preemptions: 0 });
    expect(second.ends[0]).toMatchObject({ reason: 'length', outputTokens: 100 });
    expect(second.ends[0]?.preemptions).toBeGreaterThan(0);
    const gaps = second.tokensMs.slice(1).map((atMs, index) => atMs - (second.tokensMs[index] ?? 0));
    expect(Math.max(...gaps)).toBeGreaterThan(300);
    expect(engine.view().kvUsage).toBe(0);
  });

  it('without preemption starts only what is sure to fit', () => {
    const { clock, submit, engine } = rig({
      ...plainBlocks,
      preemption: false,
      cache: { kind: 'blocks', blockTokens: 16, blocks: 12, prefixCaching: true },
    });
    submit(64, 100);
    const second = submit(64, 100);
    clock.runUntil(30);
    expect(engine.view()).toMatchObject({ running: 1, waiting: 1 });
    clock.runAll();
    expect(engine.view().counters.preemptions).toBe(0);
    expect(second.ends[0]).toMatchObject({ reason: 'length', outputTokens: 100 });
  });

  it('fails at once what can never fit', () => {
    const { submit } = rig({
      ...plainBlocks,
      cache: { kind: 'blocks', blockTokens: 16, blocks: 4, prefixCaching: true },
    });
    expect(submit(100, 1).ends).toMatchObject([{ reason: 'failed', outputTokens: 0 }]);
    expect(submit(0, 1).ends).toMatchObject([{ reason: 'failed' }]);
  });
});

describe('aborts', () => {
  it('leave the queue at once', () => {
    const { clock, submit, engine } = rig({ ...plainBlocks, maxSequences: 1 });
    submit(10, 50);
    const waiting = submit(10, 50);
    clock.runUntil(20);
    waiting.handle.abort();
    expect(engine.view().waiting).toBe(0);
    expect(waiting.ends).toMatchObject([{ reason: 'aborted', outputTokens: 0, endMs: 20 }]);
    expect(waiting.ends[0]?.startedMs).toBeUndefined();
  });

  it('free a running place at once, or at the end of the step', () => {
    for (const [abortBorder, freedMs] of [
      ['at_once', 100],
      ['step', 1 + 10 + 200],
    ] as const) {
      const { clock, submit, engine } = rig({ ...plainBlocks, abortBorder });
      const run = submit(2000, 50);
      clock.runUntil(100);
      run.handle.abort();
      expect(engine.view().running).toBe(abortBorder === 'at_once' ? 0 : 1);
      clock.runAll();
      expect(run.ends).toMatchObject([{ reason: 'aborted' }]);
      expect(run.ends[0]?.endMs).toBeCloseTo(freedMs, 6);
    }
  });

  it('R10 stop a prefill only at a border of the batch size', () => {
    const { clock, submit } = rig({ ...plainSlots, stepTokens: 128 });
    const run = submit(911, 4);
    clock.runUntil(30);
    run.handle.abort();
    clock.runAll();
    // Steps of 22.8 ms: the second is under way at 30 ms.
    expect(run.progress).toEqual([128, 256]);
    expect(run.ends).toMatchObject([{ reason: 'aborted', computedTokens: 256, outputTokens: 0 }]);
    expect(run.ends[0]?.endMs).toBeCloseTo(1 + 2 * 22.8, 6);
  });

  it('stop a decoding stream at its next token and keep what was made', () => {
    const { clock, submit, engine } = rig(plainSlots);
    const run = submit(10, 500);
    clock.runUntil(100);
    const before = run.tokensMs.length;
    run.handle.abort();
    run.handle.abort();
    clock.runAll();
    expect(run.tokensMs).toHaveLength(before + 1);
    expect(run.ends).toMatchObject([{ reason: 'aborted', outputTokens: before + 1 }]);
    expect(engine.view().counters).toMatchObject({ generatedTokens: before + 1, ended: { aborted: 1, length: 0 } });
  });

  it('reach every choice of a request, in the middle of a callback too', () => {
    const { clock, engine } = rig(plainBlocks);
    const ends: string[] = [];
    const handle = engine.submit(
      { prompt: promptOf(countingIds(40)), choices: [1, 2].map(() => ({ outputTokens: 50, endsBy: 'stop' as const })) },
      { token: (_choice, index) => index === 3 && handle.abort(), ended: (end) => ends.push(end.reason) },
    );
    clock.runAll();
    expect(ends).toEqual(['aborted', 'aborted']);
    expect(engine.view().running).toBe(0);
  });
});

describe('death', () => {
  it('ends everything as failed and takes new requests afterwards', () => {
    const { clock, submit, engine } = rig({ ...plainBlocks, maxSequences: 1 });
    const runs = [submit(10, 50), submit(10, 50)];
    clock.runUntil(50);
    engine.fail('dead');
    expect(runs.map((run) => run.ends[0])).toMatchObject([
      { reason: 'failed', error: 'dead' },
      { reason: 'failed', error: 'dead' },
    ]);
    const next = submit(10, 2);
    clock.runAll();
    expect(next.ends).toMatchObject([{ reason: 'length' }]);
  });

  it('or stands still and tells nobody', () => {
    const { clock, submit, engine } = rig(plainBlocks);
    const run = submit(10, 50);
    clock.runUntil(50);
    engine.freeze();
    const tokens = run.tokensMs.length;
    clock.runAll();
    expect(run.tokensMs).toHaveLength(tokens);
    expect(run.ends).toEqual([]);
  });
});

describe('llama.cpp places', () => {
  it('computes a prompt once for all choices, which start together when enough slots are free', () => {
    const { clock, submit, engine } = rig(plainSlots);
    const alone = submit(20, 5);
    const pair = submit(100, 4, { choices: 2 });
    clock.runUntil(20);
    expect(engine.view()).toMatchObject({ running: 1, waiting: 2 });
    clock.runAll();
    expect(pair.startedMs).toBeCloseTo(alone.ends[0]?.endMs ?? 0, 6);
    expect(pair.ends.map((end) => end.choice)).toEqual([0, 1]);
    expect(pair.tokensMs[0]).toBe(pair.tokensMs[1]);
    expect(engine.view().counters).toMatchObject({ computedTokens: 120, promptTokens: 120, generatedTokens: 13 });
  });

  it('ends an answer that fills its slot by length', () => {
    const { clock, submit } = rig({
      ...plainSlots,
      cache: { kind: 'slots', slotTokens: 64, unified: false, ramTokens: 0, minSimilarity: 0.1 },
    });
    const run = submit(50, 500);
    clock.runAll();
    expect(run.ends).toMatchObject([{ reason: 'length', outputTokens: 14 }]);
  });

  it('R08 fails every running answer when one context for all is full', () => {
    const { clock, submit } = rig({
      ...plainSlots,
      cache: { kind: 'slots', slotTokens: 128, unified: true, ramTokens: 0, minSimilarity: 0.1 },
    });
    const runs = [submit(20, 200), submit(20, 200)];
    clock.runAll();
    expect(runs.map((run) => run.ends[0])).toMatchObject([
      { reason: 'failed', error: 'Context size has been exceeded.' },
      { reason: 'failed', error: 'Context size has been exceeded.' },
    ]);
    expect(runs[0]?.tokensMs.length).toBeGreaterThan(30);
  });
});

describe('same requests, same events', () => {
  const script = (submit: ReturnType<typeof rig>['submit']) => [submit(300, 12), submit(40, 20), submit(700, 3)];

  const settings = { ...plainBlocks, stepTokens: 256, stepTime: { ...plainTime, jitterShare: 0.1 } };

  it('on the virtual and on the real clock', async () => {
    const virtual = rig(settings);
    const expected = script(virtual.submit);
    virtual.clock.runAll();
    const beganMs = systemClock.nowMs();
    const real = rigOn(systemClock, settings);
    const runs = script(real.submit);
    const keepAlive = setInterval(() => {}, 10);
    while (runs.some((run) => run.ends.length === 0)) await new Promise((resolve) => setTimeout(resolve, 5));
    clearInterval(keepAlive);
    expect(real.engine.view().counters).toEqual(virtual.engine.view().counters);
    expected.forEach((one, index) => {
      expect(runs[index]?.tokensMs.length).toBe(one.tokensMs.length);
      // Never sooner than on the virtual clock; later only by as much as the machine was busy elsewhere.
      one.tokensMs.forEach((atMs, token) =>
        expect((runs[index]?.tokensMs[token] ?? 0) - beganMs).toBeGreaterThan(atMs - 1 - 2),
      );
    });
  });

  it('to the microsecond on a clock whose timers come late, as long as they are not late by much', () => {
    const virtual = rig(settings);
    const expected = script(virtual.submit);
    virtual.clock.runAll();
    const clock = createVirtualClock();
    const random = createSeededRandom(3);
    const late = {
      ...clock,
      timer: (delayMs: number, fire: () => void) => clock.timer(Math.max(1, delayMs) + 20 * random(), fire),
    };
    const runs = script(rigOn(late, settings).submit);
    clock.runAll();
    expected.forEach((one, index) =>
      one.tokensMs.forEach((atMs, token) => expect(runs[index]?.tokensMs[token]).toBeCloseTo(atMs, 9)),
    );
  });

  it('for the same seed, and other noise for another', () => {
    const run = (seed: number) => {
      const { clock, submit } = rig({ ...plainBlocks, seed, stepTime: { ...plainTime, jitterShare: 0.2 } });
      const runs = script(submit);
      clock.runAll();
      return runs.map((one) => one.tokensMs);
    };
    expect(run(7)).toEqual(run(7));
    expect(run(7)).not.toEqual(run(8));
  });
});

describe('bookkeeping', () => {
  const action = fc.record({
    afterMs: fc.integer({ min: 0, max: 80 }),
    promptTokens: fc.integer({ min: 1, max: 90 }),
    shared: fc.boolean(),
    outputTokens: fc.integer({ min: 1, max: 60 }),
    choices: fc.integer({ min: 1, max: 2 }),
    abortAfterMs: fc.option(fc.integer({ min: 0, max: 300 }), { nil: undefined }),
  });

  it.each([
    [
      'blocks',
      {
        ...plainBlocks,
        maxSequences: 3,
        stepTokens: 64,
        cache: { kind: 'blocks', blockTokens: 16, blocks: 14, prefixCaching: true },
      },
    ],
    [
      'reserved blocks',
      {
        ...plainBlocks,
        preemption: false,
        maxSequences: 3,
        stepTokens: 64,
        cache: { kind: 'blocks', blockTokens: 16, blocks: 14, prefixCaching: true },
      },
    ],
    [
      'slots',
      {
        ...plainSlots,
        stepTokens: 32,
        cache: { kind: 'slots', slotTokens: 140, unified: false, ramTokens: 200, minSimilarity: 0.1 },
      },
    ],
    [
      'a unified context',
      {
        ...plainSlots,
        stepTokens: 32,
        cache: { kind: 'slots', slotTokens: 160, unified: true, ramTokens: 200, minSimilarity: 0.1 },
      },
    ],
  ] as const)(
    'holds for any mix of requests and aborts on %s: each ends once, nothing stays held, the sums agree',
    (_name, settings) => {
      fc.assert(
        fc.property(fc.array(action, { minLength: 1, maxLength: 25 }), (actions) => {
          const { clock, engine, submit } = rig(settings);
          const runs: ReturnType<typeof submit>[] = [];
          for (const { afterMs, promptTokens, shared, outputTokens, choices, abortAfterMs } of actions) {
            clock.runUntil(clock.nowMs() + afterMs);
            const prompt = shared ? promptOf(countingIds(promptTokens)) : promptTokens;
            const run = submit(prompt, outputTokens, { choices });
            runs.push(run);
            if (abortAfterMs !== undefined) clock.timer(abortAfterMs, () => run.handle.abort());
            expect(run.ends.length).toBeLessThanOrEqual(choices);
          }
          clock.runAll(1_000_000);
          const ends = runs.flatMap((run) => run.ends);
          const asked = actions.reduce((sum, one) => sum + one.choices, 0);
          expect(ends).toHaveLength(asked);
          const { counters, ...view } = engine.view();
          expect(view).toMatchObject({ running: 0, waiting: 0, kvUsage: 0 });
          expect(counters.ended.stop + counters.ended.length + counters.ended.aborted + counters.ended.failed).toBe(
            asked,
          );
          expect(counters.generatedTokens).toBe(ends.reduce((sum, end) => sum + end.outputTokens, 0));
          expect(counters.generatedTokens).toBe(runs.reduce((sum, run) => sum + run.tokensMs.length, 0));
          for (const end of ends) {
            expect(end.cachedTokens).toBeLessThan(end.promptTokens);
            if (end.reason === 'length') expect(end.computedTokens + end.cachedTokens).toBe(end.promptTokens);
          }
          for (const run of runs) expect(run.tokensMs).toEqual(run.tokensMs.toSorted((a, b) => a - b));
        }),
        { numRuns: 150 },
      );
    },
  );
});

describe('virtual time', () => {
  it('is fast: an hour of a busy engine in well under ten seconds', () => {
    const clock = createVirtualClock();
    const { engine, submit } = rigOn(clock, {
      ...plainBlocks,
      maxSequences: 64,
      cache: { kind: 'blocks', blockTokens: 16, blocks: 20_000, prefixCaching: true },
    });
    const beganMs = performance.now();
    for (let second = 0; second < 3600; second += 1) clock.timer(second * 1000, () => void submit(600, 200));
    clock.runAll();
    expect(engine.view().counters.generatedTokens).toBe(3600 * 200);
    expect(performance.now() - beganMs).toBeLessThan(10_000);
  });
});
