import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { absent, createStampTable } from '../../../../src/route/warm/stamp-table.ts';
import { createSeededRandom } from '../../../../src/sim/seeded-random.ts';

/** Keys spread over 53 bits, the same for the same number. */
const keyOf = (number: number) => ((number * 2_654_435_761) % 2 ** 21) * 2 ** 32 + number;

describe('a table with room', () => {
  test('says what a map says, whatever is touched and removed', () => {
    const step = fc.record({
      kind: fc.constantFrom('touch', 'touch', 'touch', 'remove', 'ask'),
      key: fc.integer({ min: 0, max: 400 }),
      owner: fc.integer({ min: 1, max: 5 }),
      stamp: fc.integer({ min: -1000, max: 1000 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 1500 }), (steps) => {
        const table = createStampTable(100_000);
        const model = new Map<string, number>();
        for (const { kind, key, owner, stamp } of steps) {
          const name = `${key}/${owner}`;
          const before = model.get(name) ?? absent;
          table.open();
          if (kind === 'touch') {
            expect(table.touch(keyOf(key), owner, stamp)).toBe(before);
            model.set(name, Math.max(before, stamp));
          } else if (kind === 'remove') {
            table.remove(keyOf(key), owner);
            model.delete(name);
          } else expect(table.stampOf(keyOf(key), owner)).toBe(before);
        }
        expect(table.entries).toBe(model.size);
        for (const [name, stamp] of model) {
          const [key = 0, owner = 0] = name.split('/').map(Number);
          expect(table.stampOf(keyOf(key), owner)).toBe(stamp);
        }
        for (let owner = 1; owner <= 5; owner += 1)
          expect(table.entriesOf(owner)).toBe([...model.keys()].filter((name) => name.endsWith(`/${owner}`)).length);
      }),
      { numRuns: 60 },
    );
  });

  test('finds everything again after it has grown a hundredfold, and grew by small steps', () => {
    const table = createStampTable(1_000_000);
    const begun = table.bytes;
    let largestStep = 0;
    let known = 0;
    let bytes = begun;
    const count = 200_000;
    for (let key = 0; key < count; key += 1) {
      if (key % 100 === 0) table.open();
      if (table.touch(keyOf(key), 1 + (key % 3), key) !== absent) known += 1;
      largestStep = Math.max(largestStep, table.bytes - bytes);
      ({ bytes } = table);
    }
    expect(known).toBe(0);
    expect(begun).toBeLessThan(200_000);
    expect(largestStep).toBeLessThan(100_000);
    expect(bytes / count).toBeLessThanOrEqual(64);
    let wrong = 0;
    for (let key = 0; key < count; key += 1) if (table.stampOf(keyOf(key), 1 + (key % 3)) !== key) wrong += 1;
    expect(wrong).toBe(0);
    expect(table.stampOf(keyOf(5), 9)).toBe(absent);
  });
});

describe('a table without room', () => {
  test('never has more than it may, and gives up what was used longest ago', () => {
    for (const maxEntries of [50, 1000, 20_000]) {
      const table = createStampTable(maxEntries);
      const hot = 7_000_001;
      let most = 0;
      for (let key = 0; key < maxEntries * 6; key += 1) {
        if (key % 10 === 0) table.open();
        if (key % 40 === 0) table.touch(keyOf(hot), 1, key);
        table.touch(keyOf(key), 1, key);
        most = Math.max(most, table.entries);
      }
      expect(most).toBeLessThanOrEqual(maxEntries);
      expect(most).toBeGreaterThan(maxEntries * 0.8);
      expect(table.stampOf(keyOf(hot), 1)).not.toBe(absent);
      const last = maxEntries * 6 - 1;
      let kept = 0;
      for (let key = last; table.stampOf(keyOf(key), 1) !== absent; key -= 1) kept += 1;
      expect(kept).toBeGreaterThan(maxEntries * 0.6);
      expect(table.stampOf(keyOf(0), 1)).toBe(absent);
      expect(table.trimmed).toBeGreaterThan(maxEntries * 4);
    }
  });

  test('never leaves a gap in a chain whose head is touched with its tail', () => {
    const random = createSeededRandom(11);
    const table = createStampTable(3000);
    const chains: number[][] = [];
    let next = 1;
    for (let round = 0; round < 4000; round += 1) {
      const parent = chains[Math.floor(random() * chains.length)];
      const shared =
        parent === undefined || random() < 0.2 ? [] : parent.slice(0, Math.floor(random() * parent.length));
      const chain = [...shared, ...Array.from({ length: 1 + Math.floor(random() * 30) }, () => (next += 1))];
      if (chains.length < 300) chains.push(chain);
      else chains[Math.floor(random() * chains.length)] = chain;
      table.open();
      for (const [at, key] of chain.entries()) if (Number.isNaN(table.touch(keyOf(key), 1, round * 100 - at))) break;
      if (round % 25 !== 0) continue;
      for (const other of chains) {
        const stamps = other.map((key) => table.stampOf(keyOf(key), 1));
        expect(stamps.every((stamp, at) => at === 0 || stamp <= (stamps[at - 1] ?? absent))).toBe(true);
      }
    }
    expect(table.trimmed).toBeGreaterThan(3000);
  });

  test('refuses what would not fit beside what is being touched at the same moment', () => {
    const table = createStampTable(100);
    table.open();
    const results = Array.from({ length: 150 }, (_, key) => table.touch(keyOf(key), 1, -key));
    expect(results.findIndex(Number.isNaN)).toBe(100);
    expect(table.entries).toBe(100);
    expect(table.stampOf(keyOf(0), 1)).toBe(-0);
    table.open();
    expect(table.touch(keyOf(500), 1, 1)).not.toBeNaN();
  });
});
