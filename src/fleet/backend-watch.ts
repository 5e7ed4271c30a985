/**
 * Looks after one backend: runs its rounds of probes one after another, takes in what traffic shows, and keeps its view.
 * The rules are elsewhere (`health.ts`, `probe-schedule.ts`, `ghosts.ts`); here they are joined to timers and sockets.
 */
import type { EngineScrape } from '../domain/engine-reading.ts';
import type { BackendView } from '../domain/fleet.ts';
import type { Clock, Timer } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { createAbortSense } from './abort-sense.ts';
import { viewOf } from './backend-view.ts';
import { createBreaker } from './breaker.ts';
import { boundedAsk } from './detect.ts';
import { askOnce, createEngineScraper } from './engine-metrics/scraper.ts';
import type { Ask, BackendFacts } from './facts.ts';
import { createGhosts } from './ghosts.ts';
import { initialHealth, nextHealth, type FleetSignal, type HealthEvent, type HealthState } from './health.ts';
import type { ProbeFetch } from './probe-port.ts';
import { runRound, type RoundResult } from './probe-round.ts';
import { nextRoundMs, slotsSettleMs } from './probe-schedule.ts';
import { createRestartSense } from './restart-sense.ts';
import { breakerDefaults, type BackendSettings, type FleetSettings } from './settings.ts';

/** Own permits on a backend: jobs of any kind, and engine slots held by the generating ones. */
export interface OwnLoad {
  readonly jobs: number;
  readonly slots: number;
}

/** Whether an answer gave usage, and whether that said how many tokens came from the cache. */
export interface AnswerShape {
  readonly usage: boolean;
  readonly cached: boolean;
}

/** What holds for all backends alike. */
export type WatchSettings = Omit<FleetSettings, 'backends'>;

export interface WatchDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly fetch: ProbeFetch;
  readonly ownLoad: () => OwnLoad;
  /** The view is another one now. */
  readonly changed: () => void;
  /** The port refuses: told at the first refusal, and at each later one while a stream there is silent. */
  readonly refused: () => void;
  /** The engine's own metrics were read, or it became clear that they can't be. */
  readonly scraped: (scrape: EngineScrape) => void;
  /** It joined a fleet that was at work already: it begins slowly. */
  readonly late: boolean;
  /** 0 up to 1 */
  readonly random: () => number;
}

export interface BackendWatch {
  /** Starts the rounds; resolves after the first one. */
  start(): Promise<void>;
  stop(): void;
  view(): BackendView;
  /** Other settings of the same server. */
  configure(settings: BackendSettings): void;
  report(signal: FleetSignal): void;
  /** An attempt that began at `startedMs` has ended. */
  tried(how: 'good' | 'bad', startedMs: number): void;
  noteAnswer(shape: AnswerShape): void;
  watchQuiet(): () => void;
  holdProbes(): () => void;
  ghost(slots: number): void;
  /** We ended a request that it worked on; what is left of it should show in its own figures soon. */
  aborted(slots: number): void;
  /** Whether ending a request there frees its place; undefined: nobody knows. */
  abortsWork(): boolean | undefined;
  /** How often its breaker has opened. */
  ejections(): number;
}

/** Where `/slots` shows when a ghost is gone this only bounds a mistake; where it doesn't, a CPU's longest batch. */
const ghostMaxMs = 600_000;
const unseenGhostMaxMs = 30_000;
/** So many answers with usage and none with cached tokens: the engine doesn't report them. */
const cachedMissingAnswers = 3;

export function createBackendWatch(first: BackendSettings, fleet: WatchSettings, deps: WatchDeps): BackendWatch {
  const { clock, log } = deps;
  let settings = first;
  const ghosts = createGhosts();
  const scraper = createEngineScraper(fleet);
  const restartSense = createRestartSense();
  const abortSense = createAbortSense();
  const breaker = createBreaker(fleet.breaker ?? breakerDefaults, deps.random);
  const stopping = new AbortController();
  let drainedSinceMs = first.drain === true ? clock.nowMs() : undefined;
  let backSinceMs = deps.late ? clock.nowMs() : undefined;
  let health = initialHealth(clock.nowMs());
  let facts: BackendFacts | undefined;
  let factsMs = -Infinity;
  /** Facts read before this are of another time. */
  let outdatedMs = -Infinity;
  let quiet = 0;
  let holds = 0;
  let doubted = false;
  let threadsFull = false;
  let answersWithoutCached = 0;
  let running = false;
  let lastEndMs = clock.nowMs();
  let roundTimer: Timer | undefined;
  let ghostTimer: Timer | undefined;
  let breakerTimer: Timer | undefined;
  let view = makeView();

  function makeView(): BackendView {
    const evidence = { threadsFull, cachedMissing: answersWithoutCached >= cachedMissingAnswers };
    const { restarts } = restartSense;
    return viewOf(settings, {
      facts,
      health,
      ghostSlots: ghosts.count(),
      evidence,
      breaker,
      drainedSinceMs,
      backSinceMs,
      restarts,
    });
  }

  /** Tells of a change, if what others see did change. */
  function publish(): void {
    if (stopping.signal.aborted) return;
    let next = makeView();
    // One that was there and up from the start has nothing to catch up on.
    if (next.health === 'up' && view.health !== 'up' && (view.health !== 'unknown' || deps.late)) {
      backSinceMs = clock.nowMs();
      next = makeView();
    }
    if (JSON.stringify(next) === JSON.stringify(view)) return;
    view = next;
    deps.changed();
  }

  function arm(): void {
    roundTimer?.cancel();
    if (running || stopping.signal.aborted) return;
    const youngestGhostMs = ghosts.count() > 0 ? ghosts.youngestMs() : undefined;
    const dueMs = nextRoundMs(fleet, {
      lastEndMs,
      health,
      quiet: quiet > 0,
      doubted,
      held: holds > 0,
      youngestGhostMs,
    });
    roundTimer = clock.timer(Math.max(0, dueMs - clock.nowMs()), () => void round());
  }

  /** Never rejects: a bug in one round must not be the end of all rounds. */
  async function round(): Promise<void> {
    running = true;
    doubted = false;
    roundTimer?.cancel();
    try {
      await probe();
    } catch (error) {
      log.error('a round of probes failed', { backend: settings.name, error: errorText(error) });
    } finally {
      running = false;
      lastEndMs = clock.nowMs();
      arm();
    }
  }

  async function probe(): Promise<void> {
    const startedMs = clock.nowMs();
    const busy = isBusy();
    const ask = askOnce(boundedAsk(deps.fetch, clock, { timeoutMs: fleet.probeTimeoutMs, signal: stopping.signal }));
    const result = await runRound(ask, {
      health,
      facts,
      factsAgeMs: outdatedMs >= factsMs ? Infinity : startedMs - factsMs,
      wantsSlots: ghosts.count() > 0 && startedMs >= ghosts.youngestMs() + slotsSettleMs,
      configured: settings.engine,
    });
    if (stopping.signal.aborted) return;
    takeIn(result, { startedMs, busy: busy || isBusy() });
    if (result.outcome.kind === 'ok' && health.health === 'up') await scrape(ask);
  }

  /** Behind what the round is for, and of no weight for health. */
  async function scrape(ask: Ask): Promise<void> {
    const { engine } = view;
    const ownSlots = () => deps.ownLoad().slots;
    const found = await scraper.scrape(ask, { engine, nowMs: clock.nowMs(), held: () => holds > 0, ownSlots });
    if (found === undefined || stopping.signal.aborted) return;
    if (found.kind === 'read' && restartSense.read(found.reading, clock.nowMs())) restarted('metrics');
    // A ghost is a place that is known to be taken.
    if (found.kind === 'read' && ghosts.count() === 0 && abortSense.read(found.reading, ownSlots()))
      tellAborts(abortSense.works(engine));
    deps.scraped(found);
  }

  function tellAborts(work: boolean | undefined): void {
    const backend = settings.name;
    if (work === false) log.warn('requests that are ended go on there: nothing is taken back from batch', { backend });
    else log.info('requests that are ended free their places', { backend });
  }

  function restarted(by: string): void {
    log.warn('backend restarted: what it had cached is gone', { backend: settings.name, by });
    outdatedMs = clock.nowMs();
    publish();
  }

  /** Says what the breaker did, and comes back when its time is over. */
  function breakerMoved(): void {
    breakerTimer?.cancel();
    const { state, openings } = breaker;
    const dueMs = breaker.dueMs();
    const backend = settings.name;
    if (state === 'closed') log.info('backend takes work again', { backend });
    else if (state === 'trial') log.info('backend on trial: one job at a time', { backend });
    if (dueMs !== undefined) {
      const pauseMs = Math.round(dueMs - clock.nowMs());
      log.warn('backend ejected: it failed at its work', { backend, pauseMs, openings });
      armBreaker(dueMs);
    }
    publish();
  }

  /** A system's timer may fire a little before its time. */
  function armBreaker(dueMs: number): void {
    breakerTimer = clock.timer(Math.max(0, dueMs - clock.nowMs()), () => {
      if (breaker.tick(clock.nowMs())) breakerMoved();
      else armBreaker(dueMs);
    });
  }

  /** Something of ours is there, or may still be. */
  function isBusy(): boolean {
    return deps.ownLoad().jobs > 0 || ghosts.count() > 0;
  }

  function takeIn(result: RoundResult, at: { startedMs: number; busy: boolean }): void {
    const { startedMs, busy } = at;
    // One that loads says little of itself: what its predecessor said is the better guess until it is there.
    if (result.facts !== undefined && !(result.outcome.kind === 'loading' && facts?.engine === result.facts.engine)) {
      facts = result.facts;
      factsMs = startedMs;
      if (result.outcome.kind === 'ok' && restartSense.facts(facts, clock.nowMs())) restarted('facts');
    }
    if (result.busySlots !== undefined) ghosts.seen(result.busySlots, deps.ownLoad().slots, startedMs);
    const { outcome } = result;
    const unanswered = outcome.kind === 'failed' && outcome.failure === 'timeout';
    if (unanswered && busy && facts?.engine === 'llama-server') threadsFull = true;
    apply({ kind: 'probe', startedMs, outcome, busy });
  }

  /** Feeds one event to the state machine, and does what follows from the change. */
  function apply(event: HealthEvent): void {
    const before = health;
    if (stopping.signal.aborted) return;
    health = nextHealth(before, event, clock.nowMs());
    if (health.health !== before.health) logChange(before, event);
    if (health.refusing && !before.refusing) forgetProcess();
    if (health.health !== before.health) afterChange(before);
    // Back by the word of traffic: it may be another process, so its facts are read anew.
    const back = health.health === 'up' && before.health !== 'up' && event.kind !== 'probe';
    if (back && before.health !== 'unknown') outdatedMs = clock.nowMs();
    if (health !== before || event.kind === 'probe') publish();
    const refusal =
      (event.kind === 'probe' && event.outcome.kind === 'failed' && event.outcome.failure === 'refused') ||
      (event.kind === 'connectFailed' && event.fault === 'refused');
    if (refusal && (!before.refusing || quiet > 0)) deps.refused();
  }

  function afterChange(before: HealthState): void {
    const nowMs = clock.nowMs();
    if (health.health === 'up' && restartSense.up(nowMs)) restarted('port');
    if (health.health === 'loading' && restartSense.loading(nowMs)) restarted('loading');
    if (health.health === 'down' && before.health === 'up' && breaker.fell(nowMs)) breakerMoved();
  }

  /** What was learned of a process that is gone holds for its successor no more. */
  function forgetProcess(): void {
    restartSense.gone();
    ghosts.clear();
    scraper.forget();
    abortSense.forget();
    threadsFull = false;
    answersWithoutCached = 0;
    armGhosts();
  }

  function logChange(before: HealthState, event: HealthEvent): void {
    const fields = {
      backend: settings.name,
      from: before.health,
      to: health.health,
      reason: health.reason,
      by: event.kind,
    };
    if (health.health === 'up' || health.health === 'loading') log.info('backend health', fields);
    else log.warn('backend health', fields);
  }

  function armGhosts(): void {
    ghostTimer?.cancel();
    const endMs = ghosts.nextEndMs();
    if (endMs === undefined || stopping.signal.aborted) return;
    ghostTimer = clock.timer(endMs - clock.nowMs(), () => {
      ghosts.expire(clock.nowMs());
      publish();
      armGhosts();
    });
  }

  /** Counts up now, down once when the returned function is first called. */
  function counted(add: (delta: number) => void): () => void {
    let open = true;
    add(1);
    return () => {
      if (!open) return;
      open = false;
      add(-1);
    };
  }

  return {
    start: () => (running ? Promise.resolve() : round()),
    stop() {
      stopping.abort();
      roundTimer?.cancel();
      ghostTimer?.cancel();
      breakerTimer?.cancel();
    },
    view: () => view,
    configure(next) {
      settings = next;
      if (next.drain !== true) drainedSinceMs = undefined;
      else drainedSinceMs ??= clock.nowMs();
      publish();
    },
    tried(how, startedMs) {
      if (stopping.signal.aborted) return;
      // It says of itself that it takes no work now: a failure that follows from that is no news.
      if (how === 'bad' && (health.health === 'draining' || health.health === 'loading')) return;
      if (breaker.tried(how, startedMs, clock.nowMs())) breakerMoved();
    },
    ejections: () => breaker.openings,
    report(signal) {
      if (stopping.signal.aborted) return;
      const before = health;
      if (signal.kind === 'changed') outdatedMs = clock.nowMs();
      if (signal.kind === 'answered' && signal.generates) scraper.used();
      if (signal.kind === 'answered' && signal.generates && ghosts.count() > 0) {
        ghosts.answered(signal.sentMs, facts?.slots);
        publish();
      }
      apply(signal);
      // What traffic changed is looked into at once.
      if (health === before && signal.kind !== 'changed') return;
      doubted = true;
      arm();
    },
    noteAnswer(shape) {
      if (!shape.usage || (facts?.engine ?? settings.engine) !== 'vllm') return;
      const before = answersWithoutCached;
      // One answer with them settles it until the server is another.
      answersWithoutCached = shape.cached ? -Infinity : Math.min(before + 1, cachedMissingAnswers);
      if (before !== answersWithoutCached) publish();
    },
    watchQuiet: () =>
      counted((delta) => {
        quiet += delta;
        if (quiet === 0 || (quiet === 1 && delta === 1)) arm();
      }),
    holdProbes: () =>
      counted((delta) => {
        holds += delta;
        if (holds === 0 || (holds === 1 && delta === 1)) arm();
      }),
    aborted(slots) {
      if (!stopping.signal.aborted) abortSense.aborted(slots, clock.nowMs());
    },
    abortsWork: () => abortSense.works(facts?.engine ?? settings.engine ?? 'openai'),
    ghost(slots) {
      if (facts?.engine !== 'llama-server' || stopping.signal.aborted) return;
      ghosts.add(slots, clock.nowMs(), facts.slotsReadable ? ghostMaxMs : unseenGhostMaxMs);
      publish();
      arm();
      armGhosts();
    },
  };
}

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
