/**
 * What batching does, from a log: the table of `/concurrency` over all of it, made of the same sums, with each stream at the
 * level that its line tells (`decodeConcurrency`). The moments of the streams add what no line tells: how long how many
 * decoded at once; and the level of streams whose lines, being older, tell none. Bounded.
 */
import { type LevelFigures, type LevelRange, type LevelSums, LevelTable, rangeOf } from '../concurrency-levels.ts';
import { decodedStream } from '../decoded.ts';
import { DecodeSweep, sweepEvery } from './decode-sweep.ts';
import { spreadOf, type Spread } from './figures.ts';
import { generates, type Row } from './row.ts';
import { otherName, ownText } from './tally.ts';

/** Figures are absent where no stream had this level on average. */
export interface LevelResult extends LevelRange, Partial<Omit<LevelFigures, 'requests' | 'lagged'>> {
  /** time in which so many decoded, and its share of the time in which any did */
  readonly seconds: number;
  readonly share: number;
  /** streams whose mean level this was; of these, marked `loop_lag` */
  readonly requests: number;
  readonly lagged: number;
  /** the spread of their TPOT and of all their gaps, ms */
  readonly tpot?: Spread;
  readonly itl?: Spread;
}

export interface ConcurrencyResult {
  readonly backend: string;
  readonly busySeconds: number;
  /** streams of a backend that had just been started: in no level, as in `/concurrency` */
  readonly coldStarts: number;
  readonly levels: readonly LevelResult[];
  /** streams in it; of these, those whose begin lay too far back */
  readonly streams: number;
  readonly clipped: number;
  /** of the requests in the levels (and cold starts), those whose lines have no level, so that it was taken from the moments in the log */
  readonly levelFromMoments: number;
  /** answers that did not stream, so that nobody saw when they decoded: their load is missing here */
  readonly unseen: number;
}

export interface Concurrency {
  /** @param shown whether it belongs to the report; one that doesn't still is a load for those that do */
  add(row: Row, shown: boolean): void;
  results(): readonly ConcurrencyResult[];
}

const mostBackends = 64;
/** Streams of all backends that wait to be swept: about so many at most, whatever the horizon. */
const mostWaiting = 30_000;

export function createConcurrency(): Concurrency {
  const backends = new Map<string, BackendStreams>();
  let sinceCheck = 0;

  /** What waits longest gives way where most waits. */
  function check(): void {
    sinceCheck = 0;
    const held = [...backends.values()].reduce((sum, { sweep }) => sum + sweep.waiting, 0);
    if (held <= mostWaiting) return;
    for (const { sweep } of backends.values()) if (sweep.waiting > mostWaiting / 2 / backends.size) sweep.sweepHalf();
  }

  return {
    add(row, shown) {
      // What was replayed did not decode anywhere.
      if (row.backend === undefined || !generates(row) || row.warmth === 'replayed') return;
      const streams = streamsOf(backends, row.backend);
      if (streams === undefined) return;
      sinceCheck += 1;
      if (sinceCheck > sweepEvery) check();
      if (row.streamed) streams.add(row, shown);
      else if (row.outcome === 'ok') streams.unseen += 1;
    },
    results: () =>
      [...backends]
        .map(([backend, streams]) => streams.result(backend))
        .filter(({ streams, unseen }) => streams + unseen > 0)
        .toSorted((a, b) => (a.backend < b.backend ? -1 : 1)),
  };
}

/** Backends beyond the bound are left out: together they would be one that never was. */
function streamsOf(backends: Map<string, BackendStreams>, backend: string): BackendStreams | undefined {
  const known = backends.get(backend);
  if (known !== undefined || backends.size >= mostBackends || backend === otherName) return known;
  const made = new BackendStreams();
  backends.set(ownText(backend), made);
  return made;
}

class BackendStreams {
  unseen = 0;
  readonly sweep = new DecodeSweep();
  readonly #table = new LevelTable();
  #levelFromMoments = 0;

  add(row: Row, shown: boolean): void {
    const { ttftMs, e2eMs, decodeConcurrency } = row;
    if (ttftMs === undefined || e2eMs === undefined || e2eMs <= ttftMs) return;
    const receivedMs = row.startedAtMs + (row.bodyMs ?? 0);
    const known = decodeConcurrency !== undefined;
    if (shown && known) this.#count(row, decodeConcurrency);
    this.sweep.add(receivedMs + ttftMs, receivedMs + e2eMs, {
      weight: Math.max(1, row.finish.length),
      ended: shown && !known ? this.#laterCount(row) : undefined,
    });
  }

  #count(row: DecodedRow, concurrency: number): boolean {
    const { ttftMs, e2eMs } = row;
    const decoded = decodedStream({
      backend: row.backend,
      warmth: row.warmth,
      choices: row.finish.length,
      concurrency,
      decodeMs: ttftMs === undefined || e2eMs === undefined ? undefined : e2eMs - ttftMs,
      outputTokens: row.outputTokens,
      tpotMs: row.tpotMs,
    });
    if (decoded === undefined) return false;
    this.#table.add({ decoded, lagged: row.marks.includes('loop_lag'), itl: row.itl });
    return true;
  }

  #laterCount(row: Row): (concurrency: number) => void {
    const kept = keptOf(row);
    return (concurrency) => {
      if (this.#count(kept, concurrency)) this.#levelFromMoments += 1;
    };
  }

  /** Nothing may be added after it. */
  result(backend: string): ConcurrencyResult {
    const levelMs = this.sweep.finish();
    const busyMs = [...levelMs.values()].reduce((sum, ms) => sum + ms, 0);
    const sums = new Map(this.#table.levels());
    const reached = [...new Set([...levelMs.keys(), ...sums.keys()])].toSorted((a, b) => a - b);
    return {
      backend,
      busySeconds: busyMs / 1000,
      coldStarts: this.#table.coldStarts,
      levels: reached.map((at) => levelResult(at, sums.get(at), { ms: levelMs.get(at) ?? 0, busyMs })),
      streams: this.sweep.streams,
      clipped: this.sweep.clipped,
      levelFromMoments: this.#levelFromMoments,
      unseen: this.unseen,
    };
  }
}

function levelResult(
  at: number,
  sums: LevelSums | undefined,
  { ms, busyMs }: { readonly ms: number; readonly busyMs: number },
): LevelResult {
  const tpot = sums === undefined ? undefined : spreadOf(sums.tpot);
  const itl = sums === undefined ? undefined : spreadOf(sums.itl);
  return {
    ...rangeOf(at),
    seconds: ms / 1000,
    share: busyMs === 0 ? 0 : ms / busyMs,
    ...(sums === undefined ? { requests: 0, lagged: 0 } : sums.figures()),
    ...(tpot === undefined ? {} : { tpot }),
    ...(itl === undefined ? {} : { itl }),
  };
}

type DecodedRow = Pick<
  Row,
  'backend' | 'warmth' | 'finish' | 'marks' | 'ttftMs' | 'e2eMs' | 'outputTokens' | 'tpotMs' | 'itl'
>;

/** What waits must not keep the whole line alive. */
function keptOf({ backend, warmth, finish, marks, ttftMs, e2eMs, outputTokens, tpotMs, itl }: Row): DecodedRow {
  return {
    ...(backend === undefined ? {} : { backend: ownText(backend) }),
    warmth: ownText(warmth),
    finish: finish.map(() => ''),
    marks: marks.includes('loop_lag') ? ['loop_lag'] : [],
    ...(ttftMs === undefined ? {} : { ttftMs }),
    ...(e2eMs === undefined ? {} : { e2eMs }),
    ...(outputTokens === undefined ? {} : { outputTokens }),
    ...(tpotMs === undefined ? {} : { tpotMs }),
    ...(itl === undefined ? {} : { itl }),
  };
}
