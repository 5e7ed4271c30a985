/** Places that are had back from batch: how many, whose, and for whom. */
import { describe, expect, it } from 'vitest';
import { createLaneWorld, isRunning, permitOf } from '../../support/lane-world.ts';
import { sampleBackend } from '../../support/sample.ts';

const open = { cap: Infinity, reserveSlots: 0, gate: false };

describe('a place that an online job needs', () => {
  it('is had back from the batch job that loses least, and is the online job’s', () => {
    const { online, batch, owner } = createLaneWorld([sampleBackend('a', { slots: 3 })]);
    const asked = [batch('much', { loses: 500 }), batch('little', { loses: 20 }), batch('some', { loses: 90 })];
    const waiting = batch('waits', { loses: 0 });
    permitOf(online());
    expect(asked.map(({ taken }) => taken)).toEqual([false, true, false]);
    expect(isRunning(waiting)).toBe(false);
    expect(owner.reclaimed('a')).toEqual({ jobs: 1, lostTokens: 20 });
    expect(owner.running('a')).toEqual({ online: 1, batch: 2 });
  });

  it('R10 is worth little where a batch prompt is computed first: that one leaves as an online prompt comes', () => {
    const { online, batch, owner } = createLaneWorld([sampleBackend('a', { engine: 'llama-server', slots: 8 })]);
    const long = { bodyBytes: 8000 };
    const decoding = batch('decodes', { job: long, loses: 9 });
    permitOf(decoding).decoding();
    const [short, fixed] = [batch('short', { job: { bodyBytes: 400 }, loses: 100 }), batch('fixed', { job: long })];
    const asked = [batch('b', { job: long, loses: 2000 }), batch('b', { job: long, loses: 2000 })];
    expect(asked.map(({ taken }) => taken)).toEqual([false, false]);
    permitOf(online());
    expect(asked.map(({ taken }) => taken)).toEqual([true, true]);
    expect([decoding, short, fixed].map(({ taken }) => taken)).toEqual([false, false, false]);
    expect(owner.reclaimed('a')).toEqual({ jobs: 2, lostTokens: 4000 });
  });

  it('brings no prompt back from an engine that shares its steps out, nor where taking back is off', () => {
    const job = { bodyBytes: 8000 };
    const vllm = createLaneWorld([sampleBackend('a', { engine: 'vllm' })]);
    const off = createLaneWorld([sampleBackend('a', { engine: 'llama-server', slots: 8 })], {
      lanes: { reclaim: { enabled: false, maxTimes: 2, afterTtftShare: 0.25 } },
    });
    const asked = [vllm, off].map((world) => world.batch('b', { job, loses: 2000 }));
    for (const world of [vllm, off]) permitOf(world.online());
    expect(asked.map(({ taken }) => taken)).toEqual([false, false]);
  });

  it('is the youngest one’s among equals', () => {
    const { online, batch } = createLaneWorld([sampleBackend('a', { slots: 2 })]);
    const [older, younger] = [batch('older', { loses: 5 }), batch('younger', { loses: 5 })];
    online();
    expect([older.taken, younger.taken]).toEqual([false, true]);
  });

  it('is had from no other while the one that was told is still leaving', () => {
    const { online, batch, clock } = createLaneWorld([sampleBackend('a', { slots: 2 })]);
    const asked = [batch('b', { loses: 1, lingers: true }), batch('b', { loses: 2, lingers: true })];
    const [first] = [online()];
    clock.advance(100);
    expect(asked.map(({ taken }) => taken)).toEqual([true, false]);
    const second = online();
    expect(asked.map(({ taken }) => taken)).toEqual([true, true]);
    const third = online();
    expect([first, second, third].some(isRunning)).toBe(false);
    for (const one of asked) permitOf(one).settle();
    expect([first, second, third].map(isRunning)).toEqual([true, true, false]);
  });

  it('R10 is on its way while the slot of the one that left may still be busy: no other is told', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 2 })]);
    const [first, second] = [world.batch('b', { loses: 1, lingers: true }), world.batch('b', { loses: 2 })];
    const waiting = world.online();
    expect([first.taken, second.taken]).toEqual([true, false]);
    const before = world.backends;
    world.backends = before.map((backend) => ({ ...backend, ghostSlots: 1 }));
    world.owner.fleetChanged();
    permitOf(first).settle();
    expect([isRunning(waiting), second.taken]).toEqual([false, false]);
    world.backends = before;
    world.owner.fleetChanged();
    permitOf(waiting);
    expect(second.taken).toBe(false);
  });

  it('is as many as it needs, and none where they would not do', () => {
    const { online, batch } = createLaneWorld([sampleBackend('a', { slots: 3 })]);
    const asked = [batch('b', { loses: 1 }), batch('b', { loses: 2 }), batch('fixed')];
    const triple = online('triple', { job: { choices: 3 } });
    expect(asked.map(({ taken }) => taken)).toEqual([false, false, false]);
    triple.ticket?.leave();
    permitOf(online('pair', { job: { choices: 2 } }));
    expect(asked.map(({ taken }) => taken)).toEqual([true, true, false]);
  });

  it('is left to those that are immune, that are told to be left alone, and that make up the minimum share', () => {
    const immune = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    const one = immune.batch('b', { loses: () => undefined });
    immune.online();
    const forbidden = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    forbidden.rules.set('a', { ...open, reclaim: false });
    const other = forbidden.batch('b', { loses: 1 });
    forbidden.online();
    const shared = createLaneWorld([sampleBackend('a', { slots: 2 })], { lanes: { batch: { minShare: 0.5 } } });
    const both = [shared.batch('b', { loses: 1 }), shared.batch('b', { loses: 2 })];
    shared.online();
    shared.online();
    const off = createLaneWorld([sampleBackend('a', { slots: 1 })], {
      lanes: { reclaim: { enabled: false, maxTimes: 2, afterTtftShare: 0.25 } },
    });
    const last = off.batch('b', { loses: 1 });
    off.online();
    expect([one, other, ...both, last].map(({ taken }) => taken)).toEqual([false, false, true, false, false]);
  });

  it('is not needed where another backend has room, nor by one that is held back', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 }), sampleBackend('b', { slots: 1 })]);
    const running = world.batch('b', { loses: 1, exclude: ['b'] });
    permitOf(world.online());
    world.hold = true;
    world.online();
    expect(running.taken).toBe(false);
  });

  it('is not had back for another model’s jobs', () => {
    const { online, batch } = createLaneWorld([
      sampleBackend('a', { slots: 1, models: ['m'] }),
      sampleBackend('b', { slots: 1, models: ['n'] }),
    ]);
    const running = batch('b', { job: { model: 'n' }, loses: 1 });
    online();
    online();
    online();
    expect(running.taken).toBe(false);
  });

  it('becomes free again: the job that lost it goes before its lane when online is done', () => {
    const { online, batch, started } = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    batch('b1', { loses: 1 });
    batch('b2');
    const user = permitOf(online());
    const back = batch('b1 again', { again: true });
    user.settle();
    permitOf(back);
    expect(started).toEqual(['b1', 'online', 'b1 again']);
  });
});

describe('taking back by order', () => {
  it('tells so many to leave, those that leave already among them', () => {
    const { batch, owner } = createLaneWorld([sampleBackend('a')]);
    const asked = [3, 1, 2].map((loses) => batch('b', { loses, lingers: true }));
    expect(owner.reclaim('a', 1)).toEqual({ jobs: 1, lostTokens: 1 });
    expect(owner.reclaim('a', 1)).toEqual({ jobs: 0, lostTokens: 0 });
    expect(owner.reclaim('a', 9)).toEqual({ jobs: 2, lostTokens: 5 });
    expect(asked.map(({ taken }) => taken)).toEqual([true, true, true]);
    expect(owner.reclaim('gone', 9)).toEqual({ jobs: 0, lostTokens: 0 });
    for (const one of asked) permitOf(one).settle();
    expect(owner.reclaimed('a')).toEqual({ jobs: 3, lostTokens: 6 });
  });
});
