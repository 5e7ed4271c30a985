import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { granularityOf } from '../../../../../src/cli/doctor/cache/granularity.ts';
import { planCache } from '../../../../../src/cli/doctor/cache/plan.ts';

const shared = planCache({
  contextTokens: undefined,
  blockTokens: undefined,
  slots: undefined,
  promptTokens: undefined,
  rounds: 4,
}).prefixTokens;
const hitsOf = (lengths: readonly number[], block: number, exact: boolean) =>
  lengths.map((tokens) => ({ cached: Math.floor(tokens / block) * block, shared: { tokens, exact } }));

describe('the granularity of a cache', () => {
  it.each([16, 32, 64, 128, 256])('blocks of %i are found from the planned lengths, exact or estimated', (block) => {
    expect(granularityOf(hitsOf(shared, block, true))).toEqual({ kind: 'blocks', tokens: block });
    expect(granularityOf(hitsOf(shared, block, false))).toEqual({ kind: 'blocks', tokens: block });
  });

  it('single tokens are found, also where the last one is always computed', () => {
    expect(granularityOf(hitsOf(shared, 1, true))).toEqual({ kind: 'tokens' });
    expect(granularityOf(hitsOf(shared, 1, false))).toEqual({ kind: 'tokens' });
    const lastLeft = shared.map((tokens) => ({ cached: tokens - 1, shared: { tokens, exact: true } }));
    expect(granularityOf(lastLeft)).toEqual({ kind: 'tokens' });
  });

  it('a single size of hits proves nothing but what it divides by', () => {
    expect(granularityOf([{ cached: 512 }, { cached: 512 }, { cached: 0 }])).toEqual({ kind: 'unclear', atMost: 512 });
    expect(granularityOf([{ cached: 0 }])).toEqual({ kind: 'unclear' });
    expect(granularityOf([])).toEqual({ kind: 'unclear' });
  });

  it('hits that fall short of the known shared length by more than a block are no blocks', () => {
    const checkpoints = [
      { cached: 256, shared: { tokens: 535, exact: true } },
      { cached: 128, shared: { tokens: 407, exact: true } },
    ];
    expect(granularityOf(checkpoints)).toEqual({ kind: 'unclear', atMost: 128 });
  });

  it('hits beyond the known shared length are no blocks', () => {
    const stale = [
      { cached: 544, shared: { tokens: 535, exact: true } },
      { cached: 416, shared: { tokens: 407, exact: true } },
    ];
    expect(granularityOf(stale)).toMatchObject({ kind: 'unclear' });
  });

  it('is never a block that the hits contradict', () => {
    const pair = fc.record({ tokens: fc.integer({ min: 1, max: 2000 }), block: fc.constantFrom(1, 16, 32, 128) });
    fc.assert(
      fc.property(fc.array(pair, { minLength: 1, maxLength: 8 }), (pairs) => {
        const hits = pairs.map(({ tokens, block }) => ({
          cached: Math.floor(tokens / block) * block,
          shared: { tokens, exact: true },
        }));
        const found = granularityOf(hits);
        if (found.kind !== 'blocks') return true;
        return hits.every(
          ({ cached, shared: { tokens } }) =>
            cached === Math.floor(tokens / found.tokens) * found.tokens || cached === 0,
        );
      }),
    );
  });
});
