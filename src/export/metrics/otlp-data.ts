/**
 * What the meter holds as OpenTelemetry's metric data, for the OTLP exporter: names and attributes of the conventions,
 * distributions as exponential histograms. Sums are cumulative, from the start of the process.
 */
import type { Attributes, HrTime, ValueType } from '@opentelemetry/api';
import type { AggregationTemporality, DataPointType, MetricData } from '@opentelemetry/sdk-metrics';
import { labelSpecs } from '../../domain/metrics/metric-spec.ts';
import { Sketch } from '../../platform/sketch.ts';
import { errorTypeOf, operationNameOf } from './implied-attributes.ts';
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

export function metricDataOf(metric: CollectedMetric, endTime: HrTime, settings: OtlpDataSettings): MetricData {
  const { name, spec, points } = metric;
  const { types, startTime, scheme } = settings;
  const common = {
    descriptor: { name, description: spec.help, unit: spec.unit, valueType: types.double },
    aggregationTemporality: types.cumulative,
  };
  const at = (point: CollectedPoint) => ({ startTime, endTime, attributes: attributesOf(metric, point, scheme) });
  if (spec.kind === 'histogram') {
    const dataPoints = points.map((point) => ({ ...at(point), value: exponential(point.value) }));
    return { ...common, dataPointType: types.point.EXPONENTIAL_HISTOGRAM, dataPoints };
  }
  const dataPoints = points.map((point) => ({ ...at(point), value: Number(point.value) }));
  if (spec.kind === 'gauge' && spec.additive !== true)
    return { ...common, dataPointType: types.point.GAUGE, dataPoints };
  return { ...common, dataPointType: types.point.SUM, isMonotonic: spec.kind === 'counter', dataPoints };
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
    if (label === 'endpoint' && name.startsWith('gen_ai.'))
      attributes['gen_ai.operation.name'] = operationNameOf(value);
    const errorType = label === 'outcome' ? errorTypeOf(value) : undefined;
    if (errorType !== undefined) attributes['error.type'] = errorType;
  }
  if (name.startsWith('http.server.')) attributes['url.scheme'] = scheme;
  return attributes;
}

/** A number by the convention, and absent where the client left before there was any. */
function putStatus(attributes: Attributes, value: string): void {
  const { attribute } = labelSpecs.status;
  if (/^\d{3}$/.test(value)) attributes[attribute] = Number(value);
  else delete attributes[attribute];
}
