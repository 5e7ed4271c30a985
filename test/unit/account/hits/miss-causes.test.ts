import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { missCauses, missesOf } from '../../../../src/account/hits/miss-causes.ts';
import type { MissCause } from '../../../../src/domain/routing.ts';

const place = { part: 3, startBytes: 0, endBytes: 256 };
const answer = (prompt: number, reusable: number, predicted: number, delivered: number) => ({
  promptTokens: prompt,
  reusableTokens: reusable,
  predictedTokens: predicted,
  deliveredTokens: delivered,
});

describe('why tokens were missed', () => {
  it('is nothing but the last token where the whole prompt was held and came', () => {
    expect(missesOf(answer(1000, 999, 999, 999), {}, 1)).toEqual([{ cause: 'unaligned', tokens: 1 }]);
  });

  it('is the rest of a block where whole blocks came', () => {
    expect(missesOf(answer(1000, 992, 992, 992), {}, 16)).toEqual([{ cause: 'unaligned', tokens: 8 }]);
    // The last block is full, but its last token is computed anew: the whole of it is.
    expect(missesOf(answer(992, 976, 976, 976), {}, 16)).toEqual([{ cause: 'unaligned', tokens: 16 }]);
  });

  it('C152 is that the prompt is shorter than a block', () => {
    expect(missesOf(answer(240, 0, 0, 0), { cause: 'unaligned' }, 784)).toEqual([{ cause: 'unaligned', tokens: 240 }]);
  });

  it('tells what was predicted and did not come, what another backend held, and the rest by the decision', () => {
    expect(missesOf(answer(1000, 700, 400, 100), { cause: 'rerouted', divergence: place }, 1)).toEqual([
      { cause: 'unaligned', tokens: 1 },
      { cause: 'not_delivered', tokens: 300 },
      { cause: 'rerouted', tokens: 300 },
      { cause: 'diverged', tokens: 299 },
    ]);
  });

  it('does not blame the other backend for what the engine delivered unasked', () => {
    expect(missesOf(answer(1000, 700, 400, 650), { cause: 'rerouted' }, 1)).toEqual([
      { cause: 'unaligned', tokens: 1 },
      { cause: 'rerouted', tokens: 50 },
      { cause: 'evicted', tokens: 299 },
    ]);
  });

  it('gives the cause that was named to what nobody held', () => {
    for (const cause of ['new', 'diverged', 'evicted', 'restarted'] as const)
      expect(missesOf(answer(1000, 0, 0, 0), { cause }, 1)).toEqual([
        { cause: 'unaligned', tokens: 1 },
        { cause, tokens: 999 },
      ]);
  });

  it('has one entry for each cause, and nothing of a prompt without tokens', () => {
    expect(missesOf(answer(1000, 0, 0, 0), { cause: 'unaligned' }, 16)).toEqual([{ cause: 'unaligned', tokens: 1000 }]);
    expect(missesOf(answer(0, 0, 0, 0), { cause: 'new' }, 16)).toEqual([]);
  });

  it('adds up to what was missed, exactly, whatever was believed', () => {
    const tokens = fc.nat({ max: 200_000 });
    const cause = fc.option(fc.constantFrom<MissCause>(...missCauses), { nil: undefined });
    fc.assert(
      fc.property(
        fc.record({ prompt: tokens, reusable: tokens, predicted: tokens, delivered: tokens, cause }),
        fc.boolean(),
        fc.integer({ min: 1, max: 1024 }),
        (said, diverges, block) => {
          const predicted = Math.min(said.predicted, said.prompt);
          const reusable = Math.min(Math.max(said.reusable, predicted), said.prompt);
          const delivered = Math.min(said.delivered, said.prompt);
          const note = {
            ...(said.cause === undefined ? {} : { cause: said.cause }),
            ...(diverges ? { divergence: place } : {}),
          };
          const misses = missesOf(answer(said.prompt, reusable, predicted, delivered), note, block);
          expect(misses.reduce((sum, miss) => sum + miss.tokens, 0)).toBe(said.prompt - delivered);
          expect(misses.every((miss) => miss.tokens > 0)).toBe(true);
          expect(new Set(misses.map((miss) => miss.cause)).size).toBe(misses.length);
        },
      ),
    );
  });
});
