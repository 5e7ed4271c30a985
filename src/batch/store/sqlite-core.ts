/**
 * What the store does, as SQL on one SQLite connection: every method of the port, synchronous, within a transaction that
 * the caller opened (`sqlite-turns.ts`), which is how several calls share one flush to disk. Runs in the worker thread.
 */
import type { BatchStore } from './port.ts';
import type { SqliteDatabase } from './sqlite-file.ts';
import { createSqliteBatches } from './sqlite-batches.ts';
import { createSqliteFiles } from './sqlite-files.ts';
import { createSqliteLines } from './sqlite-lines.ts';

export type StoreCalls = Omit<BatchStore, 'kind' | 'close'>;
export type CallName = keyof StoreCalls;

/** The port without its promises. */
export type SqliteCore = {
  readonly [Name in CallName]: (...given: Parameters<StoreCalls[Name]>) => Awaited<ReturnType<StoreCalls[Name]>>;
};

export interface SqliteClock {
  /** The process's monotonic clock, for leases: they don't outlive it. */
  nowMs(): number;
}

export function createSqliteCore(database: SqliteDatabase, clock: SqliteClock): SqliteCore {
  const batches = createSqliteBatches(database, clock);
  return { ...createSqliteFiles(database), ...batches.calls, ...createSqliteLines(database, batches) };
}
