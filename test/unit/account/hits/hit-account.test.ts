import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createEngineSeries } from '../../../../src/account/engines/engine-series.ts';
import { readCacheQuery } from '../../../../src/account/hits/cache-page.ts';
import { createHitAccount, type HitAccountDeps } from '../../../../src/account/hits/hit-account.ts';
import { missCauses } from '../../../../src/account/hits/miss-causes.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import type { RouteNote } from '../../../../src/domain/routing.ts';
import { longJson } from '../../../../src/http/admin-json.ts';
import { sampleBackend } from '../../../support/sample.ts';
import { sampleNote } from '../../../support/sample-routing.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

interface Shown {
  readonly windows: readonly {
    readonly window: string;
    readonly coveredMs: number;
    readonly all: Record<string, unknown>;
    readonly by: readonly Record<string, unknown>[];
    readonly engines: readonly Record<string, unknown>[];
  }[];
  readonly divergences: readonly Record<string, unknown>[];
  readonly divergencesLeftOut: number;
  readonly index?: Record<string, unknown>;
}

function world(over: Partial<HitAccountDeps> = {}) {
  let nowMs = 1;
  const hits = createHitAccount({
    startMs: 1,
    modelLabel: (model) => model ?? 'none',
    backends: () => [sampleBackend('b1'), sampleBackend('b2', { blockTokens: 784 })],
    engine: () => undefined,
    ...over,
  });
  return {
    hits,
    pass: (ms: number) => (nowMs += ms),
    /** Assessed and booked, as accounting does it. */
    add(record: RequestRecord): RequestRecord {
      const assessment = hits.assess(record, undefined);
      const assessed = assessment === undefined ? record : { ...record, assessment };
      hits.add(assessed, nowMs);
      return assessed;
    },
    async page(query = ''): Promise<Shown> {
      const asked = readCacheQuery(new URLSearchParams(query));
      if ('message' in asked) throw new Error(asked.message);
      let text = '';
      for await (const piece of longJson(hits.page(asked, () => nowMs))) text += piece;
      return JSON.parse(text) as Shown; // as cache-page.ts writes it
    },
  };
}

interface Told {
  readonly prompt?: number;
  readonly cached?: number;
  readonly note?: Partial<RouteNote> | 'none';
}

function told({ prompt, cached, note = {} }: Told, over: Partial<RequestRecord> = {}): RequestRecord {
  return sampleRecord({
    backend: 'b1',
    model: 'm',
    tokens: {
      ...(prompt === undefined ? {} : { prompt: { value: prompt, source: 'usage' } }),
      ...(cached === undefined ? {} : { cached: { value: cached, source: 'usage' } }),
    },
    ...(note === 'none' ? {} : { routing: sampleNote(note) }),
    ...over,
  });
}

describe('hit accounting', () => {
  it('has three rates over one denominator, and says what routing could have had', async () => {
    const { add, page } = world();
    add(told({ prompt: 1000, cached: 400, note: { reusableTokens: 800, predictedTokens: 500 } }));
    add(told({ prompt: 3000, cached: 2000, note: { reusableTokens: 2000, predictedTokens: 1900 } }));
    const [window] = (await page('window=5m')).windows;
    expect(window?.all).toMatchObject({
      answers: { told: 2, untold: 0, coveragePercent: 100 },
      promptTokens: 4000,
      reusableTokens: 2800,
      reusablePercent: 70,
      capturedTokens: 2400,
      capturedPercent: 60,
      deliveredTokens: 2400,
      deliveredPercent: 60,
      avoidableMissTokens: 400,
      prediction: { falseHitTokens: 100, falseMissTokens: 100, biasPoints: 0, errorPoints: 5 },
      missedTokens: 1600,
    });
  });

  it('C152 never takes a prediction for a hit', async () => {
    const { add, page } = world();
    for (let i = 0; i < 10; i += 1)
      add(told({ prompt: 240, cached: 0, note: { promptTokens: 240, reusableTokens: 239, predictedTokens: 239 } }));
    const [window] = (await page('window=1m')).windows;
    expect(window?.all).toMatchObject({
      promptTokens: 2400,
      capturedTokens: 2390,
      deliveredTokens: 0,
      deliveredPercent: 0,
      prediction: { falseHitTokens: 2390, biasPoints: expect.closeTo(99.583, 2) as number },
      missed: { unalignedTokens: 10, notDeliveredTokens: 2390 },
    });
  });

  it('C153 counts an answer that does not tell as a number of its own, never as 0', async () => {
    const { add, page } = world();
    add(told({ prompt: 1000 }));
    add(told({}));
    const untold = (await page('window=1m')).windows[0];
    expect(untold?.all).toEqual({ answers: { told: 0, untold: 2, coveragePercent: 0 } });
    add(told({ prompt: 1000, cached: 500 }));
    const one = (await page('window=1m')).windows[0];
    expect(one?.all).toMatchObject({ promptTokens: 1000, deliveredPercent: 50, answers: { told: 1, untold: 2 } });
  });

  it('C154 an answer that leaves the count out stays unknown, though its backend told before', async () => {
    const { add, page } = world();
    add(told({ prompt: 100 }));
    add(told({ prompt: 96, cached: 48 }));
    add(told({ prompt: 100 }));
    expect((await page('window=1m')).windows[0]?.all).toMatchObject({
      promptTokens: 96,
      deliveredTokens: 48,
      deliveredPercent: 50,
      answers: { told: 1, untold: 2 },
    });
  });

  it('C157 clamps more cached tokens than there are in the prompt, says so, and spoils no total', async () => {
    const { add, page } = world();
    add(told({ prompt: 100, cached: 384 }));
    add(told({ prompt: 100, cached: 100 }, { marks: ['cached_clamped'] }));
    expect((await page('window=1m')).windows[0]?.all).toMatchObject({
      deliveredTokens: 200,
      deliveredPercent: 100,
      missedTokens: 0,
      clampedAnswers: 2,
    });
  });

  it('C158 shows no rate where there is nothing to divide by', async () => {
    const empty = await world().page();
    expect(empty.windows.map(({ window }) => window)).toEqual(['1m', '5m', '60m', 'start']);
    for (const { all, by } of empty.windows) {
      expect(all).toEqual({ answers: { told: 0, untold: 0 } });
      expect(by).toEqual([]);
    }
    const { add, page } = world();
    add(told({ prompt: 0, cached: 0, note: { reusableTokens: 0, predictedTokens: 0 } }));
    const text = JSON.stringify(await page());
    expect(text).not.toMatch(/NaN|null|Percent":(?!100)/);
    expect(text).toContain('"promptTokens":0');
  });

  it('keeps answers apart whose prompt nobody had read, and leaves out what no engine or no user made', async () => {
    const { add, page } = world();
    add(told({ prompt: 100, cached: 50, note: 'none' }));
    add(told({ prompt: 100, cached: 90 }, { warmth: 'replayed' }));
    add(told({ prompt: 100, cached: 90 }, { marks: ['warm_up'] }));
    add(told({ prompt: 100, cached: 90 }, { endpoint: 'embeddings' }));
    add(told({ prompt: 100 }, { outcome: 'client_abort' }));
    expect((await page('window=start')).windows[0]?.all).toEqual({
      answers: { told: 0, untold: 0, coveragePercent: 100 },
      unpredicted: { answers: 1, promptTokens: 100, deliveredTokens: 50, deliveredPercent: 50 },
    });
  });

  it('knows each backend and model by itself, over each window and since the start', async () => {
    const { add, page, pass } = world();
    add(told({ prompt: 1000, cached: 0 }));
    pass(120_000);
    add(told({ prompt: 1000, cached: 600 }, { backend: 'b2', model: 'n' }));
    const windows = Object.fromEntries((await page()).windows.map((one) => [one.window, one]));
    expect(windows['1m']?.by).toMatchObject([{ backend: 'b2', model: 'n', deliveredTokens: 600 }]);
    expect(windows['5m']?.by).toHaveLength(2);
    expect(windows['start']?.all).toMatchObject({ promptTokens: 2000, deliveredTokens: 600 });
    expect(windows['start']?.coveredMs).toBe(120_000);
    const filtered = (await page('window=60m&backend=b1&model=m')).windows[0];
    expect(filtered?.by).toMatchObject([{ backend: 'b1', model: 'm', promptTokens: 1000 }]);
    pass(3_700_000);
    const later = Object.fromEntries((await page()).windows.map((one) => [one.window, one]));
    expect(later['60m']?.by).toEqual([]);
    expect(later['start']?.all).toMatchObject({ promptTokens: 2000 });
  });

  it('holds so many pairs of backend and model, and calls the rest other', async () => {
    const { add, page } = world();
    for (let i = 0; i < 400; i += 1) add(told({ prompt: 10, cached: 0 }, { backend: `b${i}` }));
    const [window] = (await page('window=start')).windows;
    expect(window?.by).toHaveLength(257);
    expect(window?.by.at(-1)).toMatchObject({ backend: 'other', model: 'other', answers: { told: 144 } });
    expect(window?.all).toMatchObject({ promptTokens: 4000 });
  });

  it('refuses a window that there is not', () => {
    expect(readCacheQuery(new URLSearchParams('window=2h'))).toEqual({
      param: 'window',
      message: 'window must be one of 1m, 5m, 60m, start',
    });
    expect(readCacheQuery(new URLSearchParams('window=1h'))).toMatchObject({ windows: ['60m'] });
  });

  it('adds up: causes to the missed tokens, pairs to all, whatever the answers were', async () => {
    const tokens = fc.nat({ max: 50_000 });
    const record = fc.record({
      prompt: fc.option(tokens, { nil: undefined }),
      cached: fc.option(tokens, { nil: undefined }),
      reusable: tokens,
      predicted: tokens,
      cause: fc.constantFrom(...missCauses),
      backend: fc.constantFrom('b1', 'b2'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(record, { maxLength: 30 }), async (records) => {
        const { add, page, pass } = world();
        for (const one of records) {
          const { prompt, cached, reusable, predicted, cause, backend } = one;
          const note = { reusableTokens: reusable, predictedTokens: predicted, cause };
          add(
            told(
              { ...(prompt === undefined ? {} : { prompt }), ...(cached === undefined ? {} : { cached }), note },
              { backend },
            ),
          );
          pass(100);
        }
        for (const { all, by } of (await page()).windows) {
          const missed = Object.values((all['missed'] ?? {}) as Record<string, number>);
          expect(missed.reduce((sum, each) => sum + each, 0)).toBe(all['missedTokens'] ?? 0);
          for (const key of ['promptTokens', 'reusableTokens', 'capturedTokens', 'deliveredTokens']) {
            const sum = by.reduce((total, row) => total + ((row[key] as number | undefined) ?? 0), 0);
            expect(sum).toBe(all[key] ?? 0);
          }
          const at = (key: string) => (all[key] as number | undefined) ?? 0;
          expect(at('reusableTokens')).toBeGreaterThanOrEqual(at('capturedTokens'));
          expect(at('promptTokens')).toBeGreaterThanOrEqual(at('deliveredTokens'));
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe("the engine's own counters beside it", () => {
  it('C156 never fall below 0 or above what the engine said: what lies around a restart is left out', async () => {
    const series = createEngineSeries();
    const read = (atMs: number, prefixHits: number, prefixQueries: number) =>
      series.read({ atMs, gauges: {}, counters: { prefixHits, prefixQueries } }, 0);
    read(1000, 100, 200);
    read(2000, 180, 300);
    read(3000, 5, 20);
    read(4000, 15, 40);
    const { page, pass } = world({ engine: (backend) => (backend === 'b1' ? series : undefined) });
    pass(5000);
    const shown = await page();
    expect(shown.windows[0]?.engines).toEqual([
      {
        backend: 'b1',
        overMs: 2000,
        restarted: true,
        prefixQueryTokens: 120,
        prefixHitTokens: 90,
        prefixHitPercent: 75,
      },
    ]);
    expect(shown.windows[3]?.engines).toEqual([
      { backend: 'b1', prefixQueryTokens: 120, prefixHitTokens: 90, prefixHitPercent: 75 },
    ]);
  });

  it('C158 have no rate while nothing was looked up', async () => {
    const series = createEngineSeries();
    for (const atMs of [1000, 2000])
      series.read({ atMs, gauges: {}, counters: { prefixHits: 0, prefixQueries: 0 } }, 0);
    const { page, pass } = world({ engine: () => series });
    pass(3000);
    expect((await page('window=1m&backend=b1')).windows[0]?.engines).toEqual([
      { backend: 'b1', overMs: 1000, prefixQueryTokens: 0, prefixHitTokens: 0 },
    ]);
  });
});

describe('the index on the page', () => {
  it('is what it says of itself, in the units of the page', async () => {
    const { page } = world({
      warm: () => ({
        entries: 3,
        maxEntries: 100,
        bytes: 4096,
        trimmed: 0,
        backends: [
          {
            backend: 'b1',
            entries: 3,
            heldTokens: 300,
            horizonTokens: 10_000,
            bias: 0.01,
            error: 0.05,
            flushes: 1,
            driftResets: 0,
            distrusted: false,
          },
          {
            backend: 'b2',
            entries: 0,
            heldTokens: 0,
            flushes: 0,
            driftResets: 0,
            distrusted: true,
          },
        ],
      }),
    });
    expect((await page('backend=b1')).index).toEqual({
      entries: 3,
      maxEntries: 100,
      bytes: 4096,
      trimmed: 0,
      backends: [
        {
          backend: 'b1',
          entries: 3,
          heldTokens: 300,
          horizonTokens: 10_000,
          biasPoints: 1,
          errorPoints: 5,
          flushes: 1,
          driftResets: 0,
        },
      ],
    });
    // b2's horizon is a guess.
    expect((await page('backend=b2')).index).toMatchObject({ backends: [{ backend: 'b2', distrusted: true }] });
    expect(JSON.stringify((await page('backend=b2')).index)).not.toContain('horizonTokens');
  });
});
