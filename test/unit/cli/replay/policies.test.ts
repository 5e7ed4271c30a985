/** The evaluation of `test/bench/routing` in small: does the default policy keep what it promises? Seeded, so it can't be lucky. */
import { describe, expect, it } from 'vitest';
import { policyNames } from '../../../../src/domain/routing.ts';
import { changed, engineModels } from '../../../../src/sim/fleet/engine-models.ts';
import { baselineNames } from '../../../bench/routing/baselines.ts';
import { evaluate } from '../../../bench/routing/evaluation.ts';
import { tableOf } from '../../../bench/routing/evaluation-text.ts';

const big = changed(engineModels['vllm-h100'].settings, { kvTokens: 1_228_800 });
/** Conversations at a load that only good routing can bear. */
const overloaded = {
  name: 'conversation, overloaded',
  source: 'conversation',
  requests: 1500,
  seed: 5,
  backends: 4,
  engine: big,
  scale: 1.25,
  ttftMs: 5000,
} as const;

describe('the default policy on simulated engines', () => {
  it(
    'is well above round-robin and no worse than any other, finds nearly all that can be found, and foretells it',
    {
      timeout: 120_000,
    },
    () => {
      const result = evaluate(overloaded, policyNames, {});
      const figures = new Map(result?.rows.map((row) => [row.candidate, row.figures]));
      const warm = figures.get('warm');
      expect(warm?.unserved).toBe(0);
      expect(warm?.goodShare).toBeGreaterThan(1.5 * (figures.get('round-robin')?.goodShare ?? 1));
      for (const name of policyNames)
        expect(warm?.goodShare, name).toBeGreaterThan((figures.get(name)?.goodShare ?? 1) - 0.02);
      expect(warm?.hitShare).toBeGreaterThan(0.92 * (result?.pooledHitShare ?? 1));
      expect(Math.abs(warm?.bias ?? 1)).toBeLessThan(0.03);
    },
  );

  it('loses little when all that it hears of times is wrong by half or double', { timeout: 120_000 }, () => {
    const good = (toldTimes: number) =>
      evaluate({ ...overloaded, toldTimes }, ['warm'], {})?.rows[0]?.figures.goodShare ?? 0;
    const truth = good(1);
    expect(good(2)).toBeGreaterThan(truth - 0.05);
    expect(good(0.5)).toBeGreaterThan(truth - 0.05);
  });
});

describe('the evaluation', () => {
  it('plays every baseline, and leaves out what needs a trace that is not there', () => {
    const small = { ...overloaded, requests: 60, scale: 1 };
    const result = evaluate(small, [...baselineNames, 'perfect'], {});
    expect(result?.rows.map(({ figures }) => figures.unserved)).toEqual(Array.from({ length: 8 }, () => 0));
    const page = tableOf(result === undefined ? [] : [result]);
    for (const name of baselineNames) expect(page).toContain(`| ${name} | `);
    expect(evaluate({ ...small, source: 'mooncake' }, ['warm'], {})).toBeUndefined();
  });
});
