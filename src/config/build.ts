/**
 * The checked file → the settings of each folder, frozen. Renames and regroups; decides nothing.
 */
import type { BackendSettings } from '../fleet/settings.ts';
import { hostPort } from './address.ts';
import type { Config } from './config.ts';
import type { ConfigFile } from './schema.ts';

/** @param pems text of each PEM file by the path text of the key that names it */
export function buildConfig(file: ConfigFile, pems: ReadonlyMap<string, string>): Config {
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
    measure: file.measure,
    export: { requestLog: log.requests },
    log: { level: log.level, format: log.format },
    upstreamClient: file.upstreamClient,
  });
}

function backendSettings(backend: ConfigFile['backends'][number], ca: string | undefined): BackendSettings {
  const { tls, name = hostPort(backend.url), ...rest } = backend;
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
