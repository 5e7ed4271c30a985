/** What the owner says of load is what permits are out, whatever becomes of backends, jobs and answers. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createOwner, type Choice, type LoadView, type Permit, type Ticket } from '../../../src/admit/owner.ts';
import type { BackendView } from '../../../src/domain/fleet.ts';
import { isRefusal, type Refusal } from '../../../src/domain/refusal.ts';
import { routeDefaults } from '../../../src/route/settings.ts';
import { createRouting } from '../../../src/routing.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { createFakeIndex, sampleChain } from '../../support/fake-index.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

const nothing: Omit<LoadView, 'lastUsed'> = {
  jobs: 0,
  slots: 0,
  pendingTokens: 0,
  pendingJobs: 0,
  decoding: 0,
  contextTokens: 0,
};

interface Asked {
  result?: Permit | Refusal;
  ticket?: Ticket;
}

function permitOf({ result }: Asked): Permit | undefined {
  return result === undefined || isRefusal(result) ? undefined : result;
}

/** An owner with routing behind it, and a fleet that a test changes. */
function setUp(backends: BackendView[], choose?: (backends: readonly BackendView[]) => Choice) {
  const clock = createFakeClock();
  const world = { backends };
  let snapshot = { atMs: 1, backends };
  const fleet = () => {
    if (snapshot.backends !== world.backends) snapshot = { atMs: clock.nowMs(), backends: world.backends };
    return snapshot;
  };
  const routing = createRouting(routeDefaults, { clock, fleet, index: createFakeIndex() });
  const owner = createOwner(
    { maxQueuedJobs: 20, queueTimeoutMs: 5000 },
    {
      clock,
      fleet,
      choose: choose === undefined ? routing.choose : () => choose(world.backends),
      sent: routing.sent,
    },
  );
  const ask = (over: Parameters<typeof sampleJob>[0] = {}, again = false): Asked => {
    const asked: Asked = {};
    const bytes = over.bodyBytes ?? 4000;
    const job = sampleJob({ prefix: sampleChain(bytes), bodyBytes: bytes, ...over });
    asked.ticket = owner.ask({ job, exclude: [], again }, (result) => {
      if (asked.result !== undefined) throw new Error('answered twice');
      asked.result = result;
    });
    return asked;
  };
  return { clock, owner, world, routing, ask };
}

describe('the load of a backend', () => {
  it('moves from what is to be computed to what decodes, and is gone with the permit', () => {
    const { ask, owner } = setUp([sampleBackend('a')]);
    const permit = permitOf(ask({ choices: 2 }));
    expect(owner.load('a')).toMatchObject({ jobs: 1, slots: 2, pendingTokens: 1000, pendingJobs: 1, decoding: 0 });
    permit?.decoding();
    permit?.decoding();
    expect(owner.load('a')).toMatchObject({ pendingTokens: 0, pendingJobs: 0, decoding: 2, contextTokens: 1000 });
    permit?.settle();
    permit?.decoding();
    permit?.settle();
    expect(owner.load('a')).toMatchObject(nothing);
  });

  it('C147 is never below nothing where a backend leaves and returns under its name while its jobs run', () => {
    const { ask, owner, world, clock } = setUp([sampleBackend('a'), sampleBackend('b')]);
    const all = world.backends;
    const only = (name: string) => {
      world.backends = all.filter((one) => one.name === name);
      owner.fleetChanged();
    };
    only('a');
    const first = permitOf(ask());
    only('b');
    only('a');
    const second = permitOf(ask());
    expect(owner.load('a').jobs).toBe(2);
    first?.settle();
    expect(owner.load('a').jobs).toBe(1);
    only('b');
    second?.decoding();
    second?.settle();
    expect(owner.load('a')).toMatchObject(nothing);
    world.backends = [...all];
    owner.fleetChanged();
    clock.advance(1000);
    const given = Array.from(
      { length: 16 },
      (_, seed) => permitOf(ask({ prefix: sampleChain(4000, seed) }))?.backend.name,
    );
    expect(given.filter((name) => name === 'a').length).toBeGreaterThanOrEqual(6);
    expect(given.filter((name) => name === 'b').length).toBeGreaterThanOrEqual(6);
  });

  it('a job that waits for what saves it more than the wait is let go elsewhere when it has waited for that long', () => {
    const both = [sampleBackend('a', { slots: 1 }), sampleBackend('b', { slots: 1 })];
    const { ask, clock, owner, routing, world } = setUp(both);
    const { index } = routing;
    const chain = sampleChain(64_000);
    permitOf(ask({ prefix: chain, bodyBytes: 64_000, maxOutputTokens: 20 }))?.decoding();
    const home = owner.load('a').jobs === 1 ? 'a' : 'b';
    expect(index.heldTokens(home)).toBe(16_000);
    const waiting = ask({ prefix: chain, bodyBytes: 64_000, maxOutputTokens: 20 });
    expect(waiting.result).toBeUndefined();
    clock.advance(100);
    expect(waiting.result).toBeUndefined();
    clock.advance(60_000);
    expect(permitOf(waiting)?.backend.name).toBe(world.backends.find(({ name }) => name !== home)?.name);
    expect(clock.pending()).toBe(0);
  });

  it('a job is held while every backlog is long, and goes as soon as one is computed', () => {
    const { ask, owner } = setUp([sampleBackend('a'), sampleBackend('b')]);
    const large = () =>
      ask({ prefix: sampleChain(80_000, owner.load('a').jobs + 2 * owner.load('b').jobs + 1), bodyBytes: 80_000 });
    const running = [large(), large()].map(permitOf);
    expect(new Set(running.map((permit) => permit?.backend.name))).toEqual(new Set(['a', 'b']));
    const held = ask({ prefix: sampleChain(2000, 99), bodyBytes: 2000 });
    expect(held.result).toBeUndefined();
    expect(permitOf(ask({ generates: false }))).toBeDefined();
    running[1]?.decoding();
    expect(permitOf(held)?.backend.name).toBe(running[1]?.backend.name);
  });

  it('nobody is held for ever behind prompts whose first token never comes', () => {
    const { ask, clock, owner } = setUp([sampleBackend('a'), sampleBackend('b')]);
    const stuck = [1, 2].map((seed) => permitOf(ask({ prefix: sampleChain(48_000, seed), bodyBytes: 48_000 })));
    expect(new Set(stuck.map((permit) => permit?.backend.name)).size).toBe(2);
    const held = ask({ prefix: sampleChain(2000, 99), bodyBytes: 2000 });
    clock.advance(3900);
    expect(held.result).toBeUndefined();
    // Twice the 1.5 s that 12,000 tokens should take, and a second.
    clock.advance(200);
    const permit = permitOf(held);
    expect(permit).toBeDefined();
    // New ones don't wait behind them either.
    expect(permitOf(ask({ prefix: sampleChain(2000, 98), bodyBytes: 2000 }))).toBeDefined();
    stuck[0]?.decoding();
    for (const one of stuck) one?.settle();
    expect(owner.load('a').pendingTokens + owner.load('b').pendingTokens).toBeLessThan(2000);
  });

  it('C147 leaks nothing and never falls below nothing over random faults', () => {
    const step = fc.record({ kind: fc.nat(99), pick: fc.nat(999), bytes: fc.integer({ min: 100, max: 60_000 }) });
    fc.assert(
      fc.property(fc.array(step, { minLength: 30, maxLength: 250 }), (steps) => {
        const all = [
          sampleBackend('a', { slots: 2 }),
          sampleBackend('b', { slots: 3 }),
          sampleBackend('c'),
          sampleBackend('d', { slots: 1, ghostSlots: 1 }),
        ];
        const { ask, clock, owner, world } = setUp(all);
        const asked: Asked[] = [];
        const some = (pick: number) => asked[pick % Math.max(1, asked.length)];
        for (const { kind, pick, bytes } of steps) {
          const over = { bodyBytes: bytes, prefix: sampleChain(bytes, 1 + (pick % 5)), stream: pick % 4 > 0 };
          if (kind < 40) asked.push(ask({ ...over, choices: 1 + (pick % 3), generates: pick % 7 > 0 }, pick % 9 === 0));
          else if (kind < 55) permitOf(some(pick) ?? {})?.decoding();
          else if (kind < 70) {
            const permit = permitOf(some(pick) ?? {});
            permit?.settle();
            permit?.errand?.ended({
              computed: pick % 2 === 0,
              tpotMs: 20,
              outputTokens: 50,
              upstreamTtftMs: bytes / 10,
            });
          } else if (kind < 78) some(pick)?.ticket?.leave();
          else if (kind < 88) clock.advance(pick);
          else {
            world.backends = all.filter((_, index) => ((pick >> index) & 1) === 1);
            if (pick % 3 === 0) world.backends = world.backends.map((one) => ({ ...one, restarts: pick }));
            owner.fleetChanged();
          }
          for (const { name } of all) {
            const { lastUsed: _, ...load } = owner.load(name);
            expect(Math.min(...Object.values(load))).toBeGreaterThanOrEqual(0);
            expect(load.jobs).toBeGreaterThanOrEqual(load.pendingJobs);
          }
        }
        world.backends = all;
        owner.fleetChanged();
        for (let round = 0; round < 30; round += 1) {
          for (const one of asked) permitOf(one)?.settle();
          clock.advance(1000);
        }
        for (const one of asked) permitOf(one)?.errand?.ended({ computed: true });
        for (const { name } of all) expect(owner.load(name)).toMatchObject(nothing);
        expect(owner.waiting()).toBe(0);
        clock.advance(120_000);
        expect(clock.pending()).toBe(0);
      }),
      { numRuns: 40 },
    );
  });
});
