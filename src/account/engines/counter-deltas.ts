/**
 * What an engine's counters rose by between two readings. Pure. A counter that is missing in either reading is unknown,
 * not 0. A count of tokens or requests that fell belongs to another process (a restart, or one engine of several gone):
 * then nothing is known of what lies between. Sums of seconds and estimates prove no restart: engines add negative
 * intervals to them, and read them while they are written.
 */
import type { EngineCounter, EngineReading } from '../../domain/engine-reading.ts';

export type CounterDeltas = { readonly [Counter in EngineCounter]?: number };

/** Not counted one by one: any of them may fall a little while its process lives. */
const sums: ReadonlySet<EngineCounter> = new Set<EngineCounter>([
  'ttftSeconds',
  'itlSeconds',
  'queueSeconds',
  'flops',
  'readBytes',
  'writeBytes',
]);
/**
 * A sum that falls by more than this share of itself tells nothing of the time between. So little may `computedTokens` fall,
 * too: where it is a difference of two counters, these may have been read while one of them was ahead.
 */
const smallFall = 0.01;

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
    if (to >= from) deltas[counter] = to - from;
    else if ((sums.has(counter) || counter === 'computedTokens') && from - to <= smallFall * from) deltas[counter] = 0;
    else if (!sums.has(counter)) return { restarted: true, deltas: {} };
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
