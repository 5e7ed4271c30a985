/**
 * Metrics by OTLP: OpenTelemetry's periodic reader and exporter over what the meter holds. Loaded only when wanted. An
 * exporter that is down, slow or throwing costs a count and a log line; the sums go on, and the next export carries them.
 */
import type { ExportResultCode } from '@opentelemetry/core';
import type { PushMetricExporter } from '@opentelemetry/sdk-metrics';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { createSpanSource } from '../trace/resource.ts';
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
  readonly meter: Pick<Meter, 'collect'>;
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
const repeatMs = 60_000;

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
    createSpanSource(environment.resource, deps.version),
    deps.exporter ?? loadMetricsExporter(environment.otlp, (sentence) => log.warn(sentence)),
  ]);
  const outcome = createOutcomeLog({ clock, log });
  const settings = {
    types: {
      point: DataPointType,
      cumulative: AggregationTemporality.CUMULATIVE,
      double: ValueType.DOUBLE,
    } as const,
    startTime: hrTime(deps.startMs),
    scheme: deps.secure ? ('https' as const) : ('http' as const),
  };
  const reader = new PeriodicExportingMetricReader({
    exporter: counted(exporter, outcome.note, ExportResultCode),
    exportIntervalMillis: environment.intervalMs,
    exportTimeoutMillis: environment.timeoutMs,
  });
  reader.setMetricProducer({
    collect() {
      const endTime = hrTime(clock.wallMs());
      const metrics = meter.collect().map((metric) => metricDataOf(metric, endTime, settings));
      return Promise.resolve({
        resourceMetrics: { resource: source.resource, scopeMetrics: [{ scope: source.scope, metrics }] },
        errors: [],
      });
    },
  });
  return {
    flush: () => reader.forceFlush(),
    async stop() {
      try {
        await reader.shutdown({ timeoutMillis: flushMs });
      } catch (error) {
        outcome.note(error);
      } finally {
        abort();
      }
    },
    get failures() {
      return outcome.failures;
    },
  };
}

/** What the reader tells of a failed export, it tells the library's own log; here it is counted. */
function counted(
  exporter: PushMetricExporter,
  note: (error: unknown) => void,
  codes: typeof ExportResultCode,
): PushMetricExporter {
  return {
    export(metrics, done) {
      try {
        exporter.export(metrics, (result) => {
          note(result.code === codes.SUCCESS ? undefined : (result.error ?? new Error('export failed')));
          done(result);
        });
      } catch (error) {
        note(error);
        done({ code: codes.FAILED });
      }
    },
    forceFlush: () => exporter.forceFlush(),
    shutdown: () => exporter.shutdown(),
  };
}

/** The first failure of a row, one line a minute while it lasts, and its end. */
function createOutcomeLog({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
  let toldMs: number | undefined;
  let failures = 0;
  return {
    get failures() {
      return failures;
    },
    note(error: unknown): void {
      if (error === undefined) {
        if (toldMs !== undefined) log.info('metrics are exported again', { failures });
        toldMs = undefined;
        return;
      }
      failures += 1;
      if (toldMs !== undefined && clock.nowMs() - toldMs < repeatMs) return;
      toldMs = clock.nowMs();
      const text = error instanceof Error ? error.message || error.name : 'no error given';
      log.warn('metrics could not be exported; the next export carries the sums again', { error: text.slice(0, 300) });
    },
  };
}

/** Seconds and nanoseconds. */
function hrTime(wallMs: number): [number, number] {
  const seconds = Math.floor(wallMs / 1000);
  return [seconds, Math.round((wallMs - seconds * 1000) * 1_000_000)];
}
