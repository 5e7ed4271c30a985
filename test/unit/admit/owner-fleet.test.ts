/** Load as backends leave, return and become other servers, while permits are out. */
import { expect, it } from 'vitest';
import { createOwner, type Permit } from '../../../src/admit/owner.ts';
import type { BackendView } from '../../../src/domain/fleet.ts';
import { isRefusal } from '../../../src/domain/refusal.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { sampleBackend, sampleJob } from '../../support/sample.ts';

function setUp(...first: BackendView[]) {
  let backends = first;
  const owner = createOwner(
    { maxQueuedJobs: 5, queueTimeoutMs: 1000 },
    {
      clock: createFakeClock(),
      fleet: () => ({ atMs: 1, backends }),
      choose: () => ({ ranked: backends.map((backend) => ({ backend, reason: 'test' })), hold: false }),
    },
  );
  return {
    owner,
    set(...next: BackendView[]) {
      backends = next;
      owner.fleetChanged();
    },
    granted(): Permit {
      let got: Permit | undefined;
      owner.ask({ job: sampleJob(), exclude: [], again: false }, (result) => {
        if (!isRefusal(result)) got = result;
      });
      if (got === undefined) throw new Error('no place');
      return got;
    },
  };
}

const a = sampleBackend('a', { url: 'http://old', slots: 1 });

it('C147 what is out on a backend counts when it returns under its name, once, and is never below nothing', () => {
  const { owner, set, granted } = setUp(a);
  const first = granted();
  set();
  expect(owner.load('a').jobs).toBe(1);
  set({ ...a, slots: 2 });
  const second = granted();
  expect(owner.load('a')).toMatchObject({ jobs: 2, slots: 2 });
  first.settle();
  first.settle();
  second.settle();
  expect(owner.load('a')).toMatchObject({ jobs: 0, slots: 0 });
});

it('C147 another server under the same name has all of its places, and the old one’s permits settle apart', () => {
  const { owner, set, granted } = setUp(a);
  const old = granted();
  set({ ...a, url: 'http://new' });
  expect(owner.load('a').jobs).toBe(0);
  const fresh = granted();
  old.decoding();
  old.settle();
  expect(owner.load('a')).toMatchObject({ jobs: 1, slots: 1 });
  fresh.settle();
  expect(owner.load('a')).toMatchObject({ jobs: 0, slots: 0, decoding: 0, contextTokens: 0 });
});

it('forgets backends that are gone: when it was last used begins anew', () => {
  const { owner, set, granted } = setUp(a);
  granted().settle();
  expect(owner.load('a').lastUsed).toBeGreaterThan(0);
  set();
  set(a);
  expect(owner.load('a').lastUsed).toBe(0);
});
