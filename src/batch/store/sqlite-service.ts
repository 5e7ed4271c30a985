/**
 * The working side of the SQLite store: opens the file, takes calls from a port, answers them, and tidies up while nobody asks.
 * Blocks its thread on the disk, so it stands in a worker (`sqlite-worker.ts`).
 */
import { receiveMessageOnPort, type MessagePort } from 'node:worker_threads';
import { StoreError } from './port.ts';
import type { FromWorker, SqliteCall, ToWorker } from './sqlite-call.ts';
import { closeSqliteFile, openSqliteFile, type SqliteFileSettings } from './sqlite-file.ts';
import { createSqliteTurns } from './sqlite-turns.ts';

/** Calls that share one transaction at most. */
const mostTogether = 256;
/** Between two pieces of tidying, so that the disk is others' too. */
const tidyPauseMs = 5;

/** The first message back, with id 0, says whether the file is open. */
export function serveSqlite(port: MessagePort, settings: SqliteFileSettings): void {
  const tell = (answer: FromWorker) => port.postMessage(answer);
  let opened: ReturnType<typeof openSqliteFile>;
  try {
    opened = openSqliteFile(settings);
  } catch (error) {
    const fault = error instanceof StoreError ? error.fault : undefined;
    tell({ id: 0, fault, message: error instanceof Error ? error.message : String(error) });
    port.close();
    return;
  }
  const database = opened;
  const turns = createSqliteTurns(database, settings.path);
  let tidying: NodeJS.Timeout | undefined;

  function tidySoon(): void {
    tidying ??= setTimeout(() => {
      tidying = undefined;
      if (turns.tidy()) tidySoon();
    }, tidyPauseMs);
    tidying.unref();
  }

  function close(id: number): void {
    clearTimeout(tidying);
    tidying = undefined;
    closeSqliteFile(database);
    tell({ id, value: undefined });
    port.close();
  }

  port.on('message', (first: ToWorker) => {
    let next: ToWorker | undefined = first;
    while (next !== undefined) {
      const calls: SqliteCall[] = [];
      while (next !== undefined && next.name !== 'close' && calls.length < mostTogether) {
        calls.push(next);
        next = received(port);
      }
      if (calls.length > 0) for (const answer of turns.answer(calls)) tell(answer);
      if (next?.name === 'close') {
        close(next.id);
        return;
      }
    }
    tidySoon();
  });
  tell({ id: 0, value: undefined });
  tidySoon();
}

function received(port: MessagePort): ToWorker | undefined {
  const next: { readonly message: ToWorker } | undefined = receiveMessageOnPort(port);
  return next?.message;
}
