/**
 * The levels of concurrency and what is summed at each: the one definition of the table that `/concurrency` and
 * `warmlane report` show. A stream counts once, at the mean of what decoded beside it. Pure sums; knows no windows.
 */
import type { SketchData } from '../domain/sketch.ts';
import { Sketch } from '../platform/sketch.ts';
import type { DecodedStream } from './decoded.ts';

/** Upper ends of the levels that are told apart; the last has none. */
export const levelEnds: readonly number[] = [
  1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
];

/** Sequences at once: from, to; `to` is absent on the last. */
export interface LevelRange {
  readonly from: number;
  readonly to?: number;
}

export interface LevelFigures {
  readonly requests: number;
  /** Of these, marked `loop_lag`: warmlane itself was held up meanwhile, so their longest gaps may be its own. */
  readonly lagged: number;
  readonly meanConcurrency: number;
  /** Decoded tokens ÷ decode time of one sequence. */
  readonly userTokensPerSecond: number;
  /** The same of all sequences together: each request's rate times what ran beside it. */
  readonly tokensPerSecond: number;
}

export interface LevelStream {
  readonly decoded: DecodedStream;
  readonly lagged: boolean;
  readonly itl: SketchData | undefined;
}

/** Index of the level of a mean: the whole number nearest to it decides. */
export function levelOf(concurrency: number): number {
  const nearest = Math.max(1, Math.round(concurrency));
  const at = levelEnds.findIndex((end) => nearest <= end);
  return at < 0 ? levelEnds.length : at;
}

export function rangeOf(at: number): LevelRange {
  const to = levelEnds[at];
  return { from: (levelEnds[at - 1] ?? 0) + 1, ...(to === undefined ? {} : { to }) };
}

/** One table: sums by level. A class: an hour of slots holds many. */
export class LevelTable {
  /** Streams of a backend that had just been started: in no level, since they tell of its start and not of batching. */
  coldStarts = 0;
  readonly #levels = new Map<number, LevelSums>();

  add(stream: LevelStream): void {
    if (stream.decoded.cold) this.coldStarts += 1;
    else this.#sumsAt(levelOf(stream.decoded.concurrency)).add(stream);
  }

  join(other: LevelTable): void {
    this.coldStarts += other.coldStarts;
    for (const [at, sums] of other.#levels) this.#sumsAt(at).join(sums);
  }

  /** Those with streams, by their index, rising. */
  levels(): readonly (readonly [at: number, LevelSums])[] {
    return [...this.#levels].toSorted(([a], [b]) => a - b);
  }

  #sumsAt(at: number): LevelSums {
    const known = this.#levels.get(at);
    if (known !== undefined) return known;
    const made = new LevelSums();
    this.#levels.set(at, made);
    return made;
  }
}

export class LevelSums {
  /** Seconds */
  readonly tpot = new Sketch();
  readonly itl = new Sketch();
  #requests = 0;
  #lagged = 0;
  #concurrency = 0;
  #seconds = 0;
  #sequenceSeconds = 0;
  #tokens = 0;
  /** Tokens × (what ran beside) ÷ own sequences: ÷ seconds it is the aggregate rate. */
  #besideTokens = 0;

  add({ decoded, lagged, itl }: LevelStream): void {
    const { sequences, concurrency, seconds, tokens, tpotSeconds } = decoded;
    this.#requests += 1;
    if (lagged) this.#lagged += 1;
    this.#concurrency += concurrency;
    this.#seconds += seconds;
    this.#sequenceSeconds += seconds * sequences;
    this.#tokens += tokens;
    this.#besideTokens += (tokens * concurrency) / sequences;
    this.tpot.add(tpotSeconds);
    if (itl !== undefined) this.itl.join(itl);
  }

  join(other: LevelSums): void {
    this.#requests += other.#requests;
    this.#lagged += other.#lagged;
    this.#concurrency += other.#concurrency;
    this.#seconds += other.#seconds;
    this.#sequenceSeconds += other.#sequenceSeconds;
    this.#tokens += other.#tokens;
    this.#besideTokens += other.#besideTokens;
    this.tpot.join(other.tpot);
    this.itl.join(other.itl);
  }

  /** Only of a level that a stream was counted at. */
  figures(): LevelFigures {
    return {
      requests: this.#requests,
      lagged: this.#lagged,
      meanConcurrency: this.#concurrency / this.#requests,
      userTokensPerSecond: this.#tokens / this.#sequenceSeconds,
      tokensPerSecond: this.#besideTokens / this.#seconds,
    };
  }
}
