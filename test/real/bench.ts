/** What most tests stand on: a real engine, a tap before it, warmlane before the tap. */
import { until } from './child-process.ts';
import type { Counters } from './counters.ts';
import type { Engine } from './engine.ts';
import { startTap, type Tap } from './tap.ts';
import { startWarmlane, type Warmlane } from './warmlane.ts';

export interface Bench {
  readonly engine: Engine;
  readonly tap: Tap;
  readonly warmlane: Warmlane;
  stop(): Promise<void>;
}

export async function startBench(startEngine: () => Promise<Engine>, flags: readonly string[] = []): Promise<Bench> {
  const engine = await startEngine();
  const tap = await startTap(engine.url);
  try {
    const warmlane = await startWarmlane([tap.url], flags);
    return {
      engine,
      tap,
      warmlane,
      async stop() {
        await warmlane.stop();
        await tap.stop();
        await engine.stop();
      },
    };
  } catch (error) {
    await tap.stop();
    await engine.stop();
    throw error;
  }
}

/** Waits until the engine has nothing to do; its counters are final then. */
export function untilIdle(engine: Engine): Promise<Counters> {
  return until(
    'the engine to be idle',
    async () => {
      const counters = await engine.counters();
      return counters.running === 0 && counters.waiting === 0 ? counters : undefined;
    },
    { timeoutMs: 20_000, everyMs: 250 },
  );
}
