import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createKeyTable } from '../../../src/sim/key-table.ts';

describe('the table of block keys', () => {
  it('holds what a map would hold, whatever is put in and taken out', () => {
    // Few homes, so that chains of probes form and are cut.
    const key = fc.nat({ max: 40 }).map((low) => low * 2_097_152 * 1024);
    const steps = fc.array(fc.record({ key, put: fc.boolean(), value: fc.nat({ max: 1000 }) }), { maxLength: 300 });
    fc.assert(
      fc.property(steps, (list) => {
        const table = createKeyTable(41);
        const map = new Map<number, number>();
        for (const { key: at, put, value } of list) {
          if (put) {
            table.set(at, value);
            map.set(at, value);
          } else {
            table.delete(at);
            map.delete(at);
          }
          expect(table.size).toBe(map.size);
        }
        for (let low = 0; low <= 40; low += 1) {
          const at = low * 2_097_152 * 1024;
          expect(table.get(at)).toBe(map.get(at));
          expect(table.has(at)).toBe(map.has(at));
        }
      }),
    );
  });

  it('finds nothing under no number', () => {
    const table = createKeyTable(2);
    table.set(1, 7);
    expect(table.has(Number.NaN)).toBe(false);
    expect(table.get(Number.NaN)).toBeUndefined();
  });

  it('says when it is full instead of searching for ever', () => {
    const table = createKeyTable(2);
    table.set(1, 1);
    table.set(2, 2);
    table.set(2, 3);
    expect(() => table.set(3, 3)).toThrow('full');
  });
});
