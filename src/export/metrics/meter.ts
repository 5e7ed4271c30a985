/**
 * Keeps the value of every series of the catalogue's metrics, in process. Prometheus text and OTLP are two views of what
 * `collect` gives; neither counts by itself (decision 17). Bounded: past its limit a metric's new series go to `other`.
 */
import {
  catalogue,
  metricNames,
  type CounterName,
  type GaugeName,
  type HistogramName,
  type LabelsOf,
  type MetricName,
  type Reading,
} from '../../domain/catalogue.ts';
import type { MetricSpec } from '../../domain/metrics/metric-spec.ts';
import type { SketchData } from '../../domain/sketch.ts';
import { Sketch } from '../../platform/sketch.ts';
import { createReaders, type AnyReading, type Readers } from './readers.ts';
import { createSeriesTable, type LabelValues, type Series, type SeriesTable } from './series.ts';

/** A counter's one series, for callers that keep it. */
export interface Counter {
  value: number;
}

export interface CollectedPoint {
  readonly labels: Series<unknown>['labels'];
  /** a histogram's is the live sketch: to be read at once, never to be written */
  readonly value: number | Sketch;
}

export interface CollectedMetric {
  readonly name: MetricName;
  readonly spec: MetricSpec;
  readonly points: readonly CollectedPoint[];
}

export interface Meter {
  /** Adds to a counter. @param n not negative, 1 unless given; 0 makes the series known. What is no such number adds nothing. */
  count<Name extends CounterName>(name: Name, labels: LabelsOf<Name>, n?: number): void;
  /** Adds one value, or the same value `times` over, to a histogram, in the metric's unit. */
  observe<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, value: number, times?: number): void;
  /** Adds a whole distribution to a histogram; exact. */
  join<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>, data: SketchData): void;
  /** A gauge that is read at each collection. A second reader of the same name adds its label sets. */
  gauge<Name extends GaugeName>(name: Name, read: () => Iterable<Reading<Name>>): void;
  /** A counter that is kept elsewhere; where its value falls, it is taken to have begun anew at 0, and the sum goes on. */
  counterFrom<Name extends CounterName>(name: Name, read: () => Iterable<Reading<Name>>): void;
  /** The series itself, for hot paths: it is the same one for as long as the meter lives. */
  counter<Name extends CounterName>(name: Name, labels: LabelsOf<Name>): Counter;
  histogram<Name extends HistogramName>(name: Name, labels: LabelsOf<Name>): Sketch;
  /** What must be worked out before a collection, and takes too long to be done within it. */
  before(prepare: () => Promise<void>): void;
  /** To be awaited right before `collect`. Never rejects: what fails is counted, and `collect` shows what there is. */
  ready(): Promise<void>;
  /** Everything that has a value, in the catalogue's order. A reader that throws loses its metric this once and is counted. */
  collect(): readonly CollectedMetric[];
  /** How often a label set had to become `other` for want of room. */
  readonly overflows: number;
  /** How often a reader or a preparation threw. */
  readonly failures: number;
}

export interface MeterSettings {
  /** Of one metric. */
  readonly maxSeries: number;
}

export function createMeter({ maxSeries }: MeterSettings): Meter {
  const counters = new Map<MetricName, SeriesTable<Counter>>();
  const histograms = new Map<MetricName, SeriesTable<Sketch>>();
  const readers = new Map<MetricName, Readers>();
  let overflows = 0;
  const preparations: (() => Promise<void>)[] = [];
  let failures = 0;
  const overflowed = () => void (overflows += 1);

  function counterAt(name: MetricName, labels: LabelValues): Counter {
    return tableOf(counters, name, () => ({ value: 0 })).at(labels).value;
  }

  function histogramAt(name: MetricName, labels: LabelValues): Sketch {
    return tableOf(histograms, name, () => new Sketch()).at(labels).value;
  }

  function tableOf<Value>(tables: Map<MetricName, SeriesTable<Value>>, name: MetricName, make: () => Value) {
    const found = tables.get(name);
    if (found !== undefined) return found;
    const made = createSeriesTable(catalogue[name].labels, { maxSeries, make, overflowed });
    tables.set(name, made);
    return made;
  }

  function addReader(name: MetricName, read: () => Iterable<AnyReading>): void {
    const held = readers.get(name) ?? createReaders(catalogue[name], { maxSeries, overflowed });
    readers.set(name, held);
    held.add(read);
  }

  function pointsOf(name: MetricName): readonly CollectedPoint[] {
    const points: CollectedPoint[] = [];
    for (const series of counters.get(name)?.all() ?? [])
      points.push({ labels: series.labels, value: series.value.value });
    for (const series of histograms.get(name)?.all() ?? []) if (series.value.count > 0) points.push(series);
    try {
      points.push(...(readers.get(name)?.read() ?? []));
    } catch {
      failures += 1;
    }
    return points;
  }

  return {
    count(name, labels, n = 1) {
      if (n >= 0 && Number.isFinite(n)) counterAt(name, labels).value += n;
    },
    observe: (name, labels, value, times) => histogramAt(name, labels).add(value, times),
    join: (name, labels, data) => histogramAt(name, labels).join(data),
    gauge: addReader,
    counterFrom: addReader,
    counter: counterAt,
    histogram: histogramAt,
    before: (prepare) => void preparations.push(prepare),
    async ready() {
      for (const prepare of preparations) {
        try {
          await prepare();
        } catch {
          failures += 1;
        }
      }
    },
    collect: () =>
      metricNames
        .map((name) => ({ name, spec: catalogue[name], points: pointsOf(name) }))
        .filter(({ points }) => points.length > 0),
    get overflows() {
      return overflows;
    },
    get failures() {
      return failures;
    },
  };
}
