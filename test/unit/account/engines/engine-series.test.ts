import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CounterDeltas } from '../../../../src/account/engines/counter-deltas.ts';
import { createEngineSeries } from '../../../../src/account/engines/engine-series.ts';
import { lifeOf, outputUpTo, type OwnLife } from '../../../../src/account/engines/own-life.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const reading = (atMs: number, counters: CounterDeltas = {}, gauges = {}) => ({ atMs, counters, gauges });
const life = (over: Partial<OwnLife> = {}): OwnLife => ({
  fromMs: 0,
  endMs: 1000,
  firstTokenMs: 200,
  promptTokens: 10,
  cachedTokens: 4,
  outputTokens: 8,
  upstreamTtftMs: 200,
  blind: false,
  countedAtEnd: false,
  stampsMs: Float64Array.from([200, 300, 400, 500, 600, 700, 800, 900]),
  ...over,
});

describe('a backend’s series', () => {
  it('lays a request’s tokens beside the readings between which they came', () => {
    const series = createEngineSeries();
    series.read(reading(100, { generatedTokens: 50 }), 0);
    series.read(reading(450, { generatedTokens: 53 }), 1);
    series.finished(life());
    series.read(reading(2000, { generatedTokens: 58 }), 0);
    expect(series.points().map(({ own, deltas }) => [own.outputTokens, deltas.generatedTokens])).toEqual([
      [3, 3],
      [5, 5],
    ]);
    expect(series.points()[0]?.own).toMatchObject({
      prompts: 1,
      promptTokens: 10,
      cachedTokens: 4,
      cachedOfTokens: 10,
      ttftMs: 200,
      requests: 0,
    });
    expect(series.points()[1]?.own).toMatchObject({ prompts: 0, requests: 1 });
    expect(series.totals()).toEqual({ generatedTokens: 8 });
  });

  it('lays them at the request’s end where the engine counts them there', () => {
    const series = createEngineSeries();
    for (const atMs of [100, 600]) series.read(reading(atMs), 0);
    series.finished(life({ countedAtEnd: true }));
    series.read(reading(1100), 0);
    expect(series.points().map(({ own }) => own.outputTokens)).toEqual([0, 8]);
  });

  it('notes the tokens of an answer that isn’t streamed and ran across a reading: nobody knows when they came', () => {
    const series = createEngineSeries();
    for (const atMs of [-100, 500]) series.read(reading(atMs), 0);
    series.finished(life({ stampsMs: undefined, firstTokenMs: undefined }));
    series.finished(life());
    series.read(reading(1100), 0);
    expect(series.points().map(({ own }) => [own.crossingOutput, own.crossingPrompt])).toEqual([
      [0, 0],
      [8, 10],
    ]);
  });

  it('knows that an abandoned request may cost more than is known, for a while after its end', () => {
    const series = createEngineSeries();
    for (const atMs of [100, 1100]) series.read(reading(atMs), 0);
    series.finished(life({ blind: true }));
    for (const atMs of [20_000, 40_000, 60_000]) series.read(reading(atMs), 0);
    expect(series.points().map(({ own }) => own.blind > 0)).toEqual([true, true, true, false]);
  });

  it('adds up what counters rose by, past restarts', () => {
    const series = createEngineSeries();
    for (const [i, value] of [100, 110, 3, 10].entries())
      series.read(reading(1 + 2000 * i, { generatedTokens: value }), 0);
    expect(series.totals()).toEqual({ generatedTokens: 17 });
    expect(series.points().map(({ restarted }) => restarted)).toEqual([false, true, false]);
  });

  it('keeps few stamps of requests that wait for a reading: the others’ tokens aren’t known for certain', () => {
    const series = createEngineSeries();
    series.read(reading(1), 0);
    const stampsMs = new Float64Array(300_000).fill(500);
    for (let i = 0; i < 3; i += 1) series.finished(life({ stampsMs }));
    series.read(reading(2000), 0);
    expect(series.points()[0]?.own).toMatchObject({ requests: 1, blind: 1 });
    series.finished(life({ fromMs: 2500, endMs: 3000, stampsMs }));
    series.read(reading(4000), 0);
    expect(series.points()[1]?.own).toMatchObject({ requests: 1, blind: 0 });
  });

  it('keeps nothing for an engine that is no longer read, and takes no difference across that time', () => {
    const series = createEngineSeries();
    for (const [atMs, generatedTokens] of [
      [1, 5],
      [2000, 9],
    ] as const)
      series.read(reading(atMs, { generatedTokens }), 0);
    series.finished(life({ fromMs: 2100, endMs: 2500 }));
    series.pause();
    series.finished(life({ fromMs: 2600, endMs: 3000 }));
    expect(series.latest()).toBeUndefined();
    for (const [atMs, generatedTokens] of [
      [90_000, 70],
      [92_000, 71],
    ] as const)
      series.read(reading(atMs, { generatedTokens }), 0);
    expect(series.totals()).toEqual({ generatedTokens: 5 });
    expect(series.points().map(({ own }) => own.requests)).toEqual([0, 0]);
  });

  it('keeps an hour, bounded: five minutes in full, then half-minutes, without losing a token', () => {
    const series = createEngineSeries();
    for (let i = 0; i <= 3600; i += 1) series.read(reading(1 + 2000 * i, { generatedTokens: 10 * i }), 0);
    const points = series.points();
    expect(points.length).toBeLessThan(280);
    expect(points.slice(1).every(({ fromMs }, i) => fromMs === points[i]?.toMs)).toBe(true);
    const whole = (points.at(-1)?.toMs ?? 0) - (points[0]?.fromMs ?? 0);
    expect(whole).toBeGreaterThanOrEqual(3_600_000);
    expect(whole).toBeLessThan(3_660_000);
    expect(points.reduce((sum, { deltas }) => sum + (deltas.generatedTokens ?? 0), 0)).toBe(whole / 200);
    expect(points.filter(({ fromMs, toMs }) => toMs - fromMs === 2000).length).toBeGreaterThanOrEqual(150);
  });

  it('keeps what is known beside a restart, also once it is in half-minutes', () => {
    const series = createEngineSeries();
    const restartAt = 100;
    for (let i = 0; i <= 400; i += 1)
      series.read(reading(1 + 2000 * i, { generatedTokens: 10 * (i < restartAt ? i + 1000 : i) }), 0);
    const points = series.points();
    expect(points.filter(({ restarted }) => restarted).map(({ fromMs, toMs }) => toMs - fromMs)).toEqual([2000]);
    expect(points.reduce((sum, { deltas }) => sum + (deltas.generatedTokens ?? 0), 0)).toBe(3990);
    expect(points.length).toBeLessThan(200);
  });

  it('counts each own token once, wherever the readings lie', () => {
    const moments = fc.uniqueArray(fc.integer({ min: 1, max: 3000 }), { minLength: 2, maxLength: 20 });
    fc.assert(
      fc.property(moments, fc.integer({ min: 0, max: 19 }), fc.boolean(), (at, finishedAfter, countedAtEnd) => {
        const series = createEngineSeries();
        const readings = [0, ...at.toSorted((a, b) => a - b), 4000];
        const one = life({ countedAtEnd });
        let told = false;
        for (const [i, atMs] of readings.entries()) {
          if (!told && i > 0 && (i > finishedAfter || i === readings.length - 1)) {
            series.finished(one);
            told = true;
          }
          series.read(reading(atMs), 0);
        }
        const sum = series.points().reduce((total, { own }) => total + own.outputTokens, 0);
        expect(sum).toBeCloseTo(8, 9);
        expect(series.points().reduce((total, { own }) => total + own.requests + own.promptTokens, 0)).toBe(11);
      }),
    );
  });
});

describe('a request in the engine’s terms', () => {
  const base = {
    backend: 'b',
    engine: 'vllm' as const,
    timeline: { received: 0, sent: 5, firstToken: 100, lastToken: 400, end: 500 },
    tokens: { prompt: { value: 12, source: 'usage' as const }, output: { value: 9, source: 'usage' as const } },
    finishReasons: ['length'],
  };

  it('is blind where its tokens are not known for certain', () => {
    expect(lifeOf(sampleRecord(base))?.blind).toBe(false);
    expect(lifeOf(sampleRecord({ ...base, outcome: 'client_abort' }))?.blind).toBe(true);
    expect(lifeOf(sampleRecord({ ...base, tokens: { output: { value: 9, source: 'events_estimate' } } }))?.blind).toBe(
      true,
    );
    expect(lifeOf(sampleRecord({ ...base, tokens: {} }))?.blind).toBe(true);
    expect(lifeOf(sampleRecord({ ...base, endpoint: 'other', tokens: {} }))?.blind).toBe(true);
  });

  it('may be what runs in a tunnel, or an audio file: then nothing is known of its tokens', () => {
    const tunnel = { ...base, endpoint: 'other', method: 'GET', status: 101, tokens: {} } as const;
    expect(lifeOf(sampleRecord(tunnel))?.blind).toBe(true);
    expect(lifeOf(sampleRecord({ ...base, endpoint: 'audio', tokens: {} }))?.blind).toBe(true);
  });

  it('cost nothing where it was refused, and no output where it only read a prompt', () => {
    expect(lifeOf(sampleRecord({ ...base, outcome: 'client_error', tokens: {} }))).toMatchObject({
      blind: false,
      outputTokens: 0,
      promptTokens: 0,
    });
    expect(
      lifeOf(sampleRecord({ ...base, endpoint: 'embeddings', tokens: { prompt: { value: 7, source: 'usage' } } })),
    ).toMatchObject({ blind: false, outputTokens: 0, promptTokens: 7 });
  });

  it('has no prompt that can be compared where there are several choices: vLLM counts it once for each', () => {
    expect(lifeOf(sampleRecord({ ...base, finishReasons: ['length', 'stop'] }))?.promptTokens).toBeUndefined();
  });

  it('is none where nothing reached an engine, or nothing was computed', () => {
    expect(lifeOf(sampleRecord({ ...base, timeline: { received: 0 } }))).toBeUndefined();
    expect(lifeOf(sampleRecord({ ...base, endpoint: 'models' }))).toBeUndefined();
  });

  it('without stamps made its tokens evenly, all of them by its end', () => {
    const { stampsMs: _none, ...without } = life();
    const even = { ...without, stampsMs: undefined };
    expect([-1, 0, 500, 1000, 9000].map((atMs) => outputUpTo(even, atMs))).toEqual([0, 0, 4, 8, 8]);
  });
});
