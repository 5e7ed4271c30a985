/**
 * Composes tracing: what the config file and the standard `OTEL_*` variables say → where each request stands in its trace,
 * and a sink that turns finished records into spans. Undefined while tracing is off: then nothing of it is loaded, and
 * trace headers pass as they came. `app.ts` starts it; the pipeline asks it once per request.
 */
import { routeTemplate } from './classify/route-template.ts';
import type { TraceIds } from './domain/trace.ts';
import { type Environment, shownEndpoint } from './export/otlp/otlp-environment.ts';
import type { RecordSink } from './export/sinks.ts';
import type { BackendAddress } from './export/trace/attempt-spans.ts';
import { createExportLog, hearLibrary } from './export/trace/export-log.ts';
import { loadExporter } from './export/trace/exporter.ts';
import { requestSpans, sizeOf, type SpanView } from './export/trace/request-spans.ts';
import { isSampled, keptBecause } from './export/trace/sampling.ts';
import { createSpanQueue, type SpanQueue, type TraceExporter } from './export/trace/span-queue.ts';
import { createSpanSource } from './export/trace/span-source.ts';
import { readTraceEnvironment, type TraceEnvironment } from './export/trace/trace-environment.ts';
import type { TracingStats } from './export/trace/trace-metrics.ts';
import type { TraceSettings } from './export/trace/trace-settings.ts';
import type { ClientHead } from './platform/client-port.ts';
import type { Clock } from './platform/clock.ts';
import type { Log } from './platform/log.ts';
import { ownVersion } from './platform/own-version.ts';
import { warnOnce } from './platform/warn-once.ts';
import { randomSpanId, randomTraceId, readTraceContext } from './platform/trace-context.ts';

export interface Tracing {
  /** Where a request stands: the caller's trace goes on, or a new one begins. */
  begin(head: Pick<ClientHead, 'rawHeaders'>): TraceIds;
  readonly sink: RecordSink;
  stats(): TracingStats;
  /** Sends what waits, for 1.5 s at most. */
  stop(): Promise<void>;
}

export interface TracingDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly env: Environment;
  /** Clients come by TLS. */
  readonly secure: boolean;
  /** Those in the fleet now; another array when they are others. */
  readonly backends: () => readonly { readonly name: string; readonly url: string }[];
  /** Instead of the one that the environment asks for. */
  readonly exporter?: TraceExporter;
}

/** Small enough to be encoded within a few milliseconds, and for any collector's limit (grpc: 4 MiB). */
const maxBatchBytes = 512 * 1024;
/** Leaves room within the two seconds that a stop may take. */
const flushMs = 1500;

/** @returns undefined while tracing is off */
export async function startTracing(settings: TraceSettings, deps: TracingDeps): Promise<Tracing | undefined> {
  const { clock, log, env } = deps;
  const { environment, problems } = readTraceEnvironment(env);
  if (environment.disabled || !(settings.enabled ?? environment.asked)) return undefined;
  for (const problem of problems) warnOnce(log, problem);
  const exportLog = createExportLog({ log, clock });
  await hearLibrary(exportLog);
  const exporter = deps.exporter ?? (await exporterFor(environment, log));
  if (exporter === undefined) return undefined;
  const { batch } = environment;
  const queue = createSpanQueue(
    {
      maxBytes: settings.maxQueueBytes,
      maxSpans: batch.maxQueueSpans,
      maxBatchSpans: Math.min(batch.maxBatchSpans, batch.maxQueueSpans),
      maxBatchBytes,
      delayMs: batch.delayMs,
      exportTimeoutMs: batch.exportTimeoutMs,
    },
    { clock, exporter, onExport: exportLog.note },
  );
  const addresses = addressBook(deps.backends);
  const view: SpanView = {
    source: await createSpanSource(environment.resource, ownVersion()),
    tokens: settings.tokens,
    scheme: deps.secure ? 'https' : 'http',
    route: routeTemplate,
    backend: addresses,
  };
  log.info('traces are on', shown(environment));
  return {
    begin: (head) => begin(head, environment),
    sink: createSink(queue, { settings, view }),
    stats() {
      const { dropped, ...rest } = queue.stats();
      const rejected = exportLog.rejected();
      return { ...rest, exported: rest.exported - rejected, dropped: { ...dropped, rejected } };
    },
    stop: () => queue.close(flushMs),
  };
}

/** The library throws at what it can't use. @returns undefined then: requests are served without traces */
async function exporterFor(environment: TraceEnvironment, log: Log): Promise<TraceExporter | undefined> {
  try {
    return await loadExporter(environment, (sentence) => log.warn(sentence));
  } catch (error) {
    log.error('traces are off: their exporter can not be made', { error: String(error) });
    return undefined;
  }
}

function begin({ rawHeaders }: Pick<ClientHead, 'rawHeaders'>, { sampler }: TraceEnvironment): TraceIds {
  const parent = readTraceContext(rawHeaders);
  const spanId = randomSpanId();
  if (parent === undefined) {
    const traceId = randomTraceId();
    return { traceId, spanId, sampled: isSampled(sampler, traceId, undefined) };
  }
  const { traceId, parentSpanId, state } = parent;
  const sampled = isSampled(sampler, traceId, parent.sampled);
  return { traceId, spanId, parentSpanId, sampled, ...(state === undefined ? {} : { state }) };
}

function createSink(
  queue: SpanQueue,
  { settings, view }: { readonly settings: TraceSettings; readonly view: SpanView },
): RecordSink {
  return {
    add(record) {
      const kept = keptBecause(record, settings.keep);
      if (kept === undefined) return;
      const { spans, bytes } = sizeOf(record, settings.tokens);
      queue.add({ spans, bytes, parts: () => requestSpans(record, kept, view) });
    },
  };
}

function addressBook(backends: TracingDeps['backends']): (name: string) => BackendAddress | undefined {
  let of: ReturnType<TracingDeps['backends']> | undefined;
  let addresses = new Map<string, BackendAddress>();
  return (name) => {
    const now = backends();
    if (now !== of) addresses = new Map(now.map(({ name: one, url }) => [one, addressOf(url)]));
    of = now;
    return addresses.get(name);
  };
}

/** Without credentials, which may stand in a URL. */
function addressOf(text: string): BackendAddress {
  const { protocol, hostname, host, port, pathname } = new URL(text);
  return {
    host: hostname.replace(/^\[(.*)\]$/, '$1'),
    port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
    url: `${protocol}//${host}${pathname.replace(/\/$/, '')}`,
  };
}

function shown({ exporter, otlp, sampler }: TraceEnvironment) {
  const { parentBased, ratio } = sampler;
  const where = exporter === 'console' ? { exporter } : { protocol: otlp.protocol, endpoint: shownEndpoint(otlp) };
  return { ...where, sampledShare: ratio, parentBased };
}
