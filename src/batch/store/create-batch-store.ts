/**
 * The store and the shelf that the settings ask for. Nothing of either is loaded before, so a proxy without batches carries no
 * database. The one place that knows which implementations there are.
 */
import { join } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { BatchStoreSettings } from '../settings.ts';
import type { Shelf } from '../shelf/port.ts';
import { StoreError, type BatchStore } from './port.ts';

export interface BatchStoreDeps {
  readonly clock: Clock;
  readonly log: Log;
}

export interface BatchStorage {
  readonly store: BatchStore;
  readonly shelf: Shelf;
}

/** A process that is being replaced needs a moment to let go of the file. */
const busyMs = 3000;

/**
 * Closing the store ends all that was opened.
 * @throws StoreError `busy`: another process has the SQLite file; `full`, `away`, `broken`
 */
export async function createBatchStore(settings: BatchStoreSettings, deps: BatchStoreDeps): Promise<BatchStorage> {
  if (settings.kind === 'sqlite') return await inDirectory(settings.directory, deps);
  return await inPostgres(settings, deps);
}

/** Whoever starts it is looking, and has to know what to change. */
async function named<Value>(key: string, opened: Promise<Value>): Promise<Value> {
  try {
    return await opened;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new StoreError(error.fault, `${key}: ${error.message}`, { cause: error });
  }
}

const directoryKey = 'batch.directory (--batch-dir)';

async function inDirectory(directory: string, { clock }: BatchStoreDeps): Promise<BatchStorage> {
  const { createSqliteStore } = await import('./sqlite-store.ts');
  const store = await named(
    directoryKey,
    createSqliteStore({ path: join(directory, 'batches.sqlite'), busyMs }, { clock }),
  );
  return await withShelf(store, async () => await shelfIn(directory));
}

async function inPostgres(
  { url, directory }: Extract<BatchStoreSettings, { kind: 'postgres' }>,
  { log }: BatchStoreDeps,
): Promise<BatchStorage> {
  const { openPostgresLink } = await import('./postgres-link.ts');
  const { createPostgresStore } = await import('./postgres-store.ts');
  const link = await named('batch.postgres', openPostgresLink(url, { log }));
  return await withShelf(createPostgresStore(link), async () => {
    if (directory !== undefined) return await shelfIn(directory);
    const { createPostgresShelf } = await import('../shelf/postgres-shelf.ts');
    return createPostgresShelf(link);
  });
}

async function withShelf(store: BatchStore, open: () => Promise<Shelf>): Promise<BatchStorage> {
  try {
    return { store, shelf: await open() };
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function shelfIn(directory: string): Promise<Shelf> {
  const { createDirectoryShelf } = await import('../shelf/directory-shelf.ts');
  return await named(directoryKey, createDirectoryShelf(join(directory, 'files')));
}
