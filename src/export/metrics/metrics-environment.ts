/**
 * The standard `OTEL_*` variables that concern metrics → what to do, and a sentence about each that can't be followed.
 * Reads no file and loads no library.
 * Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and .../protocol/exporter/
 */
import { createReader, type Environment, type OtlpTarget, readResource, readTarget } from '../otlp/otlp-environment.ts';

export interface MetricsEnvironment {
  /** Metrics are wanted by OTLP: an endpoint or the exporter is named. */
  readonly asked: boolean;
  /** `OTEL_SDK_DISABLED`, or no OTLP among the exporters: off whatever else is said. */
  readonly disabled: boolean;
  readonly otlp: OtlpTarget;
  readonly resource: Readonly<Record<string, string>>;
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

export interface ReadMetricsEnvironment {
  readonly environment: MetricsEnvironment;
  readonly problems: readonly string[];
}

export function readMetricsEnvironment(env: Environment): ReadMetricsEnvironment {
  const problems: string[] = [];
  const read = createReader(env, problems, 'METRICS');
  const exporters = read.list('OTEL_METRICS_EXPORTER');
  for (const exporter of exporters)
    if (!['otlp', 'prometheus', 'none'].includes(exporter))
      problems.push(`OTEL_METRICS_EXPORTER: "${exporter}" is not known here; otlp, prometheus and none are`);
  const temporality = read.text('OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE')?.toLowerCase() ?? 'cumulative';
  if (temporality !== 'cumulative')
    problems.push(
      `OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "${temporality}" is not served here: sums are cumulative; a collector turns them into deltas (cumulativetodelta)`,
    );
  const histogram = read.text('OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION')?.toLowerCase();
  if (histogram !== undefined && histogram !== 'base2_exponential_bucket_histogram')
    problems.push(
      `OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: "${histogram}" is not served here: distributions go as base2_exponential_bucket_histogram`,
    );
  const endpoint =
    read.text('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT') !== undefined ||
    read.text('OTEL_EXPORTER_OTLP_ENDPOINT') !== undefined;
  const intervalMs = read.number('OTEL_METRIC_EXPORT_INTERVAL', 60_000, 1);
  return {
    environment: {
      asked: endpoint || exporters.includes('otlp'),
      disabled:
        read.text('OTEL_SDK_DISABLED')?.toLowerCase() === 'true' ||
        (exporters.length > 0 && !exporters.includes('otlp')),
      otlp: readTarget(read, problems),
      resource: readResource(read, problems),
      intervalMs,
      // The standard's own bound: an export is over before the next begins.
      timeoutMs: Math.min(intervalMs, read.number('OTEL_METRIC_EXPORT_TIMEOUT', 30_000, 1)),
    },
    problems,
  };
}
