/** A long queue: what an event elsewhere costs, and who is chosen for all the same. */
import { describe, expect, it } from 'vitest';
import { type Choice, createOwner, type Permit } from '../../../src/admit/owner.ts';
import type { BackendView } from '../../../src/domain/fleet.ts';
import { isRefusal, type Refusal } from '../../../src/domain/refusal.ts';
import { modelNotFound } from '../../../src/route/refusals.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

/** Two models, each with two backends of one place. */
function setUp() {
  const world = {
    backends: ['a', 'b'].flatMap((model) =>
      [1, 2].map((number) => sampleBackend(`${model}${number}`, { slots: 1, models: [model] })),
    ),
  };
  const counts = { chosen: 0 };
  const clock = createFakeClock();
  const owner = createOwner(
    { maxQueuedJobs: 10_000, queueTimeoutMs: 60_000 },
    {
      clock,
      fleet: () => ({ atMs: 1, backends: world.backends }),
      choose({ job, affinity }): Choice | Refusal {
        counts.chosen += 1;
        const able = world.backends.filter(({ name, models }) =>
          affinity === undefined ? models.includes(job.model ?? '') : name === affinity,
        );
        if (able.length === 0) return modelNotFound(job.model ?? '', world.backends);
        return { ranked: able.map((backend: BackendView) => ({ backend, reason: 'least_load' })), hold: false };
      },
    },
  );
  const ask = (model: string, affinity?: string) => {
    const asked: { result?: Permit | Refusal } = {};
    const job = sampleJob({ model });
    const given = { job, exclude: [], again: false };
    owner.ask(affinity === undefined ? given : { ...given, affinity }, (result) => (asked.result = result));
    return asked;
  };
  return { owner, clock, world, counts, ask };
}

function permitOf({ result }: { result?: Permit | Refusal }): Permit {
  if (result === undefined || isRefusal(result)) throw new Error('no permit was given');
  return result;
}

const long = 2000;

describe('a long queue for one model', () => {
  it.each(['decoding', 'settle'] as const)('costs jobs of another one next to nothing at their %s', (what) => {
    const { counts, ask } = setUp();
    for (let i = 0; i < long; i += 1) ask('a');
    const other = permitOf(ask('b'));
    counts.chosen = 0;
    other[what]();
    expect(counts.chosen).toBeLessThan(10);
  });

  it('is served one by one as its own places become free, each for a few choices', () => {
    const { counts, owner, ask } = setUp();
    const asked = Array.from({ length: long }, () => ask('a'));
    for (let done = 0; done < long; done += 1) {
      counts.chosen = 0;
      permitOf(asked[done] ?? {}).settle();
      expect(counts.chosen).toBeLessThan(10);
    }
    expect(owner.waiting()).toBe(0);
  });

  it('does not hide who waits behind it for another place', () => {
    const { ask } = setUp();
    const running = permitOf(ask('b'));
    permitOf(ask('b'));
    for (let i = 0; i < 10; i += 1) ask('a');
    const [first, bound] = [ask('b'), ask('a', 'b2')];
    running.settle();
    expect(permitOf(first).backend.name).toBe('b1');
    permitOf(first).settle();
    expect(bound.result).toBeUndefined();
  });

  it('a job bound to one backend goes there though all that serve its model are waited for', () => {
    const { ask } = setUp();
    const running = [permitOf(ask('b')), permitOf(ask('b'))];
    for (let i = 0; i < 10; i += 1) ask('a');
    const bound = ask('a', 'b2');
    running.find(({ backend }) => backend.name === 'b2')?.settle();
    expect(permitOf(bound).backend.name).toBe('b2');
  });

  it('is chosen for job by job when the fleet is another one: nobody waits for what is gone', () => {
    const { owner, world, ask } = setUp();
    const asked = Array.from({ length: 50 }, () => ask('a'));
    world.backends = world.backends.filter(({ models }) => models.includes('b'));
    owner.fleetChanged();
    expect(asked.slice(2).every(({ result }) => result !== undefined && isRefusal(result))).toBe(true);
    expect(owner.waiting()).toBe(0);
  });
});
