/** Who speaks: the resource and scope that all spans share. Loads OpenTelemetry's resources, so only while tracing is on. */
import { randomUUID } from 'node:crypto';
import type { SpanSource } from './span.ts';

/** @param attributes from the environment; they win. @param version warmlane's own */
export async function createSpanSource(
  attributes: Readonly<Record<string, string>>,
  version: string,
): Promise<SpanSource> {
  const { defaultResource, resourceFromAttributes } = await import('@opentelemetry/resources');
  const { SpanKind, SpanStatusCode } = await import('@opentelemetry/api');
  const own = { 'service.version': version, 'service.instance.id': randomUUID() };
  return {
    resource: defaultResource().merge(resourceFromAttributes({ ...own, ...attributes })),
    scope: { name: 'warmlane', version },
    kinds: { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT },
    statuses: { unset: SpanStatusCode.UNSET, error: SpanStatusCode.ERROR },
  };
}
