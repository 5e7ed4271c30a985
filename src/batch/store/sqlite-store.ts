/**
 * The store on SQLite, as the rest of the program sees it: each call goes as a message to a worker thread, so the event loop that
 * relays streams never waits for a disk. A worker that dies fails the calls that it had; the next call begins a new one.
 *
 * Run from its TypeScript source (tests), the same service stands in this thread behind the same messages: a worker needs a file
 * that Node 20 can run. `test/unit/batch/store/sqlite-worker.test.ts` runs the built one.
 */
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import type { Clock } from '../../platform/clock.ts';
import { StoreError, type BatchStore } from './port.ts';
import type { FromWorker, ToWorker } from './sqlite-call.ts';
import type { CallName, StoreCalls } from './sqlite-core.ts';
import type { SqliteFileSettings } from './sqlite-file.ts';
import type { SqliteWorkerData } from './sqlite-worker.ts';

export interface SqliteStoreDeps {
  readonly clock: Clock;
}

/** Calls that may wait at once. The runner has far fewer; more means that nobody waits for answers. */
const mostWaiting = 10_000;

/** For what a thread that ended still said. */
const lastAnswersMs = 100;

interface Waiting {
  readonly settle: (value: unknown) => void;
  readonly fail: (error: Error) => void;
}

/** One worker and the calls that it has. */
interface Thread {
  ask(message: (id: number) => ToWorker): Promise<unknown>;
}

/** @throws StoreError `busy`: another process has the file; `full`, `away`, `broken` */
export async function createSqliteStore(settings: SqliteFileSettings, { clock }: SqliteStoreDeps): Promise<BatchStore> {
  let closed = false;
  let thread: Promise<Thread> | undefined;

  async function current(): Promise<Thread> {
    if (closed) throw new StoreError('away', `${settings.path} is closed`);
    thread ??= openThread(settings, () => {
      thread = undefined;
    });
    return await thread;
  }

  function call<Name extends CallName>(name: Name): StoreCalls[Name] {
    const ask = async (...given: unknown[]) => {
      const on = await current();
      // Each method's arguments go with its name, which the compiler can't see for all of them at once.
      return await on.ask((id) => ({ id, nowMs: clock.nowMs(), name, given }) as unknown as ToWorker);
    };
    return ask as unknown as StoreCalls[Name];
  }

  await current();
  return {
    kind: 'sqlite',
    addFile: call('addFile'),
    file: call('file'),
    files: call('files'),
    fileBytes: call('fileBytes'),
    removeFile: call('removeFile'),
    dropExpiredFiles: call('dropExpiredFiles'),
    unknownFiles: call('unknownFiles'),
    addBatch: call('addBatch'),
    batch: call('batch'),
    batches: call('batches'),
    dropEndedBatches: call('dropEndedBatches'),
    cancel: call('cancel'),
    lease: call('lease'),
    renew: call('renew'),
    release: call('release'),
    addLines: call('addLines'),
    begin: call('begin'),
    fail: call('fail'),
    pending: call('pending'),
    noteRetries: call('noteRetries'),
    addResults: call('addResults'),
    move: call('move'),
    results: call('results'),
    finish: call('finish'),
    stats: call('stats'),
    async close() {
      if (closed) return;
      closed = true;
      const last = await thread?.catch(() => undefined);
      await last?.ask((id) => ({ id, name: 'close' }));
    },
  };
}

/** @param ended the thread is gone: by `close`, or because it died */
async function openThread(settings: SqliteFileSettings, ended: () => void): Promise<Thread> {
  const { port1: port, port2 } = new MessageChannel();
  const waiting = new Map<number, Waiting>();
  let lastId = 0;
  let gone: StoreError | undefined;

  function end(why: StoreError): void {
    if (gone !== undefined) return;
    gone = why;
    ended();
    for (const { fail } of waiting.values()) fail(why);
    waiting.clear();
  }

  function forget(id: number): void {
    waiting.delete(id);
    // Nobody waits: this alone doesn't keep the process alive.
    if (waiting.size === 0) port.unref();
  }

  function take(answer: FromWorker): void {
    const asked = waiting.get(answer.id);
    forget(answer.id);
    if ('message' in answer) asked?.fail(errorOf(answer));
    else asked?.settle(answer.value);
  }

  port.on('message', take);
  let died: Error | undefined;
  const over = () => end(new StoreError('away', `the thread that has ${settings.path} open ended${because(died)}`));
  // The port's end comes behind its last message; the thread's own end may be told before.
  port.on('close', over);
  const opened = wait(0);
  await start(port2, settings, (error) => {
    died ??= error;
    // A loop that was busy meanwhile reads its messages first.
    setTimeout(() => setImmediate(over), lastAnswersMs);
  });
  await opened;

  async function wait(id: number): Promise<unknown> {
    return await new Promise((settle, fail) => {
      waiting.set(id, { settle, fail });
      port.ref();
    });
  }

  return {
    async ask(message) {
      if (gone !== undefined) throw gone;
      if (waiting.size >= mostWaiting)
        throw new StoreError('busy', `${settings.path}: ${mostWaiting} calls wait already`);
      const id = (lastId += 1);
      const answered = wait(id);
      try {
        port.postMessage(message(id));
      } catch (error) {
        forget(id);
        throw error;
      }
      return await answered;
    },
  };
}

function because(error: Error | undefined): string {
  return error === undefined ? '' : `: ${error.message}`;
}

async function start(port: MessagePort, settings: SqliteFileSettings, died: (error?: Error) => void): Promise<void> {
  if (import.meta.url.endsWith('.ts')) {
    const { serveSqlite } = await import('./sqlite-service.ts');
    serveSqlite(port, settings);
    return;
  }
  const data: SqliteWorkerData = { port, settings };
  const worker = new Worker(new URL('./sqlite-worker.js', import.meta.url), {
    name: 'warmlane-batch-store',
    // The process's own may be for its main script alone, and refused here.
    execArgv: [],
    workerData: data,
    transferList: [port],
  });
  // What it waits for keeps the process alive through its port.
  worker.unref();
  worker.on('error', (error) => died(error instanceof Error ? error : new Error(String(error))));
  worker.on('exit', () => died());
}

function errorOf({ fault, message }: Extract<FromWorker, { message: string }>): Error {
  return fault === undefined ? new Error(`batch store: ${message}`) : new StoreError(fault, message);
}
