/**
 * The part of a batch's life in which its lines are sent: what is under way, what comes of it, what is tried again, and the group of
 * results that is being written. Says which line is next; when one may go is the runner's to say. Changes no status.
 */
import type { LineResult, StoredBatch } from '../batch.ts';
import type { LineEnd } from '../line-port.ts';
import { type Lease, StoreError } from '../store/port.ts';
import type { Timer } from '../../platform/clock.ts';
import { readLineBody } from './line-body.ts';
import { createLineQueue, type QueuedLine } from './line-queue.ts';
import type { Patience } from './patience.ts';
import { resultOf } from './result-text.ts';
import { createResultWriter } from './result-writer.ts';
import { judgeTry, type TriedEnd } from './retry.ts';
import type { RunCounts, RunDeps, RunSettings } from './run-deps.ts';

export interface Sending {
  /** Some line may go now. @param mayWait also one that is likely to wait for quiet (`waiting`) */
  hasNext(nowMs: number, mayWait: boolean): boolean;
  sendNext(mayWait: boolean): void;
  readonly inFlight: number;
  /** Of these, that have a place on a backend; the others wait for one. */
  readonly running: number;
  /** Of these, whose prompts online work took back before, and that have no place yet: nobody knows when they will. */
  readonly waiting: number;
  /** What the lines under way hold in memory. */
  readonly bytesInFlight: number;
  /** Results that are not in the store yet. */
  readonly unwritten: number;
  /** Lines that wait for another try. */
  readonly backingOff: number;
  /** Resolves when every line has its result in the store. @throws what reading or writing threw */
  readonly done: Promise<void>;
  /** No more is sent; after the grace what is under way is cut. Resolves when what came is written. */
  end(graceMs: number): Promise<void>;
  /** At once, and nothing more is written. */
  drop(): void;
}

export interface SendingDeps extends Pick<RunDeps, 'store' | 'shelf' | 'sender' | 'clock' | 'random'> {
  readonly patience: Patience;
  readonly signal: AbortSignal;
  readonly counts: RunCounts;
  /** There may be a line to send, or room for one. */
  readonly ready: () => void;
  readonly written: (results: readonly LineResult[]) => void;
  readonly retried: (why: 'retry' | 'reclaimed') => void;
}

interface Flight {
  readonly line: QueuedLine;
  /** Absent while its text is being read. */
  sent: { abort(): void } | undefined;
  cut: boolean;
  placed: boolean;
  /** Its prompt was taken back so often, and it has no place yet. 0: none of these. */
  waits: number;
}

const pageLines = 256;
const mostBackingOff = 512;
/**
 * Lines of one batch that wait at once after their prompts were taken back equally often, and so want equally long quiet: as a place is
 * had the next one follows, and those that want less don't wait behind those that want more.
 */
const mostWaiting = 4;
/** What was taken more often waits no longer for that. */
const mostTimes = 8;
/** A line that could not be read, or came back unasked. */
const shortDelayMs = 1000;
/** Whoever is told to end does so at once; nobody waits for one that doesn't. */
const cutMs = 3000;

export function createSending(
  { batch, lease }: { readonly batch: StoredBatch; readonly lease: Lease },
  settings: Pick<RunSettings, 'maxAttempts'>,
  deps: SendingDeps,
): Sending {
  const { store, sender, clock, patience, signal } = deps;
  const input = deps.shelf.ranges(batch.inputFileId);
  const queue = createLineQueue({ page: pageLines, most: mostBackingOff });
  const flights = new Set<Flight>();
  let bytesInFlight = 0;
  /** By how often their prompts were taken, lines that have no place yet. */
  const waiting: number[] = Array.from({ length: mostTimes + 1 }, () => 0);
  let waits = 0;
  let running = 0;
  let state: 'open' | 'ending' | 'dropped' = 'open';
  let fetching = false;
  let wake: Timer | undefined;
  let landed: (() => void) | undefined;
  let settle: { resolve: () => void; reject: (error: unknown) => void } | undefined;
  const done = new Promise<void>((resolve, reject) => {
    settle = { resolve, reject };
  });
  // Whoever looks at it later must not find the process gone.
  done.catch(() => {});

  const fail = (error: unknown) => settle?.reject(error);
  const writer = createResultWriter({
    write: ({ results, retries }) =>
      patience.persist(
        'writing results',
        async () => {
          if (results.length > 0) await store.addResults(lease, results);
          if (retries.length > 0) await store.noteRetries(lease, retries);
        },
        signal,
      ),
    written(results) {
      deps.written(results);
      look();
      deps.ready();
    },
    broke: fail,
  });

  /** Whether that was all. */
  function look(): void {
    if (state === 'open' && queue.isEmpty && flights.size === 0 && writer.unwritten === 0) settle?.resolve();
  }

  function fetch(): void {
    const afterRank = queue.wantsBehind;
    if (afterRank === undefined || fetching || state !== 'open') return;
    fetching = true;
    const page = { afterRank, limit: pageLines };
    patience
      .persist('reading pending lines', () => store.pending(lease, page), signal)
      .then((lines) => {
        fetching = false;
        queue.takePage(lines, lines.length < pageLines);
        arm();
        look();
        deps.ready();
      }, fail);
  }

  /** Wakes the runner when the next try is due. */
  function arm(): void {
    wake?.cancel();
    wake = undefined;
    const nowMs = clock.wallMs();
    const dueMs = queue.dueAfter(nowMs);
    if (dueMs === undefined || state !== 'open') return;
    wake = clock.timer(Math.max(1, dueMs - nowMs), () => {
      wake = undefined;
      arm();
      deps.ready();
    });
  }

  function countWaiting(times: number, by: 1 | -1): void {
    if (times === 0) return;
    waiting[times] = (waiting[times] ?? 0) + by;
    waits += by;
  }

  function placed(flight: Flight): void {
    if (!flight.placed && flights.has(flight)) running += 1;
    flight.placed = true;
    if (flight.waits === 0) return;
    countWaiting(flight.waits, -1);
    flight.waits = 0;
    deps.ready();
  }

  function mayTry(line: QueuedLine, mayWait: boolean): boolean {
    const times = timesOf(line);
    return times === 0 || (mayWait && (waiting[times] ?? 0) < mostWaiting);
  }

  function later(line: QueuedLine, delayMs: number): void {
    // A whole number: no store takes another.
    line.notBeforeMs = Math.ceil(clock.wallMs() + delayMs);
    queue.later(line);
    arm();
  }

  async function read(flight: Flight): Promise<Buffer | undefined> {
    try {
      const body = await readLineBody(input, flight.line);
      patience.worked('reading a line');
      return body;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.fault !== 'broken') {
        patience.failed('reading a line', error.fault, error);
        land(flight, { kind: 'failed', code: 'no_answer', message: error.message, retryable: true }, false);
      } else land(flight, { kind: 'failed', code: 'input_unreadable', message: error.message, retryable: false });
      return undefined;
    }
  }

  async function launch(flight: Flight): Promise<void> {
    const body = await read(flight);
    if (body === undefined) return;
    if (flight.cut) return land(flight, { kind: 'aborted' });
    const { line } = flight;
    const ask = {
      tenant: batch.tenant,
      requestId: requestIdOf(batch.id, line),
      path: batch.endpoint,
      body,
      reclaimed: line.reclaimed,
      promptsTaken: line.promptsTaken,
    };
    const sent = sender.send(
      ask,
      (end) => land(flight, end),
      () => placed(flight),
    );
    flight.sent = sent;
    if (flight.cut) sent.abort();
  }

  /** @param judged false: it never left, so it is no try */
  function land(flight: Flight, end: LineEnd, judged = true): void {
    if (!flights.delete(flight)) return;
    if (flight.placed) running -= 1;
    const { line } = flight;
    bytesInFlight -= line.bytes;
    countWaiting(flight.waits, -1);
    flight.waits = 0;
    if (state !== 'dropped') {
      if (end.kind === 'reclaimed') giveWay(line, end.inPrompt);
      else if (end.kind === 'aborted' || !judged) later(line, shortDelayMs);
      else judge(line, end);
    }
    if (flights.size === 0) landed?.();
    fetch();
    look();
    deps.ready();
  }

  function giveWay(line: QueuedLine, inPrompt: boolean): void {
    line.reclaimed += 1;
    if (inPrompt) line.promptsTaken += 1;
    deps.counts.reclaimed += 1;
    deps.retried('reclaimed');
    if (line.promptsTaken === 0) return queue.first(line);
    // Before the others, but only so many of its kind.
    line.notBeforeMs = 0;
    queue.later(line);
  }

  function judge(line: QueuedLine, end: TriedEnd): void {
    const { maxAttempts } = settings;
    const verdict = judgeTry(end, line, { maxAttempts, random: deps.random });
    if (verdict.kind === 'result') {
      const { ok } = verdict;
      writer.add(resultOf(end, { batchId: batch.id, line, requestId: requestIdOf(batch.id, line), ok }));
      return;
    }
    line.failures += 1;
    if (verdict.counted) line.attempts += 1;
    if (verdict.crashed) line.crashes += 1;
    deps.counts.retries += 1;
    deps.retried('retry');
    later(line, verdict.delayMs);
    const { attempts, notBeforeMs } = line;
    if (verdict.counted) writer.note({ line: line.line, attempts, notBeforeMs });
  }

  function cutAll(): void {
    for (const flight of flights) {
      flight.cut = true;
      flight.sent?.abort();
    }
  }

  function landing(waitMs: number): Promise<void> {
    if (flights.size === 0 || waitMs <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = clock.timer(waitMs, resolve);
      landed = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  fetch();
  return {
    hasNext: (nowMs, mayWait) => state === 'open' && queue.hasNext(nowMs, (line) => mayTry(line, mayWait)),
    sendNext(mayWait) {
      const line = queue.next(clock.wallMs(), (one) => mayTry(one, mayWait));
      if (line === undefined) return;
      const flight: Flight = { line, sent: undefined, cut: false, placed: false, waits: timesOf(line) };
      flights.add(flight);
      countWaiting(flight.waits, 1);
      bytesInFlight += line.bytes;
      launch(flight).catch(fail);
      fetch();
    },
    get inFlight() {
      return flights.size;
    },
    get running() {
      return running;
    },
    get waiting() {
      return waits;
    },
    get bytesInFlight() {
      return bytesInFlight;
    },
    get unwritten() {
      return writer.unwritten;
    },
    get backingOff() {
      return queue.backingOff;
    },
    done,
    async end(graceMs) {
      state = 'ending';
      wake?.cancel();
      await landing(graceMs);
      cutAll();
      await landing(cutMs);
      await writer.flush();
      if (state === 'ending') state = 'dropped';
    },
    drop() {
      state = 'dropped';
      wake?.cancel();
      cutAll();
      // Nothing is read any more.
      void input.close();
    },
  };
}

function timesOf({ promptsTaken }: QueuedLine): number {
  return Math.min(mostTimes, promptsTaken);
}

/** The same one after a crash, so that an engine's log tells of both; another one for each further try. */
function requestIdOf(batchId: string, { line, failures, reclaimed }: QueuedLine): string {
  const tries = failures + reclaimed;
  return tries === 0 ? `${batchId}-${line}` : `${batchId}-${line}.${tries}`;
}
