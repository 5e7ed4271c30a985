/**
 * Composes metrics: each finished record into the meter and the windows, what runs now beside it; the pages `/metrics` and
 * `/stats`; OTLP where it is wanted. Decides nothing itself; `accounting.ts` makes it and gives it records.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { createBackendStarts, type BackendStart } from './account/backend-starts.ts';
import { createWindows, type Windows } from './account/windows.ts';
import { Tally } from './account/windows-figures.ts';
import { readWindowQuery, tallyView, windowParams } from './account/windows-view.ts';
import type { FleetSnapshot } from './domain/fleet.ts';
import { isReplayed, isWarmUp, type RequestRecord } from './domain/record.ts';
import { type RunningRequest, registerLiveMetrics } from './export/metrics/live-metrics.ts';
import type { Meter } from './export/metrics/meter.ts';
import { readMetricsEnvironment } from './export/metrics/metrics-environment.ts';
import type { MetricsSettings } from './export/metrics/metrics-settings.ts';
import { createModelLabels, type ModelLabels } from './export/metrics/model-labels.ts';
import type { OtlpMetrics } from './export/metrics/otlp.ts';
import { registerProcessMetrics } from './export/metrics/process-metrics.ts';
import { loadPrometheusText, type PrometheusText, prometheusType } from './export/metrics/prometheus.ts';
import { createRequestMetrics } from './export/metrics/request-metrics.ts';
import { type Environment, shownEndpoint } from './export/otlp/otlp-environment.ts';
import type { RecordSink } from './export/sinks.ts';
import type { AdminPage } from './http/admin-page.ts';
import type { Clock } from './platform/clock.ts';
import type { Log } from './platform/log.ts';
import { warnOnce } from './platform/warn-once.ts';

export interface Metrics {
  readonly sinks: Readonly<Record<string, RecordSink>>;
  readonly pages: readonly AdminPage[];
  /** A model's label, for other parts' metrics: the same name has the same label in all of them. */
  readonly modelLabel: (model: string | undefined) => string;
  /** A timer came so much late: the event loop was held up. */
  late(ms: number): void;
  stop(): Promise<void>;
}

export interface MetricsDeps {
  readonly meter: Meter;
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Environment;
  readonly version: string;
  /** Clients come by TLS. */
  readonly secure: boolean;
  /** Model names that the config knows. */
  readonly models: Iterable<string>;
  readonly fleet: {
    snapshot(): FleetSnapshot;
    onChange(listener: (snapshot: FleetSnapshot) => void): () => void;
  };
  readonly running: () => readonly RunningRequest[];
  readonly waiting: () => number;
  /** Records that sinks failed on, by the sink's name. */
  readonly lost: () => Iterable<readonly [string, number]>;
}

/** Made-up names are few in honest use; each costs a few kilobytes for as long as the process lives. */
const modelLimits = { maxUnknown: 50, maxPinned: 1000 };
/** A busy fleet of 20 backends has about 100 populations and fills a tenth of this. */
const windowLimits = { maxPopulations: 256, maxBytes: 32 * 1024 * 1024 };

export function createMetrics(settings: MetricsSettings, deps: MetricsDeps): Metrics {
  const { meter, clock, fleet } = deps;
  const models = createModelLabels(modelLimits);
  models.pin(deps.models);
  const windows = createWindows(windowLimits, clock.nowMs());
  const starts = watchStarts(deps, models);
  const requests = createRequestMetrics({ meter, models });
  registerProcessMetrics(meter);
  registerLiveMetrics({ meter, models, running: deps.running, waiting: deps.waiting, fleet: () => fleet.snapshot() });
  const lag = meter.histogram('warmlane.event_loop.lag', {});
  const otlp = startOtlp(settings, deps);
  registerLosses(deps, { models, otlp: () => otlp.running });

  return {
    sinks: {
      metrics: requests,
      windows: {
        add(record) {
          if (isReplayed(record)) return;
          if (!isWarmUp(record))
            windows.add(record, models.labelOf(record.model ?? record.responseModel), clock.nowMs());
          starts(record);
        },
      },
    },
    modelLabel: models.labelOf,
    pages: [metricsPage(deps, otlp.resource), statsPage(windows, clock)],
    late: (ms) => lag.add(ms / 1000),
    stop: () => otlp.stop(),
  };
}

/** Pins the models that backends list, and times the backends' starts. @returns to be told of each record */
function watchStarts({ meter, fleet }: MetricsDeps, models: ModelLabels): (record: RequestRecord) => void {
  const starts = createBackendStarts();
  const book = (ended: readonly BackendStart[]) => {
    for (const { backend, engine, until, from, durationMs } of ended) {
      const name = until === 'up' ? 'warmlane.backend.start.duration' : 'warmlane.backend.cold_start.duration';
      meter.observe(name, { backend, engine, from }, durationMs / 1000);
    }
  };
  const seen = (snapshot: FleetSnapshot) => {
    for (const backend of snapshot.backends) models.pin(backend.models);
    book(starts.seen(snapshot));
  };
  seen(fleet.snapshot());
  fleet.onChange(seen);
  return (record) => book(starts.answered(record));
}

function registerLosses(
  { meter, log, lost }: MetricsDeps,
  { models, otlp }: { readonly models: ModelLabels; readonly otlp: () => OtlpMetrics | undefined },
): void {
  meter.counterFrom('warmlane.telemetry.records_lost', () => [
    ...Array.from(lost(), ([sink, value]) => ({ labels: { sink }, value })),
    { labels: { sink: 'readers' }, value: meter.failures },
  ]);
  meter.counterFrom('warmlane.telemetry.log_lines_dropped', () => [{ labels: {}, value: log.dropped?.() ?? 0 }]);
  meter.counterFrom('warmlane.telemetry.label_overflows', () => [
    { labels: { limit: 'models' }, value: models.overflows },
    { labels: { limit: 'series' }, value: meter.overflows },
  ]);
  meter.counterFrom('warmlane.telemetry.exports_failed', () => {
    const running = otlp();
    return running === undefined ? [] : [{ labels: {}, value: running.failures }];
  });
}

/** OTLP where an endpoint is named or the config asks for it; nothing of it is loaded otherwise. */
function startOtlp(settings: MetricsSettings, deps: MetricsDeps) {
  const { clock, log, env } = deps;
  const { environment, problems } = readMetricsEnvironment(env);
  const wanted = !environment.disabled && (settings.otlp ?? environment.asked);
  const state: { running: OtlpMetrics | undefined } = { running: undefined };
  const startMs = clock.wallMs();
  const started = wanted ? start() : Promise.resolve();

  async function start(): Promise<void> {
    for (const problem of problems) warnOnce(log, problem);
    try {
      const { startOtlpMetrics } = await import('./export/metrics/otlp.ts');
      state.running = await startOtlpMetrics(environment, { ...deps, startMs });
      log.info('metrics go out by OTLP', { to: shownEndpoint(environment.otlp), everyMs: environment.intervalMs });
    } catch (error) {
      log.error('metrics do not go out by OTLP', { error: String(error) });
    }
  }

  return {
    resource: environment.resource,
    get running() {
      return state.running;
    },
    async stop() {
      await started;
      await state.running?.stop();
    },
  };
}

function metricsPage({ meter, version }: MetricsDeps, resource: Readonly<Record<string, string>>): AdminPage {
  let text: Promise<PrometheusText> | undefined;
  return {
    path: '/metrics',
    about: 'all metrics as Prometheus text; see deploy/metrics.md',
    // A scraper may send what it likes.
    params: undefined,
    async answer() {
      text ??= loadPrometheusText({ 'service.version': version, ...resource });
      const write = await text;
      await meter.ready();
      return { kind: 'text', text: await write(meter.collect()), contentType: prometheusType };
    },
  };
}

function statsPage(windows: Windows, clock: Clock): AdminPage {
  return {
    path: '/stats',
    about: 'percentiles per model, backend, lane and warmth; ?window=1m, 5m or 60m &model= &backend= &lane= &warmth=',
    params: windowParams,
    async answer(query) {
      const asked = readWindowQuery(query);
      if ('message' in asked) return { kind: 'wrong', ...asked };
      const { coveredMs, populations, tally } = windows.read(asked.window, asked.wanted, clock.nowMs());
      const all = new Tally();
      const rows: object[] = [];
      for (const population of populations) {
        const sums = tally(population);
        all.join(sums);
        rows.push({ ...population, ...tallyView(sums) });
        // Each takes about 0.1 ms: many of them must not hold up the streams.
        await turn();
      }
      return { kind: 'json', value: { window: asked.window, coveredMs, all: tallyView(all), populations: rows } };
    },
  };
}
