/**
 * The series of one metric by their label values. Bounded: past `maxSeries` a new label set keeps its closed labels and has
 * `other` for the open ones; past twice that, `other` for all. A series, once made, stays and never loses its count.
 */
import { isClosedLabel } from '../../domain/catalogue.ts';
import type { LabelName } from '../../domain/metrics/metric-spec.ts';
import { labelText } from './label-text.ts';

export const otherLabel = 'other';

export type LabelValues = { readonly [Label in LabelName]?: string | undefined };

export interface Series<Value> {
  /** in the order of the metric's labels, without those that were not given */
  readonly labels: readonly (readonly [LabelName, string])[];
  readonly value: Value;
}

export interface SeriesTable<Value> {
  /** The series of these labels, made if need be; `overflowed` is called when it is an `other` one for want of room. */
  at(labels: LabelValues): Series<Value>;
  all(): Iterable<Series<Value>>;
}

export function createSeriesTable<Value>(
  names: readonly LabelName[],
  how: { readonly maxSeries: number; readonly make: () => Value; readonly overflowed: () => void },
): SeriesTable<Value> {
  const series = new Map<string, Series<Value>>();
  const closed = names.map(isClosedLabel);

  function added(key: string, values: readonly (string | undefined)[]): Series<Value> {
    const labels: (readonly [LabelName, string])[] = [];
    for (const [at, name] of names.entries()) {
      const value = values[at];
      if (value !== undefined) labels.push([name, value]);
    }
    const made = { labels, value: how.make() };
    series.set(key, made);
    return made;
  }

  function crowded(values: readonly (string | undefined)[]): Series<Value> {
    how.overflowed();
    const full = series.size >= 2 * how.maxSeries;
    const others = values.map((value, at) => (value === undefined || (closed[at] && !full) ? value : otherLabel));
    const key = keyOf(others);
    return series.get(key) ?? added(key, others);
  }

  return {
    at(labels) {
      const values = names.map((name) => {
        const value = labels[name];
        // To Prometheus an empty label is none: as two series they would be one twice.
        return value === undefined || value === '' ? undefined : labelText(value);
      });
      const key = keyOf(values);
      return series.get(key) ?? (series.size < how.maxSeries ? added(key, values) : crowded(values));
    },
    all: () => series.values(),
  };
}

/** Label values hold no control characters, so a NUL between them is no part of any; one that isn't given has its own mark. */
function keyOf(values: readonly (string | undefined)[]): string {
  let key = '';
  for (const value of values) key += value === undefined ? '\u0001\u0000' : `${value}\u0000`;
  return key;
}
