/**
 * Per backend: keeps what the detectors look at, asks them, and enters what they say in the ledger. Holds no timers and
 * logs nothing; the caller says when and does what follows.
 *
 * A request is looked at only once a reading of its engine's counters covers its end, or after ten seconds: what looks like
 * another's prefill may turn out to be a preemption.
 */
import type { EngineReading, EngineScrape, FailedReading, NoReading } from '../../domain/engine-reading.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { createOwnTraffic, type OwnTraffic } from '../engines/own-traffic.ts';
import { createEngineSeries, type EngineSeries } from '../engines/engine-series.ts';
import { lifeOf } from '../engines/own-life.ts';
import { findBuffering } from './buffering.ts';
import { digestOf, type Digest } from './digest.ts';
import type { BackendFacts, FindingEvent, FindingName, Observation } from './finding.ts';
import { findForeignTraffic } from './foreign-traffic.ts';
import { findKvExhaustion } from './kv-exhaustion.ts';
import { createLedger, type Ledger } from './ledger.ts';
import { findPreemption } from './preemption.ts';
import { findPrefillStall, lacksCause, sayCause, type ToldPrompts, withCauses } from './prefill-stall.ts';
import { findSeveralTokensPerEvent, findSpeculation } from './speculation.ts';
import type { Detector, Seen, Window } from './window.ts';

/** What only the caller knows of a backend now. */
export interface BackendNow {
  readonly facts: BackendFacts;
  /** When the oldest own request that still runs there began; Infinity without any. */
  readonly oldestOwnMs: number;
}

export interface WatchedBackend {
  readonly backend: string;
  readonly series: EngineSeries;
  readonly traffic: OwnTraffic;
  readonly latest: EngineReading | undefined;
  /** Why nothing is read; undefined while it is, or before it was tried. */
  readonly noReading: NoReading | undefined;
  /** The last try came to nothing. */
  readonly failing: FailedReading | undefined;
}

export interface FindingWatch {
  readonly ledger: Ledger;
  /** @param ownRunning engine places that own requests hold now */
  scraped(backend: string, scrape: EngineScrape, ownRunning: number): void;
  finished(record: RequestRecord, nowMs: number): void;
  /**
   * Looks at every backend that something happened on.
   * @param mayGoOn asked behind each backend; where it says no, the next call goes on with the ones that are left
   */
  look(
    nowMs: number,
    backendNow: (backend: string) => BackendNow | undefined,
    mayGoOn?: () => boolean,
  ): readonly FindingEvent[];
  /** What another part sees now of its own findings: those of them that it doesn't name are not seen. */
  note(names: readonly FindingName[], seen: readonly Observation[], nowMs: number): readonly FindingEvent[];
  /** The last look stopped before it was through. */
  midway(): boolean;
  /** There will be something to look at without anything new happening. */
  pending(): boolean;
  backends(): Iterable<WatchedBackend>;
  series(backend: string): EngineSeries | undefined;
}

const maxBackends = 256;
const maxDigests = 512;
const digestsKeptMs = 600_000;
const ripeAfterMs = 10_000;

const detectors: readonly (readonly [FindingName, Detector])[] = [
  ['prefill_stall', findPrefillStall],
  ['kv_exhaustion', findKvExhaustion],
  ['preemption', findPreemption],
  ['speculation', findSpeculation],
  ['several_tokens_per_event', findSeveralTokensPerEvent],
  ['buffering', findBuffering],
  ['foreign_traffic', findForeignTraffic],
];

interface Watched {
  readonly backend: string;
  readonly series: EngineSeries;
  readonly traffic: OwnTraffic;
  digests: Seen[];
  /** Not yet covered by a reading, with the moment of their end's record. */
  unripe: { readonly digest: Digest; readonly atMs: number }[];
  noReading: NoReading | undefined;
  failing: FailedReading | undefined;
  /** Something happened since the last look. */
  dirty: boolean;
}

/** @param beganMs when it begins to see requests */
export function createFindingWatch(beganMs: number): FindingWatch {
  const watched = new Map<string, Watched>();
  /** Not yet seen by the look that is under way. */
  let left: Watched[] = [];
  const ledger = createLedger();

  function at(backend: string): Watched | undefined {
    const found = watched.get(backend);
    if (found !== undefined) return found;
    // Backends come and go: the one that was heard of first makes room.
    for (const oldest of watched.keys()) if (watched.size >= maxBackends) watched.delete(oldest);
    const made: Watched = {
      backend,
      series: createEngineSeries(),
      traffic: createOwnTraffic(beganMs),
      digests: [],
      unripe: [],
      noReading: undefined,
      failing: undefined,
      dirty: false,
    };
    watched.set(backend, made);
    return made;
  }

  function ripen(one: Watched, nowMs: number): void {
    const readUpToMs = one.noReading === undefined ? (one.series.latest()?.atMs ?? -Infinity) : Infinity;
    const isRipe = ({ digest, atMs }: { digest: Digest; atMs: number }) =>
      digest.endMs <= readUpToMs || nowMs - atMs >= ripeAfterMs;
    const ripe = one.unripe.filter(isRipe);
    if (ripe.length > 0) one.unripe = one.unripe.filter((each) => !isRipe(each));
    const kept = one.digests.filter(({ sinceMs }) => sinceMs > nowMs - digestsKeptMs);
    one.digests = [...kept, ...ripe.map(({ digest }) => ({ digest, sinceMs: nowMs }))].slice(-maxDigests);
  }

  /** What was told of prompts whose computing held streams up, whoever of the two ended first. */
  function tellCauses(one: Watched): void {
    const told = toldPrompts(one);
    if (one.digests.some(({ digest }) => lacksCause(digest)))
      one.digests = one.digests.map((seen) => ({ ...seen, digest: withCauses(seen.digest, told) }));
    ledger.amend({ finding: 'prefill_stall', backend: one.backend }, (said) => sayCause(said, told));
  }

  function lookAt(one: Watched, nowMs: number, { facts, oldestOwnMs }: BackendNow): FindingEvent[] {
    tellCauses(one);
    const window: Omit<Window, 'was'> = {
      nowMs,
      facts,
      oldestOwnMs,
      oldestUnseenMs: one.unripe.reduce((oldest, { digest }) => Math.min(oldest, digest.fromMs), Infinity),
      points: one.series.points(),
      digests: one.digests,
    };
    return detectors.flatMap(([finding, detect]) => {
      const sighting = detect({ ...window, was: ledger.holds(finding, one.backend) });
      return ledger.take({ finding, backend: one.backend }, sighting, nowMs) ?? [];
    });
  }

  return {
    ledger,
    scraped(backend, scrape, ownRunning) {
      const one = at(backend);
      if (one === undefined) return;
      one.dirty = true;
      if (scrape.kind === 'failed') {
        one.failing = { why: scrape.why, atMs: scrape.atMs };
        return;
      }
      one.failing = undefined;
      if (scrape.kind === 'none') {
        one.noReading = scrape.why;
        one.series.pause();
        return;
      }
      one.noReading = undefined;
      one.series.read(scrape.reading, ownRunning);
    },
    finished(record, nowMs) {
      const one = record.backend === undefined ? undefined : at(record.backend);
      if (one === undefined) return;
      const life = lifeOf(record);
      if (life !== undefined) {
        one.series.finished(life);
        one.traffic.add(record, life, nowMs);
      }
      const digest = digestOf(record);
      if (digest === undefined) return;
      one.unripe.push({ digest, atMs: nowMs });
      if (one.unripe.length > maxDigests) one.unripe.shift();
    },
    look(nowMs, backendNow, mayGoOn = () => true) {
      const events: FindingEvent[] = [];
      const held = new Set(ledger.active().map(({ backend }) => backend));
      if (left.length === 0) left = [...watched.values()];
      for (let one = left.shift(); one !== undefined; one = mayGoOn() ? left.shift() : undefined) {
        const before = one.unripe.length;
        ripen(one, nowMs);
        if (!one.dirty && one.unripe.length === before && !held.has(one.backend)) continue;
        one.dirty = false;
        const now = backendNow(one.backend) ?? { facts: { engine: 'openai' }, oldestOwnMs: Infinity };
        events.push(...lookAt(one, nowMs, now));
      }
      return events;
    },
    note(names, seen, nowMs) {
      const events = seen.map((one) => ledger.take(one, one.sighting, nowMs));
      for (const { finding, backend } of ledger.active()) {
        if (!names.includes(finding)) continue;
        if (!seen.some((one) => one.finding === finding && one.backend === backend))
          events.push(ledger.take({ finding, backend }, undefined, nowMs));
      }
      return events.filter((event) => event !== undefined);
    },
    midway: () => left.length > 0,
    pending: () =>
      ledger.active().length > 0 || [...watched.values()].some(({ unripe, dirty }) => dirty || unripe.length > 0),
    *backends() {
      for (const { backend, series, traffic, noReading, failing } of watched.values())
        yield { backend, series, traffic, noReading, failing, latest: series.latest() };
    },
    series: (backend) => watched.get(backend)?.series,
  };
}

/** By the requests that are known of a backend; the list is made when it is first asked. */
function toldPrompts({ digests, unripe }: Watched): ToldPrompts {
  let byId: Map<string, number> | undefined;
  return (requestId) => {
    byId ??= new Map(
      [...digests, ...unripe].flatMap(({ digest: { requestId: id, computedTokens } }) =>
        computedTokens === undefined ? [] : [[id, computedTokens] as const],
      ),
    );
    return byId.get(requestId);
  };
}
