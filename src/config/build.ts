/**
 * The checked file → the settings of each folder, frozen. Renames and regroups; decides nothing.
 */
import type { CeilingSettings } from '../account/ceiling/settings.ts';
import { allProfiles } from '../account/slo/slo-settings.ts';
import type { BackendSettings } from '../fleet/settings.ts';
import { hostPort } from './address.ts';
import type { Config } from './config.ts';
import type { ConfigFile } from './schema.ts';

/**
 * @param pems text of each PEM file by the path text of the key that names it
 * @param modelConfigs parsed content of each `config.json`, likewise
 */
export function buildConfig(
  file: ConfigFile,
  pems: ReadonlyMap<string, string>,
  modelConfigs: ReadonlyMap<string, unknown>,
): Config {
  const { clients, deadlines, log, probes, queue, records, stream } = file;
  const { requestHeadMs, requestMs, drainMs, ...relayDeadlines } = deadlines;
  const cert = pems.get('tls.certFile');
  const key = pems.get('tls.keyFile');
  return deepFreeze<Config>({
    http: {
      listen: file.listen,
      admin: file.admin.listen,
      ...(cert !== undefined && key !== undefined ? { tls: { cert, key } } : {}),
      maxBodyBytes: clients.maxBodyBytes,
      maxHeldBytes: clients.maxHeldBytes,
      requestHeadMs,
      requestMs,
      clientHalfClose: clients.halfClose,
      cors: { origins: file.cors.origins },
      drainMs,
      maxRecords: records.maxRecords,
      maxRecordBytes: records.maxRecordBytes,
    },
    classify: { openRoutes: file.routes.open, modelAliases: withoutPrototype(file.models.aliases) },
    admit: { maxQueuedJobs: queue.maxJobs, queueTimeoutMs: queue.timeoutMs },
    fleet: {
      backends: file.backends.map((backend, index) =>
        backendSettings(backend, pems.get(`backends[${index}].tls.caFile`)),
      ),
      probeIntervalMs: probes.intervalMs,
      probeDownIntervalMs: probes.downIntervalMs,
      probeTimeoutMs: probes.timeoutMs,
      engineMetrics: probes.engineMetrics,
    },
    relay: {
      deadlines: relayDeadlines,
      heartbeatMs: stream.heartbeatMs,
      headHoldMs: stream.headHoldMs,
      maxBufferedBytes: stream.maxBufferedBytes,
      usage: file.usage,
      retryAfterCrash: file.retry.afterCrash,
      passConversationId: file.routes.passConversationId,
    },
    measure: measureSettings(file),
    slo: sloSettings(file.slo),
    ceiling: ceilingSettings(file, modelConfigs),
    export: { requestLog: log.requests },
    traces: file.telemetry.traces,
    metrics: file.telemetry.metrics,
    log: { level: log.level, format: log.format },
    upstreamClient: file.upstreamClient,
  });
}

function ceilingSettings(file: ConfigFile, modelConfigs: ReadonlyMap<string, unknown>): CeilingSettings {
  return {
    hardware: file.backends.flatMap(({ url, name = hostPort(url), hardware }) =>
      hardware === undefined ? [] : [{ backend: name, hardware }],
    ),
    shapes: file.models.shapes.map(({ configFile, ...shape }, index) => {
      if (configFile === undefined) return shape;
      return { ...shape, configJson: modelConfigs.get(`models.shapes[${index}].configFile`) };
    }),
  };
}

function measureSettings({ measure, slo }: ConfigFile): Config['measure'] {
  return slo.checks.usable ? { ...measure, maxCheckedBytes: slo.checks.maxTextBytes } : measure;
}

function sloSettings({ default: fallback, routes, models, profiles, checks }: ConfigFile['slo']): Config['slo'] {
  return {
    profiles: allProfiles(profiles),
    ...(fallback === undefined ? {} : { fallback }),
    routes: withoutPrototype(routes),
    models: withoutPrototype(models),
    checks,
  };
}

function backendSettings(backend: ConfigFile['backends'][number], ca: string | undefined): BackendSettings {
  const { tls, hardware: _, name = hostPort(backend.url), ...rest } = backend;
  if (tls === undefined) return { ...rest, name };
  const { serverName, verify } = tls;
  return {
    ...rest,
    name,
    tls: { verify, ...(ca === undefined ? {} : { ca }), ...(serverName === undefined ? {} : { serverName }) },
  };
}

/** A model called `toString` must not find anything. */
function withoutPrototype<T>(map: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.assign(Object.create(null) as Record<string, T>, map);
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const held of Object.values(value)) deepFreeze(held);
  return Object.freeze(value);
}
