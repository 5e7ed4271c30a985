import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RateBucket } from '../../../src/access/rate-bucket.ts';

describe('a rate bucket', () => {
  it('gives at once what a minute has, then as much as the time brings', () => {
    const bucket = new RateBucket(60, 1);
    bucket.take(60, 1);
    expect(bucket.level(1)).toBe(0);
    expect(bucket.waitMs(1, 1)).toBe(1000);
    expect(bucket.waitMs(1, 1001)).toBe(0);
    expect(bucket.level(1001)).toBe(1);
    expect(bucket.fullMs(1001)).toBe(59_000);
  });

  it('pays what it was overdrawn by before it gives again', () => {
    const bucket = new RateBucket(60, 1);
    bucket.take(90, 1);
    expect(bucket.level(1)).toBe(-30);
    expect(bucket.waitMs(1, 1)).toBe(31_000);
  });

  it('lets what is larger than all of it wait until it is full, not for ever', () => {
    const bucket = new RateBucket(60, 1);
    expect(bucket.waitMs(1000, 1)).toBe(0);
    bucket.take(1, 1);
    expect(bucket.waitMs(1000, 1)).toBe(1000);
  });

  it('never holds more than a minute has, whatever is given back, and never lets more through', () => {
    const step = fc.record({ afterMs: fc.nat(20_000), amount: fc.integer({ min: 1, max: 30 }), back: fc.nat(30) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const bucket = new RateBucket(60, 1);
        let nowMs = 1;
        let taken = 0;
        for (const { afterMs, amount, back } of steps) {
          nowMs += afterMs;
          if (bucket.waitMs(amount, nowMs) === 0) {
            bucket.take(amount, nowMs);
            const returned = Math.min(back, amount);
            bucket.take(-returned, nowMs);
            taken += amount - returned;
          }
          expect(bucket.level(nowMs)).toBeLessThanOrEqual(60);
          expect(taken).toBeLessThanOrEqual(60 + (nowMs - 1) / 1000 + 1e-6);
        }
      }),
    );
  });
});
