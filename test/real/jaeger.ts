/**
 * Starts a real Jaeger 2 (an OpenTelemetry Collector underneath) with its traces in memory, and asks its query API for
 * them. What it gives back has been through an OTLP receiver and a store that others wrote.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChild, until, untilReady, type ChildProcess } from './child-process.ts';
import { jaegerFile } from './installed.ts';
import { findFreePort } from './vllm.ts';

export interface JaegerSpan {
  readonly traceID: string;
  readonly spanID: string;
  readonly operationName: string;
  readonly references: readonly { readonly refType: string; readonly spanID: string }[];
  /** µs since the epoch */
  readonly startTime: number;
  /** µs */
  readonly duration: number;
  readonly tags: readonly { readonly key: string; readonly value: unknown }[];
  readonly logs: readonly { readonly timestamp: number }[];
  readonly processID: string;
}

export interface JaegerTrace {
  readonly spans: readonly JaegerSpan[];
  readonly processes: Readonly<Record<string, { readonly serviceName: string }>>;
}

export interface Jaeger {
  readonly process: ChildProcess;
  /** OTLP over HTTP: the base that `/v1/traces` is added to. */
  readonly httpUrl: string;
  /** OTLP over gRPC. */
  readonly grpcUrl: string;
  /** The trace, once it has at least so many spans. */
  trace(traceId: string, spans: number): Promise<JaegerTrace>;
  stop(): Promise<void>;
}

export async function startJaeger(): Promise<Jaeger> {
  const ports = [await findFreePort(), await findFreePort(), await findFreePort(), await findFreePort()] as const;
  const [http, grpc, query, queryGrpc] = ports;
  const file = join(mkdtempSync(join(tmpdir(), 'jaeger-')), 'config.yaml');
  writeFileSync(
    file,
    `service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: { metrics: { level: none } }
  pipelines:
    traces: { receivers: [otlp], exporters: [jaeger_storage_exporter] }
extensions:
  jaeger_storage:
    backends: { kept: { memory: { max_traces: 10000 } } }
  jaeger_query:
    storage: { traces: kept }
    http: { endpoint: '127.0.0.1:${query}' }
    grpc: { endpoint: '127.0.0.1:${queryGrpc}' }
receivers:
  otlp:
    protocols:
      http: { endpoint: '127.0.0.1:${http}' }
      grpc: { endpoint: '127.0.0.1:${grpc}' }
exporters:
  jaeger_storage_exporter: { trace_storage: kept }
`,
  );
  const child = startChild({ command: jaegerFile, args: ['--config', file] });
  const api = `http://127.0.0.1:${query}/api`;
  await untilReady(
    child,
    'Jaeger to answer',
    async () => {
      const answer = await fetch(`${api}/services`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined);
      return answer?.ok === true ? true : undefined;
    },
    30_000,
  );
  return {
    process: child,
    httpUrl: `http://127.0.0.1:${http}`,
    grpcUrl: `http://127.0.0.1:${grpc}`,
    trace: (traceId, spans) =>
      until(
        `${spans} spans of trace ${traceId}`,
        async () => {
          const answer = await fetch(`${api}/traces/${traceId}`, { signal: AbortSignal.timeout(10_000) });
          if (!answer.ok) return undefined;
          const { data } = (await answer.json()) as { data: JaegerTrace[] };
          const [trace] = data;
          return trace !== undefined && trace.spans.length >= spans ? trace : undefined;
        },
        { timeoutMs: 20_000, everyMs: 200 },
      ),
    stop: () => child.stop(),
  };
}

export function tagOf(span: JaegerSpan, key: string): unknown {
  return span.tags.find((tag) => tag.key === key)?.value;
}

/** The span's parent by id, as Jaeger kept it. */
export function parentOf(trace: JaegerTrace, span: JaegerSpan): JaegerSpan | undefined {
  const parent = span.references.find(({ refType }) => refType === 'CHILD_OF');
  return trace.spans.find(({ spanID }) => spanID === parent?.spanID);
}
