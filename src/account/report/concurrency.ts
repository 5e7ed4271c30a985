/**
 * What batching does, from the moments of the streams alone: how long how many streams decoded at once on a backend, and
 * how fast tokens came meanwhile. A sweep over begins and ends. Rows come by their ends, so a moment is settled only when
 * it lies further back than the longest stream that is waited for; a stream that began before that is taken from there on.
 */
import { Sketch } from '../../platform/sketch.ts';
import { levelEnds } from '../concurrency-table.ts';
import { spreadOf, type Spread } from './figures.ts';
import { generates, type Row } from './row.ts';
import { otherName, ownText } from './tally.ts';

export interface LevelResult {
  /** streams that decoded at once: from, to (absent: or more) */
  readonly from: number;
  readonly to?: number;
  /** time at this level, and its share of the time in which any stream decoded */
  readonly seconds: number;
  readonly share: number;
  readonly tokensPerSecond: number;
  readonly tokensPerSecondPerUser: number;
  /** streams whose mean level this was, and of these the spread of their TPOT and of all their gaps, ms */
  readonly streams: number;
  readonly tpot?: Spread;
  readonly itl?: Spread;
}

export interface ConcurrencyResult {
  readonly backend: string;
  readonly busySeconds: number;
  readonly levels: readonly LevelResult[];
  /** streams in it; of these, those whose begin lay too far back */
  readonly streams: number;
  readonly clipped: number;
  /** answers that did not stream, so that nobody saw when they decoded: their load is missing here */
  readonly unseen: number;
}

export interface Concurrency {
  /** @param shown whether it belongs to the report; one that doesn't still is a load for those that do */
  add(row: Row, shown: boolean): void;
  results(): readonly ConcurrencyResult[];
}

/** How far back a stream may have begun. */
const horizonMs = 15 * 60_000;
const mostBackends = 64;
/** Streams of all backends that wait to be swept: about so many at most, whatever the horizon. */
const mostWaiting = 30_000;
const sweepEvery = 4096;

export function createConcurrency(): Concurrency {
  const sweeps = new Map<string, Sweep>();
  let sinceCheck = 0;

  /** What waits longest gives way where most waits. */
  function check(): void {
    sinceCheck = 0;
    const held = [...sweeps.values()].reduce((sum, sweep) => sum + sweep.waiting, 0);
    if (held <= mostWaiting) return;
    for (const sweep of sweeps.values()) if (sweep.waiting > mostWaiting / 2 / sweeps.size) sweep.sweepHalf();
  }

  return {
    add(row, shown) {
      // What was replayed did not decode anywhere.
      if (row.backend === undefined || !generates(row) || row.warmth === 'replayed') return;
      const sweep = sweepOf(sweeps, row.backend);
      if (sweep === undefined) return;
      sinceCheck += 1;
      if (sinceCheck > sweepEvery) check();
      if (row.streamed) sweep.add(row, shown);
      else if (row.outcome === 'ok') sweep.unseen += 1;
    },
    results: () =>
      [...sweeps]
        .map(([backend, sweep]) => sweep.result(backend))
        .filter(({ streams, unseen }) => streams + unseen > 0)
        .toSorted((a, b) => (a.backend < b.backend ? -1 : 1)),
  };
}

/** Backends beyond the bound are left out: together they would be one that never was. */
function sweepOf(sweeps: Map<string, Sweep>, backend: string): Sweep | undefined {
  const known = sweeps.get(backend);
  if (known !== undefined || sweeps.size >= mostBackends || backend === otherName) return known;
  const made = new Sweep();
  sweeps.set(ownText(backend), made);
  return made;
}

interface Stream {
  fromMs: number;
  readonly toMs: number;
  /** choices that decode at once */
  readonly weight: number;
  readonly tokensPerMs: number;
  readonly shown: boolean;
  readonly row: Pick<Row, 'tpotMs' | 'itl'>;
  /** of `integral`, when it began */
  begun: number;
}

interface Level {
  ms: number;
  tokens: number;
  streamMs: number;
  streams: number;
  readonly tpot: Sketch;
  readonly itl: Sketch;
}

class Sweep {
  unseen = 0;
  #waiting: Stream[] = [];
  #running: Stream[] = [];
  #sweptMs = Number.NEGATIVE_INFINITY;
  #latestMs = Number.NEGATIVE_INFINITY;
  #sinceSweep = 0;
  #level = 0;
  #tokensPerMs = 0;
  /** level × ms since the beginning */
  #integral = 0;
  #streams = 0;
  #clipped = 0;
  readonly #levels: Level[] = [];

  add(row: Row, shown: boolean): void {
    if (row.ttftMs === undefined || row.e2eMs === undefined || row.e2eMs <= row.ttftMs) return;
    const receivedMs = row.startedAtMs + (row.bodyMs ?? 0);
    const fromMs = receivedMs + row.ttftMs;
    const toMs = receivedMs + row.e2eMs;
    this.#latestMs = Math.max(this.#latestMs, toMs);
    this.#streams += 1;
    if (fromMs < this.#sweptMs) this.#clipped += 1;
    if (toMs <= this.#sweptMs) return;
    const weight = Math.max(1, row.finish.length);
    const { tpotMs, itl } = row;
    this.#waiting.push({
      fromMs: Math.max(fromMs, this.#sweptMs),
      toMs,
      weight,
      tokensPerMs: tokensPerMs(row, weight),
      shown,
      row: { ...(tpotMs === undefined ? {} : { tpotMs }), ...(itl === undefined ? {} : { itl }) },
      begun: 0,
    });
    this.#sinceSweep += 1;
    // Often enough that not much waits, seldom enough that each sweep settles much.
    if (this.#sinceSweep < sweepEvery && this.#latestMs - this.#sweptMs < 2 * horizonMs) return;
    this.#sinceSweep = 0;
    this.#sweepTo(this.#latestMs - horizonMs);
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  sweepHalf(): void {
    this.#sweepTo(middleOf(this.#waiting));
  }

  /** Settles all moments up to this one. */
  #sweepTo(untilMs: number): void {
    const begins = this.#waiting.filter(({ fromMs }) => fromMs <= untilMs).toSorted((a, b) => a.fromMs - b.fromMs);
    if (begins.length === 0 && this.#running.length === 0) {
      this.#sweptMs = Math.max(this.#sweptMs, Math.min(untilMs, this.#latestMs));
      return;
    }
    this.#waiting = this.#waiting.filter(({ fromMs }) => fromMs > untilMs);
    const ends = [...this.#running, ...begins].toSorted((a, b) => a.toMs - b.toMs);
    let nextEnd = 0;
    for (const stream of begins) {
      nextEnd = this.#endUntil(ends, nextEnd, stream.fromMs);
      this.#moveTo(stream.fromMs);
      this.#level += stream.weight;
      this.#tokensPerMs += stream.tokensPerMs;
      stream.begun = this.#integral;
    }
    nextEnd = this.#endUntil(ends, nextEnd, untilMs);
    this.#running = ends.slice(nextEnd);
    this.#moveTo(untilMs);
  }

  #endUntil(ends: readonly Stream[], from: number, untilMs: number): number {
    let next = from;
    for (let stream = ends[next]; stream !== undefined && stream.toMs <= untilMs; stream = ends[next]) {
      this.#moveTo(stream.toMs);
      this.#level -= stream.weight;
      // Sums of fractions leave a rest, which must not grow over a year.
      this.#tokensPerMs = this.#level === 0 ? 0 : this.#tokensPerMs - stream.tokensPerMs;
      this.#ended(stream);
      next += 1;
    }
    return next;
  }

  #moveTo(atMs: number): void {
    const passedMs = atMs - this.#sweptMs;
    if (this.#level > 0 && passedMs > 0) {
      const level = this.#levelAt(this.#level);
      level.ms += passedMs;
      level.streamMs += passedMs * this.#level;
      level.tokens += passedMs * this.#tokensPerMs;
      this.#integral += passedMs * this.#level;
    }
    this.#sweptMs = Math.max(this.#sweptMs, atMs);
  }

  #ended({ fromMs, toMs, begun, shown, row }: Stream): void {
    if (!shown) return;
    const level = this.#levelAt(Math.max(1, Math.round((this.#integral - begun) / (toMs - fromMs))));
    level.streams += 1;
    if (row.tpotMs !== undefined) level.tpot.add(row.tpotMs / 1000);
    if (row.itl !== undefined) level.itl.join(row.itl);
  }

  #levelAt(level: number): Level {
    const found = levelEnds.findIndex((end) => level <= end);
    const at = found < 0 ? levelEnds.length : found;
    return (this.#levels[at] ??= { ms: 0, tokens: 0, streamMs: 0, streams: 0, tpot: new Sketch(), itl: new Sketch() });
  }

  /** Ends the sweep: nothing may be added after it. */
  result(backend: string): ConcurrencyResult {
    this.#sweepTo(Number.MAX_SAFE_INTEGER);
    const busyMs = this.#levels.reduce((sum, level) => sum + level.ms, 0);
    return {
      backend,
      busySeconds: busyMs / 1000,
      levels: this.#levels.flatMap((level, at) => levelResult(level, at, busyMs)),
      streams: this.#streams,
      clipped: this.#clipped,
      unseen: this.unseen,
    };
  }
}

/** While it decoded: by its TPOT where it has one, else by what came between its first and its last token. */
function tokensPerMs({ tpotMs, ttftMs = 0, e2eMs = 0, outputTokens = 0 }: Row, weight: number): number {
  if (tpotMs !== undefined && tpotMs > 0) return weight / tpotMs;
  return Math.max(0, outputTokens - weight) / (e2eMs - ttftMs);
}

function middleOf(streams: readonly Stream[]): number {
  const moments = streams.map(({ fromMs }) => fromMs).toSorted((a, b) => a - b);
  return moments[Math.floor(moments.length / 2)] ?? Number.NEGATIVE_INFINITY;
}

function levelResult(level: Level, at: number, busyMs: number): readonly LevelResult[] {
  if (level.ms === 0 && level.streams === 0) return [];
  const to = levelEnds[at];
  const tpot = spreadOf(level.tpot);
  const itl = spreadOf(level.itl);
  return [
    {
      from: (levelEnds[at - 1] ?? 0) + 1,
      ...(to === undefined ? {} : { to }),
      seconds: level.ms / 1000,
      share: busyMs === 0 ? 0 : level.ms / busyMs,
      tokensPerSecond: level.ms === 0 ? 0 : (level.tokens * 1000) / level.ms,
      tokensPerSecondPerUser: level.streamMs === 0 ? 0 : (level.tokens * 1000) / level.streamMs,
      streams: level.streams,
      ...(tpot === undefined ? {} : { tpot }),
      ...(itl === undefined ? {} : { itl }),
    },
  ];
}
