/**
 * The official OTLP metrics exporter for what the environment asks for, loaded only now. Over HTTP its connections are
 * ours, so that an export can be let go of.
 */
import type { OTLPMetricExporter as HttpExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import type { PushMetricExporter } from '@opentelemetry/sdk-metrics';
import { createAgent } from '../otlp/agent.ts';
import type { OtlpTarget } from '../otlp/otlp-environment.ts';

export interface MetricsExporter {
  readonly exporter: PushMetricExporter;
  /** Ends what is on its way. */
  abort(): void;
}

/** @param onProblem told of a PEM file that can't be read; the standard has it left out then */
export async function loadMetricsExporter(
  target: OtlpTarget,
  onProblem: (sentence: string) => void,
): Promise<MetricsExporter> {
  return target.protocol === 'grpc' ? loadGrpc(target) : loadHttp(target, onProblem);
}

async function loadHttp(target: OtlpTarget, onProblem: (sentence: string) => void): Promise<MetricsExporter> {
  const { AggregationTemporalityPreference } = await import('@opentelemetry/exporter-metrics-otlp-http');
  const { OTLPMetricExporter } =
    target.protocol === 'http/json'
      ? await import('@opentelemetry/exporter-metrics-otlp-http')
      : await import('@opentelemetry/exporter-metrics-otlp-proto');
  const agent = createAgent(target, onProblem);
  const exporter = new OTLPMetricExporter({
    url: target.url,
    headers: { ...target.headers },
    timeoutMillis: target.timeoutMs,
    // eslint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package that is not ours to name; its values are these words
    compression: target.compression as Compression,
    httpAgentOptions: () => agent,
    concurrencyLimit: 1,
    // Said here, so that the library doesn't read the variable that asks for what isn't served.
    temporalityPreference: AggregationTemporalityPreference.CUMULATIVE,
  });
  return { exporter, abort: () => agent.destroy() };
}

/** Headers, certificates and credentials of grpc are read from the environment by the library itself. */
async function loadGrpc(target: OtlpTarget): Promise<MetricsExporter> {
  const { AggregationTemporalityPreference } = await import('@opentelemetry/exporter-metrics-otlp-http');
  const { OTLPMetricExporter } = await import('@opentelemetry/exporter-metrics-otlp-grpc');
  const exporter = new OTLPMetricExporter({
    url: target.url,
    timeoutMillis: target.timeoutMs,
    // eslint-disable-next-line typescript/no-unsafe-enum-assignment -- as above
    compression: target.compression as Compression,
    concurrencyLimit: 1,
    // Said here, so that the library doesn't read the variable that asks for what isn't served.
    temporalityPreference: AggregationTemporalityPreference.CUMULATIVE,
  });
  // A call has a deadline of its own, and nothing else can end it.
  return { exporter, abort() {} };
}

type HttpConfig = NonNullable<ConstructorParameters<typeof HttpExporter>[0]>;
type Compression = NonNullable<HttpConfig['compression']>;
