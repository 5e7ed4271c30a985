import { describe, expect, it } from 'vitest';

import { studentQuantile } from '../../../../src/account/report/bootstrap.ts';
import { compare, type Comparison, type Difference } from '../../../../src/account/report/compare.ts';
import { createSlices, type Slices } from '../../../../src/account/report/slices.ts';
import type { Row } from '../../../../src/account/report/row.ts';
import { logStartMs, row } from '../../../support/log-rows.ts';

const plain = row();

/** Fixed chance: the verdicts below are of these very rows. */
function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Requests whose times hang on a load that changes every so often. */
function rowsOf(seed: number, { count = 2000, factor = 1, failing = 0.02 } = {}): readonly Row[] {
  const random = chance(seed);
  let load = 1;
  return Array.from({ length: count }, (_, i) => {
    if (i % 25 === 0) load = 0.8 + 0.4 * random();
    const ttftMs = (100 + 300 * random()) * load * factor;
    const tpotMs = 20 * load * factor * (0.9 + 0.2 * random());
    return {
      ...plain,
      startedAtMs: logStartMs + i * 500,
      warmth: random() < 0.5 ? 'prefix_hit' : 'resident',
      outcome: random() < failing ? 'timeout' : 'ok',
      ttftMs,
      tpotMs,
      e2eMs: ttftMs + 100 * tpotMs,
    };
  });
}

function slicesOf(rows: readonly Row[]): Slices {
  const slices = createSlices();
  for (const one of rows) slices.add(one);
  return slices;
}

const compared = (before: readonly Row[], after: readonly Row[]) => compare(slicesOf(before), slicesOf(after));

function differenceOf({ differences }: Comparison, figure: Difference['figure'], quantile?: string) {
  const found = differences.find((one) => one.figure === figure && one.quantile === quantile);
  if (found === undefined) throw new Error(`no ${figure}`);
  return found;
}

describe('two windows side by side', () => {
  it('sees no difference between a window and itself', () => {
    const rows = rowsOf(1);
    for (const { verdict, difference, interval } of compared(rows, rows).differences) {
      expect(verdict).toBe('no_difference_seen');
      expect(difference).toBe(0);
      expect(interval?.low).toBeLessThanOrEqual(0);
    }
  });

  it.each([2, 3, 4, 5, 6])('sees none between halves of the same load, however noisy (seed %i)', (seed) => {
    const { differences } = compared(rowsOf(seed), rowsOf(seed + 100));
    expect(differences.length).toBeGreaterThan(10);
    expect(differences.filter(({ verdict }) => verdict !== 'no_difference_seen')).toEqual([]);
  });

  it.each([2, 3, 4])(
    'sees what is a fifth faster, in the right direction, with the truth in the interval (seed %i)',
    (seed) => {
      const comparison = compared(rowsOf(seed), rowsOf(seed + 100, { factor: 0.8 }));
      for (const figure of ['ttft', 'tpot', 'e2e'] as const)
        expect(differenceOf(comparison, figure, 'p50').verdict).toBe('lower');
      expect(differenceOf(comparison, 'decodeSpeed').verdict).toBe('higher');
      expect(differenceOf(comparison, 'failed').verdict).toBe('no_difference_seen');
      const { interval, before } = differenceOf(comparison, 'tpot', 'p50');
      const truth = -0.2 * (before.value ?? 0);
      expect(interval?.low).toBeLessThan(truth);
      expect(interval?.high).toBeGreaterThan(truth);
    },
  );

  it('sees that more fail', () => {
    const comparison = compared(rowsOf(1, { failing: 0.01 }), rowsOf(101, { failing: 0.2 }));
    expect(differenceOf(comparison, 'failed')).toMatchObject({
      verdict: 'higher',
      before: { n: 2000 },
      after: { n: 2000 },
    });
  });

  it('says nothing of a handful', () => {
    const comparison = compared(rowsOf(1, { count: 5 }), rowsOf(2, { count: 5, factor: 0.1 }));
    expect(new Set(comparison.differences.map(({ verdict }) => verdict))).toEqual(new Set(['too_little_data']));
  });

  it('gives the same interval each time', () => {
    expect(compared(rowsOf(1), rowsOf(2))).toEqual(compared(rowsOf(1), rowsOf(2)));
  });

  it('shares one confidence among all that it tells, and shows the loads', () => {
    const { differences, confidence, confidenceEach, before } = compared(rowsOf(1), rowsOf(2));
    expect((1 - confidenceEach) * differences.length).toBeCloseTo(1 - confidence, 9);
    expect(before).toMatchObject({ requests: 2000, promptTokensMean: 1000, outputTokensMean: 101 });
    expect(before.slices).toBeGreaterThan(30);
    expect(before.slices).toBeLessThanOrEqual(64);
  });
});

describe('slices', () => {
  it('stay few however long the window gets, and lose nothing', () => {
    const slices = createSlices();
    for (let day = 0; day < 400; day += 1) slices.add({ ...plain, startedAtMs: logStartMs + day * 86_400_000 });
    expect(slices.list().length).toBeLessThanOrEqual(64);
    expect(slices.list().reduce((sum, { requests }) => sum + requests, 0)).toBe(400);
  });

  it('take rows in any order', () => {
    const rows = rowsOf(1, { count: 500 });
    const counts = (slices: Slices) => slices.list().map(({ requests }) => requests);
    expect(counts(slicesOf(rows.toReversed()))).toEqual(counts(slicesOf(rows)));
  });
});

describe('Student’s t', () => {
  // Tables: two-sided 95 % and 99.8 %.
  it.each([
    [0.975, 5, 2.571],
    [0.975, 30, 2.042],
    [0.999, 9, 4.297],
    [0.999, 20, 3.552],
    [0.9999, 60, 3.962],
  ])('at %f with %i degrees of freedom is %f', (share, freedom, value) => {
    expect(Math.abs(studentQuantile(share, freedom) / value - 1)).toBeLessThan(0.01);
  });
});
