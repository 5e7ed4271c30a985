/**
 * Calls in turn on one SQLite connection. Those that wait together share one transaction, and so one flush to disk; where one of them
 * fails, which is rare, all are undone and each is done by itself. Answers go out after the commit, never before.
 */
import { faultOf, type SqliteDatabase } from './sqlite-file.ts';
import { StoreError } from './port.ts';
import type { FromWorker, SqliteCall } from './sqlite-call.ts';
import { createSqliteCore, type SqliteCore } from './sqlite-core.ts';
import { sweepLeftovers } from './sqlite-lines.ts';

export interface SqliteTurns {
  /** @returns one answer for each, in their order */
  answer(calls: readonly SqliteCall[]): readonly FromWorker[];
  /** Removes a piece of what ended batches left behind. @returns whether there may be more */
  tidy(): boolean;
}

/** Rows that are removed at once, and pages given back to the disk at once: some 10 ms of work. */
const sweptRows = 500;
const freedPages = 256;
/** Free pages that stay in the file, to be used again. */
const keptFreePages = 1024;

export function createSqliteTurns(database: SqliteDatabase, path: string): SqliteTurns {
  let nowMs = 0;
  const core = createSqliteCore(database, { nowMs: () => nowMs });

  function run(call: SqliteCall): unknown {
    nowMs = call.nowMs;
    // Name and arguments come from one value, which the compiler can't see through the union.
    const method = core[call.name] as (...given: unknown[]) => ReturnType<SqliteCore[typeof call.name]>;
    return method(...call.given);
  }

  function undo(): void {
    // A full disk ends the transaction by itself.
    if (database.inTransaction) database.exec('rollback');
  }

  function together(calls: readonly SqliteCall[]): readonly FromWorker[] {
    database.exec('begin immediate');
    const answers = calls.map((call): FromWorker => ({ id: call.id, value: run(call) }));
    database.exec('commit');
    return answers;
  }

  function answer(calls: readonly SqliteCall[]): readonly FromWorker[] {
    try {
      return together(calls);
    } catch (error) {
      undo();
      // Each by itself then: only the one that it is about is refused.
      if (calls.length > 1) return calls.flatMap((call) => answer([call]));
      const fault = faultOf(error, path);
      return calls.map(({ id }) =>
        fault instanceof StoreError
          ? { id, fault: fault.fault, message: fault.message }
          : { id, fault: undefined, message: String(error instanceof Error ? error.stack : error) },
      );
    }
  }

  function freePages(): number {
    const [row] = database.pragma('freelist_count') as readonly { freelist_count: number }[];
    return row?.freelist_count ?? 0;
  }

  return {
    answer,
    tidy() {
      try {
        database.exec('begin immediate');
        const more = sweepLeftovers(database, sweptRows);
        database.exec('commit');
        if (more) return true;
        if (freePages() <= keptFreePages) return false;
        database.pragma(`incremental_vacuum(${freedPages})`);
        return true;
      } catch {
        // The next call meets the same fault and reports it; tidying is tried again after that.
        undo();
        return false;
      }
    },
  };
}
