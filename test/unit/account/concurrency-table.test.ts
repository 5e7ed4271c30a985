import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { levelEnds, levelOf } from '../../../src/account/concurrency-levels.ts';
import { costPerMillion, createConcurrencyTable } from '../../../src/account/concurrency-table.ts';
import { decodedRecord } from './decoded-record.ts';

const hourMs = 3_600_000;
const table = (price?: number) => createConcurrencyTable(0, () => price);

describe('the concurrency table', () => {
  it('shows per level how fast tokens came: to each and to all', () => {
    const made = table(3.6);
    for (let i = 0; i < 4; i += 1) made.add(decodedRecord({ stepMs: 20, concurrency: 1 }), 1000);
    for (let i = 0; i < 8; i += 1) made.add(decodedRecord({ stepMs: 25, concurrency: 8 }), 1000);
    const [one, eight] = made.view('b', 2000, hourMs).levels;
    expect(one).toMatchObject({ from: 1, to: 1, requests: 4, meanConcurrency: 1 });
    expect(one?.userTokensPerSecond).toBeCloseTo(50, 6);
    expect(one?.tokensPerSecond).toBeCloseTo(50, 6);
    expect(one?.tpotP50Ms).toBeCloseTo(20, 0);
    expect(one?.itlP99Ms).toBeCloseTo(20, 0);
    // 3.60 an hour is a thousandth a second: 50 tokens for it.
    expect(one?.costPerMillionTokens).toBeCloseTo(20, 6);
    expect(eight).toMatchObject({ from: 7, to: 8, requests: 8 });
    expect(eight?.userTokensPerSecond).toBeCloseTo(40, 6);
    expect(eight?.tokensPerSecond).toBeCloseTo(320, 6);
    expect(eight?.costPerMillionTokens).toBeCloseTo(3.125, 6);
  });

  it('counts a request with choices at their rate together', () => {
    const made = table();
    const record = decodedRecord({
      output: 202,
      stepMs: 10,
      concurrency: 2,
      over: { finishReasons: ['stop', 'stop'] },
    });
    made.add(record, 0);
    const [level] = made.view('b', 1, hourMs).levels;
    expect(level?.userTokensPerSecond).toBeCloseTo(200 / (2 * 2.01), 6);
    expect(level?.tokensPerSecond).toBeCloseTo(200 / 2.01, 6);
  });

  it('leaves out what can’t be timed', () => {
    const made = table();
    made.add(decodedRecord({ output: 1 }), 0);
    made.add(decodedRecord({ over: { assessment: {} } }), 0);
    made.add(decodedRecord({ over: { warmth: 'replayed' } }), 0);
    expect(made.view('b', 1, hourMs)).toEqual({ coldStarts: 0, levels: [] });
  });

  it('counts cold starts apart: no row has them, none of their tokens and gaps', () => {
    const made = table(3.6);
    for (const warmth of ['resident', 'prefix_hit', 'unknown'] as const)
      made.add(decodedRecord({ stepMs: 20, over: { warmth } }), 0);
    for (let i = 0; i < 2; i += 1) made.add(decodedRecord({ stepMs: 900, over: { warmth: 'cold_start' } }), 0);
    made.add(decodedRecord({ stepMs: 900, concurrency: 8, over: { warmth: 'cold_start' } }), 0);
    const { coldStarts, levels } = made.view('b', 1, hourMs);
    expect(coldStarts).toBe(3);
    expect(levels).toMatchObject([{ from: 1, to: 1, requests: 3, lagged: 0, meanConcurrency: 1 }]);
    expect(levels[0]?.userTokensPerSecond).toBeCloseTo(50, 6);
    expect(levels[0]?.tpotP99Ms).toBeCloseTo(20, 0);
    expect(levels[0]?.itlP99Ms).toBeCloseTo(20, 0);
    expect(made.view('b', 10 * 60_000, 5 * 60_000)).toEqual({ coldStarts: 0, levels: [] });
    expect(made.view('b', 10 * 60_000, hourMs).coldStarts).toBe(3);
  });

  it('counts what was timed during a lag, and says so', () => {
    const made = table();
    made.add(decodedRecord({ over: { marks: ['loop_lag'] } }), 0);
    made.add(decodedRecord(), 0);
    expect(made.view('b', 1, hourMs).levels[0]).toMatchObject({ requests: 2, lagged: 1 });
  });

  it('forgets what is past its window', () => {
    const made = table();
    made.add(decodedRecord(), 0);
    made.add(decodedRecord(), 10 * 60_000);
    expect(made.view('b', 10 * 60_000, hourMs).levels[0]?.requests).toBe(2);
    expect(made.view('b', 10 * 60_000, 5 * 60_000).levels[0]?.requests).toBe(1);
    expect(made.view('b', 3 * hourMs, hourMs).levels).toEqual([]);
  });

  it('has no price where none is given', () => {
    const made = table();
    made.add(decodedRecord(), 0);
    expect(made.view('b', 1, hourMs).levels[0]).not.toHaveProperty('costPerMillionTokens');
  });

  it('places every mean in exactly one level, by the whole number nearest to it', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 5000, noNaN: true }), (concurrency) => {
        const at = levelOf(concurrency);
        const nearest = Math.max(1, Math.round(concurrency));
        expect(nearest).toBeLessThanOrEqual(levelEnds[at] ?? Number.POSITIVE_INFINITY);
        expect(nearest).toBeGreaterThan(levelEnds[at - 1] ?? 0);
      }),
    );
  });

  it('prices a million tokens', () => {
    expect(costPerMillion(2, 1000)).toBeCloseTo(0.5556, 4);
  });
});
