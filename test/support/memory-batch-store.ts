/**
 * Store and shelf of batches in memory, for tests of what stands on them: the same rules as the real ones (leases with an
 * epoch, the first result of a line counts), no disk. Faults can be set: a call fails as long as a test wants it to.
 */
import { Readable } from 'node:stream';
import type { BatchLine, BatchUsage, LineResult, PendingLine, StoredBatch, StoredFile } from '../../src/batch/batch.ts';
import { endedStatuses } from '../../src/batch/batch.ts';
import type { Shelf, ShelfWriter } from '../../src/batch/shelf/port.ts';
import { type BatchStore, type Lease, type Page, StoreError, type StoreFault } from '../../src/batch/store/port.ts';

export interface MemoryBatchStore extends BatchStore {
  /** From now on these calls fail so; undefined: no longer. */
  failOn(call: keyof BatchStore | 'all', fault: StoreFault | undefined): void;
  /** Calls so far, by name. */
  readonly calls: Readonly<Record<string, number>>;
  /** As if the process that has it were gone: anybody may take it. */
  expireLeases(): void;
  /** Results of a batch that is not over, by line. */
  resultsOf(batchId: string): readonly LineResult[];
}

interface Kept {
  batch: StoredBatch;
  owner: string | undefined;
  untilMs: number;
  epoch: number;
  lines: Map<number, BatchLine>;
  retries: Map<number, { attempts: number; notBeforeMs: number }>;
  results: Map<number, LineResult>;
}

function endedAt({ completedAt, failedAt, expiredAt, cancelledAt }: StoredBatch): number | undefined {
  return completedAt ?? failedAt ?? expiredAt ?? cancelledAt;
}

const noUsage: BatchUsage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 };

/** @param nowMs what leases run by */
export function createMemoryBatchStore(nowMs: () => number = () => performance.now()): MemoryBatchStore {
  const files = new Map<string, StoredFile>();
  const batches = new Map<string, Kept>();
  const faults = new Map<string, StoreFault>();
  const calls: Record<string, number> = {};

  async function enter(call: string): Promise<void> {
    calls[call] = (calls[call] ?? 0) + 1;
    await Promise.resolve();
    const fault = faults.get(call) ?? faults.get('all');
    if (fault !== undefined) throw new StoreError(fault, `the store is ${fault}`);
  }

  function held({ batchId, owner, epoch }: Lease): Kept {
    const kept = batches.get(batchId);
    if (kept === undefined || kept.owner !== owner || kept.epoch !== epoch)
      throw new StoreError('lost', 'the lease is lost');
    return kept;
  }

  function pageOf<T extends { readonly id: string }>(all: readonly T[], { limit, after, order }: Page) {
    const sorted = order === 'asc' ? all : all.toReversed();
    const at = after === undefined ? -1 : sorted.findIndex(({ id }) => id === after);
    if (after !== undefined && at < 0) return undefined;
    const items = sorted.slice(at + 1, at + 1 + limit);
    return { items, hasMore: sorted.length > at + 1 + limit };
  }

  function update(kept: Kept, change: Partial<StoredBatch>): StoredBatch {
    kept.batch = { ...kept.batch, ...change };
    return kept.batch;
  }

  return {
    kind: 'sqlite',
    calls,
    failOn(call, fault) {
      if (fault === undefined) faults.delete(call);
      else faults.set(call, fault);
    },
    expireLeases() {
      for (const kept of batches.values()) kept.untilMs = -1;
    },
    resultsOf: (batchId) => [...(batches.get(batchId)?.results.values() ?? [])].toSorted((a, b) => a.line - b.line),

    async addFile(file) {
      await enter('addFile');
      files.set(file.id, file);
    },
    async file(tenant, id) {
      await enter('file');
      const file = files.get(id);
      return file?.tenant === tenant ? file : undefined;
    },
    async files(tenant, page) {
      await enter('files');
      const mine = [...files.values()].filter(
        (file) => file.tenant === tenant && (page.purpose === undefined || file.purpose === page.purpose),
      );
      const found = pageOf(mine, page);
      return found && { files: found.items, hasMore: found.hasMore };
    },
    async fileBytes(tenant) {
      await enter('fileBytes');
      return [...files.values()].reduce((sum, file) => (file.tenant === tenant ? sum + file.bytes : sum), 0);
    },
    async removeFile(tenant, id) {
      await enter('removeFile');
      if (files.get(id)?.tenant !== tenant) return 'absent';
      for (const { batch } of batches.values())
        if (batch.inputFileId === id && !endedStatuses.has(batch.status)) return 'in_use';
      files.delete(id);
      return 'removed';
    },
    async dropExpiredFiles(nowSeconds, limit) {
      await enter('dropExpiredFiles');
      const gone = [...files.values()]
        .filter(({ expiresAt }) => expiresAt !== undefined && expiresAt <= nowSeconds)
        .slice(0, limit)
        .map(({ id }) => id);
      for (const id of gone) files.delete(id);
      return gone;
    },
    async unknownFiles(ids) {
      await enter('unknownFiles');
      return ids.filter((id) => !files.has(id));
    },

    async dropEndedBatches(beforeSeconds, limit) {
      await enter('dropEndedBatches');
      const gone = [...batches.values()]
        .map(({ batch }) => batch)
        .filter((batch) => (endedAt(batch) ?? Infinity) <= beforeSeconds)
        .filter(({ outputFileId = '', errorFileId = '' }) => !files.has(outputFileId) && !files.has(errorFileId))
        .slice(0, limit);
      for (const { id } of gone) batches.delete(id);
      return gone.length;
    },
    async addBatch(batch) {
      await enter('addBatch');
      if (files.get(batch.inputFileId)?.tenant !== batch.tenant) return 'no_file';
      const lines = new Map<number, BatchLine>();
      batches.set(batch.id, {
        batch,
        owner: undefined,
        untilMs: -1,
        epoch: 0,
        lines,
        retries: new Map(),
        results: new Map(),
      });
      return 'added';
    },
    async batch(tenant, id) {
      await enter('batch');
      const kept = batches.get(id);
      return kept?.batch.tenant === tenant ? kept.batch : undefined;
    },
    async batches(tenant, page) {
      await enter('batches');
      const mine = [...batches.values()]
        .map(({ batch }) => batch)
        .filter((batch) => tenant === undefined || batch.tenant === tenant)
        .filter((batch) => page.open === undefined || page.open !== endedStatuses.has(batch.status));
      const found = pageOf(mine, page);
      return found && { batches: found.items, hasMore: found.hasMore };
    },
    async cancel(tenant, id, nowSeconds) {
      await enter('cancel');
      const kept = batches.get(id);
      if (kept === undefined || kept.batch.tenant !== tenant) return undefined;
      const { status } = kept.batch;
      if (status === 'validating' || status === 'in_progress')
        update(kept, { status: 'cancelling', cancellingAt: nowSeconds });
      return kept.batch;
    },

    async lease({ owner, ttlMs, max }) {
      await enter('lease');
      const free = [...batches.values()].filter(
        (kept) => !endedStatuses.has(kept.batch.status) && kept.untilMs <= nowMs(),
      );
      return free
        .toSorted((a, b) => a.batch.expiresAt - b.batch.expiresAt)
        .slice(0, max)
        .map((kept) => {
          kept.owner = owner;
          kept.epoch += 1;
          kept.untilMs = nowMs() + ttlMs;
          return { lease: { batchId: kept.batch.id, owner, epoch: kept.epoch }, batch: kept.batch };
        });
    },
    async renew(leases, ttlMs) {
      await enter('renew');
      return leases.flatMap((lease) => {
        const kept = batches.get(lease.batchId);
        if (kept === undefined || kept.owner !== lease.owner || kept.epoch !== lease.epoch) return [];
        kept.untilMs = nowMs() + ttlMs;
        return [{ lease, batch: kept.batch }];
      });
    },
    async release(lease) {
      await enter('release');
      const kept = batches.get(lease.batchId);
      if (kept?.owner !== lease.owner || kept.epoch !== lease.epoch) return;
      kept.owner = undefined;
      kept.untilMs = -1;
    },

    async addLines(lease, lines, first) {
      await enter('addLines');
      const kept = held(lease);
      if (first) kept.lines.clear();
      for (const line of lines) kept.lines.set(line.line, line);
    },
    async begin(lease, { total, model, nowSeconds }) {
      await enter('begin');
      const kept = held(lease);
      const counts = { ...kept.batch.counts, total };
      const named = model === undefined ? {} : { model };
      if (kept.batch.status === 'cancelling') return update(kept, { counts, ...named });
      return update(kept, { status: 'in_progress', inProgressAt: nowSeconds, counts, ...named });
    },
    async fail(lease, errors, nowSeconds) {
      await enter('fail');
      const kept = held(lease);
      kept.untilMs = -1;
      return update(kept, { status: 'failed', failedAt: nowSeconds, errors });
    },
    async pending(lease, { afterRank, limit }) {
      await enter('pending');
      const kept = held(lease);
      return [...kept.lines.values()]
        .filter((line) => !kept.results.has(line.line) && line.rank > afterRank)
        .toSorted((a, b) => a.rank - b.rank)
        .slice(0, limit)
        .map((line): PendingLine => ({ ...line, ...(kept.retries.get(line.line) ?? { attempts: 0, notBeforeMs: 0 }) }));
    },
    async noteRetries(lease, retries) {
      await enter('noteRetries');
      // As the columns of the real ones.
      if (!retries.every(({ attempts, notBeforeMs }) => Number.isInteger(attempts) && Number.isInteger(notBeforeMs)))
        throw new StoreError('broken', 'no whole numbers');
      const kept = held(lease);
      for (const { line, attempts, notBeforeMs } of retries) kept.retries.set(line, { attempts, notBeforeMs });
    },
    async addResults(lease, results) {
      await enter('addResults');
      const kept = held(lease);
      for (const result of results) {
        if (kept.results.has(result.line)) continue;
        kept.results.set(result.line, result);
        const { counts, usage } = kept.batch;
        const { inputTokens, cachedTokens, outputTokens, reasoningTokens } = result.usage ?? noUsage;
        update(kept, {
          ...(result.unrun === true ? { unrun: (kept.batch.unrun ?? 0) + 1 } : {}),
          counts: {
            total: counts.total,
            completed: counts.completed + (result.ok ? 1 : 0),
            failed: counts.failed + (result.ok ? 0 : 1),
          },
          usage: {
            inputTokens: usage.inputTokens + inputTokens,
            cachedTokens: usage.cachedTokens + cachedTokens,
            outputTokens: usage.outputTokens + outputTokens,
            reasoningTokens: usage.reasoningTokens + reasoningTokens,
          },
        });
      }
    },
    async move(lease, status, nowSeconds) {
      await enter('move');
      const kept = held(lease);
      return update(kept, { status, ...(status === 'finalizing' ? { finalizingAt: nowSeconds } : {}) });
    },
    async results(lease, { ok, afterLine, limit }) {
      await enter('results');
      return [...held(lease).results.values()]
        .filter((result) => result.ok === ok && result.line > afterLine)
        .toSorted((a, b) => a.line - b.line)
        .slice(0, limit);
    },
    async finish(lease, { status, output, error, errors, nowSeconds }) {
      await enter('finish');
      const kept = held(lease);
      for (const file of [output, error]) if (file !== undefined) files.set(file.id, file);
      kept.lines.clear();
      kept.results.clear();
      kept.owner = undefined;
      const at = {
        completed: { completedAt: nowSeconds },
        expired: { expiredAt: nowSeconds },
        cancelled: { cancelledAt: nowSeconds },
        failed: { failedAt: nowSeconds },
      };
      return update(kept, {
        status,
        ...at[status],
        ...(output === undefined ? {} : { outputFileId: output.id }),
        ...(error === undefined ? {} : { errorFileId: error.id }),
        ...(errors === undefined ? {} : { errors }),
      });
    },
    async stats() {
      await enter('stats');
      const open = [...batches.values()].filter(({ batch }) => !endedStatuses.has(batch.status));
      const oldest = open.map(({ batch }) => batch.createdAt).toSorted((a, b) => a - b)[0];
      return {
        files: files.size,
        openBatches: open.length,
        pendingLines: open.reduce((sum, { lines, results }) => sum + lines.size - results.size, 0),
        ...(oldest === undefined ? {} : { oldestAt: oldest }),
      };
    },
    async close() {},
  };
}

export interface MemoryShelf extends Shelf {
  put(id: string, bytes: string | Buffer): void;
  text(id: string): string | undefined;
  /** Files can't be written, as long as it stands. */
  fault: StoreFault | undefined;
}

export function createMemoryShelf(): MemoryShelf {
  const kept = new Map<string, Buffer>();
  const shelf: MemoryShelf = {
    fault: undefined,
    put: (id, bytes) => void kept.set(id, Buffer.from(bytes)),
    text: (id) => kept.get(id)?.toString(),
    async create(id) {
      const chunks: Buffer[] = [];
      let bytes = 0;
      const refuse = () => {
        if (shelf.fault !== undefined) throw new StoreError(shelf.fault, `the shelf is ${shelf.fault}`);
      };
      refuse();
      const writer: ShelfWriter = {
        get bytes() {
          return bytes;
        },
        async write(chunk) {
          refuse();
          chunks.push(Buffer.from(chunk));
          bytes += chunk.length;
        },
        async commit() {
          refuse();
          kept.set(id, Buffer.concat(chunks));
        },
        async discard() {},
      };
      return writer;
    },
    read(id, range) {
      const bytes = kept.get(id);
      if (bytes === undefined) {
        const failing = new Readable({ read() {} });
        failing.destroy(new StoreError('broken', 'there is no such file'));
        return failing;
      }
      return Readable.from([range === undefined ? bytes : bytes.subarray(range.at, range.at + range.bytes)], {
        objectMode: false,
      });
    },
    ranges: (id) => ({
      async read({ at, bytes }) {
        const found = kept.get(id);
        if (found === undefined) throw new StoreError('broken', 'there is no such file');
        return found.subarray(at, at + bytes);
      },
      async close() {},
    }),
    bytes: async (id) => kept.get(id)?.length,
    async remove(id) {
      kept.delete(id);
    },
    sweep: async () => [...kept.keys()],
  };
  return shelf;
}
