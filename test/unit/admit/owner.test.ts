import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createOwner, type Permit, type Ticket } from '../../../src/admit/owner.ts';
import type { BackendView } from '../../../src/domain/fleet.ts';
import { isRefusal, type Refusal } from '../../../src/domain/refusal.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

function setUp(backends: BackendView[], settings = { maxQueuedJobs: 3, queueTimeoutMs: 1000 }) {
  const clock = createFakeClock();
  const owner = createOwner(settings, {
    clock,
    fleet: () => ({ atMs: clock.nowMs(), backends }),
    choose: ({ exclude }) => ({
      ranked: backends
        .filter(({ name }) => !exclude.includes(name))
        .map((backend) => ({ backend, reason: 'least_load' })),
      hold: false,
    }),
  });
  const ask = (over: { choices?: number; generates?: boolean; again?: boolean; requestId?: string } = {}) => {
    const asked: { result?: Permit | Refusal; ticket?: Ticket } = {};
    asked.ticket = owner.ask(
      {
        job: sampleJob({ choices: over.choices ?? 1, generates: over.generates ?? true }),
        exclude: [],
        again: over.again ?? false,
      },
      (result) => {
        if (asked.result !== undefined) throw new Error('answered twice');
        asked.result = result;
      },
    );
    return asked;
  };
  return { clock, owner, ask };
}

function permitOf(asked: { result?: Permit | Refusal }): Permit {
  if (asked.result === undefined || isRefusal(asked.result)) throw new Error('no permit was given');
  return asked.result;
}

describe('the owner of places', () => {
  it('C164 with four slots and a queue of three: four run, three wait and are refused at their limit, three at once', () => {
    const { clock, ask } = setUp([sampleBackend('a', { slots: 4 })]);
    const asked = Array.from({ length: 10 }, () => ask());
    expect(asked.slice(0, 4).every(({ result }) => result !== undefined && !isRefusal(result))).toBe(true);
    expect(asked.slice(4, 7).every(({ result }) => result === undefined)).toBe(true);
    expect(asked.slice(7).map(({ result }) => result)).toMatchObject([
      { status: 429 },
      { status: 429 },
      { status: 429 },
    ]);
    clock.advance(1000);
    for (const { result } of asked.slice(4, 7)) {
      expect(result).toMatchObject({ code: 'queue_timeout', status: 503, retryAfterSeconds: 1, outcome: 'rejected' });
    }
  });

  it('C165 starts equals in the order of their arrival', () => {
    const { ask } = setUp([sampleBackend('a', { slots: 1 })], { maxQueuedJobs: 200, queueTimeoutMs: 0 });
    const first = ask();
    const others = Array.from({ length: 100 }, () => ask());
    let running = first;
    for (const next of others) {
      expect(next.result).toBeUndefined();
      permitOf(running).settle();
      running = next;
      permitOf(running);
    }
  });

  it('C080 forgets a waiter that leaves, and the next one starts', () => {
    const { ask, owner } = setUp([sampleBackend('a', { slots: 1 })]);
    const [a, b, c] = [ask(), ask(), ask()];
    b.ticket?.leave();
    expect(owner.waiting()).toBe(1);
    permitOf(a).settle();
    expect(b.result).toBeUndefined();
    permitOf(c);
  });

  it('a job that needs two slots is not overtaken by jobs that need one', () => {
    const { ask } = setUp([sampleBackend('a', { slots: 2 })]);
    const [one, pair, late] = [ask(), ask({ choices: 2 }), ask()];
    expect([pair.result, late.result]).toEqual([undefined, undefined]);
    permitOf(one).settle();
    expect(permitOf(pair).slots).toBe(2);
    expect(late.result).toBeUndefined();
  });

  it('R10 a slot that may still be busy with an abandoned request is not given away', () => {
    const backend = { ...sampleBackend('a', { slots: 2 }), ghostSlots: 1 };
    const { ask, owner } = setUp([backend]);
    permitOf(ask());
    const waiting = ask();
    expect(waiting.result).toBeUndefined();
    backend.ghostSlots = 0;
    owner.fleetChanged();
    permitOf(waiting);
  });

  it('routes that take no slot never wait behind those that do', () => {
    const { ask } = setUp([sampleBackend('a', { slots: 1 })]);
    permitOf(ask());
    ask();
    permitOf(ask({ generates: false }));
  });

  it('a job that lost its backend goes before those that wait', () => {
    const { ask } = setUp([sampleBackend('a', { slots: 1 })]);
    const [running, waiting, back] = [ask(), ask(), ask({ again: true })];
    permitOf(running).settle();
    permitOf(back);
    expect(waiting.result).toBeUndefined();
  });

  it('more choices than a backend has slots are that backend’s to refuse', () => {
    const { ask } = setUp([sampleBackend('a', { slots: 2 })]);
    expect(permitOf(ask({ choices: 9 })).slots).toBe(2);
  });

  it('keeps its bounds and leaks no place over random steps', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 99 }), { minLength: 50, maxLength: 400 }), (steps) => {
        const limits = [sampleBackend('a', { slots: 2 }), sampleBackend('b', { slots: 3 })];
        const { clock, owner, ask } = setUp(limits, { maxQueuedJobs: 5, queueTimeoutMs: 50 });
        const all: ReturnType<typeof ask>[] = [];
        for (const step of steps) {
          if (step < 50) all.push(ask({ choices: 1 + (step % 2), again: step % 10 === 0 }));
          else if (step < 80) {
            const { result } = all[step % Math.max(1, all.length)] ?? {};
            if (result !== undefined && !isRefusal(result)) result.settle();
          } else if (step < 90) all[step % Math.max(1, all.length)]?.ticket?.leave();
          else clock.advance(step - 80);
          expect(owner.load('a').slots).toBeLessThanOrEqual(2);
          expect(owner.load('b').slots).toBeLessThanOrEqual(3);
          expect(owner.waiting()).toBeLessThanOrEqual(6);
        }
        for (let round = 0; round < 3; round += 1) {
          for (const { result } of all) if (result !== undefined && !isRefusal(result)) result.settle();
          clock.advance(60);
        }
        expect([owner.load('a'), owner.load('b')]).toMatchObject([
          { jobs: 0, slots: 0 },
          { jobs: 0, slots: 0 },
        ]);
        expect(owner.waiting()).toBe(0);
        expect(clock.pending()).toBe(0);
      }),
    );
  });
});
