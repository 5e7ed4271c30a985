/** The order between the two lanes, and what batch may use of a backend. */
import { describe, expect, it } from 'vitest';
import type { LoadView } from '../../../src/admit/owner.ts';
import type { BatchRule } from '../../../src/domain/lanes.ts';
import { createLaneWorld, isRunning, permitOf } from '../../support/lane-world.ts';
import { sampleBackend } from '../../support/sample.ts';

const one = () => [sampleBackend('a', { slots: 1 })];
const open: BatchRule = { cap: Infinity, reserveSlots: 0, gate: false };

describe('the two lanes', () => {
  it('C161 at share 0 batch waits as long as online jobs want its place, then it goes', () => {
    const { online, batch, started } = createLaneWorld(one());
    let running = online('o0');
    const waiting = batch('b', { patient: true });
    for (let i = 1; i <= 50; i += 1) {
      const next = online(`o${i}`);
      permitOf(running).settle();
      running = next;
    }
    expect(isRunning(waiting)).toBe(false);
    permitOf(running).settle();
    expect(started.at(-1)).toBe('b');
  });

  it('C161 at share 0 one whose client waits is told when its time is up, a line of a batch never', () => {
    const { clock, online, batch, owner } = createLaneWorld(one(), { lanes: { batch: { queueTimeoutMs: 5000 } } });
    online();
    const [flex, line] = [batch(), batch('line', { patient: true })];
    clock.advance(4999);
    expect(flex.result).toBeUndefined();
    clock.advance(1);
    expect(flex.result).toMatchObject({ code: 'queue_timeout', status: 503 });
    expect(flex.result).toMatchObject({ message: expect.stringContaining('lanes.batch.timeoutMs') as string });
    clock.advance(10_000_000);
    expect([line.result, owner.waiting()]).toEqual([undefined, 1]);
  });

  it('an online job whose backends have all left is refused at once, though every other backend is waited for', () => {
    const world = createLaneWorld([
      sampleBackend('a', { slots: 1, models: ['m'] }),
      sampleBackend('b', { slots: 1, models: ['n'] }),
    ]);
    for (const model of ['m', 'n', 'm']) world.ask({ model });
    const forN = world.ask({ model: 'n' });
    expect(forN.result).toBeUndefined();
    world.backends = world.backends.filter(({ name }) => name === 'a');
    world.owner.fleetChanged();
    expect(forN.result).toMatchObject({ code: 'model_not_found', status: 404 });
  });

  it('C161 with a minimum share batch moves under an overload of online, which keeps the rest', () => {
    const { clock, online, batch, started } = createLaneWorld([sampleBackend('a', { slots: 4 })], {
      lanes: { batch: { minShare: 0.25 } },
    });
    const running: ReturnType<typeof online>[] = [];
    for (let i = 0; i < 8; i += 1) running.push(online(`o${i}`));
    for (let i = 0; i < 50; i += 1) running.push(batch(`b${i}`, { patient: true }));
    // 60 s of jobs that take a second on four places, and five online ones come in each.
    for (let second = 0; second < 60; second += 1) {
      for (let i = 0; i < 5; i += 1) running.push(online(`o${second}-${i}`));
      clock.advance(1000);
      for (const asked of running.filter(isRunning)) {
        permitOf(asked).settle();
        running.splice(running.indexOf(asked), 1);
      }
    }
    const count = started.filter((name) => name.startsWith('b')).length;
    expect(count).toBe(50);
    expect(started.length - count).toBeGreaterThanOrEqual(60 * 3);
  });

  it('C161 with a minimum share the gate of online prompts holds batch up no longer, nor does its cap', () => {
    const { online, batch, rules } = createLaneWorld([sampleBackend('a', { slots: 4 })], {
      lanes: { batch: { minShare: 0.5 } },
    });
    rules.set('a', { cap: 0, reserveSlots: 4, gate: true });
    online();
    const [first, second, third] = [batch(), batch(), batch()];
    expect([isRunning(first), isRunning(second)]).toEqual([true, false]);
    permitOf(first).decoding();
    expect([isRunning(second), isRunning(third)]).toEqual([true, false]);
    permitOf(second).decoding();
    expect(isRunning(third)).toBe(false);
  });

  it('a place for which an online job waits is kept from batch, though it is too small for it yet', () => {
    const { online, batch } = createLaneWorld([sampleBackend('a', { slots: 2 })]);
    const first = online();
    const pair = online('pair', { job: { choices: 2 } });
    const small = batch();
    expect(isRunning(small)).toBe(false);
    permitOf(first).settle();
    expect([isRunning(pair), isRunning(small)]).toEqual([true, false]);
    permitOf(pair).settle();
    permitOf(small);
  });

  it('a backend that an online job is held back from is kept from batch as well', () => {
    const world = createLaneWorld([sampleBackend('a')]);
    world.hold = true;
    const held = world.online();
    world.hold = false;
    const later = world.batch();
    expect(isRunning(later)).toBe(false);
    world.owner.fleetChanged();
    expect([isRunning(held), isRunning(later)]).toEqual([true, true]);
  });

  it('batch takes what online does not want: another model’s backend', () => {
    const { online, batch } = createLaneWorld([
      sampleBackend('a', { slots: 1, models: ['m'] }),
      sampleBackend('b', { slots: 1, models: ['n'] }),
    ]);
    online();
    online();
    permitOf(batch('b', { job: { model: 'n' } }));
  });

  it('C165 starts equals of a lane in the order of their arrival', () => {
    const { online, batch, started } = createLaneWorld(one());
    const names = Array.from({ length: 200 }, (_, i) => i);
    const running = [online('first'), ...names.map((i) => online(`o${i}`)), ...names.map((i) => batch(`b${i}`))];
    for (const asked of running) permitOf(asked).settle();
    expect(started).toEqual(['first', ...names.map((i) => `o${i}`), ...names.map((i) => `b${i}`)]);
  });

  it.each([
    [0, ['o1', 'o2', 'b']],
    [1000, ['o1', 'b', 'o2']],
  ])('C165 with an ageing limit of %i ms the order is %j', (agingMs, order) => {
    const { clock, online, batch, started } = createLaneWorld(one(), { lanes: { batch: { agingMs } } });
    const first = online('first');
    const asked = [online('o1'), batch('b')];
    clock.advance(1500);
    asked.push(online('o2'));
    permitOf(first).settle();
    while (started.length < 4) for (const each of asked) if (isRunning(each)) permitOf(each).settle();
    expect(started.slice(1)).toEqual(order);
  });

  it('an aged batch job that its cap keeps waiting keeps nothing from online', () => {
    const { clock, online, batch, rules } = createLaneWorld(one(), { lanes: { batch: { agingMs: 10 } } });
    rules.set('a', { ...open, cap: 0 });
    const first = online();
    batch();
    clock.advance(50);
    const second = online();
    permitOf(first).settle();
    permitOf(second).settle();
    permitOf(online());
  });

  it('a batch job that lost its place goes before the others of its lane, not before online', () => {
    const { online, batch, started } = createLaneWorld(one());
    const asked = [online('o1'), batch('b1'), batch('again', { again: true }), online('o2')];
    while (started.length < 4) for (const each of asked) if (isRunning(each)) permitOf(each).settle();
    expect(started).toEqual(['o1', 'o2', 'again', 'b1']);
  });
});

describe('what batch may use of a backend', () => {
  it('is its cap, which is looked at anew when it is told to have changed', () => {
    const { batch, rules, owner } = createLaneWorld([sampleBackend('a')]);
    rules.set('a', { ...open, cap: 2 });
    const asked = [batch(), batch(), batch(), batch()];
    expect(asked.map(isRunning)).toEqual([true, true, false, false]);
    expect(owner.running('a')).toEqual({ online: 0, batch: 2 });
    rules.set('a', { ...open, cap: 3 });
    owner.capsChanged();
    expect(asked.map(isRunning)).toEqual([true, true, true, false]);
    permitOf(asked[0] ?? batch()).settle();
    expect(asked.map(isRunning)).toEqual([true, true, true, true]);
  });

  it('is no more where the cap is below what runs, until enough of it has ended', () => {
    const { batch, rules } = createLaneWorld([sampleBackend('a')]);
    const [first, second] = [batch(), batch()];
    rules.set('a', { ...open, cap: 1 });
    const third = batch();
    permitOf(first).settle();
    expect(isRunning(third)).toBe(false);
    permitOf(second).settle();
    permitOf(third);
  });

  it('leaves the reserve to online', () => {
    const { online, batch, rules } = createLaneWorld([sampleBackend('a', { slots: 3 })]);
    rules.set('a', { ...open, reserveSlots: 1 });
    const asked = [batch(), batch(), batch()];
    expect(asked.map(isRunning)).toEqual([true, true, false]);
    permitOf(online());
  });

  it('is one prompt at a time, and none while an online one is computed', () => {
    const { online, batch, rules } = createLaneWorld([sampleBackend('a')]);
    rules.set('a', { ...open, gate: true });
    const user = permitOf(online());
    const [first, second] = [batch(), batch()];
    expect(isRunning(first)).toBe(false);
    user.decoding();
    expect([isRunning(first), isRunning(second)]).toEqual([true, false]);
    permitOf(first).settle();
    permitOf(second);
  });

  it('is no prompt while an online one that is late waits for its first token, or its end', () => {
    const world = createLaneWorld([sampleBackend('a')]);
    world.rules.set('a', { ...open, gate: true });
    const [late, gone] = [permitOf(world.online('late')), permitOf(world.online('gone'))];
    const waiting = world.batch();
    world.overdue('late');
    world.overdue('gone');
    late.decoding();
    expect(isRunning(waiting)).toBe(false);
    gone.settle();
    permitOf(waiting);
  });

  it('is no prompt either until an online stream that began has a few tokens, and the waiting one is told then', () => {
    const { clock, online, batch, rules } = createLaneWorld([sampleBackend('a')]);
    rules.set('a', { ...open, gate: true, settleMs: 120 });
    const [first, second] = [permitOf(online()), permitOf(online())];
    const waiting = batch();
    first.decoding();
    clock.advance(100);
    second.decoding();
    clock.advance(119);
    expect(isRunning(waiting)).toBe(false);
    clock.advance(1);
    expect(isRunning(waiting)).toBe(true);
    permitOf(waiting).decoding();
    expect(isRunning(batch())).toBe(true);
  });

  it('begins at once after a first token where the minimum share is wanting', () => {
    const { online, batch, rules } = createLaneWorld([sampleBackend('a', { slots: 4 })], {
      lanes: { batch: { minShare: 0.25 } },
    });
    rules.set('a', { ...open, gate: true, settleMs: 120 });
    permitOf(online()).decoding();
    expect(isRunning(batch())).toBe(true);
  });

  it('is not seen by online jobs where it decodes, so that those it was driven from don’t draw them all', () => {
    const seen: LoadView[] = [];
    const { online, batch, backends } = createLaneWorld([sampleBackend('a', { slots: 8 })], {
      sees: (_job, load) => seen.push({ ...load('a') }),
    });
    const size = { job: { bodyBytes: 4000 } };
    permitOf(batch('b1', size)).decoding();
    permitOf(online('o1', size)).decoding();
    const pending = batch('b2', size);
    seen.length = 0;
    online('o2', size);
    // Its places and its prompts are real.
    expect(seen[0]).toMatchObject({
      jobs: 1,
      decoding: 1,
      contextTokens: 1000,
      slots: 3,
      pendingTokens: 1000,
      pendingJobs: 1,
    });
    seen.length = 0;
    batch('b3', size);
    expect(seen[0]).toMatchObject({ jobs: 4, decoding: 2, contextTokens: 2000 });
    permitOf(pending).settle();
    seen.length = 0;
    backends[0] = sampleBackend('a', { slots: 8, onTrial: true });
    online('o3', size);
    expect(seen[0]).toMatchObject({ jobs: 4, decoding: 2 });
  });

  it('counts what takes no slot but works for it by the cap alone, and lists never', () => {
    const { batch, rules } = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    rules.set('a', { ...open, cap: 1, gate: true });
    const light = { generates: false, endpoint: 'embeddings' } as const;
    const [first, second] = [batch('e1', { job: light }), batch('e2', { job: light })];
    expect([isRunning(first), isRunning(second)]).toEqual([true, false]);
    permitOf(batch('list', { job: { generates: false, endpoint: 'models' } }));
    permitOf(first).settle();
    permitOf(second);
  });

  it('a long line of batch jobs is chosen for a few times only when something happens elsewhere', () => {
    const { batch, online, owner, rules } = createLaneWorld([sampleBackend('a', { slots: 1 }), sampleBackend('b')]);
    rules.set('b', { ...open, cap: 0 });
    online('o', { exclude: ['b'] });
    for (let i = 0; i < 5000; i += 1) batch(`b${i}`, { patient: true });
    const began = performance.now();
    for (let i = 0; i < 200; i += 1) permitOf(online('o', { exclude: ['a'] })).settle();
    expect(owner.waiting()).toBe(5000);
    // Choosing for all of them each time would take minutes.
    expect(performance.now() - began).toBeLessThan(2000);
  });
});

describe('the waiting rooms', () => {
  it('have bounds of their own, in jobs', () => {
    const { online, batch } = createLaneWorld(one(), { maxQueuedJobs: 1, lanes: { batch: { maxQueuedJobs: 2 } } });
    const asked = [online(), online(), batch(), batch()];
    expect(asked.slice(1).every(({ result }) => result === undefined)).toBe(true);
    expect([online().result, batch().result]).toMatchObject([
      { code: 'queue_full', status: 429, retryAfterSeconds: 1 },
      { code: 'queue_full', status: 429, retryAfterSeconds: 1 },
    ]);
  });

  it('have bounds in prompt tokens, but one that waits alone may be as long as it likes', () => {
    const { online } = createLaneWorld(one(), { lanes: { maxQueuedTokens: 100 } });
    online();
    const large = online('large', { job: { bodyBytes: 4000 } });
    expect(large.result).toBeUndefined();
    expect(online('small', { job: { bodyBytes: 4 } }).result).toMatchObject({ code: 'queue_full' });
    large.ticket?.leave();
    expect(online('small', { job: { bodyBytes: 400 } }).result).toBeUndefined();
    expect(online('more', { job: { bodyBytes: 4 } }).result).toMatchObject({ code: 'queue_full' });
  });

  it('let in a batch job whose place was taken back, though they are full', () => {
    const { online, batch } = createLaneWorld(one(), { lanes: { batch: { maxQueuedJobs: 1 } } });
    online();
    batch();
    expect(batch('again', { again: true }).result).toBeUndefined();
  });

  it('say what is in them', () => {
    const { clock, online, batch, owner } = createLaneWorld(one());
    online();
    expect(owner.depths()).toEqual([
      { lane: 'online', jobs: 0, tokens: 0, tenants: 0 },
      { lane: 'batch', jobs: 0, tokens: 0, tenants: 0 },
    ]);
    online('o', { job: { bodyBytes: 400 } });
    batch('b', { job: { tenant: 'ann' } });
    clock.advance(30);
    batch('b', { job: { tenant: 'bob' }, again: true });
    expect(owner.depths()).toEqual([
      { lane: 'online', jobs: 1, tokens: 100, tenants: 1, oldestMs: 30 },
      { lane: 'batch', jobs: 2, tokens: 50, tenants: 2, oldestMs: 30 },
    ]);
  });

  it('C080 C081 forget who leaves, in either lane, also in the turn of the grant', () => {
    const { online, batch, owner, clock } = createLaneWorld(one(), { queueTimeoutMs: 1000 });
    const first = online();
    const asked = [online(), batch(), online('last'), batch('last')];
    asked[0]?.ticket?.leave();
    asked[1]?.ticket?.leave();
    expect(owner.waiting()).toBe(2);
    permitOf(first).settle();
    expect(asked.slice(0, 2).map(({ result }) => result)).toEqual([undefined, undefined]);
    const [, , user, line] = asked;
    // It leaves when it has its place already: its permit is its to settle, once.
    user?.ticket?.leave();
    permitOf(user ?? first).settle();
    permitOf(user ?? first).settle();
    permitOf(line ?? first).settle();
    expect(owner.load('a')).toMatchObject({ jobs: 0, slots: 0 });
    expect([owner.waiting(), clock.pending()]).toEqual([0, 0]);
  });

  it('are emptied by closing', () => {
    const { online, batch, owner, clock } = createLaneWorld(one(), { queueTimeoutMs: 1000 });
    const first = online();
    const asked = [online(), batch()];
    owner.close({ ...refusalLike, refused: true });
    expect(asked.map(({ result }) => result)).toMatchObject([refusalLike, refusalLike]);
    expect([owner.waiting(), clock.pending()]).toEqual([0, 0]);
    permitOf(first).settle();
    permitOf(online()).settle();
  });
});

const refusalLike = {
  code: 'shutting_down',
  status: 503,
  type: 'api_error',
  message: 'bye',
  spokenBy: 'warmlane',
  outcome: 'shutdown',
} as const;
