/** The composition root: makes every part, wires them, opens the listeners. Decides nothing about requests. */
import { randomUUID } from 'node:crypto';
import { type Accounting, createAccounting } from './accounting.ts';
import { createOwner } from './admit/owner.ts';
import { shuttingDown } from './admit/refusals.ts';
import { classify } from './classify/classify.ts';
import { targetFor } from './classify/edit-body.ts';
import { wantedKeys, wantedKeysWithShape } from './classify/wanted-keys.ts';
import type { Config } from './config/config.ts';
import type { FleetSnapshot } from './domain/fleet.ts';
import type { Job } from './domain/job.ts';
import { isRefusal } from './domain/refusal.ts';
import type { RunningView } from './domain/running-view.ts';
import { createRecords } from './export/records.ts';
import { createSinks } from './export/sinks.ts';
import { createFleet, type Fleet } from './fleet/fleet.ts';
import { createMergedModels } from './fleet/merged-models.ts';
import { createProbeFetch } from './fleet/probe-fetch.ts';
import { createWitness } from './fleet/traffic-witness.ts';
import { createAdminApp } from './http/admin-app.ts';
import { createDataApp } from './http/data-app.ts';
import { clientHead, createFront } from './http/front.ts';
import { type Listener, openListener } from './http/listener.ts';
import { createLoopLag } from './measure/loop-lag.ts';
import { createObserver } from './measure/observer.ts';
import { createPrefillLog } from './measure/prefill-log.ts';
import { createPipeline, type Pipeline } from './pipeline.ts';
import { Bag } from './platform/bag.ts';
import { createByteBudget } from './platform/byte-budget.ts';
import { type Clock, systemClock } from './platform/clock.ts';
import type { Fingerprint } from './platform/fingerprint.ts';
import type { Log } from './platform/log.ts';
import { ownVersion } from './platform/own-version.ts';
import { createH1Client } from './platform/upstream/h1-client.ts';
import type { UpstreamClient } from './platform/upstream/port.ts';
import { upstreamDefaults } from './platform/upstream/settings.ts';
import { parseTarget } from './platform/upstream/target.ts';
import type { Relay } from './relay/relay.ts';
import { createTicker } from './relay/ticker.ts';
import { createTunnels } from './relay/tunnel.ts';
import { route } from './route/least-load.ts';
import { createSticky } from './route/sticky.ts';
import { startTracing } from './tracing.ts';

export interface App {
  readonly data: Listener;
  readonly admin: Listener;
  readonly fleet: Fleet;
  readonly pipeline: Pipeline;
  /** Requests under way and open tunnels. */
  running(): readonly RunningView[];
  /** Stops accepting, lets streams end up to the drain deadline, ends the rest. Resolves when all is closed. */
  stop(): Promise<void>;
  /** Ends everything now. */
  kill(): void;
}

/** @throws the system's error when a listener's address can't be had */
export async function startApp(
  config: Config,
  deps: {
    readonly log: Log;
    readonly clock?: Clock;
    /** For the standard `OTEL_*` variables; none of them unless given. */
    readonly env?: Readonly<Record<string, string | undefined>>;
  },
): Promise<App> {
  const clock = deps.clock ?? systemClock;
  const { log } = deps;
  const links = new Map(
    config.fleet.backends.map((backend) => [
      backend.name,
      {
        target: parseTarget(backend.url, backend.tls),
        ...(backend.apiKey === undefined ? {} : { apiKey: backend.apiKey }),
      },
    ]),
  );
  const upstream = config.upstreamClient === 'h1' ? createH1Client(upstreamDefaults, { clock }) : await undiciClient();
  const fleet = createFleet(config.fleet, {
    clock,
    log,
    probeFetch: (target) => createProbeFetch(target, clock),
    ownLoad: (backend) => owner.load(backend),
  });
  const sticky = createSticky();
  const choose = chooser(config, () => fleet.snapshot());
  const owner = createOwner(config.admit, {
    clock,
    fleet: () => fleet.snapshot(),
    choose(ask, load) {
      const ranked = choose(ask, load);
      return isRefusal(ranked) ? ranked : { ranked, hold: false };
    },
  });
  fleet.onChange(() => owner.fleetChanged());
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
    backends: config.fleet.backends,
  });
  const running = (): readonly RunningView[] => [...pipeline.running(), ...tunnels.running()];
  const accounting: Accounting = createAccounting({
    config,
    clock,
    log,
    fleet,
    spans: tracing?.stats,
    ownSlots: (backend) => owner.load(backend).slots,
    running,
    waiting: () => owner.waiting(),
    lost: () => [...sinks.failures, ['request_log', records.failures] as const],
    env: deps.env ?? {},
    version: ownVersion(),
  });
  const traces = tracing === undefined ? {} : { traces: tracing.sink };
  const sinks = createSinks({ records, ...accounting.sinks, ...traces }, (sink, error, record) =>
    log.error('a record was lost; further ones of this sink are only counted', {
      requestId: record.requestId,
      sink,
      error: String(error),
    }),
  );
  const lag = createLoopLag(clock, accounting.late);
  const link = (backend: string) => {
    const found = links.get(backend);
    if (found === undefined) throw new Error(`no link for backend ${backend}`);
    return found;
  };
  const pipeline = createPipeline({
    clock,
    log,
    settings: { classify: config.classify, relay: config.relay, measure: config.measure },
    receiving: {
      maxBodyBytes: config.http.maxBodyBytes,
      keys: config.slo.checks.usable ? wantedKeysWithShape : wantedKeys,
      budget: createByteBudget(config.http.maxHeldBytes),
    },
    fleet,
    owner,
    sticky,
    ticker: createTicker(clock),
    upstream,
    lag,
    prefills: createPrefillLog(),
    decodes: accounting.decodes,
    sinks,
    assess: accounting.assess,
    fingerprint: config.slo.checks.retries ? await fingerprint() : undefined,
    beginTrace: tracing?.begin,
    listModels: createMergedModels({
      sources: config.fleet.backends.map((backend) => ({
        name: backend.name,
        fetch: createProbeFetch(backend, clock),
        ...(backend.models === undefined ? {} : { models: backend.models }),
      })),
      snapshot: () => fleet.snapshot(),
      aliases: config.classify.modelAliases,
      timeoutMs: config.fleet.probeTimeoutMs,
      epochSeconds: () => Math.floor(clock.wallMs() / 1000),
      nowMs: () => clock.nowMs(),
    }),
    link,
    hasOther(job, exclude) {
      if (fleet.snapshot().backends.every(({ name }) => exclude.includes(name))) return false;
      const ranked = choose({ job, exclude }, (name) => owner.load(name));
      return !isRefusal(ranked) && ranked.some(({ reason }) => reason !== 'last_resort');
    },
    relaying: relays.add,
  });
  let stopping = false;
  const front = createFront({
    pipeline,
    clock,
    makeId: randomUUID,
    clientStallMs: config.relay.deadlines.clientStallMs,
    cors: config.http.cors,
  });
  const tunnels = createTunnels({
    clock,
    classify: (head) => classify(head, { bytes: 0 }, config.classify),
    targetOf: (job) => targetFor(job, config.classify.modelAliases),
    owner,
    link,
    settings: config.relay,
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
        finish: (ending) => sinks.add(observer.finish(ending)),
      };
    },
    unreachable: (backend, fault) => createWitness(fleet, backend).faulted(fault),
    closing: () => (stopping ? shuttingDown() : undefined),
  });
  const dataApp = createDataApp({
    notReady: () => (stopping ? 'shutting down' : readiness(fleet.snapshot())),
    cors: config.http.cors,
  });
  const adminApp = createAdminApp({
    running,
    fleet: () => fleet.snapshot(),
    load: (backend) => owner.load(backend),
    waiting: () => owner.waiting(),
    records: () => records.list(),
    pages: accounting.pages,
    status: () => ({ uptimeSeconds: Math.round(process.uptime()), rssBytes: process.memoryUsage.rss() }),
    nowMs: () => clock.nowMs(),
    listeningOn: () => ({ host: config.http.admin.host, address: admin.host }),
  });
  const listening = {
    requestHeadMs: config.http.requestHeadMs,
    requestMs: config.http.requestMs,
    halfClose: config.http.clientHalfClose,
  };
  const data = await openListener(dataApp, {
    ...listening,
    listen: config.http.listen,
    ...(config.http.tls === undefined ? {} : { tls: config.http.tls }),
    take: front,
    upgrade: (incoming, socket, first) =>
      tunnels.open(clientHead(incoming, { clock, makeId: randomUUID }), socket, first),
  });
  let admin: Listener;
  try {
    admin = await openListener(adminApp, { ...listening, listen: config.http.admin });
  } catch (error) {
    data.destroy();
    await data.close();
    throw error;
  }
  await fleet.start();

  const kill = () => {
    // While their clients can still be told, and each gets its record.
    pipeline.endAll(shuttingDown('second_signal'));
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
    running,
    kill,
    async stop() {
      stopping = true;
      pipeline.drain(shuttingDown());
      const closed = data.close();
      const deadline = clock.timer(config.http.drainMs, () => {
        owner.close(shuttingDown());
        pipeline.endAll(shuttingDown());
        tunnels.close();
      });
      await Promise.all([pipeline.idle(), tunnels.idle()]);
      deadline.cancel();
      data.closeIdle();
      await within(closed, lastBytesMs);
      kill();
      await Promise.all([closed, admin.close(), accounting.stop(), tracing?.stop()]);
    },
  };
}

/** Loaded only where repeated requests are looked for. */
async function fingerprint(): Promise<Fingerprint> {
  const [{ createFingerprint }, { loadXxhash }] = await Promise.all([
    import('./platform/fingerprint.ts'),
    import('./platform/xxhash.ts'),
  ]);
  return createFingerprint(await loadXxhash());
}

/** Loaded only when it is chosen: it is the larger part of what a start would load. */
async function undiciClient(): Promise<UpstreamClient> {
  const { createUndiciClient } = await import('./platform/upstream/undici-client.ts');
  return createUndiciClient();
}

/** After the last stream's end its last bytes still have to reach a client that reads slowly. */
const lastBytesMs = 1000;

/** Resolves with the promise, or after so long; leaves no timer behind that would keep the process alive. */
function within(done: Promise<unknown>, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    void done.then(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Routing's pure choice, with the alias resolved. */
function chooser(config: Config, snapshot: () => FleetSnapshot) {
  const { modelAliases } = config.classify;
  return (
    ask: { readonly job: Job; readonly exclude: readonly string[]; readonly affinity?: string },
    load: (backend: string) => { readonly jobs: number; readonly slots: number; readonly lastUsed: number },
  ) => {
    const { model } = ask.job;
    const known = model === undefined ? undefined : Object.hasOwn(modelAliases, model) ? modelAliases[model] : model;
    const { job, exclude, affinity } = ask;
    return route({ job, exclude, fleet: snapshot(), load, model: known, affinity });
  };
}

function readiness(snapshot: FleetSnapshot): string | undefined {
  if (snapshot.backends.length === 0) return 'no backend is configured';
  const usable = snapshot.backends.some(({ health }) => health === 'up' || health === 'unknown');
  return usable ? undefined : 'no backend takes work';
}

/** Which relays work on which backend, so that a refusing port shortens their patience (R04, R07). */
function createRelayRegistry(fleet: Fleet) {
  const byBackend = new Map<string, Bag<Relay>>();
  fleet.onRefused((backend) => {
    byBackend.get(backend)?.forEach((relay) => relay.backendRefuses());
  });
  return {
    add(backend: string, relay: Relay): () => void {
      const relays = byBackend.get(backend) ?? new Bag();
      byBackend.set(backend, relays);
      const place = relays.add(relay);
      return () => relays.remove(place);
    },
  };
}
