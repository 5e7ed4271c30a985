/**
 * What the meter holds as OpenTelemetry's metric data, for the OTLP exporter: names and attributes of the conventions,
 * distributions as exponential histograms. Sums are cumulative, from the start of the process.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Attributes, HrTime, ValueType } from '@opentelemetry/api';
import type { AggregationTemporality, DataPointType, MetricData } from '@opentelemetry/sdk-metrics';
import type { MetricName } from '../../domain/catalogue.ts';
import { labelSpecs } from '../../domain/metrics/metric-spec.ts';
import { Sketch } from '../../platform/sketch.ts';
import { clientErrorType, operationNames, serverErrorType } from '../otlp/conventions.ts';
import type { CollectedMetric, CollectedPoint } from './meter.ts';

/** OpenTelemetry's own limit for the buckets of one exponential histogram. */
const maxBuckets = 160;

export interface OtlpDataSettings {
  /** Loaded by the caller: this file loads nothing. */
  readonly types: {
    readonly point: typeof DataPointType;
    readonly cumulative: AggregationTemporality.CUMULATIVE;
    readonly double: ValueType.DOUBLE;
  };
  readonly startTime: HrTime;
  /** of HTTP metrics */
  readonly scheme: 'http' | 'https';
}

/** Points made in one go: about a millisecond. Between them the event loop turns, so that streams go on. */
const slicePoints = 100;

export async function metricDataOf(
  metric: CollectedMetric,
  endTime: HrTime,
  settings: OtlpDataSettings,
): Promise<MetricData> {
  const { name, spec, points } = metric;
  const { types, startTime, scheme } = settings;
  const common = {
    descriptor: { name, description: spec.help, unit: spec.unit, valueType: types.double },
    aggregationTemporality: types.cumulative,
  };
  const at = (point: CollectedPoint) => ({ startTime, endTime, attributes: attributesOf(metric, point, scheme) });
  if (spec.kind === 'histogram') {
    const dataPoints = await inSlices(points, (point) => ({ ...at(point), value: exponential(point.value) }));
    return { ...common, dataPointType: types.point.EXPONENTIAL_HISTOGRAM, dataPoints };
  }
  const dataPoints = await inSlices(points, (point) => ({ ...at(point), value: Number(point.value) }));
  if (spec.kind === 'gauge' && spec.additive !== true)
    return { ...common, dataPointType: types.point.GAUGE, dataPoints };
  return { ...common, dataPointType: types.point.SUM, isMonotonic: spec.kind === 'counter', dataPoints };
}

async function inSlices<Made>(points: readonly CollectedPoint[], make: (point: CollectedPoint) => Made) {
  const made: Made[] = [];
  for (const point of points) {
    if (made.length % slicePoints === 0) await turn();
    made.push(make(point));
  }
  return made;
}

function exponential(value: number | Sketch) {
  if (!(value instanceof Sketch)) throw new TypeError('a histogram without a distribution');
  const { scale, offset, counts } = value.exponential(maxBuckets);
  return {
    count: value.count,
    sum: value.sum,
    min: value.min,
    max: value.max,
    scale,
    zeroCount: value.zeros,
    positive: { offset, bucketCounts: [...counts] },
    negative: { offset: 0, bucketCounts: [] },
  };
}

function attributesOf({ name }: CollectedMetric, { labels }: CollectedPoint, scheme: string): Attributes {
  const attributes: Attributes = {};
  for (const [label, value] of labels) {
    attributes[labelSpecs[label].attribute] = value;
    if (label === 'status') putStatus(attributes, value);
    if (label === 'stream') attributes[labelSpecs.stream.attribute] = value === 'true';
    // The endpoint's own word where the conventions have none.
    if (label === 'endpoint' && name.startsWith('gen_ai.'))
      attributes['gen_ai.operation.name'] = operationNames[value] ?? value;
  }
  putErrorType(attributes, name);
  if (name.startsWith('http.server.')) attributes['url.scheme'] = scheme;
  return attributes;
}

/** The same word as in spans. What is counted per attempt is a client's, all else a server's. */
function putErrorType(attributes: Attributes, name: MetricName): void {
  const outcome = attributes[labelSpecs.outcome.attribute];
  if (typeof outcome !== 'string') return;
  const status = attributes[labelSpecs.status.attribute];
  const errorType = ofAttempts.has(name)
    ? clientErrorType(outcome)
    : serverErrorType(outcome, typeof status === 'number' ? status : undefined);
  if (errorType !== undefined) attributes['error.type'] = errorType;
}

const ofAttempts: ReadonlySet<MetricName> = new Set(['warmlane.attempts', 'warmlane.retries']);

/** A number by the convention, and absent where the client left before there was any. */
function putStatus(attributes: Attributes, value: string): void {
  const { attribute } = labelSpecs.status;
  if (/^\d{3}$/.test(value)) attributes[attribute] = Number(value);
  else delete attributes[attribute];
}
