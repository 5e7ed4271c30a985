/**
 * One batch from its lease to its end: validated, sent, closed by cancel or expiry, its files written. Every step can be done again
 * by whoever takes it after a crash: what stands in the store says where it was. Fenced: a lost lease ends it at once.
 */
import { type BatchError, endedStatuses, type LineResult, type StoredBatch } from '../batch.ts';
import { type Validation, validate } from '../input/validate.ts';
import type { LeasedBatch } from '../store/port.ts';
import { StoreError } from '../store/port.ts';
import type { Timer } from '../../platform/clock.ts';
import type { Patience, StorageWork } from './patience.ts';
import { type BatchProgress, createPace, paceFigures } from './progress.ts';
import { writeResultFile } from './result-files.ts';
import { isExpired, type Unfinished, unfinished } from './result-text.ts';
import type { RunCounts, RunDeps, RunSettings } from './run-deps.ts';
import { createSending, type Sending } from './sending.ts';

/** `dropped`: the lease is lost or was given back; `failed`: a fault that waiting doesn't heal */
export type LifeEnd = 'ended' | 'dropped' | 'failed';

export interface BatchLife {
  readonly batch: StoredBatch;
  /** Absent while nothing may be sent. */
  readonly sending: Sending | undefined;
  readonly over: Promise<LifeEnd>;
  /** As the store had it at the heartbeat. */
  seen(batch: StoredBatch): void;
  /** Somebody else has it: nothing more is sent or written. */
  lose(): void;
  /** What is under way gets its grace; then nothing more is done. Resolves when the lease can be given back. */
  stop(graceMs: number): Promise<void>;
  progress(): BatchProgress;
}

export interface LifeDeps extends RunDeps {
  readonly patience: Patience;
  readonly counts: RunCounts;
  readonly ready: () => void;
  /** One file at a time is validated and has its lines written. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>;
}

type ValidInput = Extract<Validation, { readonly ok: true }>;

type Final = 'completed' | 'cancelled' | 'expired';

const linesPerCall = 1000;
const closedPerCall = 500;
/** A clock that was set forward is noticed after so long. */
const longestTimerMs = 60_000;

class Dropped extends Error {
  override readonly name = 'Dropped';
}

export function startBatch({ lease, batch: leased }: LeasedBatch, settings: RunSettings, deps: LifeDeps): BatchLife {
  const { store, shelf, clock, log, patience, counts } = deps;
  const halt = new AbortController();
  const { signal } = halt;
  const halted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
  halted.catch(() => {});
  const nowSeconds = () => Math.floor(clock.wallMs() / 1000);
  const persist = <T>(what: StorageWork, call: () => Promise<T>) => patience.persist(what, call, signal);
  const pace = createPace();
  const told = { retries: 0, reclaimed: 0 };
  let batch = leased;
  let completed = leased.counts.completed;
  let failed = leased.counts.failed;
  let sending: Sending | undefined;
  let interrupt: ((why: Unfinished) => void) | undefined;
  let stopValidating: (() => void) | undefined;
  let expiry: Timer | undefined;

  function written(results: readonly LineResult[]): void {
    for (const { ok } of results) {
      if (ok) completed += 1;
      else failed += 1;
      counts.results[ok ? 'completed' : 'failed'] += 1;
    }
    pace.add(results.length, clock.nowMs());
  }

  async function live(): Promise<void> {
    if (batch.status === 'validating') await validateInput();
    if (endedStatuses.has(batch.status)) return;
    let why: Unfinished | undefined;
    if (batch.status === 'in_progress') why = await sendAll();
    // A cancel may have come while the last lines were written.
    if (batch.status === 'cancelling') why = 'batch_cancelled';
    // Without a total it was cancelled before its lines were known.
    const closed = why === undefined || batch.counts.total === 0 ? 0 : await closeRest(why);
    await finish(why, closed);
  }

  async function validateInput(): Promise<void> {
    const aborting = new AbortController();
    stopValidating = () => aborting.abort(new Dropped('cancelled'));
    const both = AbortSignal.any([signal, aborting.signal]);
    const { inputFileId, endpoint } = batch;
    const limits = { ...settings, endpoint };
    const reading = () => validate(shelf.read(inputFileId), limits, { ...deps, signal: both });
    try {
      // Until its lines are written they are held: no other file's are meanwhile.
      const errors = await deps.inTurn(async () => {
        const found = await patience.persist('validating an input file', reading, both);
        if (!found.ok) return found.errors;
        await begin(found, both);
        return undefined;
      });
      if (errors !== undefined) await refuse(errors);
    } catch (error) {
      if (aborting.signal.aborted && !signal.aborted) return;
      if (!(error instanceof StoreError) || error.fault !== 'broken') throw error;
      await refuse([{ code: 'input_unreadable', message: 'The input file could not be read.' }]);
    } finally {
      stopValidating = undefined;
    }
  }

  async function begin({ lines, model }: ValidInput, halting: AbortSignal): Promise<void> {
    const total = lines.count;
    for (let from = 0; from < total; from += linesPerCall) {
      halting.throwIfAborted();
      const some = lines.slice(from, from + linesPerCall);
      await persist('writing lines', () => store.addLines(lease, some, from === 0));
    }
    const begun = { total, model, nowSeconds: nowSeconds() };
    batch = await persist('beginning a batch', () => store.begin(lease, begun));
    log.info('batch begins', { batch: batch.id, tenant: batch.tenant, lines: total });
  }

  async function refuse(errors: readonly BatchError[]): Promise<void> {
    batch = await persist('failing a batch', () => store.fail(lease, errors, nowSeconds()));
    const [first] = errors;
    // Codes and numbers only: a message may quote what stands in the file.
    log.info('batch failed at validation', {
      batch: batch.id,
      tenant: batch.tenant,
      errors: errors.length,
      ...(first === undefined ? {} : { firstCode: first.code }),
      ...(first?.line === undefined ? {} : { firstLine: first.line }),
    });
  }

  /** @returns why some have no result; undefined: all have */
  async function sendAll(): Promise<Unfinished | undefined> {
    const isExpiredNow = () => clock.wallMs() >= batch.expiresAt * 1000;
    if (isExpiredNow()) return 'batch_expired';
    const interrupted = new Promise<Unfinished>((resolve) => {
      interrupt = resolve;
    });
    const watch = () => {
      if (isExpiredNow()) interrupt?.('batch_expired');
      else expiry = clock.timer(Math.min(longestTimerMs, batch.expiresAt * 1000 - clock.wallMs()), watch);
    };
    watch();
    const retried = (why: 'retry' | 'reclaimed') => {
      if (why === 'retry') told.retries += 1;
      else told.reclaimed += 1;
    };
    sending = createSending({ batch, lease }, settings, { ...deps, signal, written, retried });
    deps.ready();
    try {
      const all = sending.done.then(() => undefined);
      const why = await Promise.race([all, interrupted, halted]);
      if (why !== undefined) await sending.end(0);
      return why;
    } finally {
      expiry?.cancel();
      interrupt = undefined;
      sending.drop();
      sending = undefined;
    }
  }

  /** Every line without a result gets one that says why it has none. @returns how many */
  async function closeRest(code: Unfinished): Promise<number> {
    let closed = 0;
    for (let afterRank = -1; ;) {
      const page = { afterRank, limit: closedPerCall };
      const lines = await persist('reading pending lines', () => store.pending(lease, page));
      const last = lines.at(-1);
      if (last === undefined) return closed;
      const results = lines.map((line) => unfinished(batch.id, line, code));
      await persist('writing results', () => store.addResults(lease, results));
      closed += results.length;
      failed += results.length;
      counts.results[code === 'batch_expired' ? 'expired' : 'cancelled'] += results.length;
      afterRank = last.rank;
    }
  }

  async function finish(why: Unfinished | undefined, closed: number): Promise<void> {
    let final: Final = why === 'batch_cancelled' ? 'cancelled' : 'completed';
    if (why === 'batch_expired' && (closed > 0 || (await hasExpiredLines()))) final = 'expired';
    if (final === 'completed') {
      batch = await persist('closing a batch', () => store.move(lease, 'finalizing', nowSeconds()));
      if (batch.cancellingAt !== undefined) final = 'cancelled';
    }
    const parts = { store, shelf, lease, signal, fileLifeSeconds: settings.fileLifeSeconds, nowSeconds: nowSeconds() };
    const output = await persist('writing an output file', () => writeResultFile(batch, 'output', parts));
    const error = await persist('writing an error file', () => writeResultFile(batch, 'error', parts));
    const end = { status: final, output: output.file, error: error.file };
    batch = await persist('ending a batch', () => store.finish(lease, { ...end, nowSeconds: nowSeconds() }));
    log.info('batch ends', {
      batch: batch.id,
      tenant: batch.tenant,
      status: batch.status,
      completed: batch.counts.completed,
      failed: batch.counts.failed,
    });
  }

  /** Whoever had it before may have closed its lines already. */
  async function hasExpiredLines(): Promise<boolean> {
    for (let afterLine = 0; ;) {
      const page = { ok: false, afterLine, limit: 100 };
      const rows = await persist('reading results', () => store.results(lease, page));
      if (rows.some(isExpired)) return true;
      const last = rows.at(-1);
      if (last === undefined) return false;
      afterLine = last.line;
    }
  }

  function ending(error: unknown): LifeEnd {
    if (error instanceof Dropped || signal.aborted) return 'dropped';
    if (error instanceof StoreError && error.fault === 'lost') {
      log.warn('a batch went to another process', { batch: batch.id });
      return 'dropped';
    }
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    log.error('a batch can not go on; it is tried again later', { batch: batch.id, error: text });
    return 'failed';
  }

  const over = live().then(
    () => 'ended' as const,
    (error: unknown) => {
      sending?.drop();
      return ending(error);
    },
  );

  return {
    get batch() {
      return batch;
    },
    get sending() {
      return sending;
    },
    over,
    seen(fresh) {
      if (fresh.status !== 'cancelling' || batch.status === 'cancelling') return;
      batch = fresh;
      stopValidating?.();
      interrupt?.('batch_cancelled');
    },
    lose() {
      sending?.drop();
      halt.abort(new Dropped('the lease is lost'));
    },
    async stop(graceMs) {
      const ended = sending?.end(graceMs).catch(() => {});
      if (ended !== undefined) await within(ended, graceMs + stopMs);
      halt.abort(new Dropped('warmlane stops'));
      await over;
    },
    progress() {
      const nowMs = clock.nowMs();
      const linesLeft = Math.max(0, batch.counts.total - completed - failed);
      const secondsToExpiry = batch.expiresAt - nowSeconds();
      return {
        id: batch.id,
        inFlight: sending?.inFlight ?? 0,
        running: sending?.running ?? 0,
        backingOff: sending?.backingOff ?? 0,
        ...told,
        ...paceFigures(pace.perSecond(nowMs), { linesLeft, secondsToExpiry }),
      };
    },
  };

  function within(promise: Promise<unknown>, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = clock.timer(ms, resolve);
      void promise.then(() => {
        timer.cancel();
        resolve();
      });
    });
  }
}

/** For results that came in the grace to be written, if the store does so at all. */
const stopMs = 5000;
