import { describe, expect, it } from 'vitest';

import { createOwner, type Permit } from '../../../src/admit/owner.ts';
import type { BackendView } from '../../../src/domain/fleet.ts';
import { isRefusal, type Refusal } from '../../../src/domain/refusal.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

function setUp(...backends: BackendView[]) {
  const clock = createFakeClock();
  const told: string[] = [];
  const owner = createOwner(
    { maxQueuedJobs: 10, queueTimeoutMs: 1000 },
    {
      clock,
      fleet: () => ({ atMs: clock.nowMs(), backends }),
      choose: ({ exclude }) => ({
        ranked: backends
          .filter(({ name }) => !exclude.includes(name))
          .map((backend) => ({ backend, reason: 'least_load' })),
        hold: false,
      }),
      sent: ({ yields }, { backend }) => {
        told.push(`${yields === undefined ? 'user' : 'warm-up'} to ${backend.name}`);
        return { promptTokens: 100, uncachedTokens: 100, ended() {} };
      },
    },
  );
  const ask = (exclude: string[] = [], over: { generates?: boolean } = {}) => {
    let result: Permit | Refusal | undefined;
    owner.ask({ job: sampleJob(over), exclude, again: false }, (answer) => (result = answer));
    return result;
  };
  const warm = (exclude: string[] = []) => {
    const name = `w${told.length}`;
    let result: Permit | Refusal | undefined;
    owner.ask(
      { job: sampleJob({ lane: 'batch' }), exclude, again: false, yields: () => told.push(`${name} makes way`) },
      (answer) => (result = answer),
    );
    return result;
  };
  return { owner, told, ask, warm };
}

function permit(result: Permit | Refusal | undefined): Permit {
  if (result === undefined || isRefusal(result)) throw new Error('no permit');
  return result;
}

describe('a job that yields', () => {
  it('takes an idle backend, and counts for nothing in its load', () => {
    const { owner, warm, told } = setUp(sampleBackend('a', { slots: 1 }));
    expect(permit(warm())).toMatchObject({ slots: 0, backend: { name: 'a' } });
    expect(told).toEqual(['warm-up to a']);
    expect(owner.load('a')).toMatchObject({ jobs: 0, slots: 0, pendingJobs: 0, pendingTokens: 0 });
    expect(owner.waiting()).toBe(0);
  });

  it('makes way before a user is answered, who finds the place free', () => {
    const { warm, ask, told } = setUp(sampleBackend('a', { slots: 1 }));
    permit(warm());
    expect(permit(ask())).toMatchObject({ slots: 1 });
    expect(told).toEqual(['warm-up to a', 'w0 makes way', 'user to a']);
  });

  it('is told once, and not for a user who goes elsewhere or takes no engine place', () => {
    const { warm, ask, told } = setUp(sampleBackend('a'), sampleBackend('b'));
    permit(warm(['b']));
    ask(['a']);
    ask(['b'], { generates: false });
    expect(told.filter((line) => line.includes('way'))).toEqual([]);
    ask(['b']);
    ask(['b']);
    expect(told.filter((line) => line.includes('way'))).toEqual(['w0 makes way']);
  });

  it('is refused at once where somebody runs, waits, or may still be busy', () => {
    const { warm, ask } = setUp(sampleBackend('a', { slots: 1 }), sampleBackend('b', { slots: 1, ghostSlots: 1 }));
    const user = permit(ask(['b']));
    expect(warm(['b'])).toMatchObject({ code: 'not_idle', outcome: 'rejected' });
    expect(warm(['a'])).toMatchObject({ code: 'not_idle' });
    user.settle();
    expect(isRefusal(permit(warm(['b'])))).toBe(false);
  });

  it('is refused where another one runs, until that has settled', () => {
    const { warm } = setUp(sampleBackend('a'));
    const first = permit(warm());
    expect(warm()).toMatchObject({ code: 'not_idle' });
    first.settle();
    first.settle();
    permit(warm());
  });

  it('takes nothing from a later one when it settles late', () => {
    const { warm, ask } = setUp(sampleBackend('a'));
    const first = permit(warm());
    permit(ask()).settle();
    permit(warm());
    first.settle();
    expect(warm()).toMatchObject({ code: 'not_idle' });
  });
});
