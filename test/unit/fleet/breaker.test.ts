import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createBreaker, type Breaker } from '../../../src/fleet/breaker.ts';
import { breakerDefaults, type BreakerSettings } from '../../../src/fleet/settings.ts';

/** Without jitter: a draw in the middle. */
function breakerOf(change: Partial<BreakerSettings> = {}): Breaker {
  return createBreaker({ ...breakerDefaults, ...change }, () => 0.5);
}

/** Fails so often, one a millisecond. @returns the moment of the last one */
function fail(breaker: Breaker, times: number, fromMs: number): number {
  for (let i = 0; i < times; i += 1) breaker.tried('bad', fromMs + i, fromMs + i);
  return fromMs + times - 1;
}

describe('a breaker', () => {
  it('opens after so many failures in a row, and tries again after its backoff', () => {
    const breaker = breakerOf();
    const atMs = fail(breaker, 4, 1);
    expect(breaker.state).toBe('closed');
    expect(breaker.tried('bad', atMs, 10)).toBe(true);
    expect([breaker.state, breaker.dueMs()]).toEqual(['open', 1010]);
    expect(breaker.tick(1009)).toBe(false);
    expect(breaker.tick(1010)).toBe(true);
    expect([breaker.state, breaker.dueMs()]).toEqual(['trial', undefined]);
    expect(breaker.tried('good', 1011, 1020)).toBe(true);
    expect(breaker.state).toBe('closed');
  });

  it('a good one in between begins the run anew', () => {
    const breaker = breakerOf();
    fail(breaker, 4, 1);
    breaker.tried('good', 5, 5);
    fail(breaker, 4, 6);
    expect(breaker.state).toBe('closed');
  });

  it('opens on a share of failures, from enough requests on, within its window only', () => {
    const breaker = breakerOf({ failures: 1000 });
    for (let i = 0; i < 9; i += 1) {
      breaker.tried('bad', i, i);
      breaker.tried('good', i, i);
    }
    expect(breaker.state).toBe('closed');
    breaker.tried('good', 20, 20);
    breaker.tried('bad', 21, 21);
    expect(breaker.state).toBe('open');
    const slow = breakerOf({ failures: 1000 });
    for (let i = 0; i < 30; i += 1) {
      slow.tried('bad', i * 4000, i * 4000);
      slow.tried('good', i * 4000, i * 4000);
    }
    expect(slow.state).toBe('closed');
  });

  it('doubles its backoff up to the most while failures follow one another, and forgets that after a calm time', () => {
    const breaker = breakerOf();
    let nowMs = fail(breaker, 5, 1);
    const backoffs: number[] = [];
    for (let i = 0; i < 7; i += 1) {
      const dueMs = breaker.dueMs() ?? Number.NaN;
      backoffs.push(dueMs - nowMs);
      nowMs = dueMs;
      breaker.tick(nowMs);
      breaker.tried('bad', nowMs, nowMs);
    }
    expect(backoffs).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    nowMs = breaker.dueMs() ?? Number.NaN;
    breaker.tick(nowMs);
    breaker.tried('good', nowMs, nowMs);
    nowMs += 61_000;
    const openedMs = fail(breaker, 5, nowMs);
    expect((breaker.dueMs() ?? 0) - openedMs).toBe(1000);
  });

  it('a backend that falls again soon flaps: each fall makes it wait longer', () => {
    const breaker = breakerOf();
    expect(breaker.fell(1)).toBe(false);
    expect(breaker.state).toBe('closed');
    expect(breaker.fell(2000)).toBe(true);
    const firstMs = (breaker.dueMs() ?? 0) - 2000;
    expect(breaker.fell(3000)).toBe(true);
    expect((breaker.dueMs() ?? 0) - 3000).toBe(2 * firstMs);
    expect(breakerOf().fell(100_000)).toBe(false);
  });

  it('what began before it opened neither closes a trial nor opens it again', () => {
    const breaker = breakerOf();
    const openedMs = fail(breaker, 5, 100);
    expect(breaker.tried('good', 50, openedMs + 1)).toBe(false);
    breaker.tick(breaker.dueMs() ?? 0);
    expect(breaker.tried('good', 50, 2000)).toBe(false);
    expect(breaker.tried('bad', 50, 2000)).toBe(false);
    expect(breaker.state).toBe('trial');
  });

  it('a good answer to work that came there as the last resort closes it', () => {
    const breaker = breakerOf();
    const openedMs = fail(breaker, 5, 100);
    expect(breaker.tried('good', openedMs + 5, openedMs + 50)).toBe(true);
    expect(breaker.state).toBe('closed');
  });

  it('draws its backoff around its length', () => {
    const lengths = [0, 0.999_999].map((draw) => {
      const breaker = createBreaker(breakerDefaults, () => draw);
      return (breaker.dueMs() ?? 0) - 0 || (fail(breaker, 5, 0), (breaker.dueMs() ?? 0) - 4);
    });
    expect(lengths[0]).toBeCloseTo(800);
    expect(lengths[1]).toBeCloseTo(1200, 0);
  });

  it('does nothing while it is switched off', () => {
    const breaker = breakerOf({ enabled: false });
    fail(breaker, 100, 1);
    breaker.fell(200);
    breaker.fell(201);
    expect([breaker.state, breaker.openings]).toEqual(['closed', 0]);
  });

  it('whatever happens, comes to a trial within its longest backoff, and counts its openings', () => {
    const step = fc.record({
      what: fc.constantFrom('good', 'bad', 'fell', 'tick'),
      passMs: fc.integer({ min: 0, max: 40_000 }),
      ageMs: fc.integer({ min: 0, max: 50_000 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (steps, draw) => {
        const breaker = createBreaker(breakerDefaults, () => draw);
        let nowMs = 1;
        let openings = 0;
        for (const { what, passMs, ageMs } of steps) {
          nowMs += passMs;
          const before = breaker.openings;
          if (what === 'tick') breaker.tick(nowMs);
          else if (what === 'fell') breaker.fell(nowMs);
          else breaker.tried(what, nowMs - ageMs, nowMs);
          openings += breaker.openings - before;
          const dueMs = breaker.dueMs();
          if ((breaker.state === 'open') !== (dueMs !== undefined)) return false;
          if (dueMs !== undefined && dueMs - breaker.sinceMs > breakerDefaults.maxBackoffMs * 1.2 + 1) return false;
        }
        return openings === breaker.openings;
      }),
    );
  });
});
