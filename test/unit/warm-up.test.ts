import { describe, expect, it } from 'vitest';

import type { BackendView } from '../../src/domain/fleet.ts';
import type { PrefixChain } from '../../src/domain/prefix.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import { createWarmUp, type WarmRequest, type WarmUpTold } from '../../src/warm-up.ts';
import { createFakeClock } from '../support/fake-clock.ts';
import { sampleBackend, sampleJob } from '../support/sample.ts';
import { sampleRecord } from '../support/sample-record.ts';

const chain: PrefixChain = {
  keys: Float64Array.from([11, 22, 33]),
  ends: Float64Array.from([1024, 2048, 3072]),
  parts: Int32Array.from([0, 0, 1]),
  bytes: 3072,
  wideBytes: 0,
};
const job = sampleJob({ prefix: chain });
const told = (prompt: number, cached: number) => ({
  prompt: { value: prompt, source: 'usage' as const },
  cached: { value: cached, source: 'usage' as const },
});
const warmRecord = sampleRecord({
  lane: 'batch',
  marks: ['warm_up'],
  tokens: told(1000, 0),
  figures: { tpotWindow: 'none_single_token', durationMs: 600, upstreamTtftMs: 500 },
});

interface Sent {
  readonly request: WarmRequest;
  readonly backend: string;
  readonly told: WarmUpTold;
  aborted: boolean;
}

function world(
  over: {
    prompts?: number;
    maxConcurrentPerFleet?: number;
    hottest?: WarmRequest[];
    serves?: (name: string) => boolean;
  } = {},
) {
  const clock = createFakeClock();
  const sent: Sent[] = [];
  const logged: string[] = [];
  const busy = new Set<string>();
  const note = (message: string) => void logged.push(message);
  const log = { debug: note, info: note, warn: note, error: note };
  const prompts = Array.from({ length: over.prompts ?? 1 }, (_, i) => ({
    name: `p${i}`,
    path: '/x',
    body: Buffer.from(`{"n":${i}}`),
  }));
  const warmUp = createWarmUp(
    {
      prompts: [],
      hottest: { enabled: true, count: 4, maxBytes: 1000 },
      maxConcurrentPerFleet: over.maxConcurrentPerFleet ?? 8,
      timeoutMs: 10_000,
    },
    {
      clock,
      log,
      prompts,
      hottest: () => over.hottest ?? [],
      isIdle: (backend) => !busy.has(backend),
      serves: ({ name }) => over.serves?.(name) ?? true,
      send(request, backend, tell) {
        const one: Sent = { request, backend, told: tell, aborted: false };
        sent.push(one);
        return { abort: () => (one.aborted = true) };
      },
    },
  );
  const fleet = (...backends: BackendView[]) => warmUp.fleetChanged({ atMs: clock.nowMs(), backends });
  const end = (at: number, record: Partial<RequestRecord> = {}) =>
    sent[at]?.told.booked({ ...warmRecord, ...record }, job);
  const stats = (backend = 'a') => warmUp.stats().find((one) => one.backend === backend);
  const names = () => sent.map(({ backend, request }) => `${request.name} to ${backend}`);
  return { clock, sent, logged, busy, warmUp, fleet, end, stats, names };
}

const up = (name = 'a', over: Partial<BackendView> = {}) => sampleBackend(name, over);
const down = (name = 'a') => sampleBackend(name, { health: 'down' });

describe('prefill ahead of time', () => {
  it('begins when a backend comes up, comes back, or is another process, and not otherwise', () => {
    const { fleet, end, names } = world();
    fleet(down());
    expect(names()).toEqual([]);
    fleet(up());
    end(0);
    fleet(up());
    fleet(up('a', { version: '2' }));
    expect(names()).toEqual(['p0 to a']);
    fleet(sampleBackend('a', { health: 'loading' }));
    fleet(up());
    end(1);
    fleet(up('a', { restarts: 1 }));
    end(2);
    fleet(up('a', { restarts: 1 }), up('b'));
    expect(names()).toEqual(['p0 to a', 'p0 to a', 'p0 to a', 'p0 to b']);
  });

  it('sends one prompt after the other to a backend, and to so many backends at once', () => {
    const { fleet, end, names } = world({ prompts: 2, maxConcurrentPerFleet: 2 });
    fleet(up('a'), up('b'), up('c'));
    expect(names()).toEqual(['p0 to a', 'p0 to b']);
    end(0);
    expect(names()).toEqual(['p0 to a', 'p0 to b', 'p1 to a']);
    end(1);
    end(2);
    expect(names().slice(3)).toEqual(['p1 to b', 'p0 to c']);
  });

  it('sends the hottest behind the named ones, and only what a backend serves', () => {
    const hottest = [{ name: 'hot', path: '/x', body: Buffer.from('{}'), messages: 1 }];
    const { fleet, end, names } = world({ hottest, serves: (name) => name === 'a' });
    fleet(up('a'), up('b'));
    end(0);
    end(1);
    expect(names()).toEqual(['p0 to a', 'hot to a']);
  });

  it('waits while a backend has other work', () => {
    const { fleet, busy, clock, names } = world();
    busy.add('a');
    fleet(up());
    clock.advance(5000);
    expect(names()).toEqual([]);
    busy.clear();
    clock.advance(250);
    expect(names()).toEqual(['p0 to a']);
  });

  it('gives up on one that never idles, and sets no timer then', () => {
    const { fleet, busy, clock, stats, names } = world({ prompts: 3 });
    busy.add('a');
    fleet(up());
    clock.advance(600_500);
    expect(stats()?.ended).toMatchObject({ given_up: 3 });
    expect(clock.pending()).toBe(0);
    expect(names()).toEqual([]);
  });

  it('tries a prompt that had to make way once more, and no more', () => {
    const { fleet, sent, end, stats, names } = world();
    fleet(up());
    for (const at of [0, 1]) {
      sent[at]?.told.madeWay();
      end(at, { outcome: 'client_abort', reason: 'client_left' });
    }
    expect(names()).toHaveLength(2);
    expect(stats()?.ended).toMatchObject({ aborted: 2, done: 0, failed: 0 });
  });

  it('does not take it for a try when somebody else was quicker', () => {
    const { fleet, end, clock, stats, names } = world();
    fleet(up());
    for (let at = 0; at < 5; at += 1) {
      end(at, { outcome: 'rejected', reason: 'not_idle' });
      clock.advance(250);
    }
    expect(names()).toHaveLength(6);
    expect(stats()?.ended).toMatchObject({ aborted: 0, failed: 0 });
  });

  it('says once what failed, tries again once, and ends what takes too long', () => {
    const { fleet, sent, end, clock, logged, stats } = world();
    fleet(up());
    clock.advance(10_000);
    expect(sent[0]?.aborted).toBe(true);
    end(0, { outcome: 'client_abort', reason: 'client_left' });
    end(1, { outcome: 'upstream_error', reason: 'status_500' });
    expect(sent).toHaveLength(2);
    expect(stats()?.ended).toMatchObject({ failed: 2 });
    expect(logged).toHaveLength(1);
    expect(clock.pending()).toBe(0);
  });

  it('leaves a prompt that failed in peace, longer each time, though the backend comes back again and again', () => {
    const { clock, fleet, end, sent, names } = world({ prompts: 2 });
    const comes = () => {
      fleet(down());
      fleet(up('a', { restarts: sent.length }));
    };
    const failed = { outcome: 'upstream_error', reason: 'backend_closed_early' } as const;
    fleet(up());
    end(0, failed);
    end(1);
    end(2, failed);
    expect(names()).toEqual(['p0 to a', 'p1 to a', 'p0 to a']);
    comes();
    end(3);
    expect(names().slice(3)).toEqual(['p1 to a']);
    clock.advance(119_000);
    comes();
    end(4);
    expect(names().slice(4)).toEqual(['p1 to a']);
    clock.advance(2000);
    comes();
    expect(names().slice(5)).toEqual(['p0 to a']);
    end(5, failed);
    end(6);
    end(7);
    expect(names().slice(6)).toEqual(['p1 to a', 'p0 to a']);
    comes();
    expect(names().slice(8)).toEqual(['p0 to a']);
  });

  it('ends with its backend', () => {
    const { fleet, sent, end, stats, clock } = world({ prompts: 2 });
    fleet(up());
    fleet(down());
    end(0, { outcome: 'upstream_error' });
    expect(sent).toHaveLength(1);
    expect(stats()?.ended).toMatchObject({ failed: 1, given_up: 1 });
    fleet(up('b'));
    fleet();
    expect(sent[1]?.aborted).toBe(true);
    end(1, { outcome: 'client_abort' });
    expect(clock.pending()).toBe(0);
  });

  it('counts what was computed, and the time that the first user of it did not wait', () => {
    const { fleet, end, warmUp, stats } = world();
    fleet(up());
    end(0);
    expect(stats()).toMatchObject({ tokens: 1000, used: 0, savedSeconds: 0 });
    const user = sampleRecord({ backend: 'a', tokens: told(1200, 900) });
    warmUp.recorded(user, job);
    warmUp.recorded(user, job);
    expect(stats()).toMatchObject({ used: 1, savedSeconds: 0.45 });
  });

  it('counts no time for its own work, for batch work, elsewhere, or what was cached before', () => {
    const { fleet, end, warmUp, stats } = world();
    fleet(up());
    end(0, { tokens: told(1000, 1000) });
    const user = sampleRecord({ backend: 'a', tokens: told(1200, 900) });
    warmUp.recorded(user, job);
    fleet(up('a', { restarts: 1 }));
    end(1);
    warmUp.recorded({ ...user, lane: 'batch' }, job);
    warmUp.recorded({ ...user, marks: ['warm_up'] }, job);
    warmUp.recorded({ ...user, backend: 'b' }, job);
    expect(stats()).toMatchObject({ used: 0, savedSeconds: 0 });
  });

  it('goes by the part that prompts share, where it had to add a message', () => {
    const hottest = [{ name: 'hot', path: '/x', body: Buffer.from('{}'), messages: 1 }];
    const { fleet, end, warmUp, stats } = world({ prompts: 0, hottest });
    fleet(up());
    end(0);
    const other = sampleJob({ prefix: { ...chain, keys: Float64Array.from([11, 22, 44]) } });
    warmUp.recorded(sampleRecord({ backend: 'a', tokens: told(1200, 900) }), other);
    expect(stats()).toMatchObject({ used: 1 });
  });

  it('goes on where the record of one was lost, and counts one that was booked once', () => {
    const { fleet, sent, end, stats, names, clock } = world({ prompts: 2 });
    fleet(up());
    sent[0]?.told.over();
    expect(stats()?.ended).toMatchObject({ done: 0, failed: 1 });
    expect(names()).toEqual(['p0 to a', 'p1 to a']);
    end(1);
    sent[1]?.told.over();
    sent[0]?.told.over();
    expect(stats()?.ended).toMatchObject({ done: 1, failed: 1 });
    fleet(up('a', { restarts: 1 }));
    expect(names().slice(2)).toEqual(['p0 to a']);
    // The end of one is none of the next one.
    sent[1]?.told.over();
    expect(names().slice(2)).toEqual(['p0 to a']);
    end(2);
    end(3);
    expect(clock.pending()).toBe(0);
  });

  it('ends all of it when it is stopped', () => {
    const { fleet, sent, end, warmUp, clock } = world({ prompts: 2 });
    fleet(up());
    warmUp.stop();
    expect(sent[0]?.aborted).toBe(true);
    end(0, { outcome: 'client_abort' });
    fleet(up('b'));
    expect(sent).toHaveLength(1);
    expect(clock.pending()).toBe(0);
  });
});
