/** What is said of waits before they are waited: the time to come back, and refusals of what would be too late. */
import { describe, expect, it } from 'vitest';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { createLaneWorld, isRunning, type LaneAsked, permitOf } from '../../support/lane-world.ts';
import { sampleBackend } from '../../support/sample.ts';

/** Ten jobs of a second each have shown how long a place is held; then both places are taken. */
function setUp(over: Parameters<typeof createLaneWorld>[1] = {}) {
  const world = createLaneWorld([sampleBackend('a', { slots: 2 })], over);
  for (let i = 0; i < 10; i += 1) {
    const { settle } = permitOf(world.online());
    world.clock.advance(1000);
    settle();
  }
  const running = [world.online(), world.online()];
  return { ...world, running };
}

function refusalOf({ result }: LaneAsked) {
  if (result === undefined || !isRefusal(result)) throw new Error('it was not refused');
  return result;
}

describe('a foreseen wait', () => {
  it('that is beyond three times the TTFT bound is refused at once, with the wait and when to come back', () => {
    const { online } = setUp();
    // Two places, a second each: one becomes free each 500 ms.
    const waiting = Array.from({ length: 6 }, () => online('o', { ttftBoundMs: 1000 }));
    expect(waiting.slice(0, 6).map(({ result }) => result)).toEqual(Array.from({ length: 6 }));
    const refused = refusalOf(online('o', { ttftBoundMs: 1000 }));
    expect(refused).toMatchObject({ code: 'wait_too_long', status: 429, predictedWaitMs: 3500, retryAfterSeconds: 1 });
    expect(refused.message).toContain('about 3500 ms');
    expect(online('patient', { ttftBoundMs: 2000 }).result).toBeUndefined();
  });

  it('refuses nobody without a bound, that comes again, in batch, or where that is off', () => {
    const { online, batch } = setUp();
    for (let i = 0; i < 50; i += 1) online();
    const asked = [online('o'), online('o', { ttftBoundMs: 10, again: true }), batch('b', { ttftBoundMs: 10 })];
    const off = setUp({ lanes: { refuseBeyond: 0 } });
    for (let i = 0; i < 50; i += 1) off.online();
    expect([...asked, off.online('o', { ttftBoundMs: 10 })].map(({ result }) => result)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    refusalOf(online('o', { ttftBoundMs: 10 }));
  });

  it('is nothing that is said before something was seen', () => {
    const { online } = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    for (let i = 0; i < 100; i += 1) expect(isRefusal(online('o', { ttftBoundMs: 1 }).result ?? {})).toBe(false);
  });

  it('counts the places that batch jobs would give back', () => {
    const { online, batch, running } = setUp();
    for (const one of running) permitOf(one).settle();
    batch('b', { loses: 1, lingers: true });
    batch('b', { loses: 1, lingers: true });
    expect(online('o', { ttftBoundMs: 1 }).result).toBeUndefined();
  });

  it('is not that of the crowd for a tenant that asks for little', () => {
    const { online } = setUp();
    for (let i = 0; i < 100; i += 1) online('o', { job: { tenant: 'crowd' } });
    expect(online('o', { job: { tenant: 'one' }, ttftBoundMs: 500 }).result).toBeUndefined();
    refusalOf(online('o', { job: { tenant: 'crowd' }, ttftBoundMs: 500 }));
  });
});

describe('the time to come back', () => {
  it('is when a place should be free, where the queue is full', () => {
    const { online, running, clock } = setUp({ maxQueuedJobs: 1 });
    online();
    expect(refusalOf(online())).toMatchObject({ code: 'queue_full', retryAfterSeconds: 1 });
    // Places are held for ever longer.
    clock.advance(120_000);
    for (const one of running) permitOf(one).settle();
    expect(running.every(isRunning)).toBe(true);
    const held = [online(), online(), online()].map(({ result }) => result);
    expect(held.filter((result) => result !== undefined && isRefusal(result))).toMatchObject([
      { code: 'queue_full', retryAfterSeconds: 12 },
    ]);
  });

  it('is how long a new one would wait, for who has waited in vain', () => {
    const { online, clock } = setUp({ queueTimeoutMs: 5000 });
    const asked = Array.from({ length: 9 }, () => online());
    clock.advance(5000);
    expect(asked.map(refusalOf)[0]).toMatchObject({ code: 'queue_timeout', status: 503, retryAfterSeconds: 5 });
  });
});
