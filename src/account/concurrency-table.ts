/**
 * What batching does, measured: for each backend a table from the number of streams that decoded at once to how fast
 * tokens came then. A request counts at the mean of what ran beside it. Bounded: levels, windows and backends are fixed.
 */
import type { RequestRecord } from '../domain/record.ts';
import type { Sketch } from '../platform/sketch.ts';
import { type LevelFigures, type LevelRange, type LevelSums, LevelTable, rangeOf } from './concurrency-levels.ts';
import { decodedOf } from './decoded.ts';
import { createTimeRing, type TimeRing } from './time-ring.ts';

export interface ConcurrencyLevel extends LevelRange, LevelFigures {
  /** Of all gaps between token events; absent where no record had any. */
  readonly itlP50Ms?: number;
  readonly itlP99Ms?: number;
  readonly tpotP50Ms: number;
  readonly tpotP99Ms: number;
  /** At the given price per hour, if the backend decoded at this level all the time. */
  readonly costPerMillionTokens?: number;
}

export interface ConcurrencyView {
  /** Streams of a backend that had just been started: counted here, and in no level. */
  readonly coldStarts: number;
  readonly levels: readonly ConcurrencyLevel[];
}

export interface ConcurrencyTable {
  add(record: RequestRecord, nowMs: number): void;
  /** @param windowMs at most an hour */
  view(backend: string, nowMs: number, windowMs: number): ConcurrencyView;
  readonly backends: readonly string[];
}

const maxBackends = 1000;
/** Two grains: a sketch for each level and slot is too much to keep an hour of ten-second slots. */
const fineMs = 300_000;
const fine = { slotMs: 10_000, slots: 31 };
const coarse = { slotMs: 60_000, slots: 61 };

interface Rings {
  readonly fine: TimeRing<LevelTable>;
  readonly coarse: TimeRing<LevelTable>;
}

/** @param pricePerHour of the whole backend, where the config gives one */
export function createConcurrencyTable(
  beganMs: number,
  pricePerHour: (backend: string) => number | undefined,
): ConcurrencyTable {
  const byBackend = new Map<string, Rings>();
  const makeTable = () => new LevelTable();

  function ringsOf(backend: string): Rings | undefined {
    let rings = byBackend.get(backend);
    if (rings === undefined) {
      // Backends come and go: the one that was heard of first makes room.
      for (const oldest of byBackend.keys()) if (byBackend.size >= maxBackends) byBackend.delete(oldest);
      rings = { fine: createTimeRing(fine, beganMs, makeTable), coarse: createTimeRing(coarse, beganMs, makeTable) };
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
      const stream = { decoded, lagged: record.marks.includes('loop_lag'), itl: record.itl };
      rings?.fine.at(nowMs)?.add(stream);
      rings?.coarse.at(nowMs)?.add(stream);
    },
    view(backend, nowMs, windowMs) {
      const rings = byBackend.get(backend);
      const slots = (windowMs <= fineMs ? rings?.fine : rings?.coarse)?.within(nowMs, windowMs) ?? [];
      const table = new LevelTable();
      for (const slot of slots) table.join(slot);
      const price = pricePerHour(backend);
      return { coldStarts: table.coldStarts, levels: table.levels().map(([at, sums]) => viewOf(at, sums, price)) };
    },
  };
}

function viewOf(at: number, sums: LevelSums, pricePerHour: number | undefined): ConcurrencyLevel {
  const { requests, lagged, meanConcurrency, userTokensPerSecond, tokensPerSecond } = sums.figures();
  return {
    ...rangeOf(at),
    requests,
    lagged,
    meanConcurrency,
    ...quantiles(sums.itl),
    tpotP50Ms: (sums.tpot.quantile(0.5) ?? 0) * 1000,
    tpotP99Ms: (sums.tpot.quantile(0.99) ?? 0) * 1000,
    userTokensPerSecond,
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
