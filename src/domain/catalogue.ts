/**
 * The one catalogue of metrics: docs, dashboards, both exports and their tests read it (rule 8). A part of the program
 * that has metrics lists them in a file of its own in `metrics/` and adds a line here. Imports nothing else.
 */
import { cacheMetrics } from './metrics/cache.ts';
import { answerCacheMetrics } from './metrics/answer-cache.ts';
import { batchMetrics } from './metrics/batches.ts';
import { ceilingMetrics } from './metrics/ceiling.ts';
import { engineMetrics } from './metrics/engines.ts';
import { fleetMetrics } from './metrics/fleet.ts';
import { laneMetrics } from './metrics/lanes.ts';
import { labelSpecs, type LabelName, type MetricSpec } from './metrics/metric-spec.ts';
import { processMetrics } from './metrics/process.ts';
import { requestMetrics } from './metrics/requests.ts';
import { sloMetrics } from './metrics/slo.ts';
import { tenantMetrics } from './metrics/tenants.ts';
import { traceMetrics } from './metrics/traces.ts';
import { warmUpMetrics } from './metrics/warm-up.ts';

export const catalogue = {
  ...requestMetrics,
  ...cacheMetrics,
  ...engineMetrics,
  ...ceilingMetrics,
  ...processMetrics,
  ...fleetMetrics,
  ...sloMetrics,
  ...laneMetrics,
  ...traceMetrics,
  ...warmUpMetrics,
  ...answerCacheMetrics,
  ...batchMetrics,
  ...tenantMetrics,
} as const satisfies Record<string, MetricSpec>;

export type Catalogue = typeof catalogue;
export type MetricName = keyof Catalogue;

// Every key of a frozen-in-type object literal is one of its names.
export const metricNames = Object.keys(catalogue) as readonly MetricName[];

type OfKind<Kind> = { [Name in MetricName]: Catalogue[Name]['kind'] extends Kind ? Name : never }[MetricName];
export type CounterName = OfKind<'counter'>;
export type GaugeName = OfKind<'gauge'>;
export type HistogramName = OfKind<'histogram'>;

/** A label that isn't given is left out, and the series goes without it. */
export type LabelsOf<Name extends MetricName> = {
  readonly [Label in Catalogue[Name]['labels'][number]]?: string | undefined;
};

/** One value with its labels, as a gauge or a counter kept elsewhere gives it. */
export interface Reading<Name extends MetricName> {
  readonly labels: LabelsOf<Name>;
  readonly value: number;
}

const unitSuffixes: Readonly<Record<string, string>> = { s: '_seconds', By: '_bytes', 'By/s': '_bytes_per_second' };

/**
 * The name in Prometheus text: dots become underscores, then the unit, then `_total` of a counter. Things that are
 * counted (`{token}`) have no unit there.
 * Source: OpenTelemetry, "Prometheus and OpenMetrics compatibility".
 */
export function prometheusName(name: MetricName): string {
  const { kind, unit }: MetricSpec = catalogue[name];
  const base = name.replaceAll('.', '_');
  const suffix =
    unitSuffixes[unit] ?? (unit.endsWith('/s') ? '_per_second' : unit === '1' && kind === 'gauge' ? '_ratio' : '');
  const withUnit = base.endsWith(suffix) ? base : `${base}${suffix}`;
  return kind === 'counter' ? `${withUnit}_total` : withUnit;
}

export function isClosedLabel(label: LabelName): boolean {
  return labelSpecs[label].closed;
}
