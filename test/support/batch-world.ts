/**
 * A runner of batches on a store and a shelf in memory, with a sender that answers as a test says and a clock that stands still:
 * what is under way can be looked at line by line.
 */
import type { StoredBatch } from '../../src/batch/batch.ts';
import type { LineAsk, LineEnd } from '../../src/batch/line-port.ts';
import type { RunSettings } from '../../src/batch/run/run-deps.ts';
import { createRunner, type Runner } from '../../src/batch/run/runner.ts';
import { createLog } from '../../src/platform/log.ts';
import { createFakeClock, type FakeClock, settle } from './fake-clock.ts';
import {
  createMemoryBatchStore,
  createMemoryShelf,
  type MemoryBatchStore,
  type MemoryShelf,
} from './memory-batch-store.ts';

export interface SentLine extends LineAsk {
  /** `custom_id` of the line, which each test puts into the body as `user`. */
  readonly id: string;
  readonly aborted: boolean;
  /** It has a place on a backend. */
  placed(): void;
  end(end: LineEnd): void;
  /** A whole answer. */
  ok(): void;
  status(status: number, retryAfterMs?: number): void;
}

export interface BatchWorld {
  readonly clock: FakeClock;
  readonly store: MemoryBatchStore;
  readonly shelf: MemoryShelf;
  /** Every line that was sent, in order. */
  readonly sent: readonly SentLine[];
  /** Those that have no end yet. */
  open(): readonly SentLine[];
  readonly logged: readonly Record<string, unknown>[];
  /** Puts a batch there whose lines have these ids. */
  add(ids: readonly string[], change?: Partial<StoredBatch>): Promise<StoredBatch>;
  start(change?: Partial<RunSettings>): Runner;
  batch(id: string): Promise<StoredBatch>;
  /** Lets everything come to rest, without time going by. */
  rest(): Promise<void>;
  /** Lets time go by in steps, and everything come to rest after each. */
  pass(ms: number, stepMs?: number): Promise<void>;
  /** Lines of the batch's two files by `custom_id`; an id in both, or twice, is an error. */
  files(batch: StoredBatch): ReadonlyMap<string, FileLine>;
}

export interface FileLine {
  readonly file: 'output' | 'error';
  readonly response: { readonly status_code: number; readonly request_id: string; readonly body: unknown } | null;
  readonly error: { readonly code: string } | null;
}

export const runSettings: RunSettings = {
  maxLines: 50_000,
  maxFileBytes: 200_000_000,
  maxLineBytes: 1_000_000,
  maxLinesInFlight: 4,
  maxAttempts: 3,
  fileLifeSeconds: 86_400,
  leaseMs: 30_000,
};

export const windowSeconds = 3600;

export function createBatchWorld(): BatchWorld {
  const clock = createFakeClock();
  const store = createMemoryBatchStore(() => clock.nowMs());
  const shelf = createMemoryShelf();
  const sent: SentLine[] = [];
  const open = new Set<SentLine>();
  const logged: Record<string, unknown>[] = [];
  const log = createLog(
    { level: 'debug', format: 'json' },
    (line) => void logged.push(JSON.parse(line) as Record<string, unknown>),
  );
  let batches = 0;

  async function rest(): Promise<void> {
    for (let n = 0; n < 30; n += 1) await settle();
  }

  return {
    clock,
    store,
    shelf,
    sent,
    logged,
    open: () => [...open],
    async add(names, change = {}) {
      batches += 1;
      const fileId = `file-${batches}`;
      const text = names.map(lineText).join('\n');
      shelf.put(fileId, text);
      const createdAt = Math.floor(clock.wallMs() / 1000);
      const batch: StoredBatch = {
        id: `batch_${batches}`,
        tenant: 'anonymous',
        endpoint: '/v1/chat/completions',
        inputFileId: fileId,
        completionWindow: '1h',
        status: 'validating',
        errors: [],
        createdAt,
        expiresAt: createdAt + windowSeconds,
        counts: { total: 0, completed: 0, failed: 0 },
        usage: { inputTokens: 0, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 },
        ...change,
      };
      const file = { id: fileId, tenant: batch.tenant, purpose: 'batch', filename: 'in.jsonl', bytes: text.length };
      await store.addFile({ ...file, createdAt });
      await store.addBatch(batch);
      return batch;
    },
    start(change = {}) {
      const sender = {
        send(ask: LineAsk, ended: (end: LineEnd) => void, placed: () => void) {
          const { user } = JSON.parse(ask.body.toString()) as { user: string };
          let aborted = false;
          const line: SentLine = {
            ...ask,
            id: user,
            get aborted() {
              return aborted;
            },
            placed,
            end(end) {
              if (open.delete(line)) ended(end);
            },
            ok: () => line.end({ kind: 'answered', status: 200, body: `{"id":"${user}"}` }),
            status(status, retryAfterMs) {
              const body = `{"error":{"message":"${status}"}}`;
              line.end({ kind: 'answered', status, body, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
            },
          };
          sent.push(line);
          open.add(line);
          return {
            abort() {
              aborted = true;
              line.end({ kind: 'aborted' });
            },
          };
        },
      };
      const deps = { store, shelf, sender, clock, log, random: () => 0.9997, owner: `owner-${sent.length}` };
      return createRunner({ ...runSettings, ...change }, deps);
    },
    async batch(id) {
      const { batches: all = [] } = (await store.batches(undefined, { limit: 1000, order: 'desc' })) ?? {};
      const found = all.find((one) => one.id === id);
      if (found === undefined) throw new Error(`no batch ${id}`);
      return found;
    },
    rest,
    async pass(ms, stepMs = 100) {
      await rest();
      for (let left = ms; left > 0; left -= stepMs) {
        clock.advance(Math.min(stepMs, left));
        await rest();
      }
    },
    files(batch) {
      const lines = new Map<string, FileLine>();
      const take = (file: 'output' | 'error', fileId: string | undefined) => {
        const text = fileId === undefined ? '' : (shelf.text(fileId) ?? '');
        for (const one of text.split('\n').filter((row) => row !== '')) {
          const { custom_id: id, ...rest_ } = JSON.parse(one) as FileLine & { custom_id: string };
          if (lines.has(id)) throw new Error(`${id} has two results`);
          lines.set(id, { ...rest_, file });
        }
      };
      take('output', batch.outputFileId);
      take('error', batch.errorFileId);
      return lines;
    },
  };
}

function lineText(id: string): string {
  const body = { model: 'm', user: id, messages: [{ role: 'user', content: `about ${id}` }] };
  return JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body });
}

/** `a0`, `a1`, … */
export function ids(count: number, name = 'l'): string[] {
  return Array.from({ length: count }, (_, n) => `${name}${n}`);
}
