import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeFill, nextFill, type FillRound } from '../../../../../src/cli/doctor/cache/fill.ts';
import { costOf, planCache } from '../../../../../src/cli/doctor/cache/plan.ts';

const facts = {
  contextTokens: undefined,
  blockTokens: undefined,
  slots: undefined,
  promptTokens: undefined,
  rounds: 6,
};

describe('the plan of a cache experiment', () => {
  it('keeps its prompts well inside the context', () => {
    fc.assert(
      fc.property(fc.integer({ min: 512, max: 200_000 }), (contextTokens) => {
        const { longTokens, prefixTokens } = planCache({ ...facts, contextTokens });
        return longTokens <= contextTokens * 0.4 && Math.max(...prefixTokens) < longTokens;
      }),
    );
  });

  it('parts from the base ever earlier, since a slot keeps only what it was cut back to', () => {
    for (const promptTokens of [200, 600, 4000]) {
      const { prefixTokens } = planCache({ ...facts, promptTokens });
      expect(prefixTokens).toEqual(prefixTokens.toSorted((a, b) => b - a));
      for (const tokens of prefixTokens) expect(tokens % 32).toBe(23);
    }
  });

  it('grows its prompts with the block that the engine names', () => {
    expect(planCache({ ...facts, blockTokens: 544 }).longTokens).toBe(1632);
    expect(planCache({ ...facts, blockTokens: 544, contextTokens: 2048 }).longTokens).toBe(819);
  });

  it('takes all slots of a small server, and some where they are not known', () => {
    expect(planCache({ ...facts, slots: 2 }).displacing).toBe(2);
    expect(planCache({ ...facts, slots: 64 }).displacing).toBe(8);
    expect(planCache(facts).displacing).toBe(4);
  });

  it('costs what it says, and is large only when asked for large prompts', () => {
    expect(costOf(planCache(facts), 1000)).toMatchObject({ timeoutMs: 1000, large: false });
    expect(costOf(planCache({ ...facts, promptTokens: 20_000 }), 1000).large).toBe(true);
  });
});

describe('filling a cache', () => {
  it('doubles, then halves, and ends near its size', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1000, max: 90_000 }), (size) => {
        const rounds: FillRound[] = [];
        for (let next = nextFill(rounds, 300, 100_000); next !== undefined; next = nextFill(rounds, 300, 100_000)) {
          rounds.push({ tokens: next, kept: next <= size });
          if (rounds.length > 40) return false;
        }
        const kept = Math.max(...rounds.filter((round) => round.kept).map(({ tokens }) => tokens));
        const lost = Math.min(...rounds.filter((round) => !round.kept).map(({ tokens }) => tokens));
        // Past the bound nothing is sent, so the upper border may be missing.
        return (
          kept <= size &&
          (lost === Number.POSITIVE_INFINITY
            ? kept * 2 > 100_000
            : lost > size && lost <= Math.max(kept * 1.3, kept + 300))
        );
      }),
    );
  });

  it('says what it found, and how far it went', () => {
    expect(
      judgeFill([
        { tokens: 300, kept: true },
        { tokens: 600, kept: false },
      ]).says,
    ).toBe('holds between 300 and 600 tokens of other prompts');
    expect(judgeFill([{ tokens: 300, kept: true }]).says).toBe('holds more than 300 tokens: filled no further');
    expect(judgeFill([]).verdict).toBe('unknown');
  });
});
