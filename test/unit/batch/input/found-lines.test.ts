import fc from 'fast-check';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { createLineTable } from '../../../../src/batch/input/found-lines.ts';

const lineOf = (index: number, customId: string) => ({
  line: index + 1,
  customId,
  at: index * 2 ** 33,
  bytes: index + 7,
});

it('C166 gives back what was added, and the line of an id that came before, as a map would', () => {
  const id = fc.oneof(
    fc.string({ minLength: 1, maxLength: 3, unit: fc.constantFrom('a', 'b', 'ü', '€', '😀') }),
    fc.string({ minLength: 500, maxLength: 512, unit: fc.constantFrom('a', '€') }),
  );
  fc.assert(
    fc.property(fc.array(id, { maxLength: 700 }), (ids) => {
      const table = createLineTable();
      const known = new Map<string, number>();
      for (const [index, customId] of ids.entries()) {
        expect(table.add(lineOf(index, customId))).toBe(known.get(customId));
        if (!known.has(customId)) known.set(customId, index + 1);
      }
      table.ranks = Uint32Array.from({ length: known.size }, (_, index) => 2 * index);
      const lines = [...known].map(([customId, line], index) => ({ ...lineOf(line - 1, customId), rank: 2 * index }));
      expect(table.count).toBe(lines.length);
      expect(table.slice(0, Number.POSITIVE_INFINITY)).toEqual(lines);
      expect(table.slice(1, 3)).toEqual(lines.slice(1, 3));
    }),
    { numRuns: 50 },
  );
});

it('C179 holds 300,000 lines in less than 100 bytes each beside their ids, and takes none of them for another', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const held = () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return { heapUsed, arrayBuffers };
  };
  const before = held();
  const table = createLineTable();
  // Among so many some ten pairs have the same 32 bits of hash.
  let taken = 0;
  for (let index = 0; index < 300_000; index += 1)
    if (table.add(lineOf(index, `request-${String(index).padStart(8, '0')}`)) !== undefined) taken += 1;
  expect(taken).toBe(0);
  const after = held();
  expect(table.slice(299_999, 300_000)).toMatchObject([{ line: 300_000, customId: 'request-00299999' }]);
  // As objects, texts and a map's entries they would take 50 MB of it.
  expect(after.heapUsed - before.heapUsed).toBeLessThan(5e6);
  expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(30e6);
});
