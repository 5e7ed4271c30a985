/**
 * The headline of an account: counts, times by population, tokens, speeds and the slowest. One is made of all requests, and
 * one of each lane: who waits for an answer and who has it computed overnight are not to be averaged. Pure.
 */
import { Sketch } from '../../platform/sketch.ts';
import { createPopulations, type PopulationResult } from './populations.ts';
import { generates, type Row } from './row.ts';
import { createSlowest, type SlowestResult } from './slowest.ts';
import { Tally } from './tally.ts';
import { createTokenAccount, type TokenAccountResult } from './tokens.ts';

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

export interface HeadlineResult {
  readonly requests: RequestCounts;
  readonly populations: readonly PopulationResult[];
  readonly tokens: TokenAccountResult;
  readonly rates: RateResult;
  readonly slowest: SlowestResult;
}

export interface Headline {
  add(row: Row): void;
  /** @param seconds of the whole window */
  result(seconds: number): HeadlineResult;
}

/** @param most requests named in each list of the slowest */
export function createHeadline(most: number): Headline {
  const tallies = Object.fromEntries(countedNames.map((name) => [name, new Tally()])) as Record<CountedName, Tally>;
  const failures = new Tally();
  const populations = createPopulations();
  const tokens = createTokenAccount();
  const slowest = createSlowest(most);
  const speeds = { decode: new Sketch(), overall: new Sketch() };
  const counts = { total: 0, ok: 0 };

  function count(row: Row): void {
    counts.total += 1;
    if (row.outcome === 'ok') counts.ok += 1;
    else failures.add(row.reason === undefined ? row.outcome : `${row.outcome} ${row.reason}`);
    for (const name of countedNames) tallyOf(tallies[name], row[name]);
  }

  function speed(row: Row): void {
    if (!generates(row)) return;
    if (row.tpotMs !== undefined && row.tpotMs > 0) speeds.decode.add(1000 / row.tpotMs);
    if (row.e2eMs !== undefined && row.e2eMs > 0 && row.outputTokens !== undefined && row.outputTokens > 0)
      speeds.overall.add((row.outputTokens * 1000) / row.e2eMs);
  }

  return {
    add(row) {
      count(row);
      if (!isOfUsers(row)) return;
      populations.add(row);
      tokens.add(row);
      slowest.add(row);
      speed(row);
    },
    result(seconds) {
      const sums = tokens.result();
      return {
        requests: {
          total: counts.total,
          ok: counts.ok,
          by: Object.fromEntries(countedNames.map((name) => [name, tallies[name].toJson()])) as RequestCounts['by'],
          failures: failures.toJson(),
        },
        populations: populations.results(),
        tokens: sums,
        rates: ratesOf(seconds, counts.total, sums, speeds),
        slowest: slowest.result(),
      };
    },
  };
}

/** Neither an earlier answer given again nor warmlane's own work tells how users fare with the engines: only counted. */
export function isOfUsers({ warmth, marks }: Row): boolean {
  return warmth !== 'replayed' && !marks.includes('warm_up');
}

function tallyOf(tally: Tally, value: string | number | boolean | readonly string[] | undefined): void {
  if (value === undefined) return;
  if (typeof value === 'object') for (const word of value) tally.add(word);
  else tally.add(String(value));
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
