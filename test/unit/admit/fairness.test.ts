/** Fairness between tenants of one lane: by what they were served, not by how often they ask. */
import { describe, expect, it } from 'vitest';
import { createFairness } from '../../../src/admit/fairness.ts';
import { createOwner } from '../../../src/admit/owner.ts';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { routeDefaults } from '../../../src/route/settings.ts';
import { createRouting } from '../../../src/routing.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { createFakeIndex } from '../../support/fake-index.ts';
import { createLaneWorld, isRunning, type LaneAsked, permitOf } from '../../support/lane-world.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

/** Serves all that waits, one after the other on one place. @returns whose turn it was */
function serveAll(
  world: ReturnType<typeof createLaneWorld>,
  asked: LaneAsked[],
  outputTokens: (name: string) => number,
) {
  for (let served = 0; served < asked.length; served += 1) {
    const running = asked.find((one) => isRunning(one) && !settled.has(one));
    if (running === undefined) throw new Error('nobody runs');
    settled.add(running);
    permitOf(running).settle({ outputTokens: outputTokens(world.started.at(-1) ?? '') });
  }
  return world.started;
}
const settled = new WeakSet<LaneAsked>();

const share = (names: readonly string[], tenant: string) => names.filter((name) => name === tenant).length;

describe('tenants of one lane', () => {
  it.each(['online', 'batch'] as const)(
    'take turns in %s, though one of them came with a hundred jobs first',
    (lane) => {
      const world = createLaneWorld([sampleBackend('a', { slots: 1 })]);
      const ask = (tenant: string) => world.ask({ requestId: tenant, tenant, lane });
      const asked = [
        ...Array.from({ length: 100 }, () => ask('many')),
        ...Array.from({ length: 10 }, () => ask('few')),
      ];
      const order = serveAll(world, asked, () => 100);
      expect(share(order.slice(0, 22), 'few')).toBeGreaterThanOrEqual(9);
    },
  );

  it('are not put behind one whose job asks for more choices than anybody gets', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    const asked = [world.ask({ requestId: 'first' })];
    asked.push(world.ask({ requestId: 'greedy', tenant: 'greedy', choices: Number.MAX_SAFE_INTEGER }));
    asked.push(...Array.from({ length: 3 }, () => world.ask({ requestId: 'newcomer', tenant: 'newcomer' })));
    expect(serveAll(world, asked, () => 100)).toHaveLength(5);
    const fairness = createFairness(10);
    const greedy = fairness.arrives(sampleJob({ tenant: 'greedy' }), false);
    fairness.charge(greedy, { job: sampleJob({ choices: Number.MAX_SAFE_INTEGER }) }, 10);
    expect(greedy.counter).toBeLessThan(1e9);
  });

  it('are served by tokens: who gets long answers gets fewer of them', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    const asked = Array.from({ length: 100 }, () =>
      ['long', 'short'].map((tenant) => world.ask({ requestId: tenant, tenant, bodyBytes: 400 })),
    ).flat();
    const order = serveAll(world, asked, (name) => (name === 'long' ? 700 : 100)).slice(20, 100);
    // (100 + 2 × 700) tokens against 100 + 2 × 100: five short ones for a long one.
    expect(share(order, 'short') / share(order, 'long')).toBeGreaterThan(3.5);
    expect(share(order, 'short') / share(order, 'long')).toBeLessThan(7);
  });

  it('have weights', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    const asked = Array.from({ length: 100 }, () => [
      world.ask({ requestId: 'heavy', tenant: 'heavy', weight: 3 }),
      world.ask({ requestId: 'light', tenant: 'light' }),
    ]).flat();
    const order = serveAll(world, asked, () => 100).slice(0, 80);
    expect(share(order, 'heavy') / share(order, 'light')).toBeGreaterThan(2.5);
    expect(share(order, 'heavy') / share(order, 'light')).toBeLessThan(3.5);
  });

  it('save nothing up by idling', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    const ask = (tenant: string) => world.ask({ requestId: tenant, tenant });
    const alone = Array.from({ length: 200 }, () => ask('busy'));
    serveAll(world, alone, () => 500);
    const both = Array.from({ length: 40 }, () => [ask('busy'), ask('idle')]).flat();
    const order = serveAll(world, both, () => 500).slice(200, 240);
    expect(share(order, 'busy')).toBeGreaterThanOrEqual(18);
  });

  it('do not hold up each other’s models', () => {
    const world = createLaneWorld([
      sampleBackend('a', { slots: 1, models: ['m'] }),
      sampleBackend('b', { slots: 1, models: ['n'] }),
    ]);
    for (let i = 0; i < 20; i += 1) world.ask({ tenant: 'ann', model: 'm' });
    const first = world.ask({ tenant: 'bob', model: 'n' });
    const second = world.ask({ tenant: 'bob', model: 'n' });
    permitOf(first).settle();
    permitOf(second);
  });
});

describe('lines of batches and requests that a client waits for, of one tenant', () => {
  const lines = (world: ReturnType<typeof createLaneWorld>, count: number, tenant = 'ann') =>
    Array.from({ length: count }, () =>
      world.ask({ requestId: 'line', lane: 'batch', tenant, model: 'm' }, { patient: true }),
    );
  const direct = (world: ReturnType<typeof createLaneWorld>, tenant = 'ann', model = 'm') =>
    world.ask({ requestId: `direct of ${tenant}`, lane: 'batch', tenant, model });

  it('have a request that a client waits for go before the thousand lines of batches that came before it', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    const asked = lines(world, 1000);
    permitOf(asked[0] as LaneAsked).settle({ outputTokens: 50 });
    asked.push(direct(world));
    permitOf(asked[1] as LaneAsked).settle({ outputTokens: 50 });
    expect(world.started).toEqual(['line', 'line', 'direct of ann']);
  });

  it('take turns, so that neither waits behind all of the other', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 })], { lanes: { batch: { maxQueuedJobs: 5000 } } });
    const asked = [...lines(world, 300), ...Array.from({ length: 100 }, () => direct(world))];
    const order = serveAll(world, asked, () => 100);
    expect(share(order.slice(0, 100), 'direct of ann')).toBeGreaterThanOrEqual(45);
    expect(share(order.slice(0, 100), 'direct of ann')).toBeLessThanOrEqual(55);
  });

  it('have together what a tenant with only one of the two has', () => {
    const world = createLaneWorld([sampleBackend('a', { slots: 1 })]);
    const asked = [
      ...lines(world, 100),
      ...Array.from({ length: 100 }, () => [direct(world), direct(world, 'bob')]).flat(),
    ];
    const order = serveAll(world, asked, () => 100).slice(0, 80);
    expect(share(order, 'direct of bob')).toBeGreaterThanOrEqual(37);
    expect(share(order, 'direct of bob')).toBeLessThanOrEqual(43);
  });

  it('are one queue per model: a full model of the one holds up no other of either', () => {
    const world = createLaneWorld([
      sampleBackend('a', { slots: 1, models: ['m'] }),
      sampleBackend('b', { slots: 1, models: ['n'] }),
    ]);
    lines(world, 50);
    permitOf(direct(world, 'ann', 'n'));
  });
});

describe('a bill', () => {
  it('is an estimate until it is known better, and is corrected as often as it is', () => {
    const fairness = createFairness(10);
    const job = sampleJob({ tenant: 'ann', maxOutputTokens: 50 });
    const tenant = fairness.arrives(job, false);
    const bill = fairness.charge(tenant, { job }, 100);
    expect(tenant.counter).toBe(200);
    bill.correct({ outputTokens: 10 });
    expect(tenant.counter).toBe(120);
    bill.correct({ computed: true, promptTokens: 100, cachedTokens: 60, outputTokens: 20 });
    expect(tenant.counter).toBe(80);
  });

  it('of what never came to its first token is that of its prompt', () => {
    const fairness = createFairness(10);
    const job = sampleJob({ weight: 2 });
    const tenant = fairness.arrives(job, false);
    fairness.charge(tenant, { job }, 100).correct({ computed: false });
    expect(tenant.counter).toBe(50);
  });

  it('is kept for so many tenants; the ones that wait are never forgotten', () => {
    const fairness = createFairness(3);
    const waiting = fairness.arrives(sampleJob({ tenant: 'waits' }), false);
    waiting.waiting = 1;
    for (let i = 0; i < 100; i += 1) {
      const job = sampleJob({ tenant: `t${i}` });
      fairness.charge(fairness.arrives(job, true), { job }, 10);
    }
    expect(fairness.arrives(sampleJob({ tenant: 'waits' }), true)).toBe(waiting);
  });
});

describe('what an answer took', () => {
  it('is charged when it is told of, after its place was given back', () => {
    const clock = createFakeClock();
    const fleet = { atMs: 1, backends: [sampleBackend('a', { slots: 1 })] };
    const routing = createRouting(routeDefaults, { clock, fleet: () => fleet, index: createFakeIndex() });
    const owner = createOwner(
      { maxQueuedJobs: 100, queueTimeoutMs: 0 },
      { clock, fleet: () => fleet, choose: routing.choose, sent: routing.sent },
    );
    const started: string[] = [];
    const run = (tenant: string, outputTokens: number) =>
      owner.ask({ job: sampleJob({ tenant }), exclude: [], again: false }, (result) => {
        if (isRefusal(result)) throw new Error('refused');
        started.push(tenant);
        clock.timer(10, () => {
          result.settle();
          result.errand?.ended({ computed: true, outputTokens });
        });
      });
    for (let i = 0; i < 40; i += 1) {
      run('long', 2000);
      run('short', 20);
    }
    clock.advance(10 * 40);
    expect(share(started.slice(10), 'short')).toBeGreaterThan(3 * share(started.slice(10), 'long'));
  });
});
