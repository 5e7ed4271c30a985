/**
 * What an engine's counters rose by between two readings. Pure. A counter that is missing in either reading is unknown,
 * not 0. One that fell belongs to another process (a restart, or one engine of several gone): then nothing is known of
 * what lies between.
 */
import type { EngineCounter, EngineReading } from '../../domain/engine-reading.ts';

export type CounterDeltas = { readonly [Counter in EngineCounter]?: number };

export interface Rise {
  readonly restarted: boolean;
  /** None is negative; empty after a restart. */
  readonly deltas: CounterDeltas;
}

export function riseBetween(before: EngineReading, after: EngineReading): Rise {
  const deltas: { [Counter in EngineCounter]?: number } = {};
  for (const counter of countersOf(after.counters)) {
    const from = before.counters[counter];
    const to = after.counters[counter];
    if (from === undefined || to === undefined) continue;
    if (to < from) return { restarted: true, deltas: {} };
    deltas[counter] = to - from;
  }
  return { restarted: false, deltas };
}

/** Both together; unknown in one is unknown in the sum. */
export function addDeltas(a: CounterDeltas, b: CounterDeltas): CounterDeltas {
  const sum: { [Counter in EngineCounter]?: number } = {};
  for (const counter of countersOf(a)) {
    const [one, other] = [a[counter], b[counter]];
    if (one !== undefined && other !== undefined) sum[counter] = one + other;
  }
  return sum;
}

export function countersOf(counters: CounterDeltas): EngineCounter[] {
  return Object.keys(counters) as EngineCounter[]; // the type has no other keys
}
