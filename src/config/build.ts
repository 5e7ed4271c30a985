/**
 * The checked file → the settings of each folder, frozen. Renames and regroups; decides nothing.
 */
import { resolve } from 'node:path';

import type { CeilingSettings } from '../account/ceiling/settings.ts';
import { allProfiles } from '../account/slo/slo-settings.ts';
import type { LaneSettings } from '../admit/lane-settings.ts';
import { costDefaults, type RouteSettings } from '../route/settings.ts';
import { accessSettings } from './access.ts';
import { hostPort } from './address.ts';
import { batchSettings } from './batch.ts';
import type { Config } from './config.ts';
import { backendSettings, discoverySettings } from './discovery.ts';
import type { HashedKeys } from './key-files.ts';
import type { ConfigFile } from './schema.ts';
import { warmPrompts } from './warm-prompts.ts';

/**
 * @param pems text of each PEM file by the path text of the key that names it
 * @param modelConfigs parsed content of each `config.json`, likewise
 * @param warmBodies text of each file with a request's body, likewise
 * @param keys hashes by path text of the item under `auth.keys` that they come from
 * @param folder what relative paths are relative to
 */
export function buildConfig(
  file: ConfigFile,
  pems: ReadonlyMap<string, string>,
  {
    modelConfigs,
    warmBodies,
    keys,
    folder,
  }: {
    folder: string;
    modelConfigs: ReadonlyMap<string, unknown>;
    warmBodies: ReadonlyMap<string, string>;
    keys: HashedKeys['byItem'];
  },
): Config {
  const { clients, deadlines, log, probes, queue, records, stream } = file;
  const { requestHeadMs, requestMs, drainMs, ...relayDeadlines } = deadlines;
  const cert = pems.get('tls.certFile');
  const key = pems.get('tls.keyFile');
  return deepFreeze<Config>({
    http: {
      listen: file.listen,
      admin: file.admin.listen,
      adminChanges: file.admin.changes,
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
    access: accessSettings(file, keys),
    classify: {
      openRoutes: file.routes.open,
      modelAliases: withoutPrototype(file.models.aliases),
      sessionHeaders: file.routing.sessionHeaders.map((name) => name.toLowerCase()),
    },
    admit: { maxQueuedJobs: queue.maxJobs, queueTimeoutMs: queue.timeoutMs, lanes: laneSettings(file) },
    fleet: {
      backends: file.backends.map((backend, index) =>
        backendSettings(backend, pems.get(`backends[${index}].tls.caFile`)),
      ),
      probeIntervalMs: probes.intervalMs,
      probeDownIntervalMs: probes.downIntervalMs,
      probeTimeoutMs: probes.timeoutMs,
      engineMetrics: probes.engineMetrics,
      breaker: file.breaker,
    },
    discovery: discoverySettings(file, pems, folder),
    route: routeSettings(file),
    relay: {
      deadlines: relayDeadlines,
      heartbeatMs: stream.heartbeatMs,
      headHoldMs: stream.headHoldMs,
      maxBufferedBytes: stream.maxBufferedBytes,
      usage: file.usage,
      retryAfterCrash: file.retry.afterCrash,
      passConversationId: file.routes.passConversationId,
      responseHeaders: file.responseHeaders,
    },
    measure: measureSettings(file),
    slo: sloSettings(file.slo),
    ceiling: ceilingSettings(file, modelConfigs),
    warmUp: { ...file.warmUp, prompts: warmPrompts(file.warmUp, warmBodies) },
    answerCache: answerCacheSettings(file.answerCache),
    batch: batchSettings(file, folder),
    export: { requestLog: log.requests },
    traces: file.telemetry.traces,
    metrics: file.telemetry.metrics,
    promptTrace: promptTraceSettings(file, folder),
    log: { level: log.level, format: log.format },
    upstreamClient: file.upstreamClient,
  });
}

function laneSettings({ lanes }: ConfigFile): LaneSettings {
  const { maxQueuedTokens, refuseBeyond, reclaim } = lanes;
  const { maxJobs, timeoutMs, ...batch } = lanes.batch;
  const { ttftBoundMs, tpotBoundMs, ...control } = lanes.control;
  return {
    maxQueuedTokens,
    refuseBeyond,
    batch: { ...batch, maxQueuedJobs: maxJobs, queueTimeoutMs: timeoutMs },
    control: { ...control, ttftMs: ttftBoundMs, tpotMs: tpotBoundMs },
    reclaim,
  };
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

function routeSettings({ routing, backends, slo }: ConfigFile): RouteSettings {
  const { policy, pools, lambda, nu, rho, kappa, sessionBonusMs, maxSessions, sessionTtlMs, slowStartMs } = routing;
  const holdMs = routing.holdMs ?? holdMsFor(slo);
  const caches: Record<string, RouteSettings['caches'][string]> = {};
  for (const { url, name = hostPort(url), cache } of backends) if (cache !== undefined) caches[name] = cache;
  return {
    policy,
    pools,
    cost: { lambda, nu, rho, kappa, holdMs, sessionBonusMs },
    maxSessions,
    sessionTtlMs,
    slowStartMs,
    index: routing.index,
    caches: withoutPrototype(caches),
  };
}

/** Where a first token is to come in time, a quarter of that time may be spent on waiting for others' prompts. */
function holdMsFor({ default: fallback, profiles }: ConfigFile['slo']): number {
  const { ttftMs } = allProfiles(profiles).find(({ name }) => name === fallback) ?? {};
  return ttftMs === undefined ? costDefaults.holdMs : ttftMs / 4;
}

/** Headers are found by their lower-case names. */
function answerCacheSettings({ header, tenantHeaders, ...rest }: ConfigFile['answerCache']): Config['answerCache'] {
  const lower = tenantHeaders.map((name) => name.toLowerCase());
  return { ...rest, header: header.toLowerCase(), tenantHeaders: lower };
}

function promptTraceSettings({ telemetry }: ConfigFile, folder: string): Config['promptTrace'] {
  const { file, maxBytes } = telemetry.promptTrace;
  return file === undefined ? { maxBytes } : { file: resolve(folder, file), maxBytes };
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

/** A model called `toString` must not find anything. */
function withoutPrototype<T>(map: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.assign(Object.create(null) as Record<string, T>, map);
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const held of Object.values(value)) deepFreeze(held);
  return Object.freeze(value);
}
