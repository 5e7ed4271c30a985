/**
 * What is known of all backends: the one place where probes and the traffic's own signs come together, and the one form,
 * an immutable snapshot, in which the rest of the program sees it. Chooses nothing and sends no request of a client.
 * Backends come and go by `set`; each has a watch of its own, which ends with it, so that nothing that an old one's
 * requests still show is taken for a sign of its successor.
 */
import type { EngineScrape } from '../domain/engine-reading.ts';
import type { FleetSnapshot } from '../domain/fleet.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { createBackendWatch, type AnswerShape, type BackendWatch, type OwnLoad } from './backend-watch.ts';
import type { FleetSignal } from './health.ts';
import type { ProbeFetchFactory } from './probe-port.ts';
import type { BackendSettings, FleetSettings } from './settings.ts';

export interface FleetDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly probeFetch: ProbeFetchFactory;
  /** Permits that are out on a backend; asked at each round, never kept. */
  readonly ownLoad: (backend: string) => OwnLoad;
  /** 0 up to 1; the machine's own unless given. */
  readonly random?: () => number;
}

/** One backend for as long as it is in the fleet: what it is told afterwards is ignored. */
export type Member = Pick<
  BackendWatch,
  'report' | 'tried' | 'noteAnswer' | 'watchQuiet' | 'holdProbes' | 'ghost' | 'aborted'
>;

/** A backend that isn't (or no longer) in the fleet is ignored by every call that names one. */
export interface Fleet {
  /** Probes all at once; resolves when each was heard or gave up, within `probeTimeoutMs`. Then the rounds go on. */
  start(): Promise<void>;
  stop(): void;
  /**
   * From now on these and no others, in one change. By name: one whose server stays the same (URL, engine, key, TLS) is
   * watched on and takes its other settings; any other one begins anew. What is gone takes no new work; its running
   * requests are nobody's business here. @param backends names are unique
   */
  set(backends: readonly BackendSettings[]): void;
  /** The same object until something changes. */
  snapshot(): FleetSnapshot;
  /** The one that has this name now. */
  member(backend: string): Member | undefined;
  /** Tells what a request showed of its backend. */
  report(backend: string, signal: FleetSignal): void;
  /** Tells whether a finished answer of a generating route gave usage and cached tokens. */
  noteAnswer(backend: string, shape: AnswerShape): void;
  /** @returns ends the subscription */
  onChange(listener: (snapshot: FleetSnapshot) => void): () => void;
  /**
   * The backend's port refuses connections: streams from there will hardly go on (R04, R07). Called once when it begins,
   * and again at each refusal while `watchQuiet` is on.
   */
  onRefused(listener: (backend: string) => void): () => void;
  /** An engine's own metrics, as often as they are read; or once why there are none. @returns ends the subscription */
  onEngineScrape(listener: (backend: string, scrape: EngineScrape) => void): () => void;
  /** A stream there has been silent for a second: ask about once a second, until the returned function is called. */
  watchQuiet(backend: string): () => void;
  /** An abort is pending there: a round that falls due waits for the returned function to be called, ten seconds at most (R13). */
  holdProbes(backend: string): () => void;
  /** An aborted request may still hold `slots` there (R10). Counts on llama-server only: vLLM frees them in 0.25 s. */
  ghost(backend: string, slots: number): void;
  /** Whether ending a request there frees its place; undefined: nobody knows. */
  abortsWork(backend: string): boolean | undefined;
  /** How often each backend was ejected. */
  ejections(): Iterable<readonly [backend: string, count: number]>;
}

interface Watched {
  readonly watch: BackendWatch;
  /** Equal keys are one and the same server, asked in the same way. */
  readonly key: string;
}

export function createFleet(settings: FleetSettings, deps: FleetDeps): Fleet {
  const { clock, log, random = Math.random } = deps;
  let watches = new Map<string, Watched>();
  const changeListeners = new Set<(snapshot: FleetSnapshot) => void>();
  const refusedListeners = new Set<(backend: string) => void>();
  const scrapeListeners = new Set<(backend: string, scrape: EngineScrape) => void>();
  let phase: 'waiting' | 'running' | 'stopped' = 'waiting';
  /** Changes are told when the whole of them is made. */
  let changing = false;
  let cached: FleetSnapshot | undefined;

  function snapshot(): FleetSnapshot {
    cached ??= Object.freeze({
      atMs: clock.nowMs(),
      backends: Object.freeze([...watches.values()].map(({ watch }) => watch.view())),
    });
    return cached;
  }

  function changed(): void {
    cached = undefined;
    if (changing) return;
    for (const listener of changeListeners) listener(snapshot());
  }

  function watchOver(backend: BackendSettings): BackendWatch {
    const { name } = backend;
    return createBackendWatch(backend, settings, {
      clock,
      log,
      fetch: deps.probeFetch(backend),
      ownLoad: () => deps.ownLoad(name),
      late: phase === 'running',
      random,
      changed,
      refused() {
        for (const listener of refusedListeners) listener(name);
      },
      scraped(scrape) {
        for (const listener of scrapeListeners) listener(name, scrape);
      },
    });
  }

  function set(backends: readonly BackendSettings[]): void {
    changing = true;
    const next = new Map<string, Watched>();
    const begun: BackendWatch[] = [];
    for (const backend of backends) {
      const key = keyOf(backend);
      const known = watches.get(backend.name);
      if (known?.key === key) {
        known.watch.configure(backend);
        next.set(backend.name, known);
        continue;
      }
      const watch = watchOver(backend);
      next.set(backend.name, { watch, key });
      begun.push(watch);
    }
    for (const [name, { watch }] of watches) if (next.get(name)?.watch !== watch) watch.stop();
    watches = next;
    changing = false;
    changed();
    if (phase === 'running') for (const watch of begun) void watch.start();
  }

  set(settings.backends);
  const watchOf = (backend: string) => watches.get(backend)?.watch;

  return {
    async start() {
      phase = 'running';
      await Promise.all([...watches.values()].map(({ watch }) => watch.start()));
    },
    stop() {
      phase = 'stopped';
      for (const { watch } of watches.values()) watch.stop();
    },
    set(backends) {
      if (phase !== 'stopped') set(backends);
    },
    snapshot,
    member: watchOf,
    report: (backend, signal) => watchOf(backend)?.report(signal),
    noteAnswer: (backend, shape) => watchOf(backend)?.noteAnswer(shape),
    onChange: (listener) => subscribe(changeListeners, listener),
    onRefused: (listener) => subscribe(refusedListeners, listener),
    onEngineScrape: (listener) => subscribe(scrapeListeners, listener),
    watchQuiet: (backend) => watchOf(backend)?.watchQuiet() ?? nothing,
    holdProbes: (backend) => watchOf(backend)?.holdProbes() ?? nothing,
    ghost: (backend, slots) => watchOf(backend)?.ghost(slots),
    abortsWork: (backend) => watchOf(backend)?.abortsWork(),
    *ejections() {
      for (const [name, { watch }] of watches) yield [name, watch.ejections()];
    },
  };
}

/** What makes it another server, or asks the same one in another way. */
function keyOf({ url, engine, apiKey, tls }: BackendSettings): string {
  return JSON.stringify([url, engine, apiKey, tls?.verify, tls?.serverName, tls?.ca]);
}

function nothing(): void {}

function subscribe<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
