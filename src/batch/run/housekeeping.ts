/**
 * Files that are past their time go, batches that ended long ago, and bytes that no file's entry knows: what a crash left behind. All
 * are asked for now and then; what fails is tried again the next time.
 */
import type { Clock, Timer } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { Shelf } from '../shelf/port.ts';
import { type BatchStore, StoreError } from '../store/port.ts';

export interface HousekeepingSettings {
  /** A batch is known for so long after its end, and at least as long as one of its files. */
  readonly fileLifeSeconds: number;
}

export interface HousekeepingDeps {
  readonly store: Pick<BatchStore, 'dropExpiredFiles' | 'dropEndedBatches' | 'unknownFiles'>;
  readonly shelf: Pick<Shelf, 'sweep' | 'remove'>;
  readonly clock: Clock;
  readonly log: Log;
}

const firstMs = 30_000;
const everyMs = 600_000;
const filesPerCall = 100;
const batchesPerCall = 100;
/** An upload, or a result file whose batch waits for the store, may be without an entry for long. */
const leftBehindMs = 24 * 3600 * 1000;

/** @returns ends it */
export function keepHouse(
  { fileLifeSeconds }: HousekeepingSettings,
  { store, shelf, clock, log }: HousekeepingDeps,
): () => void {
  let timer: Timer | undefined;
  let isOver = false;

  async function dropExpired(): Promise<void> {
    for (let gone = filesPerCall; gone === filesPerCall && !isOver;) {
      const ids = await store.dropExpiredFiles(Math.floor(clock.wallMs() / 1000), filesPerCall);
      for (const id of ids) await shelf.remove(id);
      gone = ids.length;
      if (gone > 0) log.info('files of batches are past their time and were removed', { files: gone });
    }
  }

  async function dropEnded(): Promise<void> {
    for (let gone = batchesPerCall; gone === batchesPerCall && !isOver;) {
      const beforeSeconds = Math.floor(clock.wallMs() / 1000) - fileLifeSeconds;
      gone = await store.dropEndedBatches(beforeSeconds, batchesPerCall);
      if (gone > 0) log.info('batches that ended long ago were forgotten', { batches: gone });
    }
  }

  async function sweepLeftBehind(): Promise<void> {
    const ids = await shelf.sweep(leftBehindMs);
    for (let at = 0; at < ids.length && !isOver; at += filesPerCall) {
      const unknown = await store.unknownFiles(ids.slice(at, at + filesPerCall));
      for (const id of unknown) await shelf.remove(id);
    }
  }

  async function round(): Promise<void> {
    try {
      await dropExpired();
      await dropEnded();
      await sweepLeftBehind();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      log.warn('old files of batches could not be looked through', { reason: error.fault, error: error.message });
    }
  }

  function next(ms: number): void {
    timer = clock.timer(ms, () => {
      void round()
        .catch((error: unknown) => log.error('looking through old files of batches failed', { error: String(error) }))
        .finally(() => {
          if (!isOver) next(everyMs);
        });
    });
  }

  next(firstMs);
  return () => {
    isOver = true;
    timer?.cancel();
  };
}
