import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { lowerName } from '../../../src/platform/header-name.ts';

describe('a header name in lower case', () => {
  it('is what toLowerCase gives, however many names there are', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 80 }), { maxLength: 700 }), (names) => {
        for (const name of [...names, ...names]) expect(lowerName(name)).toBe(name.toLowerCase());
      }),
      { numRuns: 20 },
    );
  });
});
