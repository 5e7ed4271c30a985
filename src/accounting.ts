/**
 * Composes what is learnt from many requests together: assessments of single ones, metrics, windows, SLOs, ceilings,
 * findings, and the admin pages that show them. Decides nothing itself; `app.ts` starts it and gives it records.
 */
import { type CeilingAccount, createCeilingAccount } from './account/ceiling/ceiling-account.ts';
import { createEngineAccount, type EngineAccount, type OwnRequest } from './account/findings/engine-account.ts';
import { cacheParams, readCacheQuery } from './account/hits/cache-page.ts';
import { explained } from './account/hits/explain.ts';
import { createHitAccount, type HitAccount } from './account/hits/hit-account.ts';
import { hitFindingNames } from './account/hits/hit-findings.ts';
import { readSloQuery, sloParams } from './account/slo/goodput-view.ts';
import { createSloAccount, type JobBounds, type SloAccount } from './account/slo/slo-account.ts';
import { lanesPage } from './account/lanes-page.ts';
import { readWindow, windowMessage } from './account/window-lengths.ts';
import type { Config } from './config/config.ts';
import type { AnswerCacheFigures } from './domain/answer-cache-figures.ts';
import type { BatchFigures } from './domain/batch-figures.ts';
import type { Assessment } from './domain/assessment.ts';
import type { DecodeStarts } from './domain/decoding.ts';
import type { EngineReading, EngineScrape } from './domain/engine-reading.ts';
import type { FleetSnapshot } from './domain/fleet.ts';
import type { Job } from './domain/job.ts';
import { isReplayed, isWarmUp, type RequestRecord } from './domain/record.ts';
import type { WarmState } from './domain/warm-state.ts';
import { registerAnswerCacheMetrics } from './export/metrics/answer-cache-metrics.ts';
import { registerBatchMetrics } from './export/metrics/batch-metrics.ts';
import { countDecision, registerCacheMetrics } from './export/metrics/cache-metrics.ts';
import { registerCeilingMetrics } from './export/metrics/ceiling-metrics.ts';
import { registerEngineMetrics } from './export/metrics/engine-metrics.ts';
import { registerFleetMetrics } from './export/metrics/fleet-metrics.ts';
import { type LaneFigures, registerLaneMetrics } from './export/metrics/lane-metrics.ts';
import type { RunningRequest } from './export/metrics/live-metrics.ts';
import { createMeter } from './export/metrics/meter.ts';
import { registerWarmUpMetrics, type WarmUpStats } from './export/metrics/warm-up-metrics.ts';
import type { RecordSink } from './export/sinks.ts';
import { createTenantMetrics } from './export/metrics/tenant-metrics.ts';
import { registerTraceMetrics, type TracingStats } from './export/trace/trace-metrics.ts';
import type { AdminPage } from './http/admin-page.ts';
import { createMetrics } from './metrics.ts';
import type { Clock } from './platform/clock.ts';
import type { Log } from './platform/log.ts';
import { runInTurns } from './platform/turns.ts';

export interface AccountingDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly fleet: {
    snapshot(): FleetSnapshot;
    /** @returns ends the subscription */
    onChange(listener: (snapshot: FleetSnapshot) => void): () => void;
    onEngineScrape(listener: (backend: string, scrape: EngineScrape) => void): () => void;
    ejections(): Iterable<readonly [backend: string, count: number]>;
  };
  /** Engine places that own requests hold on a backend. */
  readonly ownSlots: (backend: string) => number;
  /** Model by alias; always up to date. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Cards of the backends that are in the fleet now. */
  readonly hardware: () => Config['ceiling']['hardware'];
  readonly reloads: () => { readonly ok: number; readonly failed: number };
  /** Requests under way. */
  readonly running: () => readonly (OwnRequest & RunningRequest)[];
  readonly waiting: () => number;
  readonly lanes: LaneFigures;
  /** Takes in what has ended and was not looked at yet. */
  readonly settle: () => void;
  /** Records that sinks failed on, by the sink's name. */
  readonly lost: () => Iterable<readonly [string, number]>;
  /** For the standard `OTEL_*` variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** warmlane's own */
  readonly version: string;
  /** What became of spans; absent while tracing is off. */
  readonly spans?: (() => TracingStats) | undefined;
  /** What the exact-answer cache tells of itself; absent while there is none. */
  readonly answerCache?: (() => AnswerCacheFigures) | undefined;
  /** What prefill ahead of time tells of itself; absent while there is nothing to warm. */
  readonly warmUp?: (() => WarmUpStats) | undefined;
  /** What the Batch API tells of itself; absent while it is off. */
  readonly batches?: (() => BatchFigures) | undefined;
  /** Kept records, newest first: what `/explain` tells of. Absent: of none. */
  readonly records?: (() => readonly RequestRecord[]) | undefined;
  /** What is believed to be warm. */
  readonly warm?: (() => WarmState) | undefined;
}

export interface Accounting {
  /** Notes on a record what the settings and the other requests say of it. Before any sink sees it. */
  assess(record: RequestRecord, job: Job | undefined): void;
  /** Hears of each stream that begins to decode. */
  readonly decodes: DecodeStarts;
  /** In the order in which they hear of a record. */
  readonly sinks: Readonly<Record<string, RecordSink>>;
  readonly pages: readonly AdminPage[];
  /** What a job's SLO allows, before it is sent. */
  readonly boundsOf: (job: Job, promptTokens: number) => JobBounds;
  /** What a backend's engine said last. */
  readonly engine: (backend: string) => EngineReading | undefined;
  /** A timer came so much late: the event loop was held up. */
  late(ms: number): void;
  /** Stops timers and sends what waits for export, within the flush limit. */
  stop(): Promise<void>;
}

/** Series of one metric; what comes past it is counted under `other`. */
const maxSeries = 2000;

export function createAccounting(deps: AccountingDeps): Accounting {
  const meter = createMeter({ maxSeries });
  const { config, clock } = deps;
  const metrics = createMetrics(config.metrics, {
    ...deps,
    meter,
    secure: config.http.tls !== undefined,
    models: namedModels(config),
  });
  const slo = createSloAccount(config.slo, {
    aliases: deps.aliases,
    startMs: clock.nowMs(),
    modelLabel: metrics.modelLabel,
    count: meter.count,
  });
  meter.gauge('warmlane.slo.target', () =>
    [...slo.targets()].map(({ profile, share }) => ({ labels: { profile }, value: share })),
  );
  registerFleetMetrics({
    meter,
    fleet: () => deps.fleet.snapshot(),
    ejections: () => deps.fleet.ejections(),
    reloads: deps.reloads,
  });
  registerLaneMetrics(meter, deps.lanes);
  if (deps.spans !== undefined) registerTraceMetrics(meter, deps.spans);
  const hits = createHitAccount({
    startMs: clock.nowMs(),
    modelLabel: metrics.modelLabel,
    backends: () => deps.fleet.snapshot().backends,
    engine: (backend) => engines.series(backend),
    warm: deps.warm,
  });
  const engines: EngineAccount = createEngineAccount({
    clock,
    log: deps.log,
    backends: () => deps.fleet.snapshot().backends,
    // What no longer runs is then known to have ended.
    running() {
      deps.settle();
      return deps.running();
    },
    ownSlots: deps.ownSlots,
    more: { names: hitFindingNames, find: hits.find },
  });
  registerCacheMetrics(meter, { totals: hits.totals, recent: () => hits.recent(clock.nowMs()), warm: deps.warm });
  if (deps.answerCache !== undefined) registerAnswerCacheMetrics(meter, deps.answerCache);
  if (deps.warmUp !== undefined) registerWarmUpMetrics(meter, deps.warmUp);
  if (deps.batches !== undefined) registerBatchMetrics(meter, deps.batches);
  deps.fleet.onEngineScrape((backend, scrape) => {
    deps.settle();
    engines.scraped(backend, scrape);
  });
  const ceiling = createCeilingAccount(config.ceiling, {
    beganMs: clock.nowMs(),
    aliases: deps.aliases,
    backends: () => deps.fleet.snapshot().backends,
    engine: engines.series,
    hardware: deps.hardware,
  });
  registerCeilingMetrics(meter, () => ceiling.minute(clock.nowMs()));
  const refresh = refresherOf(ceiling, clock);
  meter.before(async () => deps.settle());
  meter.before(refresh);
  const ceilingWatch = watchCeiling(ceiling, refresh, deps);
  registerEngineMetrics(meter, { engines: engines.engines, findings: engines.findings, nowMs: () => clock.nowMs() });
  return {
    decodes: ceiling.decodes,
    assess(record, job) {
      if (!isOfUsers(record)) return;
      note(record, slo.assess(record, job));
      note(record, hits.assess(record, job));
    },
    sinks: {
      ...metrics.sinks,
      tenants: createTenantMetrics(meter),
      slo: { add: (record) => void (isOfUsers(record) && slo.add(record, clock.nowMs())) },
      hits: {
        add(record) {
          if (!isOfUsers(record)) return;
          countDecision(meter, record);
          hits.add(record, clock.nowMs());
        },
      },
      engines: { add: (record) => void (isReplayed(record) || engines.add(record)) },
      ceiling: { add: (record) => void (isReplayed(record) || ceiling.add(record, clock.nowMs())) },
    },
    pages: [
      ...metrics.pages,
      sloPage(slo, clock),
      lanePage(deps.lanes, clock),
      ...cachePages({ hits, records: deps.records ?? (() => []), nowMs: () => clock.nowMs() }),
      ...enginePages(engines),
      ...ceilingPages(ceiling, clock),
    ],
    late: metrics.late,
    boundsOf: slo.boundsOf,
    engine: (backend) => engines.series(backend)?.latest(),
    stop() {
      deps.settle();
      engines.stop();
      ceilingWatch.stop();
      return metrics.stop();
    },
  };
}

/** It tells how users fare with the engines: neither an earlier answer given again nor warmlane's own work does. */
function isOfUsers(record: RequestRecord): boolean {
  return !isReplayed(record) && !isWarmUp(record);
}

/** Model names that stand in the config: they keep their labels whatever clients ask for. */
function namedModels({ classify, fleet }: Config): string[] {
  const aliases = Object.entries(classify.modelAliases).flat();
  return [...aliases, ...fleet.backends.flatMap(({ models }) => models ?? [])];
}

/** Adds to what is said of a record. */
function note(record: RequestRecord, more: Assessment | undefined): void {
  // Readonly to all who read it later.
  if (more !== undefined) (record as { assessment?: Assessment }).assessment = { ...record.assessment, ...more };
}

const ceilingCheckMs = 60_000;

/** Says of each figure that can't be true once, when it begins. */
function watchCeiling(
  ceiling: CeilingAccount,
  refresh: () => Promise<void>,
  { clock, log }: AccountingDeps,
): { stop(): void } {
  let timer = clock.timer(ceilingCheckMs, () => void check());
  let stopped = false;
  async function check(): Promise<void> {
    try {
      await refresh();
      if (stopped) return;
      for (const { backend, kind, message } of ceiling.newProblems(clock.nowMs()))
        log.warn('ceiling', { backend, problem: kind, message });
    } catch (error) {
      log.error('looking at the ceilings failed', { error: String(error) });
    }
    if (!stopped) timer = clock.timer(ceilingCheckMs, () => void check());
  }
  return {
    stop() {
      stopped = true;
      timer.cancel();
    },
  };
}

/** Reads all backends' ceilings, and lets the streams go on in between; who asks meanwhile waits for the same round. */
function refresherOf(ceiling: CeilingAccount, clock: Clock): () => Promise<void> {
  let round: Promise<void> | undefined;
  return () => {
    round ??= runInTurns(
      ceiling.refresh(() => clock.nowMs()),
      clock,
    ).finally(() => (round = undefined));
    return round;
  };
}

function ceilingPages(ceiling: CeilingAccount, clock: Clock): AdminPage[] {
  return [
    {
      path: '/ceiling',
      about: 'what cards and models allow and how near the traffic comes to it: MFU, MBU, prefill rate, wrong config',
      params: [],
      answer: () => ({ kind: 'long', value: ceiling.ceilingPage(() => clock.nowMs()) }),
    },
    {
      path: '/concurrency',
      about: 'what batching does: streams at once → ITL, TPOT, tokens/s, cost; ?window=1m, 5m or 60m, else 60m',
      params: ['window'],
      answer(query) {
        const window = readWindow(query.get('window') ?? '60m');
        if (window === undefined) return { kind: 'wrong', message: windowMessage, param: 'window' };
        return { kind: 'json', value: ceiling.concurrencyPage(clock.nowMs(), window) };
      },
    },
  ];
}

function enginePages(engines: EngineAccount): AdminPage[] {
  return [
    {
      path: '/engines',
      about: "each engine's own metrics beside warmlane's view of it; ?points=1 for every reading of the last hour",
      params: ['points'],
      answer(query) {
        const points = query.get('points') ?? '0';
        if (points !== '0' && points !== '1')
          return { kind: 'wrong', message: 'points must be 0 or 1', param: 'points' };
        return { kind: 'long', value: engines.enginesPage(points === '1') };
      },
    },
    {
      path: '/findings',
      about: 'what is amiss or worth knowing, with evidence: what holds now, and the last 200 that ended',
      params: [],
      answer: () => ({ kind: 'json', value: engines.findingsPage() }),
    },
  ];
}

/** Does the prefix cache work, and why did one request go where it went. */
function cachePages(of: {
  hits: HitAccount;
  records: () => readonly RequestRecord[];
  nowMs: () => number;
}): AdminPage[] {
  return [
    {
      path: '/cache',
      about:
        'does the prefix cache work: reusable, captured, delivered tokens, and why they were missed; ?window=1m, 5m, 60m or start &backend= &model=',
      params: cacheParams,
      answer(query) {
        const asked = readCacheQuery(query);
        if ('message' in asked) return { kind: 'wrong', ...asked };
        return { kind: 'long', value: of.hits.page(asked, of.nowMs) };
      },
    },
    {
      path: '/explain',
      of: 'request id',
      about: 'why a request went where it went: every backend that was considered, with its cost in seconds',
      params: [],
      answer(_query, requestId) {
        const record = of.records().find((each) => each.requestId === requestId);
        if (record === undefined)
          return {
            kind: 'missing',
            message:
              'No record of this request is kept: it is under way (see /running), came before the last start, or newer ones took its place.',
          };
        return { kind: 'json', value: explained(record) };
      },
    },
  ];
}

function lanePage({ backends, depths }: LaneFigures, clock: Clock): AdminPage {
  return {
    path: '/lanes',
    about:
      'online and batch: who waits, how many batch requests each backend may run and why no more, what was taken back',
    params: [],
    answer: () => ({
      kind: 'json',
      value: lanesPage({ backends: backends(true), depths: depths() }, clock.nowMs()),
    }),
  };
}

function sloPage(slo: SloAccount, clock: Clock): AdminPage {
  return {
    path: '/slo',
    about:
      'objectives and goodput: attainment, what missed and why, useful tokens; ?window=1m, 5m or 60m &warmth=, else all',
    params: sloParams,
    answer(query) {
      const asked = readSloQuery(query);
      if ('message' in asked) return { kind: 'wrong', ...asked };
      return { kind: 'json', value: slo.page(asked, clock.nowMs()) };
    },
  };
}
