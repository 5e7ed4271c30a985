/**
 * Engines' own figures and findings as one part: takes readings and records in, looks at what they say once a second while
 * there is anything to look at, logs what begins and ends, and fills two admin pages. Knows of the fleet and of the
 * requests under way only what it is handed.
 */
import type { EngineCounter, EngineReading, EngineScrape } from '../../domain/engine-reading.ts';
import type { BackendView } from '../../domain/fleet.ts';
import type { RequestRecord } from '../../domain/record.ts';
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { sliceMs } from '../../platform/turns.ts';
import type { EngineSeries } from '../engines/engine-series.ts';
import { enginesPage, type EngineRow } from '../engines/engines-page.ts';
import type { FindingName, Observation } from './finding.ts';
import { createFindingLog } from './finding-log.ts';
import { createFindingWatch, type BackendNow } from './finding-watch.ts';
import { findingsPage } from './findings-page.ts';

const lookMs = 1000;

/** A request under way. */
export interface OwnRequest {
  readonly backend?: string;
  readonly ageMs: number;
}

export interface EngineAccountDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly backends: () => readonly BackendView[];
  readonly running: () => readonly OwnRequest[];
  /** Engine places that own requests hold there. */
  readonly ownSlots: (backend: string) => number;
  /** Findings of another part, asked for with each look. */
  readonly more?: {
    readonly names: readonly FindingName[];
    find(nowMs: number, holds: (finding: FindingName, backend: string) => boolean): readonly Observation[];
  };
}

export interface EngineAccount {
  scraped(backend: string, scrape: EngineScrape): void;
  add(record: RequestRecord): void;
  engines(): Iterable<{
    readonly backend: string;
    readonly engine: string;
    readonly latest: EngineReading;
    readonly totals: { readonly [Counter in EngineCounter]?: number };
  }>;
  findings(): Iterable<{
    readonly finding: string;
    readonly backend: string;
    readonly active: boolean;
    readonly count: number;
  }>;
  /** Each backend is read when it is asked for. */
  enginesPage(withPoints: boolean): { readonly engines: Iterable<object> };
  findingsPage(): object;
  /** What a backend's engine told in the last hour; undefined: nothing is known of it. */
  series(backend: string): EngineSeries | undefined;
  stop(): void;
}

export function createEngineAccount(deps: EngineAccountDeps): EngineAccount {
  const { clock, log } = deps;
  const watch = createFindingWatch(clock.nowMs());
  const tell = createFindingLog(log);
  let timer: Timer | undefined;
  let failed = false;

  function arm(): void {
    timer ??= clock.timer(lookMs, look);
  }

  function look(): void {
    timer = undefined;
    try {
      const nowMs = clock.nowMs();
      const mayGoOn = () => clock.nowMs() - nowMs < sliceMs;
      for (const event of watch.look(nowMs, nowOf(nowMs), mayGoOn)) tell(event, nowMs);
      if (!watch.midway()) noteMore(nowMs);
    } catch (error) {
      // A bug here must not end the looking, nor fill the log.
      if (!failed) log.error('looking for findings failed', { error: String(error) });
      failed = true;
    }
    // The streams come first; the other backends' turn is right behind.
    if (watch.midway()) timer = clock.timer(0, look);
    else if (watch.pending()) arm();
  }

  function noteMore(nowMs: number): void {
    if (deps.more === undefined) return;
    const { names, find } = deps.more;
    for (const event of watch.note(names, find(nowMs, watch.ledger.holds), nowMs)) tell(event, nowMs);
  }

  /** What is known of each backend now; the requests under way are asked for once, and only if any backend is looked at. */
  function nowOf(nowMs: number): (backend: string) => BackendNow | undefined {
    let oldest: Map<string, number> | undefined;
    return (backend) => {
      const view = deps.backends().find(({ name }) => name === backend);
      if (view === undefined) return undefined;
      oldest ??= oldestOwn(deps.running(), nowMs);
      const { engine, slots, contextTokens } = view;
      return {
        facts: {
          engine,
          ...(slots === undefined ? {} : { slots }),
          ...(contextTokens === undefined ? {} : { contextTokens }),
        },
        oldestOwnMs: oldest.get(backend) ?? Infinity,
      };
    };
  }

  /** Each as it is when it is asked for. */
  function* rows(): Generator<EngineRow, void> {
    for (const { name, engine } of deps.backends()) {
      const watched = [...watch.backends()].find(({ backend }) => backend === name);
      const { series, traffic, noReading, failing } = watched ?? {};
      yield { backend: name, engine, series, traffic, noReading, failing, ownRunning: deps.ownSlots(name) };
    }
  }

  const engineOf = (backend: string) => deps.backends().find(({ name }) => name === backend)?.engine ?? 'openai';
  return {
    scraped(backend, scrape) {
      watch.scraped(backend, scrape, deps.ownSlots(backend));
      arm();
    },
    add(record) {
      watch.finished(record, clock.nowMs());
      arm();
    },
    *engines() {
      for (const { backend, latest, series } of watch.backends())
        if (latest !== undefined) yield { backend, engine: engineOf(backend), latest, totals: series.totals() };
    },
    *findings() {
      const { ledger } = watch;
      for (const { finding, backend, count } of ledger.counts())
        yield { finding, backend, count, active: ledger.holds(finding, backend) };
    },
    enginesPage(withPoints) {
      return enginesPage(rows(), () => clock.nowMs(), withPoints);
    },
    findingsPage: () => findingsPage(watch.ledger, { nowMs: clock.nowMs(), wallMs: clock.wallMs() }),
    series: watch.series,
    stop() {
      timer?.cancel();
      timer = undefined;
    },
  };
}

function oldestOwn(running: readonly OwnRequest[], nowMs: number): Map<string, number> {
  const oldest = new Map<string, number>();
  for (const { backend, ageMs } of running) {
    if (backend === undefined) continue;
    oldest.set(backend, Math.min(nowMs - ageMs, oldest.get(backend) ?? Infinity));
  }
  return oldest;
}
