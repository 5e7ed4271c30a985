/**
 * Works on the batches that this process has a lease on: takes them, keeps the leases, lets lines go as there is room, fairly between
 * tenants, and gives all back at the end. What becomes of one batch is `batch-life.ts`'s, of its lines `sending.ts`'s.
 */
import type { StoredBatch } from '../batch.ts';
import { type Lease, type LeasedBatch, StoreError, type StoreStats } from '../store/port.ts';
import type { Timer } from '../../platform/clock.ts';
import { type BatchLife, startBatch } from './batch-life.ts';
import { keepHouse } from './housekeeping.ts';
import { createPatience, type StorageWork } from './patience.ts';
import type { BatchProgress } from './progress.ts';
import { createRunCounts, type RunCounts, type RunDeps, type RunSettings } from './run-deps.ts';
import { type Contender, createTurns } from './turns.ts';

export interface Runner {
  /** A batch was added, or is to be cancelled: nobody need wait for the next look at the store. */
  wake(): void;
  /** Of the batches that are under way in this process. */
  progress(): readonly BatchProgress[];
  figures(): RunFigures;
  /** No more is sent; what is under way gets so long; leases are given back. */
  stop(graceMs: number): Promise<void>;
}

export interface RunFigures {
  readonly counts: RunCounts;
  /** lines that are with a backend or wait for a place */
  readonly inFlight: number;
  /** lines that were sent before and wait for another try */
  readonly backingOff: number;
  /** of the store as it was seen last; absent until then */
  readonly store?: StoreStats;
}

interface Held {
  readonly lease: Lease;
  readonly life: BatchLife;
}

/** So many batches are under way at once, so that no tenant waits behind another's; each costs a page of lines. */
const mostBatches = 64;
/** At one look, so that other replicas get their share. */
const batchesPerLook = 8;
const lookMs = 1000;
const statsMs = 5000;
/** What failed is tried again after so long. */
const failedMs = 1000;
/** Of the lines under way so many may wait for quiet, which may not come all day: the others are for those that online leaves alone. */
const mostWaitingShare = 0.5;
/** All lines' texts that are under way. */
const mostBytesInFlight = 64 * 1024 * 1024;

export function createRunner(settings: RunSettings, deps: RunDeps & { readonly owner: string }): Runner {
  const { store, clock, log, owner } = deps;
  const patience = createPatience(deps);
  const counts = createRunCounts();
  const turns = createTurns();
  const held = new Map<string, Held>();
  let validations: Promise<unknown> = Promise.resolve();
  let stopping = false;
  let renewedMs = clock.nowMs();
  let stats: StoreStats | undefined;
  let statsAtMs = Number.NEGATIVE_INFINITY;
  let pumping = false;
  let again = false;

  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = validations.then(work, work);
    validations = turn.catch(() => {});
    return turn;
  }

  const sendings = () => [...held.values()].flatMap(({ life }) => (life.sending === undefined ? [] : [life.sending]));
  const sum = (figure: (sending: ReturnType<typeof sendings>[number]) => number) =>
    sendings().reduce((total, sending) => total + figure(sending), 0);

  /** Lets lines go as long as there is room; what was done counts as room only once it is written. */
  function pump(): void {
    if (pumping) {
      again = true;
      return;
    }
    pumping = true;
    do {
      again = false;
      sendWhatFits();
    } while (again);
    pumping = false;
  }

  function sendWhatFits(): void {
    for (;;) {
      if (stopping || patience.isTroubled || clock.nowMs() - renewedMs > settings.leaseMs) return;
      const nowMs = clock.wallMs();
      const mayWait =
        sum((sending) => sending.waiting) < Math.max(1, Math.floor(mostWaitingShare * settings.maxLinesInFlight));
      const able = [...held.values()].filter(({ life }) => life.sending?.hasNext(nowMs, mayWait) === true);
      if (able.length === 0) return;
      const inFlight = sum((sending) => sending.inFlight);
      if (inFlight + sum((sending) => sending.unwritten) >= settings.maxLinesInFlight) return;
      if (inFlight > 0 && sum((sending) => sending.bytesInFlight) > mostBytesInFlight) return;
      const next = turns.next(able.map(({ life }) => ({ life, ...contender(life.batch) })));
      next?.life.sending?.sendNext(mayWait);
    }
  }

  function take(leased: LeasedBatch): void {
    const { batchId } = leased.lease;
    held.get(batchId)?.life.lose();
    const life = startBatch(leased, settings, { ...deps, patience, counts, ready: pump, inTurn });
    const mine: Held = { lease: leased.lease, life };
    held.set(batchId, mine);
    void life.over.then((how) => {
      if (held.get(batchId) === mine) held.delete(batchId);
      if (how === 'ended') looker.soon();
      pump();
    });
  }

  async function look(): Promise<void> {
    const room = Math.min(batchesPerLook, mostBatches - held.size);
    if (room > 0) {
      const found = await store.lease({ owner, ttlMs: settings.leaseMs, max: room });
      if (stopping) {
        for (const { lease } of found) await store.release(lease);
        return;
      }
      if (held.size === 0) renewedMs = clock.nowMs();
      found.forEach(take);
    }
    if (clock.nowMs() - statsAtMs >= statsMs) {
      statsAtMs = clock.nowMs();
      stats = await store.stats();
    }
  }

  async function renew(): Promise<void> {
    const asked = [...held.values()];
    const askedMs = clock.nowMs();
    const kept =
      asked.length === 0
        ? []
        : await store.renew(
            asked.map(({ lease }) => lease),
            settings.leaseMs,
          );
    renewedMs = askedMs;
    for (const mine of asked) {
      if (held.get(mine.lease.batchId) !== mine) continue;
      const now = kept.find(({ lease }) => lease.batchId === mine.lease.batchId);
      if (now !== undefined) mine.life.seen(now.batch);
      else if (mine.life.sending !== undefined) mine.life.lose();
    }
    pump();
  }

  const looker = createRounds('looking for batches', look, lookMs);
  const renewer = createRounds('keeping batches', renew, Math.max(50, settings.leaseMs / 3));

  /** Something that is done again and again, one at a time, and at once when asked for. */
  function createRounds(what: StorageWork, work: () => Promise<void>, everyMs: number) {
    let timer: Timer | undefined;
    let running: Promise<void> | undefined;
    let wanted = false;
    /** @returns when the next one is due */
    const round = async (): Promise<number> => {
      try {
        await work();
        patience.worked(what);
        pump();
        return everyMs;
      } catch (error) {
        if (error instanceof StoreError) patience.failed(what, error.fault, error);
        else log.error('the runner of batches failed', { during: what, error: textOf(error) });
        return Math.min(everyMs, failedMs);
      }
    };
    const begin = (): void => {
      timer?.cancel();
      timer = undefined;
      if (running !== undefined) {
        wanted = true;
        return;
      }
      running = round().then((nextMs) => {
        running = undefined;
        if (stopping) return;
        if (wanted) {
          wanted = false;
          begin();
        } else timer = clock.timer(nextMs, begin);
      });
    };
    return {
      soon: () => {
        if (!stopping) begin();
      },
      async end(): Promise<void> {
        timer?.cancel();
        await running;
      },
    };
  }

  const endHousekeeping = keepHouse(settings, deps);
  looker.soon();
  renewer.soon();

  return {
    wake() {
      looker.soon();
      renewer.soon();
    },
    progress: () => [...held.values()].map(({ life }) => life.progress()),
    figures: () => ({
      counts,
      inFlight: sum((sending) => sending.inFlight),
      backingOff: sum((sending) => sending.backingOff),
      ...(stats === undefined ? {} : { store: stats }),
    }),
    async stop(graceMs) {
      endHousekeeping();
      stopping = true;
      await Promise.all([looker.end(), renewer.end()]);
      // Nobody else may have them meanwhile.
      const graceInLeaseMs = Math.min(graceMs, settings.leaseMs / 3);
      await Promise.all([...held.values()].map((mine) => giveBack(mine, graceInLeaseMs)));
    },
  };

  async function giveBack({ lease, life }: Held, graceMs: number): Promise<void> {
    await life.stop(graceMs);
    try {
      await store.release(lease);
    } catch (error) {
      // Then others wait for the lease to run out.
      log.warn('a batch could not be given back', { batch: lease.batchId, error: textOf(error) });
    }
  }
}

function contender({ id, tenant, expiresAt }: StoredBatch): Contender {
  return { id, tenant, expiresAt };
}

function textOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
