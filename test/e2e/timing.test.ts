/**
 * When tokens came, over real sockets: first token, gaps, time per token. The backend's own writes are the truth, since
 * backend, proxy and client share one monotonic clock here.
 */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { itlSamplesMs } from '../../src/measure/itl.ts';
import { run, send } from '../../src/sim/fault-steps.ts';
import { chunk, delta, DONE, FIN, lastChunk, ROLE, sseHead, T, USE } from '../../src/sim/sse-script.ts';
import { gapsOf, marksOf, paced, pass } from '../support/exchange.ts';
import { postBytes, R1, chatBody } from '../support/raw-http.ts';
import { expectGaps, expectNear, mean, script, times, slackMs, unlagged, watchLoop } from '../support/moments.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
  watchLoop();
});
afterEach(async () => {
  vi.useRealTimers();
  await stage.close();
});

describe('the first token', () => {
  it('C023 is the first text, not the role chunk long before it', async () => {
    const steps = script([300, ROLE], [400, T('A')], ...times(9, 20, T('b')), [0, USE(5000, 10)], [0, DONE]);
    const { record, writesMs } = await pass(stage, () => steps, { request: R1, engine: 'vllm' });
    const { figures, timeline } = record;
    const [, roleMs, firstMs] = writesMs;
    expectNear(timeline.firstToken, firstMs);
    expectNear(timeline.role, roleMs);
    expect(figures.ttftMs).toBeGreaterThan(690);
    expectNear(figures.firstEventMs, (figures.ttftMs ?? Number.NaN) - ((firstMs ?? 0) - (roleMs ?? 0)));
    expectGaps(itlSamplesMs(record.stamps), writesMs.slice(2, 12));
    expect(record.tokens).toMatchObject({ prompt: { value: 5000 }, output: { value: 10, source: 'usage' } });
  });

  it('C025 is absent from a stream that never had one; its record is whole all the same', async () => {
    const { record } = await pass(stage, () => paced(20, ROLE, FIN('stop'), USE(9, 1), DONE), { request: R1 });
    expect(record).toMatchObject({
      outcome: 'ok',
      events: 0,
      finishReasons: ['stop'],
      tokens: { prompt: { value: 9 }, output: { value: 1 } },
    });
    expect(record.stamps).toBeUndefined();
    const { figures } = record;
    expect([figures.ttftMs, figures.upstreamTtftMs, figures.tpotMs, figures.e2eMs, figures.maxItlMs]).toEqual(
      Array(5).fill(undefined),
    );
    expect(figures.tpotWindow).toBe('none_single_token');
    expect(figures.firstEventMs).toBeGreaterThan(0);
    for (const value of Object.values(figures)) if (typeof value === 'number') expect(value).toBeGreaterThanOrEqual(0);
  });

  it('C027 is no gap: two tokens have one', async () => {
    const { record, writesMs } = await pass(stage, () => script([400, T('a')], [10, T('b')], [0, DONE]));
    expect(itlSamplesMs(record.stamps)).toHaveLength(1);
    expectGaps(itlSamplesMs(record.stamps), writesMs.slice(1, 3));
    expectNear(record.figures.maxItlMs, gapsOf(writesMs.slice(1, 3))[0]);
    expect(record.figures.ttftMs).toBeGreaterThan(390);
  });

  it.each(['reasoning_content', 'reasoning'])(
    'C037 may be a thought (delta.%s); the answer’s own stands beside it',
    async (key) => {
      const thought = delta({ [key]: 't' });
      const { record, writesMs } = await pass(stage, () =>
        script([0, ROLE], [200, thought], ...times(19, 20, thought), [220, T('A')], [0, FIN('stop')], [0, DONE]),
      );
      const { timeline, figures, events } = record;
      expect(events).toBe(21);
      expectNear(timeline.firstToken, writesMs[2]);
      expectNear(timeline.firstAnswer, writesMs[22]);
      expect((figures.ttfaMs ?? 0) - (figures.ttftMs ?? 0)).toBeGreaterThan(550);
      expectGaps(itlSamplesMs(record.stamps), writesMs.slice(2, 23));
    },
  );

  it('C037 without any answer after the thoughts there is no first answer', async () => {
    const thought = delta({ reasoning: 't' });
    const { record } = await pass(stage, () =>
      script([100, thought], ...times(5, 20, thought), [0, FIN('length')], [0, DONE]),
    );
    expect(record).toMatchObject({ outcome: 'ok', events: 6 });
    expect(record.figures.ttftMs).toBeGreaterThan(95);
    expect(record.figures.ttfaMs).toBeUndefined();
    expect(record.timeline.firstAnswer).toBeUndefined();
  });

  it('C040 may be a tool call, whose fragments TCP cuts anywhere', async () => {
    const named = delta({
      tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'find', arguments: '' } }],
    });
    const fragment = (text: string) => delta({ tool_calls: [{ index: 0, function: { arguments: text } }] });
    const fragments = ['{"', 'city', '":"', 'K', 'ö', 'ln', '"', '}'].map(fragment);
    const cut = (event: string) => {
      const bytes = chunk(event);
      return [25, send(bytes.subarray(0, bytes.length - 40)), send(bytes.subarray(bytes.length - 40))];
    };
    const { record, writesMs, answer } = await pass(
      stage,
      () => [
        send(sseHead()),
        50,
        send(chunk(ROLE)),
        250,
        send(chunk(named)),
        ...fragments.flatMap(cut),
        send(chunk(FIN('tool_calls'), USE(50, 12), DONE)),
        send(lastChunk),
      ],
      { request: R1 },
    );
    expect(answer.body.toString()).toBe([ROLE, named, ...fragments, FIN('tool_calls'), USE(50, 12), DONE].join(''));
    expectNear(record.timeline.firstToken, writesMs[2]);
    // Each fragment's second write completes it.
    expectGaps(itlSamplesMs(record.stamps), [
      writesMs[2] ?? 0,
      ...fragments.map((_, i) => writesMs[4 + 2 * i] ?? Number.NaN),
    ]);
    expect(record).toMatchObject({ events: 9, finishReasons: ['tool_calls'], tokens: { output: { value: 12 } } });
  });

  it.each([2000, -5000])('C047 is timed by a clock that no step of the wall clock moves (%i ms)', async (stepMs) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const wallMs = Date.now();
    const { record, writesMs } = await pass(stage, () => [
      send(sseHead()),
      send(chunk(ROLE)),
      run(() => void vi.setSystemTime(wallMs + stepMs)),
      100,
      send(chunk(T('a'))),
      20,
      send(chunk(T('b'), FIN('stop'), DONE)),
      send(lastChunk),
    ]);
    expect(Date.now()).toBe(wallMs + stepMs);
    expectNear(record.timeline.firstToken, writesMs[2]);
    expect(record.figures.ttftMs).toBeGreaterThan(95);
    expect(record.figures.ttftMs).toBeLessThan(1000);
    expect(record.figures.durationMs).toBeLessThan(1500);
    expect(record.startedAtEpochMs).toBe(wallMs);
  });
});

describe('gaps between tokens', () => {
  it('C030 are kept one by one: a second’s stall among ninety-eight short ones', async () => {
    const { record, writesMs } = await pass(stage, () =>
      script([50, T('a')], ...times(49, 10, T('b')), [1000, T('c')], ...times(49, 10, T('d')), [0, DONE]),
    );
    const samples = itlSamplesMs(record.stamps);
    expectGaps(samples, writesMs.slice(1, 101));
    expect(samples.filter((gapMs) => gapMs > 900)).toHaveLength(1);
    expect(record.figures.maxItlMs, 'to the microsecond, as the stamps are told').toBeCloseTo(Math.max(...samples), 2);
    expectNear(record.figures.tpotMs, mean(gapsOf(writesMs.slice(1, 101))), slackMs() / 99);
  });

  it('C039 R19 are a choice’s own: five tokens of two choices, one sum', async () => {
    const steps = [
      [20, T('x', 0)],
      [5, T('x', 1)],
      ...Array.from(
        { length: 4 },
        () =>
          [
            [15, T('x', 0)],
            [5, T('x', 1)],
          ] as const,
      ).flat(),
      [0, FIN('length', 0)],
      [0, FIN('length', 1)],
      [0, USE(100, 10)],
      [0, DONE],
    ] as const;
    const { record, writesMs } = await pass(stage, () => script(...steps), {
      request: postBytes('/v1/chat/completions', { ...chatBody, n: 2, stream_options: { include_usage: true } }),
      engine: 'vllm',
    });
    expect(record.tokens).toMatchObject({ prompt: { value: 100 }, output: { value: 10 } });
    const writes = [0, 1].map((choice) =>
      Array.from({ length: 5 }, (_, i) => writesMs[1 + 2 * i + choice] ?? Number.NaN),
    );
    const samples = itlSamplesMs(record.stamps);
    expect(samples).toHaveLength(8);
    const expected = [0, 1, 2, 3].flatMap((i) => writes.map((own) => gapsOf(own)[i]));
    for (const [i, gapMs] of samples.entries()) expectNear(gapMs, expected[i]);
    expect(mean(samples)).toBeGreaterThan(19);
    expectNear(record.figures.tpotMs, mean(writes.flatMap((own) => gapsOf(own))), slackMs() / 4);
    expectNear(record.timeline.firstToken, writesMs[1]);
    expect(record.finishReasons).toEqual(['length', 'length']);
  });

  it('C046 of lumps are told as lumps, with the time per token of the same stream without', async () => {
    const lump = chunk(...Array.from({ length: 8 }, () => T('x')));
    const lumps = () => [
      send(sseHead()),
      ...Array.from({ length: 4 }, () => [160, send(lump)]).flat(),
      send(chunk(FIN('length'), USE(5, 32), DONE)),
      send(lastChunk),
    ];
    const singly = script(...times(32, 20, T('x')), [0, FIN('length')], [0, USE(5, 32)], [0, DONE]);
    const lumped = await unlagged(() => pass(stage, lumps, { request: R1 }));
    const even = await unlagged(() => pass(stage, () => singly, { request: R1 }));
    const samples = itlSamplesMs(lumped.record.stamps);
    expect(samples).toHaveLength(31);
    expect(samples.filter((gapMs) => gapMs === 0)).toHaveLength(28);
    expectGaps(
      samples.filter((gapMs) => gapMs > 0),
      lumped.writesMs.slice(1, 5),
    );
    expect(lumped.record.marks).toContain('coalesced');
    expect(lumped.record.stamps?.coalesced).toEqual(Array.from({ length: 32 }, (_, i) => (i % 8 === 0 ? 0 : 1)));
    expect(even.record.marks).not.toContain('coalesced');
    expectNear(lumped.record.figures.tpotMs, mean(gapsOf(lumped.writesMs.slice(1, 5))) / 8, slackMs() / 24);
    expectNear(even.record.figures.tpotMs, mean(gapsOf(even.writesMs.slice(1, 33))), slackMs() / 31);
  });

  it('C046 are not made by us: what comes evenly leaves evenly', async () => {
    const steps = script(...times(32, 20, T('x')), [0, DONE]);
    const { client, writesMs } = await unlagged(() => pass(stage, () => steps));
    const reads = client.reads.filter(({ text }) => text.includes('"content"'));
    expect(reads).toHaveLength(32);
    const written = gapsOf(writesMs.slice(1, 33));
    const off = gapsOf(reads.map(({ atMs }) => atMs)).map((gapMs, i) => Math.abs(gapMs - (written[i] ?? Number.NaN)));
    expect(off.filter((ms) => ms < Math.max(10, slackMs() - 15)).length).toBeGreaterThanOrEqual(Math.ceil(0.95 * 31));
  });

  it('R17 role and first token in one read share a moment, which is the token’s', async () => {
    const steps = [
      send(sseHead()),
      100,
      send(chunk(ROLE, T('a'))),
      20,
      send(chunk(T('b'))),
      20,
      send(chunk(FIN('stop'), USE(5, 2), DONE)),
      send(lastChunk),
    ];
    const { record, writesMs } = await unlagged(() =>
      pass(stage, () => steps, { request: R1, engine: 'llama-server' }),
    );
    expect(record.timeline.role).toBe(record.timeline.firstToken);
    expectNear(record.timeline.firstToken, writesMs[1]);
    expect(marksOf(record)).toEqual([]);
    expect(record.marks).not.toContain('coalesced');
    expect(record).toMatchObject({ events: 2, finishReasons: ['stop'], tokens: { output: { value: 2 } } });
  });
});
