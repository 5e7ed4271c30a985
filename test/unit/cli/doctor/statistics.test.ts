import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareGroups, medianOf, spreadOf, spreadText } from '../../../../src/cli/doctor/statistics.ts';

describe('a spread', () => {
  it('has the median and both ends', () => {
    expect(spreadOf([3, 1, 2])).toEqual({ median: 2, low: 1, high: 3, count: 3 });
    expect(medianOf([4, 1, 2, 3])).toBe(2.5);
    expect(spreadOf([])).toBeUndefined();
    expect(spreadText(spreadOf([120.4, 12.34, 5]))).toBe('12.3 ms (5.00–120, n 3)');
  });
});

describe('two groups', () => {
  it('are apart when nearly all of one is below the other and the medians are', () => {
    expect(compareGroups([10, 11, 12, 13], [30, 31, 29, 33])).toBe('below');
    expect(compareGroups([10, 11, 12, 13, 12, 11, 90], [30, 31, 29, 33, 35])).toBe('unclear');
  });

  it('are alike when they overlap, or differ by less than a hit would make', () => {
    expect(compareGroups([30, 28, 33, 29], [30, 31, 29, 33])).toBe('alike');
    expect(compareGroups([28, 28, 28, 28], [30, 30, 30, 30])).toBe('alike');
  });

  it('of fewer than four are never judged', () => {
    expect(compareGroups([1, 1, 1], [90, 90, 90, 90])).toBe('unclear');
    expect(compareGroups([1, 1, 1, 1], [90, 90, 90])).toBe('unclear');
  });

  it('can not both be below the other', () => {
    const group = fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 4, maxLength: 12 });
    fc.assert(
      fc.property(group, group, (a, b) => !(compareGroups(a, b) === 'below' && compareGroups(b, a) === 'below')),
    );
  });

  it('from one distribution are hardly ever told apart', () => {
    let apart = 0;
    const group = fc.array(fc.integer({ min: 50, max: 150 }), { minLength: 6, maxLength: 6 });
    fc.assert(
      fc.property(group, group, (a, b) => {
        if (compareGroups(a, b) === 'below') apart += 1;
      }),
      { numRuns: 2000, seed: 7 },
    );
    expect(apart).toBeLessThan(20);
  });
});
