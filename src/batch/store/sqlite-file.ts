/**
 * The SQLite file: opening it for this process alone, its settings, its version, and what its errors mean. The package is libsql: its
 * binary comes with `npm ci`, while `node:sqlite` needs Node 22.5 and better-sqlite3 compiles where its own binary can't be had.
 * Blocks on the disk, so it belongs in a worker thread.
 *
 * One process per file: the lock is held as long as the file is open, and the system frees it when the process is killed.
 */
import { dirname } from 'node:path';
import Database from 'libsql';
import { makeFolder } from '../../platform/make-folder.ts';
import { StoreError } from './port.ts';
import { sqliteSteps } from './sqlite-schema.ts';

export type SqliteDatabase = InstanceType<typeof Database>;

export interface SqliteFileSettings {
  readonly path: string;
  /** How long to wait for another process that is just about to end. */
  readonly busyMs: number;
}

/** Answers of 2 KiB fill half of the usual 4 KiB page each; seven of them fit one of these. */
const pageBytes = 16 * 1024;
/** What the write-ahead log keeps on disk once its pages are in the file. */
const mostLogBytes = 64 * 1024 * 1024;

/** @throws StoreError `busy`: another process has it; `full`, `away`, `broken` */
export function openSqliteFile({ path, busyMs }: SqliteFileSettings): SqliteDatabase {
  let database: SqliteDatabase | undefined;
  try {
    makeFolder(dirname(path), 0o700);
    database = connect(path, busyMs);
    // Before the first access: then no shared memory file is used, and the first transaction takes the lock for good.
    database.pragma('locking_mode = exclusive');
    database.pragma(`page_size = ${pageBytes}`);
    database.pragma('auto_vacuum = incremental');
    database.pragma('journal_mode = wal');
    // Each commit is on disk before it is acknowledged, also should the power fail.
    database.pragma('synchronous = full');
    database.pragma('foreign_keys = on');
    database.pragma(`journal_size_limit = ${mostLogBytes}`);
    database.pragma('cell_size_check = on');
    database.exec('begin exclusive');
    migrate(database, path);
    // Whoever had leases is gone: the lock says so.
    database.exec('update batches set lease_owner = null, lease_until_ms = null where lease_owner is not null');
    database.exec('commit');
    return database;
  } catch (error) {
    if (database !== undefined) closeSqliteFile(database);
    throw faultOf(error, path);
  }
}

function connect(path: string, busyMs: number): SqliteDatabase {
  try {
    return new Database(path, { timeout: busyMs });
  } catch (error) {
    // Thrown without SQLite's code.
    throw new StoreError('away', `${path} can't be opened: ${(error as Error).message}`, { cause: error });
  }
}

function migrate(database: SqliteDatabase, path: string): void {
  database.exec('create table if not exists schema_version (version integer not null) strict');
  const row = database.prepare('select max(version) as version from schema_version').get([]) as {
    version: number | null;
  };
  const version = row.version ?? 0;
  if (version > sqliteSteps.length)
    throw new StoreError(
      'broken',
      `${path} was made by a newer warmlane (schema ${version}; this one knows ${sqliteSteps.length})`,
    );
  for (const [index, step] of sqliteSteps.entries()) {
    if (index < version) continue;
    database.exec(step);
    database.prepare('insert into schema_version (version) values (?)').run([index + 1]);
  }
}

/**
 * Lets go of the file at once: libsql keeps a closed connection, and its lock, until the last of its statements is collected.
 * Leaving write-ahead logging moves the log into the file, and allows the lock to be given up.
 */
export function closeSqliteFile(database: SqliteDatabase): void {
  try {
    database.pragma('journal_mode = delete');
    database.pragma('locking_mode = normal');
    // The lock goes with the next access.
    database.prepare('select count(*) from schema_version').get([]);
  } catch {
    // A disk that is full or gone: the log stays beside the file, which is as good, and the lock goes with the process.
  }
  database.close();
}

/** @returns the error as a `StoreError`, with the file's path and what to do; what is none of SQLite's is returned as it is */
export function faultOf(error: unknown, path: string): unknown {
  if (error instanceof StoreError) return error;
  const { code, rawCode } = error as { code?: unknown; rawCode?: unknown };
  if (typeof code !== 'string') return error;
  const cause = { cause: error };
  if (typeof rawCode !== 'number') {
    if (code === 'ENOSPC' || code === 'EDQUOT') return new StoreError('full', noRoom(path), cause);
    return new StoreError('away', `${path} can't be opened: ${(error as Error).message}`, cause);
  }
  const detail = `${(error as Error).message} (${code})`;
  // The low byte is the primary code: https://sqlite.org/rescode.html
  switch (rawCode & 0xff) {
    case 5:
    case 6:
      return new StoreError(
        'busy',
        `another process has ${path} open: one process per SQLite file; Postgres is for several`,
        cause,
      );
    case 13:
      return new StoreError('full', noRoom(path), cause);
    case 8:
      return new StoreError('away', `${path} is read-only: ${detail}`, cause);
    case 10:
      return new StoreError('away', `the disk under ${path} failed: ${detail}`, cause);
    case 3:
    case 14:
    case 23:
      return new StoreError('away', `${path} can't be opened: ${detail}`, cause);
    case 11:
    case 26:
      return new StoreError(
        'broken',
        `${path} is damaged: ${detail}; put a backup in its place, or move it away to begin anew`,
        cause,
      );
    default:
      return new StoreError('broken', `${path}: ${detail}`, cause);
  }
}

function noRoom(path: string): string {
  return `the disk under ${path} is full: work goes on once there is room`;
}
