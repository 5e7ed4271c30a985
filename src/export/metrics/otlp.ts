/**
 * Metrics by OTLP: OpenTelemetry's periodic reader and exporter over what the meter holds. Loaded only when wanted. An
 * exporter that is down, slow or throwing costs a count and a log line; the sums go on, and the next export carries them.
 */
import type { ExportResultCode } from '@opentelemetry/core';
import type { MetricData, PushMetricExporter } from '@opentelemetry/sdk-metrics';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { createFailureLog } from '../otlp/failure-log.ts';
import type { OtlpTarget } from '../otlp/otlp-environment.ts';
import { createTelemetrySource } from '../otlp/telemetry-source.ts';
import type { Meter } from './meter.ts';
import type { MetricsEnvironment } from './metrics-environment.ts';
import { metricDataOf } from './otlp-data.ts';
import { loadMetricsExporter, type MetricsExporter } from './otlp-exporter.ts';

export interface OtlpMetrics {
  /** Exports at once. */
  flush(): Promise<void>;
  /** Sends the last sums; after `flushMs` it is left. */
  stop(): Promise<void>;
  readonly failures: number;
}

export interface OtlpMetricsDeps {
  readonly meter: Pick<Meter, 'ready' | 'collect'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly version: string;
  readonly secure: boolean;
  /** Wall clock, ms: when the meter began. */
  readonly startMs: number;
  /** Instead of the one that the environment asks for. */
  readonly exporter?: MetricsExporter;
}

/** Leaves room within the two seconds that a stop may take. */
const flushMs = 1500;
/** Of one request: encoding them takes a few milliseconds, in which no stream goes on. Further ones go in the next. */
const maxBatchPoints = 500;
const words = {
  failed: 'metrics could not be exported; the next export carries the sums again',
  again: 'metrics are exported again',
  hint: {
    // What a collector without a metrics pipeline answers: 404, or over gRPC 12.
    where: /not found|unimplemented|unknown service/i,
    text: 'if it takes traces only: OTEL_METRICS_EXPORTER=none',
  },
};

export async function startOtlpMetrics(environment: MetricsEnvironment, deps: OtlpMetricsDeps): Promise<OtlpMetrics> {
  const { meter, clock, log } = deps;
  const [
    { ValueType },
    { ExportResultCode },
    { AggregationTemporality, DataPointType, PeriodicExportingMetricReader },
    source,
    { exporter, abort },
  ] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/core'),
    import('@opentelemetry/sdk-metrics'),
    createTelemetrySource(environment.resource, deps.version),
    deps.exporter ?? loadMetricsExporter(targetOf(environment), (sentence) => log.warn(sentence)),
  ]);
  const failureLog = createFailureLog(words, { clock, log });
  let failures = 0;
  const note = (error: unknown) => {
    if (error !== undefined) failures += 1;
    failureLog.note(1, error);
  };
  const settings = {
    types: {
      point: DataPointType,
      cumulative: AggregationTemporality.CUMULATIVE,
      double: ValueType.DOUBLE,
    } as const,
    startTime: hrTime(deps.startMs),
    scheme: deps.secure ? ('https' as const) : ('http' as const),
  };
  const round = { failed: false };
  const reader = new PeriodicExportingMetricReader({
    exporter: counted(exporter, { note, codes: ExportResultCode, round }),
    maxExportBatchSize: maxBatchPoints,
    exportIntervalMillis: environment.intervalMs,
    exportTimeoutMillis: environment.timeoutMs,
  });
  reader.setMetricProducer({
    async collect() {
      round.failed = false;
      await meter.ready();
      const endTime = hrTime(clock.wallMs());
      const metrics: MetricData[] = [];
      for (const metric of meter.collect()) metrics.push(await metricDataOf(metric, endTime, settings));
      return {
        resourceMetrics: { resource: source.resource, scopeMetrics: [{ scope: source.scope, metrics }] },
        errors: [],
      };
    },
  });
  return {
    flush: () => reader.forceFlush(),
    async stop() {
      try {
        await reader.shutdown({ timeoutMillis: flushMs });
      } catch (error) {
        note(error);
      } finally {
        abort();
      }
    },
    get failures() {
      return failures;
    },
  };
}

/** The library tries again until its own time is over: that must end before the export is given up here. */
function targetOf({ otlp, timeoutMs }: MetricsEnvironment): OtlpTarget {
  return { ...otlp, timeoutMs: Math.min(otlp.timeoutMs, timeoutMs) };
}

/**
 * What the reader tells of a failed export, it tells the library's own log; here it is counted, once for all requests of
 * one export: where one did not arrive, the others are not tried.
 */
function counted(
  exporter: PushMetricExporter,
  {
    note,
    codes,
    round,
  }: {
    readonly note: (error: unknown) => void;
    readonly codes: typeof ExportResultCode;
    readonly round: { failed: boolean };
  },
): PushMetricExporter {
  function fail(error: unknown): void {
    round.failed = true;
    note(error);
  }
  return {
    export(metrics, done) {
      if (round.failed) return done({ code: codes.FAILED });
      try {
        exporter.export(metrics, (result) => {
          if (result.code === codes.SUCCESS) note(undefined);
          else fail(result.error ?? new Error('export failed'));
          done(result);
        });
      } catch (error) {
        fail(error);
        done({ code: codes.FAILED });
      }
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

/** Seconds and nanoseconds. */
function hrTime(wallMs: number): [number, number] {
  const seconds = Math.floor(wallMs / 1000);
  return [seconds, Math.round((wallMs - seconds * 1000) * 1_000_000)];
}
