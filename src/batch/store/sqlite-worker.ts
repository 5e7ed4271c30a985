/** The file that the SQLite store's worker thread runs. Not to be imported: it acts at once. */
import { workerData, type MessagePort } from 'node:worker_threads';
import type { SqliteFileSettings } from './sqlite-file.ts';
import { serveSqlite } from './sqlite-service.ts';

export interface SqliteWorkerData {
  readonly port: MessagePort;
  readonly settings: SqliteFileSettings;
}

const { port, settings } = workerData as SqliteWorkerData;
serveSqlite(port, settings);
