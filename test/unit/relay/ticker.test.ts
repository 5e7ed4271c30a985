import { describe, expect, it } from 'vitest';
import { createTicker, tickMs, type Ticked } from '../../../src/relay/ticker.ts';
import { createFakeClock } from '../../support/fake-clock.ts';

function counting(onTick: (nowMs: number) => void = () => {}): Ticked & { readonly moments: number[] } {
  const moments: number[] = [];
  return {
    moments,
    tick(nowMs) {
      moments.push(nowMs);
      onTick(nowMs);
    },
  };
}

describe('the one timer of all relays', () => {
  it('does not run while there is nothing to ask', () => {
    const clock = createFakeClock();
    const ticker = createTicker(clock);
    expect(clock.pending()).toBe(0);
    const one = counting();
    const place = ticker.add(one);
    expect(clock.pending()).toBe(1);
    ticker.remove(place);
    clock.advance(tickMs);
    expect(one.moments).toEqual([]);
    expect(clock.pending()).toBe(0);
  });

  it('asks each of them ten times a second, all with the same moment', () => {
    const clock = createFakeClock();
    const ticker = createTicker(clock);
    const [a, b] = [counting(), counting()];
    ticker.add(a);
    clock.advance(50);
    ticker.add(b);
    clock.advance(1000);
    expect(a.moments).toHaveLength(10);
    expect(b.moments).toEqual(a.moments);
    expect(clock.pending()).toBe(1);
  });

  it('is one, however many there are', () => {
    const clock = createFakeClock();
    const ticker = createTicker(clock);
    const many = Array.from({ length: 500 }, () => counting());
    for (const each of many) ticker.add(each);
    expect(clock.pending()).toBe(1);
    clock.advance(tickMs);
    expect(many.every(({ moments }) => moments.length === 1)).toBe(true);
  });

  it('bears it that one leaves, or comes, while it is asked', () => {
    const clock = createFakeClock();
    const ticker = createTicker(clock);
    const late = counting();
    const stays = counting();
    const other = counting();
    let latePlace = { index: -1 };
    const leaving = counting(() => {
      ticker.remove(leavingPlace);
      ticker.remove(otherPlace);
      latePlace = ticker.add(late);
    });
    const otherPlace = ticker.add(other);
    const staysPlace = ticker.add(stays);
    const leavingPlace = ticker.add(leaving);
    clock.advance(3 * tickMs);
    expect(leaving.moments).toHaveLength(1);
    expect(other.moments).toEqual([]);
    expect(stays.moments).toHaveLength(3);
    expect(late.moments.length).toBeGreaterThanOrEqual(2);
    ticker.remove(latePlace);
    ticker.remove(staysPlace);
    clock.advance(2 * tickMs);
    expect(clock.pending()).toBe(0);
  });

  it('goes on when one of them throws', () => {
    const clock = createFakeClock();
    const ticker = createTicker(clock);
    const other = counting();
    ticker.add(other);
    const place = ticker.add(
      counting(() => {
        throw new Error('bug');
      }),
    );
    expect(() => clock.advance(tickMs)).toThrow('bug');
    ticker.remove(place);
    clock.advance(2 * tickMs);
    expect(other.moments.length).toBeGreaterThanOrEqual(1);
    expect(clock.pending()).toBe(1);
  });

  it('starts again after it stood still', () => {
    const clock = createFakeClock();
    const ticker = createTicker(clock);
    const one = counting();
    const place = ticker.add(one);
    clock.advance(tickMs);
    ticker.remove(place);
    clock.advance(10 * tickMs);
    ticker.add(one);
    clock.advance(tickMs);
    expect(one.moments).toHaveLength(2);
  });

  it('lets one tick pass after the process stood still, so that what came meanwhile is read first, and never two', () => {
    const clock = createFakeClock();
    let stoodMs = 0;
    const ticker = createTicker({ ...clock, nowMs: () => clock.nowMs() + stoodMs });
    const one = counting();
    ticker.add(one);
    stoodMs = 7000;
    clock.advance(tickMs);
    expect(one.moments).toEqual([]);
    stoodMs = 14_000;
    clock.advance(tickMs);
    expect(one.moments).toHaveLength(1);
    clock.advance(tickMs);
    expect(one.moments).toHaveLength(2);
  });
});
