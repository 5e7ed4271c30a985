/** One fleet over two scripted backends, `llama` and `vllm`, on a clock that the test moves: fresh for each test. */
import { afterEach, beforeEach } from 'vitest';
import type { BackendView } from '../../../src/domain/fleet.ts';
import type { OwnLoad } from '../../../src/fleet/backend-watch.ts';
import { createFleet, type Fleet } from '../../../src/fleet/fleet.ts';
import type { BackendSettings } from '../../../src/fleet/settings.ts';
import { silentLog } from '../../../src/platform/log.ts';
import { createFakeClock, settle, type FakeClock } from '../../support/fake-clock.ts';
import { createScriptedBackend, llamaAnswers, vllmAnswers, type ScriptedBackend } from './scripted-backend.ts';

export const pauses = { probeIntervalMs: 5000, probeDownIntervalMs: 1000, probeTimeoutMs: 800, engineMetrics: false };

export type Named = Partial<BackendSettings> & { readonly name: 'llama' | 'vllm' };

export interface FleetWorld {
  clock: FakeClock;
  llama: ScriptedBackend;
  vllm: ScriptedBackend;
  fleet: Fleet;
  /** Own permits, by backend. */
  own: Record<string, OwnLoad>;
  /** Backends that were told to refuse, in turn. */
  refusals: string[];
  /** Changes that were told. */
  changes: number;
  /** A fleet that hasn't begun. */
  build(...backends: Named[]): void;
  /** A fleet whose first round is over; what was asked and told until then is forgotten. */
  started(...backends: Named[]): Promise<void>;
  /** Lets time pass in small steps, so that what only waits for promises goes on in between. */
  pass(ms: number, stepMs?: number): Promise<void>;
  view(name: string): BackendView;
}

/** Call once per test file; checks after each test that no timer is left and no two rounds overlapped. */
export function createFleetWorld(): FleetWorld {
  const world: FleetWorld = {
    ...freshWorld(),
    build(...backends) {
      const settings = { backends: backends.map((one) => ({ url: `http://${one.name}`, ...one })), ...pauses };
      world.fleet = createFleet(settings, {
        clock: world.clock,
        log: silentLog,
        probeFetch:
          ({ url }) =>
          (path, options) =>
            (url === 'http://vllm' ? world.vllm : world.llama).fetch(path, options),
        ownLoad: (name) => world.own[name] ?? { jobs: 0, slots: 0 },
        random: () => 0.5,
      });
      world.fleet.onRefused((name) => world.refusals.push(name));
      world.fleet.onChange(() => (world.changes += 1));
    },
    async started(...backends) {
      world.build(...backends);
      const starting = world.fleet.start();
      await settle();
      await world.pass(pauses.probeTimeoutMs, 400);
      await starting;
      world.llama.take();
      world.vllm.take();
      world.refusals = [];
      world.changes = 0;
    },
    async pass(ms, stepMs = 50) {
      for (let left = ms; left > 0; left -= stepMs) {
        world.clock.advance(Math.min(left, stepMs));
        await settle();
      }
    },
    view(name) {
      const found = world.fleet.snapshot().backends.find((backend) => backend.name === name);
      if (found === undefined) throw new Error(`no backend ${name}`);
      return found;
    },
  };
  beforeEach(() => void Object.assign(world, freshWorld()));
  afterEach(() => {
    world.fleet.stop();
    if (world.clock.pending() > 0) throw new Error('the fleet left a timer behind');
    if (Math.max(world.llama.mostOpen(), world.vllm.mostOpen()) > 1) throw new Error('two rounds overlapped');
  });
  return world;
}

function freshWorld() {
  const clock = createFakeClock();
  const none = { clock, log: silentLog, probeFetch: () => unasked, ownLoad: () => ({ jobs: 0, slots: 0 }) };
  return {
    clock,
    llama: createScriptedBackend(clock, llamaAnswers()),
    vllm: createScriptedBackend(clock, vllmAnswers()),
    fleet: createFleet({ backends: [], ...pauses }, none),
    own: {},
    refusals: [],
    changes: 0,
  };
}

function unasked(): never {
  throw new Error('nothing is to be asked here');
}
