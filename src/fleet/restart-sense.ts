/**
 * Tells when a backend's process is another one than before, from whatever sign comes first: its port refused and answers
 * again, it loads anew, its metrics give another start time, its counters fell, its build or its sizes are others.
 * Each restart counts once: with the first sign all that was known of the old process is forgotten, so that the later
 * signs have nothing to differ from. Keeps no clock.
 *
 * llama-server's `Process-Start-Time-Unix` is no Unix time and changes while it runs, so it is no sign.
 */
import type { EngineCounter, EngineReading } from '../domain/engine-reading.ts';
import type { BackendFacts } from './facts.ts';

/** All of these return true when they show a restart that hasn't been counted. */
export interface RestartSense {
  readonly restarts: number;
  /** It takes work. */
  up(nowMs: number): boolean;
  /** Its model loads. */
  loading(nowMs: number): boolean;
  read(reading: EngineReading, nowMs: number): boolean;
  facts(facts: BackendFacts, nowMs: number): boolean;
  /** Its port refuses: the process is gone. Counted when it is back. */
  gone(): void;
}

/** A sign that comes so soon after a restart is a late one of the same. */
const sameMs = 3000;

/** Counted one by one, so they never fall while the process lives. */
const counting: readonly EngineCounter[] = [
  'promptTokens',
  'cachedTokens',
  'generatedTokens',
  'prefixQueries',
  'prefixHits',
  'preemptions',
  'finished.stop',
  'finished.length',
  'ttftCount',
];

export function createRestartSense(): RestartSense {
  let restarts = 0;
  let countedMs = -Infinity;
  let served = false;
  let isGone = false;
  let latest: EngineReading | undefined;
  let known: BackendFacts | undefined;

  function another(nowMs: number): boolean {
    isGone = false;
    latest = undefined;
    known = undefined;
    if (nowMs - countedMs < sameMs) return false;
    countedMs = nowMs;
    restarts += 1;
    return true;
  }

  return {
    get restarts() {
      return restarts;
    },
    up(nowMs) {
      const again = served && isGone;
      served = true;
      isGone = false;
      return again && another(nowMs);
    },
    loading(nowMs) {
      const again = served;
      // What follows is the same start: it counts now, or never.
      served = false;
      return again && another(nowMs);
    },
    read(reading, nowMs) {
      const before = latest;
      latest = reading;
      if (before === undefined || !differs(before, reading)) return false;
      const isNew = another(nowMs);
      latest = reading;
      return isNew;
    },
    facts(facts, nowMs) {
      const before = known;
      known = facts;
      if (before === undefined || !isOther(before, facts)) return false;
      const isNew = another(nowMs);
      known = facts;
      return isNew;
    },
    gone() {
      isGone = true;
      latest = undefined;
      known = undefined;
    },
  };
}

function differs(before: EngineReading, after: EngineReading): boolean {
  const [from, to] = [before.startedSeconds, after.startedSeconds];
  if (from !== undefined && to !== undefined && Math.abs(to - from) > 1) return true;
  return counting.some((counter) => (after.counters[counter] ?? Infinity) < (before.counters[counter] ?? 0));
}

/** Models come and go on a running engine (LoRA); its build and the sizes of its cache don't. */
function isOther(before: BackendFacts, after: BackendFacts): boolean {
  if (!before.engineKnown || !after.engineKnown) return false;
  if (before.engine !== after.engine || changed(before.version, after.version)) return true;
  if (before.router || after.router) return false;
  const cache = changed(before.kvTokens, after.kvTokens) || changed(before.blockTokens, after.blockTokens);
  if (after.engine !== 'llama-server') return cache;
  return (
    cache ||
    changed(before.slots, after.slots) ||
    changed(before.contextTokens, after.contextTokens) ||
    changed(before.modelSize?.weightBytes, after.modelSize?.weightBytes)
  );
}

function changed<T>(before: T | undefined, after: T | undefined): boolean {
  return before !== undefined && after !== undefined && before !== after;
}
