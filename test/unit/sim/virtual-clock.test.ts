import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createVirtualClock, runVirtual } from '../../../src/sim/virtual-clock.ts';

describe('virtual clock', () => {
  it('fires timers in the order of their times, equal ones in the order in which they were set', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ delayMs: fc.integer({ min: 0, max: 20 }), cancelled: fc.boolean() }), { maxLength: 60 }),
        (timers) => {
          const clock = createVirtualClock();
          const fired: { atMs: number; index: number }[] = [];
          timers.forEach(({ delayMs, cancelled }, index) => {
            const timer = clock.timer(delayMs, () => fired.push({ atMs: clock.nowMs(), index }));
            if (cancelled) timer.cancel();
          });
          clock.runAll();
          const expected = timers.flatMap(({ delayMs, cancelled }, index) =>
            cancelled ? [] : [{ atMs: 1 + delayMs, index }],
          );
          expect(fired).toEqual(expected.toSorted((left, right) => left.atMs - right.atMs || left.index - right.index));
          expect(clock.pending).toBe(0);
        },
      ),
    );
  });

  it('starts at 1, moves its wall clock along, and stands where it was told to', () => {
    const clock = createVirtualClock();
    const wallMs = clock.wallMs();
    let fired = 0;
    clock.timer(50, () => (fired += 1));
    clock.timer(150, () => (fired += 1));
    expect(clock.nowMs()).toBe(1);
    clock.runUntil(100);
    expect([clock.nowMs(), fired, clock.pending, clock.wallMs() - wallMs]).toEqual([100, 1, 1, 99]);
  });

  it('notices a simulation that never ends', () => {
    const clock = createVirtualClock();
    const again = () => void clock.timer(1, again);
    again();
    expect(() => clock.runAll(1000)).toThrow('1000 timers');
  });

  it('feeds arrivals at their own moments, an endless source too when there is a limit', () => {
    const clock = createVirtualClock();
    const seen: number[] = [];
    const endMs = runVirtual(clock, [{ atMs: 5 }, { atMs: 5 }, { atMs: 30 }], {
      arrive: () => seen.push(clock.nowMs()),
    });
    expect([seen, endMs]).toEqual([[6, 6, 31], 31]);
    function* endless() {
      for (let atMs = 0; ; atMs += 10) yield { atMs };
    }
    let count = 0;
    expect(runVirtual(clock, endless(), { arrive: () => (count += 1), untilMs: 95 })).toBe(31 + 95);
    expect(count).toBe(10);
  });
});
