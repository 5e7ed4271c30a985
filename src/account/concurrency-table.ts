/**
 * What batching does, measured: for each backend a table from the number of streams that decoded at once to how fast
 * tokens came then. A request counts at the mean of what ran beside it. Bounded: levels, windows and backends are fixed.
 */
import type { RequestRecord } from '../domain/record.ts';
import { Sketch } from '../platform/sketch.ts';
import { type Decoded, decodedOf } from './decoded.ts';
import { createTimeRing, type TimeRing } from './time-ring.ts';

export interface ConcurrencyLevel {
  /** Sequences at once: from, to; `to` is absent on the last. */
  readonly from: number;
  readonly to?: number;
  readonly requests: number;
  /** Of these, marked `loop_lag`: warmlane itself was held up meanwhile, so their longest gaps may be its own. */
  readonly lagged: number;
  readonly meanConcurrency: number;
  /** Of all gaps between token events; absent where no record had any. */
  readonly itlP50Ms?: number;
  readonly itlP99Ms?: number;
  readonly tpotP50Ms: number;
  readonly tpotP99Ms: number;
  /** Decoded tokens ÷ decode time of one sequence. */
  readonly userTokensPerSecond: number;
  /** The same of all sequences together: each request's rate times what ran beside it. */
  readonly tokensPerSecond: number;
  /** At the given price per hour, if the backend decoded at this level all the time. */
  readonly costPerMillionTokens?: number;
}

export interface ConcurrencyTable {
  add(record: RequestRecord, nowMs: number): void;
  /** @param windowMs at most an hour */
  levels(backend: string, nowMs: number, windowMs: number): ConcurrencyLevel[];
  readonly backends: readonly string[];
}

/** Upper ends of the levels that are told apart; the last has none. */
export const levelEnds: readonly number[] = [
  1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
];

const maxBackends = 1000;
/** Two grains: a sketch for each level and slot is too much to keep an hour of ten-second slots. */
const fineMs = 300_000;
const fine = { slotMs: 10_000, slots: 31 };
const coarse = { slotMs: 60_000, slots: 61 };

interface Rings {
  readonly fine: TimeRing<Map<number, Level>>;
  readonly coarse: TimeRing<Map<number, Level>>;
}

interface Level {
  requests: number;
  lagged: number;
  concurrency: number;
  seconds: number;
  sequenceSeconds: number;
  tokens: number;
  /** Tokens × (what ran beside) ÷ own sequences: ÷ seconds it is the aggregate rate. */
  besideTokens: number;
  readonly tpot: Sketch;
  readonly itl: Sketch;
}

/** @param pricePerHour of the whole backend, where the config gives one */
export function createConcurrencyTable(
  beganMs: number,
  pricePerHour: (backend: string) => number | undefined,
): ConcurrencyTable {
  const byBackend = new Map<string, Rings>();
  const makeLevels = () => new Map<number, Level>();

  function ringsOf(backend: string): Rings | undefined {
    let rings = byBackend.get(backend);
    if (rings === undefined && byBackend.size < maxBackends) {
      rings = { fine: createTimeRing(fine, beganMs, makeLevels), coarse: createTimeRing(coarse, beganMs, makeLevels) };
      byBackend.set(backend, rings);
    }
    return rings;
  }

  return {
    get backends() {
      return [...byBackend.keys()].toSorted();
    },
    add(record, nowMs) {
      const decoded = decodedOf(record);
      if (decoded === undefined) return;
      const rings = ringsOf(decoded.backend);
      for (const levels of [rings?.fine.at(nowMs), rings?.coarse.at(nowMs)])
        if (levels !== undefined) addTo(levels, record, decoded);
    },
    levels(backend, nowMs, windowMs) {
      const rings = byBackend.get(backend);
      const slots = (windowMs <= fineMs ? rings?.fine : rings?.coarse)?.within(nowMs, windowMs) ?? [];
      const sums = new Map<number, Level>();
      for (const slot of slots) for (const [at, level] of slot) joinLevel(sums, at, level);
      return [...sums].toSorted(([a], [b]) => a - b).map(([at, level]) => viewOf(at, level, pricePerHour(backend)));
    },
  };
}

function addTo(levels: Map<number, Level>, record: RequestRecord, decoded: Decoded): void {
  const { sequences, concurrency, seconds, tokens } = decoded;
  const at = levelOf(concurrency);
  const level = levels.get(at) ?? emptyLevel();
  levels.set(at, level);
  level.requests += 1;
  if (record.marks.includes('loop_lag')) level.lagged += 1;
  level.concurrency += concurrency;
  level.seconds += seconds;
  level.sequenceSeconds += seconds * sequences;
  level.tokens += tokens;
  level.besideTokens += (tokens * concurrency) / sequences;
  level.tpot.add((record.figures.tpotMs ?? 0) / 1000);
  if (record.itl !== undefined) level.itl.join(record.itl);
}

/** Index of the level of a mean: the whole number nearest to it decides. */
export function levelOf(concurrency: number): number {
  const nearest = Math.max(1, Math.round(concurrency));
  const at = levelEnds.findIndex((end) => nearest <= end);
  return at < 0 ? levelEnds.length : at;
}

function emptyLevel(): Level {
  return {
    requests: 0,
    lagged: 0,
    concurrency: 0,
    seconds: 0,
    sequenceSeconds: 0,
    tokens: 0,
    besideTokens: 0,
    tpot: new Sketch(),
    itl: new Sketch(),
  };
}

function joinLevel(sums: Map<number, Level>, at: number, level: Level): void {
  const sum = sums.get(at) ?? emptyLevel();
  sums.set(at, sum);
  sum.requests += level.requests;
  sum.lagged += level.lagged;
  sum.concurrency += level.concurrency;
  sum.seconds += level.seconds;
  sum.sequenceSeconds += level.sequenceSeconds;
  sum.tokens += level.tokens;
  sum.besideTokens += level.besideTokens;
  sum.tpot.join(level.tpot);
  sum.itl.join(level.itl);
}

function viewOf(at: number, level: Level, pricePerHour: number | undefined): ConcurrencyLevel {
  const to = levelEnds[at];
  const tokensPerSecond = level.besideTokens / level.seconds;
  return {
    from: (levelEnds[at - 1] ?? 0) + 1,
    ...(to === undefined ? {} : { to }),
    requests: level.requests,
    lagged: level.lagged,
    meanConcurrency: level.concurrency / level.requests,
    ...quantiles(level.itl),
    tpotP50Ms: (level.tpot.quantile(0.5) ?? 0) * 1000,
    tpotP99Ms: (level.tpot.quantile(0.99) ?? 0) * 1000,
    userTokensPerSecond: level.tokens / level.sequenceSeconds,
    tokensPerSecond,
    ...(pricePerHour === undefined || tokensPerSecond === 0
      ? {}
      : { costPerMillionTokens: costPerMillion(pricePerHour, tokensPerSecond) }),
  };
}

function quantiles(itl: Sketch): Pick<ConcurrencyLevel, 'itlP50Ms' | 'itlP99Ms'> {
  const p50 = itl.quantile(0.5);
  const p99 = itl.quantile(0.99);
  return p50 === undefined || p99 === undefined ? {} : { itlP50Ms: p50 * 1000, itlP99Ms: p99 * 1000 };
}

/** Price of a million tokens at a steady rate. */
export function costPerMillion(pricePerHour: number, tokensPerSecond: number): number {
  return (pricePerHour / 3600 / tokensPerSecond) * 1e6;
}
