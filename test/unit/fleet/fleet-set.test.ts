/** Backends that come, go, change, are drained, fail and restart while the fleet runs. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createFleet, type Fleet } from '../../../src/fleet/fleet.ts';
import type { FleetSignal } from '../../../src/fleet/health.ts';
import { breakerDefaults, type BackendSettings } from '../../../src/fleet/settings.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { createFakeClock, settle } from '../../support/fake-clock.ts';
import { createFleetWorld, pauses } from './fleet-world.ts';
import { createScriptedBackend, llamaAnswers, llamaProps, ok, refused, vllmMetrics } from './scripted-backend.ts';

const world = createFleetWorld();

const llama = { name: 'llama', url: 'http://llama' } as const;
const vllm = { name: 'vllm', url: 'http://vllm' } as const;

const fail = (name: string, times: number) => {
  const member = world.fleet.member(name);
  for (let i = 0; i < times; i += 1) member?.tried('bad', world.clock.nowMs());
};

describe('a fleet that is set anew', () => {
  it('watches on what stays the same, begins with what is new, and ends what is gone, in one change', async () => {
    await world.started(llama);
    const seen: string[][] = [];
    world.fleet.onChange(({ backends }) => seen.push(backends.map(({ name, health }) => `${name} ${health}`)));
    world.fleet.set([vllm, llama]);
    expect(seen).toEqual([['vllm unknown', 'llama up']]);
    expect(world.llama.take()).toEqual([]);
    await world.pass(100);
    expect(world.view('vllm').health).toBe('up');
    world.fleet.set([vllm]);
    expect(seen.at(-1)).toEqual(['vllm up']);
    world.llama.take();
    await world.pass(20_000);
    expect(world.llama.take()).toEqual([]);
  });

  it('takes weight, labels, models and limits without asking anew; another URL, key or engine begins anew', async () => {
    await world.started(llama);
    const member = world.fleet.member('llama');
    world.fleet.set([{ ...llama, weight: 3, labels: { zone: 'b' }, models: ['x'], maxInFlight: 7, source: 'file' }]);
    expect(world.view('llama')).toMatchObject({
      health: 'up',
      weight: 3,
      labels: { zone: 'b' },
      models: ['x'],
      slots: 7,
      source: 'file',
    });
    expect(world.fleet.member('llama')).toBe(member);
    expect(world.llama.take()).toEqual([]);
    world.fleet.set([{ ...llama, apiKey: 'k' }]);
    expect(world.fleet.member('llama')).not.toBe(member);
    expect(world.view('llama').health).toBe('unknown');
    await world.pass(100);
  });

  it('C147 what a backend’s old requests still show is not held against its successor of the same name', async () => {
    await world.started(llama, vllm);
    const old = world.fleet.member('llama');
    world.fleet.set([vllm]);
    expect(world.fleet.member('llama')).toBeUndefined();
    world.fleet.set([vllm, { ...llama, maxInFlight: 4 }]);
    await world.pass(100);
    const before = world.fleet.snapshot();
    old?.report({ kind: 'connectFailed', fault: 'refused' });
    old?.report({ kind: 'engineDied' });
    for (let i = 0; i < 20; i += 1) old?.tried('bad', world.clock.nowMs());
    old?.ghost(2);
    old?.watchQuiet()();
    old?.holdProbes()();
    for (let i = 0; i < 5; i += 1) old?.noteAnswer({ usage: true, cached: false });
    expect(world.fleet.snapshot()).toBe(before);
    expect(world.view('llama').health).toBe('up');
  });

  it('begins slowly with one that joined later or was away, not with those that were there at the start', async () => {
    await world.started(llama);
    expect(world.view('llama')).not.toHaveProperty('backSinceMs');
    world.fleet.set([llama, vllm]);
    expect(world.view('vllm').backSinceMs).toBe(world.clock.nowMs());
    await world.pass(100);
    world.llama.answers = {};
    world.llama.otherwise = refused;
    await world.pass(6000);
    expect(world.view('llama').health).toBe('down');
    world.llama.answers = llamaAnswers();
    await world.pass(2000);
    expect(world.view('llama').backSinceMs).toBeGreaterThan(6000);
  });

  it('takes no more once it has stopped', async () => {
    await world.started(llama);
    world.fleet.stop();
    world.fleet.set([vllm]);
    expect(world.fleet.snapshot().backends.map(({ name }) => name)).toEqual(['llama']);
    expect(world.clock.pending()).toBe(0);
  });
});

describe('a backend that is drained', () => {
  it('takes no work whatever its probes say, and begins slowly again afterwards', async () => {
    await world.started(llama);
    world.fleet.set([{ ...llama, drain: true }]);
    expect(world.view('llama')).toMatchObject({ health: 'draining', healthReason: 'asked' });
    const sinceMs = world.view('llama').healthSinceMs;
    await world.pass(70_000, 500);
    expect(world.view('llama')).toMatchObject({ health: 'draining', healthReason: 'asked', healthSinceMs: sinceMs });
    world.fleet.set([{ ...llama, drain: false }]);
    expect(world.view('llama')).toMatchObject({ health: 'up', backSinceMs: world.clock.nowMs() });
  });
});

describe('a backend that fails at its work', () => {
  it('C065 is ejected on the 5xx between its 4xx, though its health route is well; 4xx close no trial', async () => {
    await world.started(vllm);
    // A 4xx never gets here (attempt-verdict.ts): what is between the failures is nothing.
    fail('vllm', breakerDefaults.failures);
    expect(world.view('vllm')).toMatchObject({ health: 'down', healthReason: 'ejected' });
    await world.pass(1300);
    expect(world.view('vllm')).toMatchObject({ health: 'up', onTrial: true });
    await world.pass(10_000);
    expect(world.view('vllm')).toMatchObject({ health: 'up', onTrial: true });
    fail('vllm', 1);
    expect(world.view('vllm').healthReason).toBe('ejected');
    await world.pass(2500);
    world.fleet.member('vllm')?.tried('good', world.clock.nowMs());
    expect(world.view('vllm')).not.toHaveProperty('onTrial');
    expect([...world.fleet.ejections()]).toEqual([['vllm', 2]]);
  });

  it('an ok probe alone leads to a trial, never to a closed breaker; one that is down stays down', async () => {
    await world.started(vllm);
    fail('vllm', 5);
    const answers = world.vllm.answers;
    world.vllm.answers = {};
    world.vllm.otherwise = refused;
    await world.pass(8000);
    expect(world.view('vllm')).toMatchObject({ health: 'down', healthReason: 'refused' });
    world.vllm.answers = answers;
    await world.pass(2000);
    expect(world.view('vllm')).toMatchObject({ health: 'up', onTrial: true });
  });

  it('comes to its trial though the timer fires a little early, as real ones do', async () => {
    const { clock } = world;
    const early = { ...clock, timer: (ms: number, fire: () => void) => clock.timer(Math.max(0.25, ms - 0.5), fire) };
    world.fleet = createFleet(
      { backends: [vllm], ...pauses },
      {
        clock: early,
        log: silentLog,
        probeFetch: () => (path, options) => world.vllm.fetch(path, options),
        ownLoad: () => ({ jobs: 0, slots: 0 }),
        random: () => 0.5,
      },
    );
    void world.fleet.start();
    await world.pass(100);
    fail('vllm', 5);
    await world.pass(1001, 1);
    expect(world.view('vllm').onTrial).toBe(true);
  });

  it('failures that follow from draining or loading are no news', async () => {
    await world.started(vllm);
    world.fleet.report('vllm', { kind: 'drainingAnswer' });
    fail('vllm', 20);
    expect(world.view('vllm')).toMatchObject({ health: 'draining', healthReason: 'shutting_down' });
    expect([...world.fleet.ejections()]).toEqual([['vllm', 0]]);
  });

  it('one that comes and goes waits longer each time, and then is on trial', async () => {
    await world.started(llama);
    const answers = world.llama.answers;
    for (let i = 0; i < 4; i += 1) {
      world.llama.answers = {};
      world.llama.otherwise = refused;
      world.fleet.report('llama', { kind: 'connectFailed', fault: 'refused' });
      await world.pass(1100);
      world.llama.answers = answers;
      await world.pass(1100);
    }
    expect(world.view('llama')).toMatchObject({ health: 'down', healthReason: 'ejected' });
    await world.pass(3000);
    // Four, of which two came within three seconds.
    expect(world.view('llama')).toMatchObject({ health: 'up', onTrial: true, restarts: 3 });
  });
});

describe('a backend whose process is another one', () => {
  it('is recognised by its port, once though its build changed too', async () => {
    await world.started(llama);
    const answers = world.llama.answers;
    world.llama.answers = {};
    world.llama.otherwise = refused;
    await world.pass(6000);
    world.llama.answers = { ...answers, '/props': llamaProps({ build_info: 'b2', total_slots: 4 }) };
    await world.pass(70_000, 500);
    expect(world.view('llama')).toMatchObject({ health: 'up', version: 'b2', restarts: 1 });
  });

  it('is recognised by another build between two probes, when nothing else was seen', async () => {
    await world.started(llama);
    world.llama.answers['/props'] = llamaProps({ build_info: 'b2' });
    await world.pass(70_000, 500);
    expect(world.view('llama')).toMatchObject({ restarts: 1 });
  });

  it('C156 is recognised by its metrics: counters that fell, another start time', async () => {
    world.vllm.answers['/metrics'] = counted(180, 300);
    const settings = { backends: [vllm], ...pauses, engineMetrics: true };
    world.fleet = createFleet(settings, {
      clock: world.clock,
      log: silentLog,
      probeFetch: () => (path, options) => world.vllm.fetch(path, options),
      ownLoad: () => ({ jobs: 0, slots: 0 }),
    });
    void world.fleet.start();
    await world.pass(11_000, 500);
    expect(world.view('vllm')).not.toHaveProperty('restarts');
    world.vllm.answers['/metrics'] = counted(5, 20);
    await world.pass(6000, 500);
    expect(world.view('vllm').restarts).toBe(1);
    world.vllm.answers['/metrics'] = counted(15, 40);
    await world.pass(6000, 500);
    expect(world.view('vllm').restarts).toBe(1);
    world.vllm.answers['/metrics'] = counted(25, 60, 1_700_000_000);
    await world.pass(6000, 500);
    world.vllm.answers['/metrics'] = counted(35, 80, 1_700_009_000);
    await world.pass(6000, 500);
    expect(world.view('vllm').restarts).toBe(2);
  });
});

function counted(hits: number, queries: number, startedSeconds?: number) {
  const facts = vllmMetrics();
  const body = 'body' in facts ? facts.body : '';
  const started = startedSeconds === undefined ? '' : `process_start_time_seconds ${startedSeconds}\n`;
  return ok(
    `${body}vllm:prefix_cache_queries_total{engine="0"} ${queries}.0\nvllm:prefix_cache_hits_total{engine="0"} ${hits}.0\n${started}`,
  );
}

describe('whatever happens to a fleet', () => {
  const names = ['a', 'b', 'c'] as const;
  const signals: readonly FleetSignal[] = [
    { kind: 'connectFailed', fault: 'refused' },
    { kind: 'connectFailed', fault: 'connect_timeout' },
    { kind: 'resetBeforeHead' },
    { kind: 'drainingAnswer' },
    { kind: 'engineDied' },
    { kind: 'loadingAnswer' },
    { kind: 'answered', sentMs: 1e9, generates: true },
    { kind: 'changed' },
  ];
  const settings: fc.Arbitrary<BackendSettings> = fc.record({
    name: fc.constantFrom(...names),
    url: fc.constantFrom('http://x', 'http://y'),
    drain: fc.boolean(),
  });
  const step = fc.oneof(
    fc.record({ do: fc.constant('set' as const), list: fc.uniqueArray(settings, { selector: ({ name }) => name }) }),
    fc.record({ do: fc.constant('signal' as const), name: fc.constantFrom(...names), at: fc.nat(signals.length - 1) }),
    fc.record({ do: fc.constant('tried' as const), name: fc.constantFrom(...names), good: fc.boolean() }),
    fc.record({ do: fc.constant('probes' as const), up: fc.boolean() }),
    fc.record({ do: fc.constant('ghost' as const), name: fc.constantFrom(...names) }),
    fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 8000 }) }),
  );

  it('its views agree with what was asked, and no timer outlives it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const clock = createFakeClock();
        const server = createScriptedBackend(clock, llamaAnswers());
        const fleet: Fleet = createFleet(
          { backends: [], ...pauses },
          {
            clock,
            log: silentLog,
            probeFetch: () => (path, options) => server.fetch(path, options),
            ownLoad: () => ({ jobs: 0, slots: 0 }),
            random: () => 0.5,
          },
        );
        await fleet.start();
        let wanted: readonly BackendSettings[] = [];
        let told = fleet.snapshot();
        fleet.onChange((snapshot) => (told = snapshot));
        for (const one of steps) {
          if (one.do === 'set') fleet.set((wanted = one.list));
          else if (one.do === 'signal') fleet.report(one.name, signals[one.at] ?? { kind: 'changed' });
          else if (one.do === 'tried') fleet.member(one.name)?.tried(one.good ? 'good' : 'bad', clock.nowMs());
          else if (one.do === 'ghost') fleet.ghost(one.name, 1);
          else if (one.do === 'probes') {
            server.answers = one.up ? llamaAnswers() : {};
            server.otherwise = refused;
          } else {
            clock.advance(one.ms);
            await settle();
          }
          const { backends } = fleet.snapshot();
          expect(fleet.snapshot()).toBe(told);
          expect(backends.map(({ name, url }) => [name, url])).toEqual(wanted.map(({ name, url }) => [name, url]));
          for (const [index, view] of backends.entries()) {
            if (wanted[index]?.drain === true)
              expect(view).toMatchObject({ health: 'draining', healthReason: 'asked' });
            else expect(view.healthReason).not.toBe('asked');
            expect(view.ghostSlots).toBeGreaterThanOrEqual(0);
            expect(view.healthSinceMs).toBeLessThanOrEqual(clock.nowMs());
          }
        }
        // A round, ghosts' end and a breaker's pause for each: nothing grows with time.
        expect(clock.pending()).toBeLessThanOrEqual(4 * wanted.length + 1);
        fleet.stop();
        await settle();
        expect(clock.pending()).toBe(0);
      }),
      { numRuns: 60 },
    );
  });
});
