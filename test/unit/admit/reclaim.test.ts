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

  it('R10 is had from a prompt that takes far longer than was thought, and no second one begins beside it', () => {
    const world = createLaneWorld([sampleBackend('a', { engine: 'llama-server', slots: 2 })]);
    world.rules.set('a', { ...open, gate: true });
    const slow = world.batch('slow', { job: { bodyBytes: 8000 }, loses: 2000 });
    const second = world.batch('second', { job: { bodyBytes: 8000 }, loses: 2000 });
    world.overdue('slow');
    expect([isRunning(slow), isRunning(second)]).toEqual([true, false]);
    permitOf(world.online());
    expect(slow.taken).toBe(true);
  });

  it('is had from a long prompt on an engine that fills its steps by turns, where waiting for it would take too long', () => {
    const job = { bodyBytes: 8000 };
    const world = () => createLaneWorld([sampleBackend('a', { engine: 'vllm' })]);
    const [quick, long, slow, patient] = [world(), world(), world(), world()];
    const asked = [
      quick.batch('b', { job, loses: 2000, promptMs: 900 }),
      long.batch('b', { job, loses: 2000, promptMs: 1000 }),
      slow.batch('b', { job, loses: 2000, promptMs: 100 }),
      patient.batch('b', { job, loses: 2000, promptMs: 1000 }),
    ];
    slow.clock.advance(1000);
    for (const one of [quick, long, slow]) permitOf(one.online());
    permitOf(patient.online('online', { ttftBoundMs: 8000 }));
    expect(asked.map(({ taken }) => taken)).toEqual([false, true, true, false]);
  });

  it('is had from a prompt that was thought to be quick, once an online one is late beside it', () => {
    const { batch, online, owner, clock } = createLaneWorld([sampleBackend('a', { engine: 'vllm' })]);
    const long = batch('b', { job: { bodyBytes: 8000 }, loses: 2000, promptMs: 100 });
    permitOf(online());
    clock.advance(999);
    expect(owner.reclaimPrompts('a')).toEqual({ jobs: 0, lostTokens: 0 });
    clock.advance(1);
    expect(owner.reclaimPrompts('a')).toEqual({ jobs: 1, lostTokens: 2000 });
    expect([long.taken, owner.reclaimPrompts('a').jobs, owner.reclaimPrompts('gone').jobs]).toEqual([true, 0, 0]);
  });

  it('is had from such a prompt in time for the bound of the one that is late', () => {
    const { batch, online, owner, clock } = createLaneWorld([sampleBackend('a', { engine: 'vllm' })]);
    const long = batch('b', { job: { bodyBytes: 8000 }, loses: 2000, promptMs: 100 });
    permitOf(online('online', { ttftBoundMs: 500 }));
    clock.advance(250);
    expect(owner.reclaimPrompts('a').jobs).toBe(0);
    expect(owner.reclaimPrompts('a', 500).jobs).toBe(1);
    expect(long.taken).toBe(true);
  });

  it('is had from the prompt that is in the way beside a minimum share, not from as many that lose less', () => {
    const { batch, online, owner } = createLaneWorld([sampleBackend('a', { engine: 'llama-server', slots: 8 })], {
      lanes: { batch: { minShare: 0.2 } },
    });
    const long = { bodyBytes: 8000 };
    const decoding = [batch('d', { loses: 9 }), batch('d', { loses: 9 })];
    for (const one of decoding) permitOf(one).decoding();
    const [first, second] = [batch('b', { job: long, loses: 2000 }), batch('b', { job: long, loses: 2001 })];
    permitOf(online());
    expect([...decoding, first, second].map(({ taken }) => taken)).toEqual([false, false, true, true]);
    expect(owner.running('a')).toEqual({ online: 1, batch: 2 });
    // What is guaranteed stays, in the way or not.
    const third = batch('b', { job: long, loses: 1 });
    for (const one of decoding) permitOf(one).settle();
    const fourth = batch('b', { job: long, loses: 2 });
    permitOf(online());
    expect([third.taken, fourth.taken]).toEqual([false, false]);
  });

  it('is not looked for among those that compute no prompt', () => {
    const { batch, online } = createLaneWorld([sampleBackend('a', { engine: 'llama-server', slots: 8 })]);
    let looks = 0;
    const loses = () => ((looks += 1), 5);
    permitOf(batch('decodes', { job: { bodyBytes: 8000 }, loses })).decoding();
    batch('short', { job: { bodyBytes: 400 }, loses });
    permitOf(online());
    expect(looks).toBe(0);
  });

  it('brings no prompt back where taking back is off', () => {
    const job = { bodyBytes: 8000 };
    const off = createLaneWorld([sampleBackend('a', { engine: 'llama-server', slots: 8 })], {
      lanes: { reclaim: { enabled: false, maxTimes: 2, afterTtftShare: 0.25 } },
    });
    const asked = off.batch('b', { job, loses: 2000 });
    permitOf(off.online());
    expect(asked.taken).toBe(false);
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

describe('a prompt that was taken back', () => {
  const long = { bodyBytes: 8000 };
  const oneServer = () => createLaneWorld([sampleBackend('a', { engine: 'llama-server', slots: 4 })]);

  it('waits for quiet, twice as long after each further time, up to ten seconds', () => {
    const waits = [0, 1, 2, 3, 6, 7, 30].map((promptsTaken) => {
      const { clock, online, batch } = oneServer();
      permitOf(online()).decoding();
      const again = batch('b', { job: long, again: true, promptsTaken });
      let waitedMs = 0;
      for (; !isRunning(again) && waitedMs < 20_000; waitedMs += 10) clock.advance(10);
      return waitedMs;
    });
    expect(waits).toEqual([0, 250, 500, 1000, 8000, 10_000, 10_000]);
  });

  it('waits anew when another online prompt is sent there, and not for one that is sent elsewhere', () => {
    const world = createLaneWorld(['a', 'b'].map((name) => sampleBackend(name, { slots: 4 })));
    const { clock, online, batch } = world;
    const user = (affinity: string) => permitOf(online('online', { affinity })).decoding();
    user('a');
    const again = batch('b', { job: long, again: true, promptsTaken: 1, affinity: 'a' });
    clock.advance(200);
    user('a');
    clock.advance(100);
    user('b');
    clock.advance(149);
    expect(isRunning(again)).toBe(false);
    clock.advance(1);
    permitOf(again);
    expect(clock.pending()).toBe(0);
  });

  it('goes where it is quiet, and keeps no other batch job waiting meanwhile', () => {
    const { online, batch, started } = oneServer();
    permitOf(online()).decoding();
    const crowd = Array.from({ length: 40 }, (_, n) => batch(`b${n}`, { job: long, again: true, promptsTaken: 9 }));
    const lucky = batch('once', { again: true });
    permitOf(lucky);
    expect(crowd.some(isRunning)).toBe(false);
    permitOf(batch('other'));
    expect(started).toEqual(['online', 'once', 'other']);
    const two = createLaneWorld(['a', 'b'].map((name) => sampleBackend(name, { slots: 4 })));
    permitOf(two.online('online', { affinity: 'a' })).decoding();
    expect(permitOf(two.batch('b', { again: true, promptsTaken: 9 })).backend.name).toBe('b');
  });

  it('waits from when it was taken where that was later than the online prompt that took it', () => {
    const { batch, online, owner, clock } = createLaneWorld([sampleBackend('a', { engine: 'vllm' })]);
    batch('b', { job: long, loses: 2000, promptMs: 100 });
    const user = permitOf(online());
    clock.advance(1000);
    expect(owner.reclaimPrompts('a').jobs).toBe(1);
    user.decoding();
    const again = batch('b', { job: long, again: true, promptsTaken: 1 });
    clock.advance(249);
    expect(isRunning(again)).toBe(false);
    clock.advance(1);
    permitOf(again);
  });

  it.each([
    ['serves another model', sampleBackend('b', { models: ['n'] }), undefined],
    ['is down', sampleBackend('b', { models: ['m'], health: 'down' }), undefined],
    ['has no more for batch', sampleBackend('b', { models: ['m'] }), { ...open, cap: 0 }],
  ])('keeps nobody waiting where the only quiet backend %s, and is not chosen for in vain', (_, quiet, rule) => {
    let choices = 0;
    const world = createLaneWorld([sampleBackend('a', { models: ['m'] }), quiet], { sees: () => (choices += 1) });
    if (rule !== undefined) world.rules.set('b', rule);
    const { clock, online, batch, owner } = world;
    const job = { ...long, model: 'm' };
    const user = () => permitOf(online('online', { job: { model: 'm' } })).decoding();
    user();
    const crowd = Array.from({ length: 40 }, (__, n) => batch(`b${n}`, { job, again: true, promptsTaken: 3 }));
    world.rules.set('a', { ...open, cap: 0 });
    const lucky = batch('once', { job, again: true });
    expect(isRunning(lucky)).toBe(false);
    world.rules.delete('a');
    owner.capsChanged();
    permitOf(lucky);
    const before = choices;
    for (let n = 0; n < 10; n += 1) user();
    expect(choices - before).toBe(10);
    expect(crowd.some(isRunning)).toBe(false);
    clock.advance(1000);
    expect(crowd.every(isRunning)).toBe(true);
  });

  it('keeps nobody waiting either where quiet backends are not to its taste', () => {
    let choices = 0;
    const over = { sees: () => (choices += 1) };
    const world = createLaneWorld(
      ['a', 'b', 'c'].map((name) => sampleBackend(name)),
      over,
    );
    const { clock, online, batch, owner } = world;
    const user = (affinity: string) => permitOf(online('online', { affinity })).decoding();
    user('a');
    user('c');
    // Only the choice itself knows that they would go to the first alone.
    world.ranks = (job) => (job.choices === 2 ? 1 : 2);
    const job = { ...long, choices: 2 };
    const crowd = Array.from({ length: 40 }, (_, n) => batch(`b${n}`, { job, again: true, promptsTaken: 4 }));
    world.rules.set('b', { ...open, cap: 0 });
    const lucky = batch('once', { job: long, again: true, promptsTaken: 1 });
    expect(isRunning(lucky)).toBe(false);
    world.rules.delete('b');
    const before = choices;
    for (let n = 0; n < 20; n += 1) user('c');
    // Each of the crowd is chosen for once more at most.
    expect(choices - before).toBeLessThanOrEqual(20 + 1 + 40);
    owner.capsChanged();
    expect(permitOf(lucky).backend.name).toBe('b');
    clock.advance(2000);
    expect(crowd.every(isRunning)).toBe(true);
  });

  it('does not wait for quiet any more once it is aged', () => {
    const { clock, online, batch } = createLaneWorld([sampleBackend('a', { slots: 4 })], {
      lanes: { batch: { agingMs: 700 } },
    });
    permitOf(online()).decoding();
    const again = batch('b', { job: long, again: true, promptsTaken: 9 });
    clock.advance(600);
    permitOf(online()).decoding();
    clock.advance(99);
    expect(isRunning(again)).toBe(false);
    clock.advance(1);
    permitOf(again);
    expect(clock.pending()).toBe(0);
  });

  it('does not wait for quiet within the minimum share', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 2 })], { lanes: { batch: { minShare: 0.5 } } });
    permitOf(world.online()).decoding();
    permitOf(world.batch('b', { again: true, promptsTaken: 9 }));
  });

  it('gets through in the end however often it is taken, and costs one beginning in ten seconds by then', () => {
    const { clock, online, batch, owner } = oneServer();
    const prefillMs = 3000;
    let line = { asked: batch('line', { job: long, loses: 2000 }), times: 0, beganMs: 0 };
    let doneMs: number | undefined;
    const passTime = (ms: number) => {
      for (let left = ms; left > 0; left -= 10) {
        clock.advance(10);
        if (!isRunning(line.asked)) line.beganMs = clock.nowMs();
        else if (!line.asked.taken && clock.nowMs() - line.beganMs >= prefillMs) doneMs ??= clock.nowMs();
        if (!line.asked.taken) continue;
        const times = line.times + 1;
        const how = { job: long, loses: 2000, again: true, promptsTaken: times };
        line = { asked: batch('line', how), times, beganMs: clock.nowMs() };
      }
    };
    // A user every two seconds, for five minutes, then one every fifteen.
    for (let n = 0; n < 150; n += 1) {
      const user = permitOf(online());
      user.decoding();
      passTime(500);
      user.settle();
      passTime(1500);
    }
    expect(doneMs).toBeUndefined();
    // 250 ms, 500, 1000, 2000: after the fifth time it would have to be quiet for four seconds, and never is.
    expect(owner.reclaimed('a')).toEqual({ jobs: 5, lostTokens: 10_000 });
    const user = permitOf(online());
    user.settle();
    passTime(15_000);
    expect(doneMs).toBeDefined();
    expect(owner.reclaimed('a').jobs).toBe(5);
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
