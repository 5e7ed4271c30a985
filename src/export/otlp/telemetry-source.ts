/** Who speaks: the resource and scope that spans and metrics share. Loads OpenTelemetry's resources, so only when they go out. */
import { randomUUID } from 'node:crypto';
import type { InstrumentationScope } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';

export interface TelemetrySource {
  readonly resource: Resource;
  readonly scope: InstrumentationScope;
}

/** One for the process: its spans and its metrics are the same instance's. */
const instanceId = randomUUID();

/** @param attributes from the environment; they win. @param version warmlane's own */
export async function createTelemetrySource(
  attributes: Readonly<Record<string, string>>,
  version: string,
): Promise<TelemetrySource> {
  const { defaultResource, resourceFromAttributes } = await import('@opentelemetry/resources');
  const own = { 'service.version': version, 'service.instance.id': instanceId };
  return {
    resource: defaultResource().merge(resourceFromAttributes({ ...own, ...attributes })),
    scope: { name: 'warmlane', version },
  };
}
