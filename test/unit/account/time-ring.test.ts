import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createTimeRing } from '../../../src/account/time-ring.ts';

const size = { slotMs: 10, slots: 6 };
const make = () => ({ sum: 0 });

describe('a ring of time slots', () => {
  it('gives the same slot to moments of one slot, and forgets what it has passed', () => {
    const ring = createTimeRing(size, 0, make);
    expect(ring.at(3)).toBe(ring.at(9));
    expect(ring.at(3)).not.toBe(ring.at(10));
    const first = ring.at(3);
    ring.at(61);
    expect(ring.at(3)).toBeUndefined();
    expect(ring.at(61)).not.toBe(first);
  });

  it('shows a window’s slots, newest first, and how much time they cover', () => {
    const ring = createTimeRing(size, 1, make);
    for (const ms of [5, 15, 25, 35]) (ring.at(ms) ?? make()).sum = ms;
    expect(ring.within(36, 20).map(({ sum }) => sum)).toEqual([35, 25]);
    expect(ring.coveredMs(36, 20)).toBe(16);
    expect(ring.within(36, 1000).map(({ sum }) => sum)).toEqual([35, 25, 15, 5]);
    // No window covers time before it began.
    expect(ring.coveredMs(36, 1000)).toBe(35);
    expect(ring.within(500, 20)).toEqual([]);
  });

  it('spreads a stretch of time over its slots, all of it while the ring holds it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 0, max: 50 }), (fromMs, lengthMs) => {
        const ring = createTimeRing(size, 0, make);
        ring.spread(fromMs, fromMs + lengthMs, (slot, ms) => (slot.sum += ms));
        const total = ring.within(fromMs + lengthMs, 60).reduce((sum, slot) => sum + slot.sum, 0);
        expect(total).toBe(lengthMs);
      }),
    );
  });

  it('takes a stretch longer than itself for what it can hold, without walking all of it', () => {
    const ring = createTimeRing(size, 0, make);
    let calls = 0;
    ring.spread(0, 1e12, () => (calls += 1));
    expect(calls).toBeLessThanOrEqual(size.slots);
  });
});
