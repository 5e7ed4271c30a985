/**
 * Hit accounting as one part: notes on each record why its prompt's tokens were missed, books it, and gives the page, the
 * findings and the totals that metrics read. Holds no timers; the caller says when. What it is told of backends and engines
 * it is handed.
 */
import type { Assessment } from '../../domain/assessment.ts';
import type { BackendView } from '../../domain/fleet.ts';
import type { Job } from '../../domain/job.ts';
import { isReplayed, isWarmUp, type RequestRecord } from '../../domain/record.ts';
import type { WarmState } from '../../domain/warm-state.ts';
import type { EngineSeries } from '../engines/engine-series.ts';
import type { FindingName, Observation } from '../findings/finding.ts';
import { windowLengths } from '../window-lengths.ts';
import { type AnswerHit, hitOf } from './answer-hit.ts';
import { type CacheQuery, cachePage } from './cache-page.ts';
import { createDivergenceTable } from './divergence-table.ts';
import { engineHits, hitsOf } from './engine-hits.ts';
import { findInHits } from './hit-findings.ts';
import { createHitWindows, type HitReading, type HitWindow, joined } from './hit-windows.ts';
import type { HitSums } from './hit-sums.ts';
import { createKnownText } from './known-text.ts';
import { missesOf } from './miss-causes.ts';

export interface HitAccountDeps {
  readonly startMs: number;
  /** A model's label: bounded. */
  readonly modelLabel: (model: string | undefined) => string;
  readonly backends: () => readonly BackendView[];
  /** What a backend's engine told of itself. */
  readonly engine: (backend: string) => EngineSeries | undefined;
  /** Of the warm index; absent where nothing is routed by it. */
  readonly warm?: (() => WarmState) | undefined;
}

export interface HitAccount {
  /** Why prompt tokens were missed, and where a prompt changes before known text; undefined where neither is known. */
  assess(record: RequestRecord, job: Job | undefined): Assessment | undefined;
  /** A finished request, assessed. */
  add(record: RequestRecord, nowMs: number): void;
  page(query: CacheQuery, nowMs: () => number): object;
  find(nowMs: number, holds: (finding: FindingName, backend: string) => boolean): readonly Observation[];
  /** Since the start, by backend and model. */
  totals(): readonly HitReading[];
  /** Of the last five minutes, by backend. */
  recent(nowMs: number): readonly { readonly backend: string; readonly sums: HitSums }[];
}

/** Each takes about ten kilobytes. */
const maxPopulations = 256;
const maxDivergences = 200;

export function createHitAccount(deps: HitAccountDeps): HitAccount {
  const windows = createHitWindows({ maxPopulations }, deps.startMs);
  const known = createKnownText();
  const divergences = createDivergenceTable({ maxRows: maxDivergences });
  const blockTokens = (backend: string | undefined) =>
    deps.backends().find(({ name }) => name === backend)?.blockTokens;

  function engine(backend: string, window: HitWindow, nowMs: number) {
    const series = deps.engine(backend);
    if (series === undefined) return undefined;
    if (window !== 'start') return engineHits(series.points(), nowMs, windowLengths[window]);
    const since = hitsOf(series.totals());
    return Object.keys(since).length === 0 ? undefined : since;
  }

  function recent(nowMs: number) {
    const readings = windows.read('5m', {}, nowMs);
    return [...new Set(readings.map(({ backend }) => backend))].map((backend) => ({
      backend,
      sums: joined(readings.filter((reading) => reading.backend === backend).map(({ sums }) => sums)),
    }));
  }

  return {
    assess(record, job) {
      const { routing, backend } = record;
      if (routing === undefined) return undefined;
      const assessment: { -readonly [key in keyof Assessment]: Assessment[key] } = {};
      if (job?.prefix !== undefined) {
        const unstableAt = known.unstableAt(job.prefix, routing);
        known.learn(job.prefix);
        if (unstableAt !== undefined) assessment.unstableAt = unstableAt;
      }
      const hit = hitOf(record);
      if (hit?.kind === 'told') assessment.missed = missesOf(hit, routing, Math.max(1, blockTokens(backend) ?? 1));
      return assessment;
    },
    add(record, nowMs) {
      if (isReplayed(record) || isWarmUp(record)) return;
      const model = deps.modelLabel(record.model ?? record.responseModel);
      divergences.add(record, model, nowMs);
      const hit = hitOf(record);
      if (hit === undefined || record.backend === undefined) return;
      const missed = record.assessment?.missed ?? [];
      const notes = { missed, tooShort: hit.kind === 'told' && isTooShort(hit, record) };
      windows.add({ backend: record.backend, model }, hit, { notes, nowMs });
    },
    page: (query, nowMs) =>
      cachePage(query, {
        read: (window, wanted) => windows.read(window, wanted, nowMs()),
        coveredMs: (window) => windows.coveredMs(window, nowMs()),
        backends: () => deps.backends().map(({ name }) => name),
        engine: (backend, window) => engine(backend, window, nowMs()),
        divergences,
        warm: deps.warm,
        nowMs,
      }),
    find: (nowMs, holds) =>
      findInHits({
        nowMs,
        readings: windows.read('5m', {}, nowMs),
        sinceMs: windows.coveredMs('start', nowMs),
        divergences: divergences.rows(),
        blockTokens,
        holds,
      }),
    totals: () => windows.read('start', {}, 0),
    recent,
  };
}

/** Nothing came and nothing could: what it shares with earlier prompts fills no block. */
function isTooShort(
  { deliveredTokens, reusableTokens }: AnswerHit & { kind: 'told' },
  { routing }: RequestRecord,
): boolean {
  return routing?.cause === 'unaligned' && deliveredTokens === 0 && reusableTokens === 0;
}
