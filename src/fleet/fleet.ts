/**
 * What is known of all backends: the one place where probes and the traffic's own signs come together, and the one form,
 * an immutable snapshot, in which the rest of the program sees it. Chooses nothing and sends no request of a client.
 */
import type { EngineScrape } from '../domain/engine-reading.ts';
import type { FleetSnapshot } from '../domain/fleet.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import { createBackendWatch, type AnswerShape, type BackendWatch, type OwnLoad } from './backend-watch.ts';
import type { FleetSignal } from './health.ts';
import type { ProbeFetchFactory } from './probe-port.ts';
import type { FleetSettings } from './settings.ts';

export interface FleetDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly probeFetch: ProbeFetchFactory;
  /** Permits that are out on a backend; asked at each round, never kept. */
  readonly ownLoad: (backend: string) => OwnLoad;
}

/** A backend that isn't (or no longer) in the fleet is ignored by every call that names one. */
export interface Fleet {
  /** Probes all at once; resolves when each was heard or gave up, within `probeTimeoutMs`. Then the rounds go on. */
  start(): Promise<void>;
  stop(): void;
  /** The same object until something changes. */
  snapshot(): FleetSnapshot;
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
}

export function createFleet(settings: FleetSettings, deps: FleetDeps): Fleet {
  const { clock, log } = deps;
  const watches = new Map<string, BackendWatch>();
  const changeListeners = new Set<(snapshot: FleetSnapshot) => void>();
  const refusedListeners = new Set<(backend: string) => void>();
  const scrapeListeners = new Set<(backend: string, scrape: EngineScrape) => void>();
  let cached: FleetSnapshot | undefined;

  function snapshot(): FleetSnapshot {
    cached ??= Object.freeze({
      atMs: clock.nowMs(),
      backends: Object.freeze([...watches.values()].map((watch) => watch.view())),
    });
    return cached;
  }

  for (const backend of settings.backends) {
    const watch = createBackendWatch(backend, settings, {
      clock,
      log,
      fetch: deps.probeFetch(backend),
      ownLoad: () => deps.ownLoad(backend.name),
      changed() {
        cached = undefined;
        for (const listener of changeListeners) listener(snapshot());
      },
      refused() {
        for (const listener of refusedListeners) listener(backend.name);
      },
      scraped(scrape) {
        for (const listener of scrapeListeners) listener(backend.name, scrape);
      },
    });
    watches.set(backend.name, watch);
  }

  return {
    async start() {
      await Promise.all([...watches.values()].map((watch) => watch.start()));
    },
    stop() {
      for (const watch of watches.values()) watch.stop();
    },
    snapshot,
    report: (backend, signal) => watches.get(backend)?.report(signal),
    noteAnswer: (backend, shape) => watches.get(backend)?.noteAnswer(shape),
    onChange: (listener) => subscribe(changeListeners, listener),
    onRefused: (listener) => subscribe(refusedListeners, listener),
    onEngineScrape: (listener) => subscribe(scrapeListeners, listener),
    watchQuiet: (backend) => watches.get(backend)?.watchQuiet() ?? nothing,
    holdProbes: (backend) => watches.get(backend)?.holdProbes() ?? nothing,
    ghost: (backend, slots) => watches.get(backend)?.ghost(slots),
  };
}

function nothing(): void {}

function subscribe<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
