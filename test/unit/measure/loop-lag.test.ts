import { expect, it } from 'vitest';
import { createLoopLag, lagLimitMs, lagTickMs } from '../../../src/measure/loop-lag.ts';
import type { Clock } from '../../../src/platform/clock.ts';
import { createFakeClock } from '../../support/fake-clock.ts';

/** A clock whose loop can be held up: time passes, timers wait. */
function createBlockedClock() {
  const fake = createFakeClock();
  let blockedMs = 0;
  const clock: Clock = { ...fake, nowMs: () => fake.nowMs() + blockedMs };
  return {
    clock,
    advance: (ms: number) => fake.advance(ms),
    pending: () => fake.pending(),
    block: (ms: number) => void (blockedMs += ms),
  };
}

it('a loop that runs on time has no lag', () => {
  const { clock, advance } = createBlockedClock();
  const lag = createLoopLag(clock);
  advance(1000);
  expect(lag.laggedSince(0)).toBe(false);
  lag.stop();
});

it('a held-up loop is seen by all that ran meanwhile, and by none that began after it', () => {
  const { clock, advance, block } = createBlockedClock();
  const lag = createLoopLag(clock);
  advance(lagTickMs * 4);
  block(lagLimitMs + lagTickMs + 1);
  expect(lag.laggedSince(50)).toBe(true);
  advance(lagTickMs);
  const afterMs = clock.nowMs() + 1;
  advance(lagTickMs * 4);
  expect(lag.laggedSince(50)).toBe(true);
  expect(lag.laggedSince(afterMs)).toBe(false);
  lag.stop();
});

it('is seen at once, before the next look', () => {
  const { clock, block } = createBlockedClock();
  const lag = createLoopLag(clock);
  block(lagLimitMs + lagTickMs + 1);
  expect(lag.laggedSince(clock.nowMs())).toBe(true);
  lag.stop();
});

it('leaves no timer behind', () => {
  const { clock, advance, pending } = createBlockedClock();
  const lag = createLoopLag(clock);
  advance(100);
  lag.stop();
  expect(pending()).toBe(0);
});

it('tells how late each look came', () => {
  const { clock, advance, block } = createBlockedClock();
  const late: number[] = [];
  const lag = createLoopLag(clock, (ms) => late.push(ms));
  advance(lagTickMs);
  block(7);
  advance(lagTickMs);
  advance(lagTickMs);
  lag.stop();
  expect(late).toEqual([0, 7, 0]);
});
