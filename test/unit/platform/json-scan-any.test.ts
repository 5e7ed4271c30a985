import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonText, rawValue as raw, scanCut as scan, wanted } from '../../support/json-bodies.ts';

describe('any document', () => {
  it('cut anywhere, gives the members that JSON.parse gives', () => {
    const keys = new Map([...wanted.keys()].map((key) => [key, 1_000_000]));
    fc.assert(
      fc.property(jsonText, fc.array(fc.nat(400)), ({ value, text }, cuts) => {
        const result = scan(text, cuts, keys);
        expect(result.readable).toBe(true);
        const parsed = JSON.parse(text) as Record<string, unknown>;
        expect([...result.fields.keys()].toSorted()).toEqual(
          Object.keys(value)
            .filter((key) => keys.has(key))
            .toSorted(),
        );
        for (const [key, field] of result.fields) {
          expect(JSON.parse(raw(text, result, key) ?? '')).toEqual(parsed[key]);
          expect(field.value?.toString()).toBe(raw(text, result, key));
          expect(Buffer.from(text)[field.keyStart]).toBe(0x22);
          const item = parsed[key];
          if (Array.isArray(item)) {
            expect(field.elements).toEqual({
              count: item.length,
              numbers: item.filter((one) => typeof one === 'number').length,
            });
          }
        }
      }),
      { numRuns: 400 },
    );
  });

  it('damaged anywhere, is never readable where JSON.parse would throw, save for what is tolerated', () => {
    const damage = fc.record({
      at: fc.nat(400),
      remove: fc.nat(3),
      put: fc.string({ unit: fc.constantFrom(...'{}[]",:\\0123.-eE+tfnNI \u0001x'.split('')), maxLength: 3 }),
    });
    let readable = 0;
    fc.assert(
      fc.property(jsonText, damage, fc.array(fc.nat(400)), ({ text }, { at, remove, put }, cuts) => {
        const from = at % (text.length + 1);
        const damaged = text.slice(0, from) + put + text.slice(from + remove);
        const result = scan(damaged, cuts);
        const sane = isTolerable(damaged);
        if (result.readable) readable += 1;
        if (result.readable) expect(sane).toBe(true);
        if (sane && !damaged.includes('\\')) expect(result.readable).toBe(true);
      }),
      { numRuns: 2000 },
    );
    expect(readable).toBeGreaterThan(50);
  });
});

/** JSON.parse's own opinion, once the strings are emptied and Python's numbers replaced. */
function isTolerable(text: string): boolean {
  const bare = text.replace(/"(?:[^"\\]|\\[\s\S])*"/g, '""').replace(/-?\bInfinity\b|\bNaN\b/g, '0');
  try {
    const value: unknown = JSON.parse(bare);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
