/**
 * The whole account of a log: every part of it fed from one pass over the rows, in memory that doesn't grow with their
 * number. Pure; who reads the log and who prints the account is the caller's business.
 */
import type { LogLine } from '../../platform/log-line.ts';
import { Sketch } from '../../platform/sketch.ts';
import { compare, type Comparison } from './compare.ts';
import { type ConcurrencyResult, createConcurrency } from './concurrency.ts';
import { createFindingLines, type FindingResult, isFinding } from './finding-lines.ts';
import { createPopulations, type PopulationResult } from './populations.ts';
import { createPrefixCacheAccount, type PrefixCacheResult } from './prefix-cache.ts';
import { generates, type Row } from './row.ts';
import { createSlices } from './slices.ts';
import { createSloSums, type SloResult, type UsefulResult } from './slo-sums.ts';
import { createSlowest, type SlowestResult } from './slowest.ts';
import { createStalls, type StallResult } from './stalls.ts';
import { Tally } from './tally.ts';
import { createTokenAccount, type TokenAccountResult } from './tokens.ts';

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

export interface ReportResult {
  readonly window: ReportWindow;
  readonly requests: RequestCounts;
  readonly populations: readonly PopulationResult[];
  readonly tokens: TokenAccountResult;
  readonly prefixCache: PrefixCacheResult;
  readonly rates: RateResult;
  readonly slo: readonly SloResult[];
  readonly useful: UsefulResult;
  readonly concurrency: readonly ConcurrencyResult[];
  readonly stalls: StallResult;
  readonly findings: readonly FindingResult[];
  readonly slowest: SlowestResult;
  readonly comparison?: Comparison;
}

export interface ReportWindow {
  /** first start and last end of what is counted; absent without requests */
  readonly from?: string;
  readonly to?: string;
  readonly seconds: number;
}

const countedNames = [
  'outcome',
  'reason',
  'phase',
  'status',
  'model',
  'backend',
  'engine',
  'lane',
  'endpoint',
  'streamed',
  'warmth',
  'routeReason',
  'routePolicy',
  'finish',
  'marks',
  'tokensFrom',
  'tpotWindow',
] as const;
export type CountedName = (typeof countedNames)[number];

export interface RequestCounts {
  readonly total: number;
  readonly ok: number;
  /** rows that `--since`, `--model` … left out */
  readonly leftOut: number;
  readonly by: Readonly<Record<CountedName, Readonly<Record<string, number>>>>;
  /** `OUTCOME reason` of all that did not end well */
  readonly failures: Readonly<Record<string, number>>;
}

export interface RateResult {
  /** over the whole window, idle time included */
  readonly requestsPerSecond?: number;
  readonly outputTokensPerSecond?: number;
  readonly promptTokensPerSecond?: number;
  /** per request: 1 / TPOT, and output tokens / e2e; spreads of tokens/s */
  readonly decodePerUser?: RateSpread;
  readonly overallPerUser?: RateSpread;
}

/** `p10`: nine of ten had more. */
export interface RateSpread {
  readonly n: number;
  readonly p10: number;
  readonly p50: number;
  readonly p90: number;
  readonly mean: number;
}

export function createReport(settings: ReportSettings): Report {
  const tallies = Object.fromEntries(countedNames.map((name) => [name, new Tally()])) as Record<CountedName, Tally>;
  const failures = new Tally();
  const populations = createPopulations();
  const tokens = createTokenAccount();
  const prefixCache = createPrefixCacheAccount();
  const slo = createSloSums();
  const concurrency = createConcurrency();
  const stalls = createStalls();
  const findings = createFindingLines();
  const slowest = createSlowest(settings.most);
  const speeds = { decode: new Sketch(), overall: new Sketch() };
  const windows = { before: createSlices(), after: createSlices() };
  const counts = { total: 0, ok: 0, leftOut: 0, compared: false };
  let fromMs = Number.POSITIVE_INFINITY;
  let toMs = Number.NEGATIVE_INFINITY;

  function count(row: Row): void {
    counts.total += 1;
    if (row.outcome === 'ok') counts.ok += 1;
    else failures.add(row.reason === undefined ? row.outcome : `${row.outcome} ${row.reason}`);
    for (const name of countedNames) tallyOf(tallies[name], row[name]);
    fromMs = Math.min(fromMs, row.startedAtMs);
    toMs = Math.max(toMs, row.startedAtMs + (row.bodyMs ?? 0) + row.durationMs);
  }

  function speed(row: Row): void {
    if (!generates(row)) return;
    if (row.tpotMs !== undefined && row.tpotMs > 0) speeds.decode.add(1000 / row.tpotMs);
    if (row.e2eMs !== undefined && row.e2eMs > 0 && row.outputTokens !== undefined && row.outputTokens > 0)
      speeds.overall.add((row.outputTokens * 1000) / row.e2eMs);
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
      populations.add(row);
      tokens.add(row);
      prefixCache.add(row);
      slo.add(row);
      stalls.add(row);
      slowest.add(row);
      speed(row);
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
      const sums = tokens.result();
      return {
        window: {
          ...(counts.total === 0 ? {} : { from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() }),
          seconds,
        },
        requests: {
          total: counts.total,
          ok: counts.ok,
          leftOut: counts.leftOut,
          by: Object.fromEntries(countedNames.map((name) => [name, tallies[name].toJson()])) as RequestCounts['by'],
          failures: failures.toJson(),
        },
        populations: populations.results(),
        tokens: sums,
        prefixCache: prefixCache.result(),
        rates: ratesOf(seconds, counts.total, sums, speeds),
        slo: slo.results(),
        useful: slo.useful(),
        concurrency: concurrency.results().filter(({ backend }) => (settings.backend ?? backend) === backend),
        stalls: stalls.result(settings.most),
        findings: findings.results(),
        slowest: slowest.result(),
        ...(counts.compared ? { comparison: compare(windows.before, windows.after) } : {}),
      };
    },
  };
}

function tallyOf(tally: Tally, value: string | number | boolean | readonly string[] | undefined): void {
  if (value === undefined) return;
  if (typeof value === 'object') for (const word of value) tally.add(word);
  else tally.add(String(value));
}

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

/** Neither an earlier answer given again nor warmlane's own work tells how users fare with the engines: only counted. */
function isOfUsers({ warmth, marks }: Row): boolean {
  return warmth !== 'replayed' && !marks.includes('warm_up');
}

function ratesOf(
  seconds: number,
  requests: number,
  { all }: TokenAccountResult,
  speeds: { readonly decode: Sketch; readonly overall: Sketch },
): RateResult {
  const decode = rateSpread(speeds.decode);
  const overall = rateSpread(speeds.overall);
  return {
    ...(seconds === 0
      ? {}
      : {
          requestsPerSecond: requests / seconds,
          outputTokensPerSecond: all.output / seconds,
          promptTokensPerSecond: all.prompt / seconds,
        }),
    ...(decode === undefined ? {} : { decodePerUser: decode }),
    ...(overall === undefined ? {} : { overallPerUser: overall }),
  };
}

function rateSpread(sketch: Sketch): RateSpread | undefined {
  if (sketch.count === 0) return undefined;
  const at = (share: number) => sketch.quantile(share) ?? 0;
  return { n: sketch.count, p10: at(0.1), p50: at(0.5), p90: at(0.9), mean: sketch.sum / sketch.count };
}
