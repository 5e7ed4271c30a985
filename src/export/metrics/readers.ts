/**
 * Values that are kept elsewhere and read at each collection. A gauge shows what is read now; an additive one also shows
 * 0 where it showed something before, so that it falls on the very label that it rose on (C189). A counter never falls.
 *
 * A counter that was read lower than before has begun anew at 0, and all that it shows has come since: what is read here
 * are warmlane's own sums, and they live as long as what keeps them. Engines' counters are another matter: what lies behind
 * one that fell nobody knows, so `account/engines` leaves it out and hands on a sum of its own.
 */
import type { LabelName, MetricSpec } from '../../domain/metrics/metric-spec.ts';
import { createSeriesTable, type LabelValues } from './series.ts';

export interface AnyReading {
  readonly labels: LabelValues;
  readonly value: number;
}

export interface ReadPoint {
  readonly labels: readonly (readonly [LabelName, string])[];
  readonly value: number;
}

export interface Readers {
  add(read: () => Iterable<AnyReading>): void;
  /** @throws what a reader throws */
  read(): readonly ReadPoint[];
}

interface Held {
  /** as read, summed over what shares the labels; undefined: not read this time */
  now: number | undefined;
  /** counters: as read before */
  before: number;
  /** counters: what has come together */
  total: number;
}

export function createReaders(
  spec: MetricSpec,
  how: { readonly maxSeries: number; readonly overflowed: () => void },
): Readers {
  const reads: (() => Iterable<AnyReading>)[] = [];
  const make = (): Held => ({ now: undefined, before: 0, total: 0 });
  const fresh = () => createSeriesTable(spec.labels, { ...how, make });
  const isCounter = spec.kind === 'counter';
  const keeps = isCounter || spec.additive === true;
  const kept = fresh();

  function valueOf(held: Held): number | undefined {
    const { now } = held;
    held.now = undefined;
    if (!isCounter) return now ?? (keeps ? 0 : undefined);
    if (now !== undefined) {
      held.total += now >= held.before ? now - held.before : now;
      held.before = now;
    }
    return held.total;
  }

  return {
    add: (read) => void reads.push(read),
    read() {
      const table = keeps ? kept : fresh();
      const readings = reads.flatMap((read) => [...read()]);
      for (const { labels, value } of readings) {
        if (!Number.isFinite(value)) continue;
        const held = table.at(labels).value;
        held.now = keeps ? (held.now ?? 0) + value : value;
      }
      const points: ReadPoint[] = [];
      for (const { labels, value: held } of table.all()) {
        const value = valueOf(held);
        if (value !== undefined) points.push({ labels, value });
      }
      return points;
    },
  };
}
