/** What all spans share: who speaks, and the library's own values. Loads OpenTelemetry, so only while tracing is on. */
import { createTelemetrySource } from '../otlp/telemetry-source.ts';
import type { SpanSource } from './span.ts';

/** @param attributes of the resource, from the environment; they win. @param version warmlane's own */
export async function createSpanSource(
  attributes: Readonly<Record<string, string>>,
  version: string,
): Promise<SpanSource> {
  const { resource, scope } = await createTelemetrySource(attributes, version);
  const { SpanKind, SpanStatusCode } = await import('@opentelemetry/api');
  return {
    resource,
    scope,
    kinds: { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT },
    statuses: { unset: SpanStatusCode.UNSET, error: SpanStatusCode.ERROR },
  };
}
