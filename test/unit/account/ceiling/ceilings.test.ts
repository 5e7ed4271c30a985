import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createCeilingAccount } from '../../../../src/account/ceiling/ceiling-account.ts';
import { createCeilings } from '../../../../src/account/ceiling/ceilings.ts';
import type { CeilingSettings, HardwareSettings } from '../../../../src/account/ceiling/settings.ts';
import { createEngineSeries, type EngineSeries } from '../../../../src/account/engines/engine-series.ts';
import { createDecodeWatch, type DecodeWatch } from '../../../../src/account/concurrency.ts';
import type { EngineReading } from '../../../../src/domain/engine-reading.ts';
import { sampleBackend } from '../../../support/sample.ts';
import { type DecodedStream, decodedRecord } from '../decoded-record.ts';

const shape = {
  model: 'm',
  params: 8e9,
  weightFormat: 'bf16',
  layers: 32,
  heads: 32,
  kvHeads: 8,
  headDim: 128,
} as const;

function settingsOf(hardware: HardwareSettings | undefined = { gpu: 'l40s' }): CeilingSettings {
  return { hardware: [{ backend: 'b', hardware }], shapes: [shape] };
}

function world(settings: CeilingSettings = settingsOf(), engine?: EngineSeries) {
  const decodes = createDecodeWatch(0);
  const ceilings = createCeilings(settings, {
    beganMs: 0,
    decodes,
    aliases: { nick: 'm' },
    served: () => ({ models: ['m'], oneBase: true }),
    engine: () => engine,
  });
  return { decodes, ceilings };
}

/** As it happens: the watch hears of the first token and the end, then the record is booked. */
function play(
  decodes: DecodeWatch,
  add: (record: ReturnType<typeof decodedRecord>, nowMs: number) => void,
  stream: DecodedStream,
) {
  const record = decodedRecord(stream);
  const { firstToken = 0, end = 0 } = record.timeline;
  const decoding = decodes.began('b', 1, firstToken);
  decoding.end(end);
  add({ ...record, assessment: { decodeConcurrency: decoding.concurrency ?? 1 } }, end);
  return end;
}

describe('a backend’s ceiling', () => {
  it('shows MFU and MBU of a stream alone: what its steps read and computed', () => {
    const { decodes, ceilings } = world();
    // 1,000 steps of 25 ms beside no one, after a prompt of 1,000 tokens of which half was cached.
    const nowMs = play(decodes, ceilings.add, { prompt: 1000, cached: 500, output: 1001, stepMs: 25, ttftMs: 100 });
    const view = ceilings.view('b', nowMs);
    const minute = view?.windows['1m'];
    const bytes = 16e9 + 131_072 * 1500;
    expect(minute?.mbu).toBeCloseTo(bytes / (0.025 * 864e9), 3);
    expect(minute?.mbu).toBeCloseTo(0.75, 2);
    // Bandwidth is the limit of a lone stream: its share of the ceiling is its MBU.
    expect(minute?.shareOfCeiling).toBeCloseTo(minute?.mbu ?? 0, 6);
    const decodeFlops = 1000 * 2 * 8e9 + 4 * 32 * 32 * 128 * (1000 * 1000 + 1000 ** 2 / 2);
    const prefillFlops = 500 * 2 * 8e9 + 4 * 32 * 32 * 128 * (500 * 500 + 500 ** 2 / 2);
    const seconds = nowMs / 1000;
    expect(minute?.flopsPerSecond).toBeCloseTo((decodeFlops + prefillFlops) / seconds, -9);
    expect(minute?.mfu).toBeCloseTo((decodeFlops + prefillFlops) / seconds / 362e12, 5);
    expect((minute?.savedFlopsPerSecond ?? 0) * seconds).toBeCloseTo(
      500 * 2 * 8e9 + 4 * 32 * 32 * 128 * (500 ** 2 / 2),
      -9,
    );
    expect(minute?.mfuWithoutCache).toBeGreaterThan(minute?.mfu ?? 0);
    expect(minute).toMatchObject({ requests: 1, unknownRequests: 0, meanConcurrency: 1 });
    expect(view?.models[0]?.oneUser?.tokensPerSecond).toBeCloseTo(54, 0);
    expect(view?.models[0]).toMatchObject({ model: 'm', source: 'config', kvBytesPerToken: 131_072, unknown: [] });
    expect(view).toMatchObject({ problems: [], missing: [], attributed: 'proxy' });
  });

  it('gives eight streams together the MBU of their batch, not eight times that of one', () => {
    const { decodes, ceilings } = world();
    const records = Array.from({ length: 8 }, () => decodedRecord({ prompt: 4096 - 50, output: 101, stepMs: 30 }));
    const decodings = records.map(({ timeline }) => decodes.began('b', 1, timeline.firstToken ?? 0));
    for (const [i, record] of records.entries()) {
      decodings[i]?.end(record.timeline.lastToken ?? 0);
      ceilings.add({ ...record, assessment: { decodeConcurrency: decodings[i]?.concurrency ?? 0 } }, 4000);
    }
    const minute = ceilings.view('b', 4000)?.windows['1m'];
    expect(minute?.meanConcurrency).toBeCloseTo(8, 6);
    expect(minute?.mbu).toBeCloseTo(23.49 / 30, 3);
    expect(minute?.shareOfCeiling).toBeCloseTo(23.49 / 30, 3);
  });

  it('counts streams that still run by their time, at the cost of those that ended', () => {
    const { decodes, ceilings } = world();
    const nowMs = play(decodes, ceilings.add, { output: 501, stepMs: 20, ttftMs: 0 });
    const before = ceilings.view('b', nowMs)?.windows['5m'].flopsPerSecond ?? 0;
    decodes.began('b', 1, nowMs);
    decodes.began('b', 1, nowMs);
    const after = ceilings.view('b', nowMs + 10_000)?.windows['5m'].flopsPerSecond ?? 0;
    // About three times the decode seconds in twice the time.
    expect(after / before).toBeGreaterThan(1.4);
    expect(after / before).toBeLessThan(1.7);
  });

  it('spreads an answer that isn’t streamed over the time in which it was made', () => {
    const { ceilings } = world();
    const record = decodedRecord({ prompt: 1000, cached: 0, output: 101, over: { streamed: false } });
    const { ...rest } = record;
    ceilings.add({ ...rest, timeline: { received: 0, sent: 0, end: 100_000 } }, 100_000);
    const view = ceilings.view('b', 100_000);
    const whole = (view?.windows['5m'].flopsPerSecond ?? 0) * 100;
    expect(whole).toBeCloseTo(1100 * 2 * 8e9 + 4 * 32 * 32 * 128 * (1000 ** 2 / 2 + 100 * 1000 + 100 ** 2 / 2), -9);
    const minute = view?.windows['1m'];
    expect((minute?.flopsPerSecond ?? 0) * (minute?.seconds ?? 0)).toBeCloseTo(
      (whole * (minute?.seconds ?? 0)) / 100,
      -9,
    );
  });

  it('names decoding that is faster than the cards’ arithmetic, though not than their memory', () => {
    const { decodes, ceilings } = world(settingsOf({ peakTflops: 0.3, bandwidthGBps: 1e5 }));
    let nowMs = 0;
    for (let i = 0; i < 4; i += 1) nowMs = play(decodes, ceilings.add, { sentMs: nowMs + 1 });
    const { windows, problems } = ceilings.view('b', nowMs + 3_000_000) ?? {};
    const { mfu, mbu, shareOfCeiling } = windows?.['60m'] ?? {};
    expect([mfu, mbu].every((share) => share !== undefined && share < 1)).toBe(true);
    expect(problems).toMatchObject([{ kind: 'ceiling_over_1', share: shareOfCeiling, windows: ['60m'] }]);
  });

  it('names a wrong config and clamps nothing', () => {
    const { decodes, ceilings } = world(settingsOf({ peakTflops: 0.01, bandwidthGBps: 10 }));
    let nowMs = 0;
    for (let i = 0; i < 4; i += 1) nowMs = play(decodes, ceilings.add, { sentMs: nowMs + 1 });
    const view = ceilings.view('b', nowMs);
    expect(view?.windows['1m'].mfu).toBeGreaterThan(10);
    expect(view?.windows['1m'].mbu).toBeGreaterThan(10);
    // Once each, though it holds in three windows.
    expect(view?.problems.map(({ kind }) => kind)).toEqual(['mfu_over_1', 'mbu_over_1']);
    expect(view?.problems[0]).toMatchObject({ windows: ['1m', '5m', '60m'] });
    expect(view?.problems[0]?.message).toContain('over 1m, 5m, 60m is');
    expect(view?.problems[0]?.message).toContain('hardware');
    expect(view?.problems[0]?.share).toBe(view?.windows['1m'].mfu);
  });

  it('says that weights don’t fit', () => {
    const { ceilings } = world(settingsOf({ gpu: 'l4', memoryGiB: 8 }));
    expect(ceilings.view('b', 1)?.problems).toMatchObject([
      { kind: 'weights_over_memory', share: 16e9 / (8 * 2 ** 30) },
    ]);
  });

  it('leaves absent what it can’t know, and says what is missing', () => {
    const { decodes, ceilings } = world({ hardware: [], shapes: [] });
    const nowMs = play(decodes, ceilings.add, {});
    const view = ceilings.view('b', nowMs);
    expect(view?.missing).toHaveLength(2);
    const minute = view?.windows['1m'];
    expect(minute).toMatchObject({ requests: 0, unknownRequests: 1 });
    for (const key of ['mfu', 'mbu', 'flopsPerSecond', 'shareOfCeiling']) expect(minute).not.toHaveProperty(key);
    expect(view?.models).toEqual([]);
  });

  it('has FLOPs but no MFU where the card’s peak is unknown, idle or not', () => {
    const { decodes, ceilings } = world(settingsOf({ gpu: 'm4-max' }));
    const nowMs = play(decodes, ceilings.add, {});
    const view = ceilings.view('b', nowMs);
    expect(view?.windows['1m'].flopsPerSecond).toBeGreaterThan(0);
    expect(view?.windows['1m'].mbu).toBeGreaterThan(0);
    expect(view?.windows['1m']).not.toHaveProperty('mfu');
    expect(ceilings.view('b', nowMs + 120_000)?.windows['1m']).not.toHaveProperty('mfu');
    expect(view?.missing.join()).toContain('peakTflops');
  });

  it('of an idle window is 0 once the model was seen', () => {
    const { decodes, ceilings } = world();
    const nowMs = play(decodes, ceilings.add, {});
    const idle = ceilings.view('b', nowMs + 600_000)?.windows['1m'];
    expect(idle).toMatchObject({ mfu: 0, flopsPerSecond: 0, decodingShare: 0 });
    expect(idle).not.toHaveProperty('mbu');
  });

  it('knows a request by an alias', () => {
    const { decodes, ceilings } = world();
    const nowMs = play(decodes, ceilings.add, { model: 'nick' });
    expect(ceilings.view('b', nowMs)?.windows['1m'].requests).toBe(1);
  });

  it('takes the engine’s own estimates where it exports them, all bytes of them', () => {
    const series = createEngineSeries();
    const { ceilings } = world(settingsOf(), series);
    const read = (atMs: number, counters: EngineReading['counters']) => series.read({ atMs, gauges: {}, counters }, 0);
    read(0, { flops: 0, readBytes: 0, writeBytes: 0 });
    read(2000, { flops: 0, readBytes: 0, writeBytes: 0 });
    expect(ceilings.view('b', 2000)).not.toHaveProperty('engineEstimate');
    read(4000, { flops: 362e12, readBytes: 800e9, writeBytes: 64e9 });
    const estimate = ceilings.view('b', 4000)?.engineEstimate?.['1m'];
    expect(estimate).toEqual({ flopsPerSecond: 362e12 / 4, bytesPerSecond: 864e9 / 4, mfu: 0.25, mbu: 0.25 });
    read(6000, { flops: 362e15, readBytes: 864e9, writeBytes: 64e9 });
    expect(ceilings.view('b', 6000)?.problems[0]?.kind).toBe('engine_estimate_over_1');
  });

  it('leaves a restart of the engine out of its estimates, work and time', () => {
    const series = createEngineSeries();
    const { ceilings } = world(settingsOf(), series);
    const read = (atMs: number, flops: number) =>
      series.read({ atMs, gauges: {}, counters: { flops, readBytes: flops / 100 } }, 0);
    const minute = (nowMs: number) => ceilings.view('b', nowMs)?.engineEstimate?.['1m'];
    read(0, 1000e12);
    read(2000, 1362e12);
    expect(minute(2000)?.mfu).toBe(0.5);
    // Another process, and nobody knows how long it has been there.
    read(12_000, 900e12);
    expect(minute(12_000)?.mfu).toBe(0.5);
    read(14_000, 900e12 + 362e12 * 1.5);
    expect(minute(14_000)?.mfu).toBe((0.5 * 2 + 0.75 * 2) / 4);
    expect(minute(14_000)?.flopsPerSecond).toBe((362e12 + 362e12 * 1.5) / 4);
    // The same of the counters that go out as metrics.
    expect(series.totals().flops).toBe(362e12 + 362e12 * 1.5);
    expect(minute(75_000)).toBeUndefined();
    expect(ceilings.view('b', 75_000)?.engineEstimate?.['5m']?.mfu).toBe(0.625);
  });

  it('shows a backend that exports estimates though nothing came to it from here', () => {
    const series = createEngineSeries();
    for (const [atMs, flops] of [
      [0, 1e12],
      [1000, 3e12],
    ] as const)
      series.read({ atMs, gauges: {}, counters: { flops, readBytes: 0 } }, 0);
    const account = (engine: EngineSeries | undefined) =>
      createCeilingAccount(
        { hardware: [], shapes: [] },
        { beganMs: 0, aliases: {}, backends: () => [sampleBackend('b')], engine: () => engine },
      );
    expect([...account(series).ceilingPage(() => 1000).backends]).toMatchObject([
      { backend: 'b', engineEstimate: { '1m': { flopsPerSecond: 2e12 } } },
    ]);
    expect([...account(undefined).ceilingPage(() => 1000).backends]).toEqual([]);
    expect([...account(createEngineSeries()).ceilingPage(() => 1000).backends]).toEqual([]);
  });

  it('MFU is proportional to the work and to nothing else', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 400 }), fc.integer({ min: 1, max: 8 }), (output, count) => {
        const once = world();
        const nowMs = play(once.decodes, once.ceilings.add, { output, sentMs: 1 });
        const many = world(settingsOf({ gpu: 'l40s', count }));
        play(many.decodes, many.ceilings.add, { output, sentMs: 1 });
        const [one, other] = [once, many].map(({ ceilings }) => ceilings.view('b', nowMs)?.windows['5m'].mfu ?? 0);
        expect((one ?? 0) / (other ?? 1)).toBeCloseTo(count, 6);
      }),
    );
  });
});

describe('the account', () => {
  const account = createCeilingAccount(settingsOf({ gpu: 'l40s', pricePerHour: 2, peakTflops: 0.001 }), {
    beganMs: 0,
    aliases: {},
    backends: () => [sampleBackend('b', { models: ['m'] })],
    engine: () => undefined,
  });
  let nowMs = 0;
  for (let i = 0; i < 5; i += 1) {
    const record = decodedRecord({ sentMs: nowMs + 1 });
    const decoding = account.decodes.began('b', 1, record.timeline.firstToken ?? 0);
    nowMs = record.timeline.end ?? 0;
    decoding.end(nowMs);
    account.add(record, nowMs);
  }

  it('gives the pages and the metrics the same figures', () => {
    const [page] = account.ceilingPage(() => nowMs).backends;
    const [minute] = account.minute(nowMs);
    expect((minute?.mfu ?? 0) * 100).toBeCloseTo(page?.windows['1m'].mfuPercent ?? 0, 9);
    expect(minute?.problems).toBe(page?.problems.length);
    const [row] = account.concurrencyPage(nowMs, '1m').backends;
    expect(row).toMatchObject({
      backend: 'b',
      decodingNow: 0,
      coldStarts: 0,
      levels: [{ from: 1, to: 1, requests: 5 }],
    });
    expect(row?.levels[0]?.costPerMillionTokens).toBeCloseTo(((2 / 3600) * 1e6) / 50, 1);
  });

  it('reads one backend a step; what the metrics show changes behind the last one', () => {
    const several = createCeilingAccount(settingsOf({ gpu: 'l40s' }), {
      beganMs: 0,
      aliases: {},
      backends: () => [sampleBackend('b', { models: ['m'] }), sampleBackend('c', { models: ['m'] })],
      engine: () => undefined,
    });
    const record = decodedRecord({ sentMs: 1 });
    const endMs = record.timeline.end ?? 0;
    for (const backend of ['b', 'c']) several.add({ ...record, backend }, endMs);
    const before = several.minute(endMs);
    expect([...several.refresh(() => endMs + 900)]).toEqual([]);
    const steps = several.refresh(() => endMs + 2000)[Symbol.iterator]();
    expect([steps.next().done, steps.next().done]).toEqual([false, false]);
    expect(several.minute(endMs + 900)).toBe(before);
    expect(steps.next().done).toBe(true);
    const after = several.minute(endMs + 2500);
    expect(after).not.toBe(before);
    expect(after.map(({ backend }) => backend)).toEqual(['b', 'c']);
  });

  it('tells of each problem once, and again when it comes again', () => {
    expect(account.newProblems(nowMs).map(({ backend, kind }) => `${backend} ${kind}`)).toEqual(['b mfu_over_1']);
    expect(account.newProblems(nowMs)).toEqual([]);
    expect(account.newProblems(nowMs + 2 * 3_600_000)).toEqual([]);
    const record = decodedRecord({ sentMs: nowMs + 2 * 3_600_000 });
    for (let i = 0; i < 3; i += 1) {
      account.decodes.began('b', 1, record.timeline.firstToken ?? 0).end(record.timeline.end ?? 0);
      account.add(record, record.timeline.end ?? 0);
    }
    expect(account.newProblems(record.timeline.end ?? 0)).toHaveLength(1);
  });
});
