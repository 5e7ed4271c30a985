/**
 * The whole account of a log: every part of it fed from one pass over the rows, in memory that doesn't grow with their
 * number. Pure; who reads the log and who prints the account is the caller's business.
 */
import type { LogLine } from '../../platform/log-line.ts';
import { compare, type Comparison } from './compare.ts';
import { type ConcurrencyResult, createConcurrency } from './concurrency.ts';
import { createFindingLines, type FindingResult, isFinding } from './finding-lines.ts';
import { createHeadline, type Headline, type HeadlineResult, isOfUsers } from './headline.ts';
import { createPrefixCacheAccount, type PrefixCacheResult } from './prefix-cache.ts';
import type { Row } from './row.ts';
import { createSlices } from './slices.ts';
import { createSloSums, type SloResult, type UsefulResult } from './slo-sums.ts';
import { createStalls, type StallResult } from './stalls.ts';

export interface ReportSettings {
  /** Only what started within. ms since the epoch; `until` is not within. */
  readonly sinceMs?: number;
  readonly untilMs?: number;
  readonly model?: string;
  readonly backend?: string;
  readonly lane?: string;
  /** Requests named in each list of the slowest and of those that caused stalls. */
  readonly most: number;
}

/** Which of the two windows of a comparison a row belongs to. */
export type WindowSide = 'before' | 'after';

export interface Report {
  add(row: Row, side?: WindowSide): void;
  /** Any line that is no request's. @returns whether it was a finding */
  addLine(line: LogLine): boolean;
  /** @returns the account; nothing may be added after it */
  result(): ReportResult;
}

export interface ReportResult extends HeadlineResult {
  readonly window: ReportWindow;
  /** `leftOut`: rows that `--since`, `--model` … left out */
  readonly requests: HeadlineResult['requests'] & { readonly leftOut: number };
  /** Where both lanes occur: online first. Absent: all is of one. */
  readonly lanes?: readonly LaneResult[];
  readonly prefixCache: PrefixCacheResult;
  readonly slo: readonly SloResult[];
  readonly useful: UsefulResult;
  readonly concurrency: readonly ConcurrencyResult[];
  readonly stalls: StallResult;
  readonly findings: readonly FindingResult[];
  readonly comparison?: Comparison;
}

export interface LaneResult extends HeadlineResult {
  readonly lane: string;
}

export interface ReportWindow {
  /** first start and last end of what is counted; absent without requests */
  readonly from?: string;
  readonly to?: string;
  readonly seconds: number;
}

export function createReport(settings: ReportSettings): Report {
  const all = createHeadline(settings.most);
  const byLane = new Map<string, Headline>(
    (settings.lane === undefined ? lanesInOrder : []).map((lane) => [lane, createHeadline(settings.most)]),
  );
  const prefixCache = createPrefixCacheAccount();
  const slo = createSloSums();
  const concurrency = createConcurrency();
  const stalls = createStalls();
  const findings = createFindingLines();
  const windows = { before: createSlices(), after: createSlices() };
  const counts = { total: 0, leftOut: 0, compared: false };
  let fromMs = Number.POSITIVE_INFINITY;
  let toMs = Number.NEGATIVE_INFINITY;

  function count(row: Row): void {
    counts.total += 1;
    fromMs = Math.min(fromMs, row.startedAtMs);
    toMs = Math.max(toMs, row.startedAtMs + (row.bodyMs ?? 0) + row.durationMs);
    all.add(row);
    byLane.get(row.lane)?.add(row);
  }

  function lanes(seconds: number): readonly LaneResult[] {
    const results = [...byLane].map(([lane, headline]) => ({ lane, ...headline.result(seconds) }));
    const there = results.filter(({ requests }) => requests.total > 0);
    return there.length > 1 ? there : [];
  }

  return {
    add(row, side) {
      const inTime = isInTime(settings, row);
      const shown = inTime && isMeant(settings, row);
      // What else ran on a backend is part of its load, whoever's it was.
      if (inTime) concurrency.add(row, shown);
      if (!shown) {
        counts.leftOut += 1;
        return;
      }
      count(row);
      if (!isOfUsers(row)) return;
      prefixCache.add(row);
      slo.add(row);
      stalls.add(row);
      if (side === undefined) return;
      counts.compared = true;
      windows[side].add(row);
    },
    addLine(line) {
      const { sinceMs = line.timeMs, untilMs = Number.POSITIVE_INFINITY } = settings;
      if (isFinding(line) && (line.timeMs < sinceMs || line.timeMs >= untilMs)) return true;
      return findings.add(line);
    },
    result() {
      const seconds = counts.total === 0 ? 0 : Math.max(0, toMs - fromMs) / 1000;
      const { requests, populations, tokens, rates, slowest } = all.result(seconds);
      const apart = lanes(seconds);
      return {
        window: {
          ...(counts.total === 0 ? {} : { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() }),
          seconds,
        },
        requests: {
          total: requests.total,
          ok: requests.ok,
          leftOut: counts.leftOut,
          by: requests.by,
          failures: requests.failures,
        },
        populations,
        ...(apart.length === 0 ? {} : { lanes: apart }),
        tokens,
        prefixCache: prefixCache.result(),
        rates,
        slo: slo.results(),
        useful: slo.useful(),
        concurrency: concurrency.results().filter(({ backend }) => (settings.backend ?? backend) === backend),
        stalls: stalls.result(settings.most),
        findings: findings.results(),
        slowest,
        ...(counts.compared ? { comparison: compare(windows.before, windows.after) } : {}),
      };
    },
  };
}

/** Who waits for an answer comes first. */
const lanesInOrder: readonly string[] = ['online', 'batch'];

function isInTime({ sinceMs, untilMs }: ReportSettings, { startedAtMs }: Row): boolean {
  return (sinceMs === undefined || startedAtMs >= sinceMs) && (untilMs === undefined || startedAtMs < untilMs);
}

function isMeant({ model, backend, lane }: ReportSettings, row: Row): boolean {
  return (
    (model === undefined || row.model === model) &&
    (backend === undefined || row.backend === backend) &&
    (lane === undefined || row.lane === lane)
  );
}
