import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createJsonNesting } from '../../../src/platform/json-nesting.ts';

describe('nesting', () => {
  it('tells what each left container stood in, as a plain stack does', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('object', 'array', 'leave'), { maxLength: 2000 }), (steps) => {
        const nesting = createJsonNesting(1000);
        const stack: boolean[] = [];
        for (const step of steps) {
          if (step !== 'leave') {
            const fits = stack.length < 1000;
            expect(nesting.enter(step === 'object')).toBe(fits);
            if (fits) stack.push(step === 'object');
          } else if (stack.length > 0) {
            stack.pop();
            expect(nesting.leave()).toBe(stack.at(-1) ?? false);
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  it('refuses what is deeper than its bound and enters nothing', () => {
    const nesting = createJsonNesting(2);
    expect([nesting.enter(true), nesting.enter(false), nesting.enter(true)]).toEqual([true, true, false]);
    expect(nesting.leave()).toBe(true);
  });
});
