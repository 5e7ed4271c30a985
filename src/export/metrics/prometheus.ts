/**
 * What the meter holds as Prometheus text, by OpenTelemetry's own serializer. Loads it, so only once somebody scrapes.
 * Histograms have the catalogue's bounds, filled from the sketches. Written in slices between which the event loop turns:
 * a scrape must not hold up the streams. Exemplars are not in it: the serializer writes the classic text format.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { MetricData } from '@opentelemetry/sdk-metrics';
import { prometheusName } from '../../domain/catalogue.ts';
import { bucketBounds } from '../../domain/metrics/buckets.ts';
import type { MetricSpec } from '../../domain/metrics/metric-spec.ts';
import { lastUpTo, Sketch } from '../../platform/sketch.ts';
import type { CollectedMetric, CollectedPoint } from './meter.ts';

export const prometheusType = 'text/plain; version=0.0.4; charset=utf-8';

export type PrometheusText = (metrics: readonly CollectedMetric[]) => Promise<string>;

/** Lines written in one go: about a millisecond (5 µs each). */
const sliceLines = 200;

/** @param resource attributes of `target_info` */
export async function loadPrometheusText(resource: Readonly<Record<string, string>>): Promise<PrometheusText> {
  const [
    { ValueType },
    { PrometheusSerializer },
    { AggregationTemporality, DataPointType },
    { resourceFromAttributes },
  ] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/exporter-prometheus'),
    import('@opentelemetry/sdk-metrics'),
    import('@opentelemetry/resources'),
  ]);
  const target = resourceFromAttributes(labelsOf(resource));
  const whole = new PrometheusSerializer(undefined, false, undefined, false, true);
  const part = new PrometheusSerializer(undefined, false, undefined, true, true);
  const never: [number, number] = [0, 0];

  function dataOf({ name, spec }: CollectedMetric, points: readonly CollectedPoint[]): MetricData {
    const common = {
      // No unit: it is in the name, and as a line of its own it would be no part of this format.
      descriptor: { name: prometheusName(name), description: spec.help, unit: '', valueType: ValueType.DOUBLE },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
    };
    const at = (point: CollectedPoint) => ({
      startTime: never,
      endTime: never,
      attributes: Object.fromEntries(point.labels),
    });
    if (spec.kind === 'histogram') {
      const read = histogramReader(spec);
      const dataPoints = points.map((point) => ({ ...at(point), value: read(point.value) }));
      return { ...common, dataPointType: DataPointType.HISTOGRAM, dataPoints };
    }
    const dataPoints = points.map((point) => ({ ...at(point), value: Number(point.value) }));
    if (spec.kind === 'counter') return { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints };
    return { ...common, dataPointType: DataPointType.GAUGE, dataPoints };
  }

  return async (metrics) => {
    let text = '';
    for (const metric of metrics) {
      const slice = Math.max(1, Math.floor(sliceLines / linesPerPoint(metric.spec)));
      for (let from = 0; from < metric.points.length; from += slice) {
        const data = dataOf(metric, metric.points.slice(from, from + slice));
        const scopeMetrics = [{ scope: { name: 'warmlane' }, metrics: [data] }];
        const written = (text === '' ? whole : part).serialize({ resource: target, scopeMetrics });
        // Only the first slice of a metric may say what the metric is.
        text += from === 0 ? written : written.replace(/^(?:#.*\n)+/, '');
        await turn();
      }
    }
    return text;
  };
}

/**
 * Attribute names as labels may be: the serializer lets begin one with a digit and two become the same, and Prometheus then
 * refuses the whole scrape. The first of a name stays.
 */
function labelsOf(resource: Readonly<Record<string, string>>): Record<string, string> {
  const labels = new Map<string, string>();
  for (const [name, value] of Object.entries(resource)) {
    const label = name.replace(/[^A-Za-z0-9_]+|_{2,}/g, '_').replace(/^(?=\d)/, '_');
    if (!labels.has(label)) labels.set(label, value);
  }
  return Object.fromEntries(labels);
}

function linesPerPoint({ kind, buckets }: MetricSpec): number {
  return kind === 'histogram' ? bucketBounds[buckets ?? 'seconds'].length + 3 : 1;
}

function histogramReader({ buckets }: MetricSpec) {
  const boundaries = [...bucketBounds[buckets ?? 'seconds']];
  const lasts = boundaries.map(lastUpTo);
  return (value: number | Sketch) => {
    if (!(value instanceof Sketch)) throw new TypeError('a histogram without a distribution');
    let before = 0;
    const counts = value.countsUpTo(boundaries, lasts).map((upTo) => {
      const within = upTo - before;
      before = upTo;
      return within;
    });
    return { buckets: { boundaries, counts: [...counts, value.count - before] }, count: value.count, sum: value.sum };
  };
}
