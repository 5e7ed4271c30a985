/**
 * The official exporter for what the environment asks for, loaded only now: nothing of OpenTelemetry is in memory while
 * tracing is off. Over HTTP its connections are ours, so that an export can be let go of.
 */
import type { OTLPTraceExporter as ProtoExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-base';
import { createAgent } from '../otlp/agent.ts';
import type { OtlpTarget } from '../otlp/otlp-environment.ts';
import type { TraceExporter } from './span-queue.ts';
import type { TraceEnvironment } from './trace-environment.ts';

/** @param onProblem told of a PEM file that can't be read; the standard has it left out then */
export async function loadExporter(
  { exporter, otlp, batch }: TraceEnvironment,
  onProblem: (sentence: string) => void,
): Promise<TraceExporter> {
  if (exporter === 'console') {
    const { ConsoleSpanExporter } = await import('@opentelemetry/sdk-trace-base');
    return wrapped(new ConsoleSpanExporter(), () => {});
  }
  // The library tries again until its own time is over: that must end before the export is given up here.
  const target = { ...otlp, timeoutMs: Math.min(otlp.timeoutMs, batch.exportTimeoutMs) };
  return otlp.protocol === 'grpc' ? loadGrpc(target) : loadHttp(target, onProblem);
}

async function loadHttp(target: OtlpTarget, onProblem: (sentence: string) => void): Promise<TraceExporter> {
  const { OTLPTraceExporter } =
    target.protocol === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto');
  const agent = createAgent(target, onProblem);
  const exporter = new OTLPTraceExporter({
    url: target.url,
    headers: { ...target.headers },
    timeoutMillis: target.timeoutMs,
    compression: compressionOf(target),
    httpAgentOptions: () => agent,
    concurrencyLimit: 2,
  });
  return wrapped(exporter, () => agent.destroy());
}

type HttpConfig = NonNullable<ConstructorParameters<typeof ProtoExporter>[0]>;
type Compression = NonNullable<HttpConfig['compression']>;

function compressionOf({ compression }: OtlpTarget): Compression {
  // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that the exporters bring along
  return compression as Compression;
}

/** Headers, certificates and credentials of grpc are read from the environment by the library itself. */
async function loadGrpc(target: OtlpTarget): Promise<TraceExporter> {
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-grpc');
  const exporter = new OTLPTraceExporter({
    url: target.url,
    timeoutMillis: target.timeoutMs,
    compression: compressionOf(target),
    concurrencyLimit: 2,
  });
  // A call has a deadline of its own, and nothing else can end it.
  return wrapped(exporter, () => {});
}

async function wrapped(exporter: SpanExporter, abort: () => void): Promise<TraceExporter> {
  const { ExportResultCode } = await import('@opentelemetry/core');
  return {
    abort,
    export(spans: ReadableSpan[], done) {
      exporter.export(spans, ({ code, error }) =>
        done(code === ExportResultCode.SUCCESS ? undefined : (error ?? new Error('export failed'))),
      );
    },
  };
}
