import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLineOrder } from '../../../../src/batch/input/line-order.ts';

/** @returns the lines in the order in which they are sent */
function sent(chains: readonly (readonly number[] | undefined)[]): number[] {
  const order = createLineOrder();
  for (const chain of chains) order.add(chain === undefined ? undefined : Float64Array.from(chain));
  for (const step of order.rank()) expect(step).toBeUndefined();
  const lines: number[] = [];
  for (const [line, rank] of order.ranks.entries()) lines[rank] = line;
  return lines;
}

describe('createLineOrder', () => {
  it('leaves the order of the file where nothing is shared', () => {
    expect(sent([[5], [9], undefined, [1], [], [3]])).toEqual([0, 1, 2, 3, 4, 5]);
    expect(sent([])).toEqual([]);
  });

  it('puts lines with a common beginning together, the longest one closest, groups by their earliest line', () => {
    const chains = [
      [1, 10, 100],
      [2, 20],
      [1, 11],
      [1, 10, 101],
      [2, 20],
      [1, 10],
    ];
    expect(sent(chains)).toEqual([5, 0, 3, 2, 1, 4]);
  });

  it('is the same whether a chain forks before or behind another of its length', () => {
    expect(sent([[1, 2, 3, 4], [7], [1, 2, 3, 5], [1, 2], [1, 9]])).toEqual([3, 0, 2, 4, 1]);
  });

  it('never splits a group: between two lines with a common beginning all have at least that', () => {
    const chain = fc.option(fc.array(fc.oneof(fc.nat(1), fc.nat(14)), { maxLength: 5 }), { nil: undefined });
    fc.assert(
      fc.property(fc.array(chain, { maxLength: 40, size: 'max' }), (chains) => {
        const lines = sent(chains);
        expect(lines.toSorted((a, b) => a - b)).toEqual(chains.map((_, line) => line));
        const shared = (a: number, b: number) => {
          const [one = [], other = []] = [chains[a], chains[b]];
          let depth = 0;
          while (depth < one.length && depth < other.length && one[depth] === other[depth]) depth += 1;
          return depth;
        };
        for (let i = 0; i < lines.length; i += 1) {
          for (let k = i + 2; k < lines.length; k += 1) {
            const [first = 0, last = 0] = [lines[i], lines[k]];
            for (const between of lines.slice(i + 1, k))
              expect(shared(first, between)).toBeGreaterThanOrEqual(shared(first, last));
          }
        }
      }),
    );
  });

  it('looks at long chains at ever fewer places, which are the same for all', () => {
    const long = Array.from({ length: 1024 }, (_, at) => at);
    const forkedLate = long.map((key, at) => (at < 900 ? key : key + 5000));
    const forkedEarly = long.map((key, at) => (at < 20 ? key : key + 9000));
    expect(sent([long, forkedEarly, forkedLate])).toEqual([0, 2, 1]);
  });

  it('ranks 50,000 lines of a thousand system prompts in many short steps', () => {
    const order = createLineOrder();
    for (let line = 0; line < 50_000; line += 1)
      order.add(Float64Array.from({ length: 20 }, (_, at) => (at < 10 ? (line % 1000) + 1 : line * 100 + at)));
    let steps = 0;
    for (const step of order.rank()) {
      expect(step).toBeUndefined();
      steps += 1;
    }
    expect([order.ranks[0], order.ranks[1000], order.ranks[1]]).toEqual([0, 1, 50]);
    expect(steps).toBeGreaterThan(190);
  });
});
