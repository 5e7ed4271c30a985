import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { WindowName } from '../../../src/account/window-lengths.ts';
import { createWindows, type Windows } from '../../../src/account/windows.ts';
import { figureNames, outcomes, Tally } from '../../../src/account/windows-figures.ts';
import { readWindowQuery, tallyView } from '../../../src/account/windows-view.ts';
import type { RequestRecord } from '../../../src/domain/record.ts';
import { Sketch } from '../../../src/platform/sketch.ts';
import { sampleRecord } from '../../support/sample-record.ts';

const limits = { maxPopulations: 50, maxBytes: 1 << 24 };
const windowNames: readonly WindowName[] = ['1m', '5m', '60m'];
const lengthMs = { '1m': 60_000, '5m': 300_000, '60m': 3_600_000 };
const sliceMs = { '1m': 10_000, '5m': 30_000, '60m': 300_000 };

function recordOf(ttftMs: number | undefined, over: Partial<RequestRecord> = {}): RequestRecord {
  const figures = { tpotWindow: 'visible', durationMs: 1, ...(ttftMs === undefined ? {} : { ttftMs }) } as const;
  return sampleRecord({ backend: 'b', figures, ...over });
}

function sumOf(windows: Windows, window: WindowName, nowMs: number): Tally {
  const { populations, tally } = windows.read(window, {}, nowMs);
  const all = new Tally();
  for (const population of populations) all.join(tally(population));
  return all;
}

function requestsIn(windows: Windows, window: WindowName, nowMs: number): number {
  return sumOf(windows, window, nowMs).requests.reduce((sum, times) => sum + times, 0);
}

describe('a window', () => {
  it.each(windowNames)('%s that is read while slices close counts each request once', (window) => {
    const windows = createWindows(limits, 1);
    windows.add(recordOf(5), 'm', 2);
    const { populations, tally } = windows.read(window, {}, 3);
    windows.add(recordOf(7, { backend: 'c' }), 'm', 10_001);
    windows.add(recordOf(9, { backend: 'c' }), 'm', 30_001);
    const [population] = populations;
    if (population === undefined) throw new Error('no population');
    expect(tally(population).requests[0]).toBe(1);
  });

  it('holds every request of its time, and none that is older than its time and one slice', () => {
    const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 200_000 }), fc.integer({ min: 1, max: 5000 })), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(steps, fc.nat(400_000), (added, later) => {
        const windows = createWindows(limits, 1);
        let nowMs = 1;
        const atMs: number[] = [];
        for (const [stepMs, ttftMs] of added) {
          nowMs += stepMs;
          atMs.push(nowMs);
          windows.add(recordOf(ttftMs), 'm', nowMs);
        }
        nowMs += later;
        for (const window of windowNames) {
          const within = atMs.filter((at) => at > nowMs - lengthMs[window]).length;
          const most = atMs.filter((at) => at > nowMs - lengthMs[window] - sliceMs[window]).length;
          const held = requestsIn(windows, window, nowMs);
          expect(held, window).toBeGreaterThanOrEqual(within);
          expect(held, window).toBeLessThanOrEqual(most);
          expect(windows.read(window, {}, nowMs).coveredMs).toBeLessThanOrEqual(lengthMs[window] + sliceMs[window]);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('gives percentiles within 1 % of the exact ones, also after its slices were closed and joined', () => {
    const values = fc.array(fc.double({ min: 0.5, max: 600_000, noNaN: true }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(values, (ttftsMs) => {
        const windows = createWindows(limits, 0);
        for (const [i, ttftMs] of ttftsMs.entries()) windows.add(recordOf(ttftMs), 'm', i * 10_000);
        const sorted = ttftsMs.toSorted((a, b) => a - b);
        const sketch = sumOf(windows, '60m', ttftsMs.length * 10_000).sketches[0];
        for (const share of [0.5, 0.9, 0.95, 0.99, 0.999]) {
          const exactMs = sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1] ?? Number.NaN;
          const toldMs = (sketch?.quantile(share) ?? Number.NaN) * 1000;
          expect(Math.abs(toldMs - exactMs) / exactMs).toBeLessThan(0.01);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('keeps populations apart, and narrows to what was asked for', () => {
    const windows = createWindows(limits, 0);
    windows.add(recordOf(1, { warmth: 'cold_start' }), 'm', 1);
    windows.add(recordOf(1, { warmth: 'resident' }), 'm', 1);
    windows.add(recordOf(1, { warmth: 'resident', lane: 'batch' }), 'm', 1);
    windows.add(recordOf(1, { warmth: 'replayed' }), 'n', 1);
    expect(windows.read('1m', {}, 2).populations).toHaveLength(4);
    expect(windows.read('1m', { warmth: 'resident' }, 2).populations).toHaveLength(2);
    expect(windows.read('1m', { warmth: 'resident', lane: 'batch' }, 2).populations).toEqual([
      { model: 'm', backend: 'b', lane: 'batch', warmth: 'resident' },
    ]);
    expect(windows.read('1m', { model: 'n' }, 2).populations).toHaveLength(1);
    expect(windows.read('1m', { backend: 'nowhere' }, 2).populations).toEqual([]);
  });

  it('says that it reaches no further back than warmlane itself', () => {
    const windows = createWindows(limits, 100_000);
    expect(windows.read('60m', {}, 130_000).coveredMs).toBe(30_000);
    expect(windows.read('1m', {}, 500_000).coveredMs).toBe(60_000);
  });

  it('counts populations past their number under `other`', () => {
    const windows = createWindows({ ...limits, maxPopulations: 5 }, 0);
    for (let i = 0; i < 100; i += 1) windows.add(recordOf(1), `m${i}`, i * 1000);
    for (const window of windowNames) {
      expect(requestsIn(windows, window, 100_000), window).toBeGreaterThanOrEqual(window === '1m' ? 60 : 100);
      for (const { model } of windows.read(window, { model: 'other' }, 100_000).populations)
        expect(model).toBe('other');
    }
    expect(windows.read('1m', { model: 'other' }, 100_000).populations).toHaveLength(1);
  });

  it('past its memory loses its oldest part, and says how far back it reaches', () => {
    const maxBytes = 1_000_000;
    const windows = createWindows({ maxPopulations: 50, maxBytes }, 0);
    for (let i = 0; i < 3600; i += 1) windows.add(recordOf(1 + (i % 500), { backend: `b${i % 40}` }), 'm', i * 1000);
    const { coveredMs } = windows.read('60m', {}, 3_600_000);
    expect(coveredMs).toBeLessThan(3_600_000);
    expect(coveredMs).toBeGreaterThan(0);
    expect(requestsIn(windows, '60m', 3_600_000)).toBeLessThanOrEqual(coveredMs / 1000 + 310);
  });
});

describe('the view of a population', () => {
  it('names by outcome the requests that lack a figure: none is left out in silence', () => {
    const tally = new Tally();
    const itl = new Sketch();
    itl.add(0.02, 3);
    tally.add(recordOf(100, { itl: itl.data() }));
    tally.add(recordOf(300, { outcome: 'client_abort' }));
    tally.add(recordOf(undefined, { outcome: 'timeout' }));
    tally.add(recordOf(undefined, { outcome: 'timeout' }));
    const view = tallyView(tally) as { figures: Record<string, Record<string, unknown>> };
    expect(view).toMatchObject({ requests: 4, outcomes: { ok: 1, client_abort: 1, timeout: 2 } });
    expect(view.figures['ttft']).toMatchObject({ requests: 2, without: { timeout: 2 }, minMs: 100, maxMs: 300 });
    expect(view.figures['itl']).toMatchObject({ requests: 1, gaps: 3, without: { client_abort: 1, timeout: 2 } });
    expect(view.figures['ttfa']).toEqual({ requests: 0, without: { ok: 1, client_abort: 1, timeout: 2 } });
    expect(Object.keys(view.figures)).toEqual([...figureNames]);
  });

  it('has the hit rate weighted by tokens, with how many answers it is of', () => {
    const told = (prompt: number, cached: number | undefined, over: Partial<RequestRecord> = {}) => {
      const count = (value: number) => ({ value, source: 'usage' }) as const;
      const tokens = { prompt: count(prompt), ...(cached === undefined ? {} : { cached: count(cached) }) };
      return recordOf(5, { endpoint: 'chat', tokens, ...over });
    };
    const tally = new Tally();
    const cacheOf = (of: Tally) => (tallyView(of) as { cache: object }).cache;
    expect(cacheOf(tally)).toEqual({ toldAnswers: 0, untoldAnswers: 0 });
    tally.add(told(50, undefined));
    // What brought no answer, and what has no prompt to be cached, lack nothing.
    tally.add(recordOf(undefined, { endpoint: 'chat', outcome: 'timeout', tokens: {} }));
    tally.add(recordOf(undefined, { endpoint: 'models', tokens: {} }));
    // Absent is not zero.
    expect(cacheOf(tally)).toEqual({ toldAnswers: 0, untoldAnswers: 1 });
    tally.add(told(1000, 900));
    tally.add(told(10, 0, { outcome: 'client_abort' }));
    const all = {
      toldAnswers: 2,
      untoldAnswers: 1,
      promptTokens: 1010,
      cachedTokens: 900,
      cachedPercent: 90_000 / 1010,
    };
    expect(cacheOf(tally)).toEqual(all);
    const windows = createWindows(limits, 0);
    for (const [i, record] of [told(50, undefined), told(1000, 900), told(10, 0)].entries())
      windows.add(record, 'm', i * 40_000);
    for (const window of ['5m', '60m'] as const) expect(cacheOf(sumOf(windows, window, 100_000))).toEqual(all);
  });

  it('joined from closed slices is what it was', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(5000), fc.constantFrom(...outcomes)), { maxLength: 60 }), (added) => {
        const windows = createWindows(limits, 0);
        const whole = new Tally();
        for (const [i, [ttftMs, outcome]] of added.entries()) {
          const record = recordOf(ttftMs, { outcome });
          windows.add(record, 'm', i * 7000);
          whole.add(record);
        }
        const parts = sumOf(windows, '60m', added.length * 7000);
        expect(parts.requests).toEqual(whole.requests);
        expect(parts.having).toEqual(whole.having);
        expect(parts.sketches[0]?.data().counts).toEqual(whole.sketches[0]?.data().counts);
      }),
      { numRuns: 50 },
    );
  });
});

describe('a question to /stats', () => {
  const ask = (query: string) => readWindowQuery(new URLSearchParams(query));

  it('is of five minutes and everything, unless it says otherwise', () => {
    expect(ask('')).toEqual({ window: '5m', wanted: {} });
    expect(ask('window=60m&model=m&backend=b&lane=batch&warmth=prefix_hit')).toEqual({
      window: '60m',
      wanted: { model: 'm', backend: 'b', lane: 'batch', warmth: 'prefix_hit' },
    });
  });

  it('that can’t be answered is told what is allowed', () => {
    expect(ask('window=2m')).toEqual({ param: 'window', message: 'window must be one of 1m, 5m, 60m' });
    expect(ask('lane=slow')).toEqual({ param: 'lane', message: 'lane must be one of online, batch' });
    expect(ask('warmth=')).toMatchObject({ param: 'warmth' });
  });
});
