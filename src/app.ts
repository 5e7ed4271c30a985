/** The composition root: makes every part, wires them, opens the listeners. Decides nothing about requests. */
import { randomUUID } from 'node:crypto';
import { createAccess } from './access/access.ts';
import { enter } from './access/tunnel-entry.ts';
import { type Accounting, createAccounting } from './accounting.ts';
import { laneDefaults } from './admit/lane-settings.ts';
import { createOwner } from './admit/owner.ts';
import { shuttingDown } from './admit/refusals.ts';
import { classify } from './classify/classify.ts';
import { targetFor } from './classify/edit-body.ts';
import { createPromptReader } from './classify/prefix-scan.ts';
import { prefixDefaults } from './classify/settings.ts';
import { keysToScan } from './classify/wanted-keys.ts';
import type { Config } from './config/config.ts';
import type { Job } from './domain/job.ts';
import { isRefusal } from './domain/refusal.ts';
import type { RunningView } from './domain/running-view.ts';
import { openPromptTrace } from './export/prompt-trace/open-prompt-trace.ts';
import { createRecords } from './export/records.ts';
import { createSinks } from './export/sinks.ts';
import { createFleet, type Fleet } from './fleet/fleet.ts';
import { createMergedModels } from './fleet/merged-models.ts';
import { createProbeFetch } from './fleet/probe-fetch.ts';
import { notReady } from './fleet/readiness.ts';
import type { ProbeTarget } from './fleet/probe-port.ts';
import { createAdminApp } from './http/admin-app.ts';
import { createOwnServer } from './http/own-server.ts';
import { createDataApp } from './http/data-app.ts';
import { clientHead, createFront } from './http/front.ts';
import type { Listener } from './http/listener.ts';
import { openListeners } from './http/open-listeners.ts';
import { createLoopLag } from './measure/loop-lag.ts';
import { createObserver } from './measure/observer.ts';
import { createPrefillLog } from './measure/prefill-log.ts';
import { createLanes, lanesTold } from './lanes.ts';
import { createLiveConfig } from './live-config.ts';
import { createMembership } from './membership.ts';
import { openAnswerCache, openBatches, openFingerprint, openUpstream } from './optional-parts.ts';
import { createPipeline, type Pipeline } from './pipeline.ts';
import { createRelayRegistry } from './relay-registry.ts';
import { createByteBudget } from './platform/byte-budget.ts';
import { type Clock, systemClock } from './platform/clock.ts';
import type { Batches } from './batches.ts';
import { noBatchesPage } from './http/no-batches-page.ts';
import { createLater } from './platform/later.ts';
import type { Log } from './platform/log.ts';
import { ownVersion } from './platform/own-version.ts';
import { type Resolver, systemResolver } from './platform/resolver.ts';
import { within } from './platform/within.ts';
import { loadXxhash } from './platform/xxhash.ts';
import { createTicker } from './relay/ticker.ts';
import { createTunnels } from './relay/tunnel.ts';
import { createSticky } from './route/sticky.ts';
import { createRouting } from './routing.ts';
import { startTracing } from './tracing.ts';
import { createWarmUpFeed } from './warm-up-feed.ts';

export interface App {
  readonly data: Listener;
  readonly admin: Listener;
  readonly fleet: Fleet;
  readonly pipeline: Pipeline;
  /** Absent while the Batch API is off. */
  readonly batches: Batches | undefined;
  /**
   * Takes over what of a new, whole and valid configuration can change at run time, in one step. Requests under way keep
   * to the one that they began with.
   */
  reload(next: Config): ConfigReloaded;
  /** A new configuration was wrong, and the old one holds. @param problems one line each, without keys */
  reloadFailed(problems: readonly string[]): void;
  /** Requests under way and open tunnels. */
  running(): readonly RunningView[];
  /** Stops accepting, lets streams end up to the drain deadline, ends the rest. Resolves when all is closed. */
  stop(): Promise<void>;
  /** Ends everything now. */
  kill(): void;
}

export interface ConfigReloaded {
  /** What holds now. */
  readonly inForce: Config;
  /** By the keys of the config file. */
  readonly changed: readonly string[];
  readonly needsRestart: readonly string[];
}

/** @throws the system's error when a listener's address can't be had */
export async function startApp(
  config: Config,
  deps: {
    readonly log: Log;
    readonly clock?: Clock;
    /** For the standard `OTEL_*` variables; none of them unless given. */
    readonly env?: Readonly<Record<string, string | undefined>>;
    /** Of the configuration, for the page that shows it; absent: there is none. */
    readonly file?: string;
    readonly resolver?: Resolver;
  },
): Promise<App> {
  const clock = deps.clock ?? systemClock;
  const { log } = deps;
  const live = createLiveConfig(config, { clock, file: deps.file });
  const upstream = await openUpstream(config, clock);
  const probeFetch = (target: ProbeTarget) => createProbeFetch(target, clock);
  const fleet = createFleet(
    { ...config.fleet, backends: [] },
    { clock, log, probeFetch, ownLoad: (backend) => owner.load(backend) },
  );
  const around = () => ({ env: deps.env ?? {}, own: [config.http.listen, config.http.admin] });
  const resolver = deps.resolver ?? systemResolver;
  const membership = createMembership(config, { clock, log, fleet, resolver, probeFetch, around });
  const access = createAccess(config.access, { clock });
  /** Kept up to date in place. */
  const admit = { ...config.admit };
  const aliases = { ...config.classify.modelAliases };
  const routing = createRouting(
    { ...config.route, caches: membership.caches },
    {
      clock,
      fleet: () => fleet.snapshot(),
      modelOf: (job) => job.servedModel ?? job.model,
    },
  );
  const owner = createOwner(admit, {
    clock,
    fleet: () => fleet.snapshot(),
    choose: routing.choose,
    sent: routing.sent,
    batchOn: (backend) => lanes.batchOn(backend),
  });
  const laneSettings = () => admit.lanes ?? laneDefaults;
  const lanes = createLanes(laneSettings, {
    clock,
    fleet: () => fleet.snapshot(),
    owner: () => owner,
    streams: (visit) => pipeline.streams(visit),
    engine: (backend) => accounting.engine(backend),
    abortsWork: (backend) => fleet.abortsWork(backend),
    warn: (backend, note) => log.warn(note, { backend }),
  });
  fleet.onChange(() => {
    lanes.fleetChanged();
    routing.fleetChanged();
    owner.fleetChanged();
    warmUp?.fleetChanged(fleet.snapshot());
  });
  const relays = createRelayRegistry(fleet);
  const records = createRecords(
    { ...config.export, maxRecords: config.http.maxRecords, maxRecordBytes: config.http.maxRecordBytes },
    { log },
  );
  const tracing = await startTracing(config.traces, {
    clock,
    log,
    env: deps.env ?? {},
    secure: config.http.tls !== undefined,
    backends: membership.backends,
  });
  const hash = await loadXxhash();
  const running = (): readonly RunningView[] => [...pipeline.running(), ...tunnels.running()];
  const answerCache = await openAnswerCache(config, clock);
  const warmUp = createWarmUpFeed(config.warmUp, {
    clock,
    log,
    fleet: () => fleet.snapshot(),
    owner,
    pipeline: () => pipeline,
    makeId: randomUUID,
    aliases: () => live.settings().classify.modelAliases,
  });
  const batches = await openBatches(config, {
    clock,
    log,
    pipeline: () => pipeline,
    maxReclaims: () => (laneSettings().reclaim.enabled ? laneSettings().reclaim.maxTimes : 0),
    reader: createPromptReader(prefixDefaults, hash),
  });
  const later = createLater(clock);
  const accounting: Accounting = createAccounting({
    config,
    settle: later.flush,
    clock,
    log,
    fleet,
    spans: tracing?.stats,
    records: () => records.list(),
    warm: () => routing.index.stats(),
    ownSlots: (backend) => owner.load(backend).slots,
    running,
    waiting: () => owner.waiting(),
    lanes: { backends: lanes.state, depths: owner.depths },
    lost: () => [...sinks.failures, ['request_log', records.failures] as const],
    env: deps.env ?? {},
    version: ownVersion(),
    aliases,
    hardware: membership.hardware,
    reloads: live.counts,
    answerCache: answerCache === undefined ? undefined : () => answerCache.stats(),
    warmUp: warmUp?.stats,
    batches: batches?.figures,
  });
  const traces = tracing === undefined ? {} : { traces: tracing.sink };
  const sinks = createSinks({ records, ...accounting.sinks, ...traces }, (sink, error, record) =>
    log.error('a record was lost; further ones of this sink are only counted', {
      requestId: record.requestId,
      sink,
      error: String(error),
    }),
  );
  const promptTrace = openPromptTrace(config.promptTrace, log);
  const lag = createLoopLag(clock, accounting.late);
  const pipeline = createPipeline({
    clock,
    log,
    settings: live.settings,
    receiving: {
      maxBodyBytes: config.http.maxBodyBytes,
      keys: keysToScan({ shape: config.slo.checks.usable, prefix: true }),
      prompts: createPromptReader(prefixDefaults, hash),
      budget: createByteBudget(config.http.maxHeldBytes),
    },
    fleet,
    owner,
    access,
    lanes: lanesTold(lanes, laneSettings, accounting.boundsOf),
    sticky: createSticky(),
    ticker: createTicker(clock),
    upstream,
    lag,
    prefills: createPrefillLog(),
    decodes: accounting.decodes,
    sinks,
    later,
    assess(record, job) {
      accounting.assess(record, job);
      promptTrace?.add(record, job);
    },
    warmUp,
    fingerprint: await openFingerprint(config, hash),
    beginTrace: tracing?.begin,
    answerCache,
    listModels: createMergedModels({
      sources: membership.models,
      snapshot: () => fleet.snapshot(),
      aliases: () => live.settings().classify.modelAliases,
      timeoutMs: config.fleet.probeTimeoutMs,
      epochSeconds: () => Math.floor(clock.wallMs() / 1000),
      nowMs: () => clock.nowMs(),
    }),
    link: membership.link,
    hasOther: (job, exclude) => routing.hasOther(job, exclude, (name) => owner.load(name)),
    relaying: relays.add,
  });
  let stopping = false;
  const ownRoutes =
    batches === undefined
      ? undefined
      : createOwnServer({
          routes: batches.routes,
          caller: (head) => access.caller(head),
          claim: access.claim,
          closing: () => (stopping ? shuttingDown() : undefined),
          clock,
          log,
          cors: config.http.cors,
          stallMs: () => live.settings().relay.deadlines.clientStallMs,
        });
  const front = createFront({
    pipeline,
    clock,
    makeId: randomUUID,
    get clientStallMs() {
      return live.settings().relay.deadlines.clientStallMs;
    },
    cors: config.http.cors,
    own: ownRoutes,
  });
  /** Of each open tunnel, as they were when it began. */
  const aliasesOf = new WeakMap<Job, Config['classify']['modelAliases']>();
  const tunnels = createTunnels({
    clock,
    enter: (head) => enter(access, head, (job, ids) => pipeline.kept.check(head, job, ids)),
    classify(head) {
      const { classify: settings } = live.settings();
      const job = classify(head, { bytes: 0 }, settings);
      if (!isRefusal(job)) aliasesOf.set(job, settings.modelAliases);
      return job;
    },
    targetOf: (job) => targetFor(job, aliasesOf.get(job) ?? {}),
    owner,
    link: membership.link,
    settings: () => live.settings().relay,
    observe(head) {
      const observer = createObserver(config.measure, {
        head,
        lag,
        wallMs: clock.wallMs(),
        trace: tracing?.begin(head),
      });
      return {
        classified: (job) => observer.classified(job),
        attempt: (attempt) => observer.attempt(attempt),
        attemptEnd: (end) => observer.attemptEnd(end),
        mark: (name, atMs) => observer.mark(name, atMs),
        responseBytes: (bytes) => observer.responseBytes(bytes),
        finish(ending) {
          const record = observer.finish(ending);
          later.add(() => sinks.add(record));
        },
      };
    },
    closing: () => (stopping ? shuttingDown() : undefined),
  });
  const dataApp = createDataApp({
    notReady: () => (stopping ? 'shutting down' : notReady(fleet.snapshot())),
    cors: config.http.cors,
  });
  const adminApp = createAdminApp({
    settle: later.flush,
    running,
    fleet: () => fleet.snapshot(),
    load: (backend) => owner.load(backend),
    waiting: () => owner.waiting(),
    records: () => records.list(),
    pages: [...accounting.pages, live.page(membership.state), batches?.page ?? noBatchesPage],
    control: membership.control,
    changes: config.http.adminChanges,
    status: () => ({ uptimeSeconds: Math.round(process.uptime()), rssBytes: process.memoryUsage.rss() }),
    nowMs: () => clock.nowMs(),
    listeningOn: () => ({ host: config.http.admin.host, address: admin.host, clientPort: data.port }),
  });
  const { requestHeadMs, requestMs, clientHalfClose: halfClose, listen, tls } = config.http;
  const { data, admin } = await openListeners(
    { requestHeadMs, requestMs, halfClose },
    {
      app: dataApp,
      listen,
      ...(tls === undefined ? {} : { tls }),
      take: front,
      upgrade: (incoming, socket, first) =>
        tunnels.open(clientHead(incoming, { clock, makeId: randomUUID }), socket, first),
    },
    { app: adminApp, listen: config.http.admin },
  ).catch(async (error: unknown) => {
    // Whoever started it may go on living and try again: the storage of batches must not be held by this one.
    warmUp?.stop();
    lag.stop();
    upstream.close();
    await Promise.allSettled([accounting.stop(), tracing?.stop(), promptTrace?.close(), batches?.close()]);
    throw error;
  });
  await membership.start();
  await fleet.start();
  batches?.start();

  const kill = () => {
    later.close();
    void batches?.close();
    ownRoutes?.endAll();
    warmUp?.stop();
    lanes.stop();
    // While their clients can still be told, and each gets its record.
    pipeline.endAll(shuttingDown('second_signal'));
    membership.stop();
    fleet.stop();
    lag.stop();
    tunnels.close();
    upstream.close();
    data.destroy();
    admin.destroy();
  };
  return {
    data,
    admin,
    fleet,
    pipeline,
    batches,
    running,
    kill,
    reload(next) {
      const changes = live.take(next);
      Object.assign(admit, changes.inForce.admit);
      access.configure(changes.inForce.access);
      replaceAll(aliases, changes.inForce.classify.modelAliases);
      membership.configure(changes.inForce);
      lanes.reconfigured();
      return changes;
    },
    reloadFailed: live.failed,
    async stop() {
      stopping = true;
      warmUp?.stop();
      // Lines that are nearly done are let finish; the others begin anew elsewhere or later.
      void batches?.stop(Math.min(config.http.drainMs, 5000));
      pipeline.drain(shuttingDown());
      const closed = data.close();
      const deadline = clock.timer(config.http.drainMs, () => {
        owner.close(shuttingDown());
        pipeline.endAll(shuttingDown());
        tunnels.close();
        ownRoutes?.endAll();
      });
      await Promise.all([pipeline.idle(), tunnels.idle(), ownRoutes?.idle()]);
      deadline.cancel();
      data.closeIdle();
      await within(closed, lastBytesMs);
      kill();
      await Promise.all([
        closed,
        admin.close(),
        accounting.stop(),
        tracing?.stop(),
        promptTrace?.close(),
        batches?.close(),
      ]);
    },
  };
}

/** After the last stream's end its last bytes still have to reach a client that reads slowly. */
const lastBytesMs = 1000;

/** For those who keep the object. */
function replaceAll(held: Record<string, string>, by: Readonly<Record<string, string>>): void {
  for (const key of Object.keys(held)) delete held[key];
  Object.assign(held, by);
}
