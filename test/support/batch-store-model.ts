/** What a store of batches means, without any database: plain maps, each call at once. Real stores are compared with it. */
import {
  endedStatuses,
  type BatchLine,
  type LineResult,
  type StoredBatch,
  type StoredFile,
} from '../../src/batch/batch.ts';
import { StoreError, type BatchStore, type Lease, type Page } from '../../src/batch/store/port.ts';

type Calls = Omit<BatchStore, 'kind' | 'close' | 'stats'>;
export type BatchStoreModel = {
  readonly [Name in keyof Calls]: (...given: Parameters<Calls[Name]>) => Awaited<ReturnType<Calls[Name]>>;
} & { passMs(ms: number): void };

interface Kept {
  batch: StoredBatch;
  owner: string | undefined;
  epoch: number;
  untilMs: number;
  lines: Map<number, BatchLine & { attempts: number; notBeforeMs: number }>;
  results: Map<number, LineResult>;
}

const moments = {
  in_progress: 'inProgressAt',
  finalizing: 'finalizingAt',
  completed: 'completedAt',
  failed: 'failedAt',
  expired: 'expiredAt',
  cancelling: 'cancellingAt',
  cancelled: 'cancelledAt',
} as const;

export function createBatchStoreModel(): BatchStoreModel {
  const files = new Map<string, StoredFile>();
  const kept = new Map<string, Kept>();
  let nowMs = 0;

  const isOver = ({ batch }: Kept) => endedStatuses.has(batch.status);
  const reads = (id: string) => [...kept.values()].some((each) => !isOver(each) && each.batch.inputFileId === id);
  const owned = ({ batchId, owner, epoch }: Lease) => {
    const found = kept.get(batchId);
    return found?.owner === owner && found.epoch === epoch ? found : undefined;
  };
  function held(lease: Lease): Kept {
    const found = owned(lease);
    if (found === undefined || isOver(found)) throw new StoreError('lost', 'lost');
    return found;
  }
  function to(
    entry: Kept,
    status: keyof typeof moments,
    nowSeconds: number,
    more: Partial<StoredBatch> = {},
  ): StoredBatch {
    return (entry.batch = { ...entry.batch, ...more, status, [moments[status]]: nowSeconds });
  }
  function page<T extends { readonly id: string }>(
    all: readonly T[],
    shown: (one: T) => boolean,
    { order, after, limit }: Page,
  ) {
    const ordered = order === 'asc' ? all : all.toReversed();
    const at = after === undefined ? -1 : ordered.findIndex(({ id }) => id === after);
    if (after !== undefined && at < 0) return undefined;
    const rest = ordered.slice(at + 1).filter(shown);
    return { items: rest.slice(0, limit), hasMore: rest.length > limit };
  }

  return {
    passMs: (ms) => void (nowMs += ms),
    addFile: (file) => void (files.has(file.id) || files.set(file.id, file)),
    file: (tenant, id) => (files.get(id)?.tenant === tenant ? files.get(id) : undefined),
    files(tenant, asked) {
      const mine = [...files.values()].filter((file) => file.tenant === tenant);
      const found = page(mine, ({ purpose }) => asked.purpose === undefined || purpose === asked.purpose, asked);
      return found && { files: found.items, hasMore: found.hasMore };
    },
    fileBytes: (tenant) =>
      [...files.values()].reduce((sum, file) => sum + (file.tenant === tenant ? file.bytes : 0), 0),
    removeFile(tenant, id) {
      if (files.get(id)?.tenant !== tenant) return 'absent';
      if (reads(id)) return 'in_use';
      files.delete(id);
      return 'removed';
    },
    dropExpiredFiles(nowSeconds, limit) {
      const gone = [...files.values()]
        .filter(({ id, expiresAt }) => expiresAt !== undefined && expiresAt <= nowSeconds && !reads(id))
        .toSorted((one, other) => (one.expiresAt ?? 0) - (other.expiresAt ?? 0))
        .slice(0, limit);
      for (const { id } of gone) files.delete(id);
      return gone.map(({ id }) => id);
    },
    unknownFiles: (ids) => ids.filter((id) => !files.has(id)),
    dropEndedBatches(beforeSeconds, limit) {
      const gone = [...kept.values()]
        .map(({ batch }) => batch)
        .filter(({ completedAt, failedAt, expiredAt, cancelledAt }) => {
          return (completedAt ?? failedAt ?? expiredAt ?? cancelledAt ?? Infinity) <= beforeSeconds;
        })
        .filter(({ outputFileId = '', errorFileId = '' }) => !files.has(outputFileId) && !files.has(errorFileId))
        .slice(0, limit);
      for (const { id } of gone) kept.delete(id);
      return gone.length;
    },
    addBatch(batch) {
      if (files.get(batch.inputFileId)?.tenant !== batch.tenant) return 'no_file';
      if (!kept.has(batch.id))
        kept.set(batch.id, { batch, owner: undefined, epoch: 0, untilMs: 0, lines: new Map(), results: new Map() });
      return 'added';
    },
    batch: (tenant, id) => (kept.get(id)?.batch.tenant === tenant ? kept.get(id)?.batch : undefined),
    batches(tenant, asked) {
      const mine = [...kept.values()]
        .map(({ batch }) => batch)
        .filter((batch) => tenant === undefined || batch.tenant === tenant);
      const shown = ({ status }: StoredBatch) => asked.open === undefined || asked.open !== endedStatuses.has(status);
      const found = page(mine, shown, asked);
      return found && { batches: found.items, hasMore: found.hasMore };
    },
    cancel(tenant, id, nowSeconds) {
      const entry = kept.get(id);
      if (entry?.batch.tenant !== tenant) return undefined;
      const { status } = entry.batch;
      return status === 'validating' || status === 'in_progress' ? to(entry, 'cancelling', nowSeconds) : entry.batch;
    },
    lease({ owner, ttlMs, max }) {
      const free = [...kept.values()].filter(
        (each) => !isOver(each) && (each.owner === undefined || each.untilMs <= nowMs),
      );
      return free
        .toSorted((one, other) => one.batch.expiresAt - other.batch.expiresAt)
        .slice(0, max)
        .map((entry) => {
          entry.owner = owner;
          entry.epoch += 1;
          entry.untilMs = nowMs + ttlMs;
          return { lease: { batchId: entry.batch.id, owner, epoch: entry.epoch }, batch: entry.batch };
        });
    },
    renew: (leases, ttlMs) =>
      leases.flatMap((lease) => {
        const entry = owned(lease);
        if (entry === undefined || isOver(entry)) return [];
        entry.untilMs = nowMs + ttlMs;
        return [{ lease, batch: entry.batch }];
      }),
    release(lease) {
      const entry = owned(lease);
      if (entry !== undefined && !isOver(entry)) entry.owner = undefined;
    },
    addLines(lease, lines, first) {
      const { batch, lines: known } = held(lease);
      if (batch.inProgressAt !== undefined || !['validating', 'cancelling'].includes(batch.status))
        throw new StoreError('broken', 'its lines stand');
      if (first) known.clear();
      for (const line of lines)
        if (!known.has(line.line)) known.set(line.line, { ...line, attempts: 0, notBeforeMs: 0 });
    },
    begin(lease, { total, model, nowSeconds }) {
      const entry = held(lease);
      const { status, inProgressAt, counts } = entry.batch;
      if (inProgressAt !== undefined || !['validating', 'cancelling'].includes(status)) return entry.batch;
      const found = { counts: { ...counts, total }, ...(model !== undefined && { model }) };
      if (status === 'validating') return to(entry, 'in_progress', nowSeconds, found);
      return (entry.batch = { ...entry.batch, ...found });
    },
    fail(lease, errors, nowSeconds) {
      const before = owned(lease);
      if (before?.batch.status === 'failed') return before.batch;
      const entry = held(lease);
      return entry.batch.status === 'validating' ? to(entry, 'failed', nowSeconds, { errors }) : entry.batch;
    },
    pending(lease, { afterRank, limit }) {
      const { lines, results } = held(lease);
      return [...lines.values()]
        .filter(({ line, rank }) => !results.has(line) && rank > afterRank)
        .toSorted((one, other) => one.rank - other.rank)
        .slice(0, limit);
    },
    noteRetries(lease, retries) {
      const { lines, results } = held(lease);
      for (const { line, attempts, notBeforeMs } of retries) {
        const found = lines.get(line);
        if (found !== undefined && !results.has(line)) lines.set(line, { ...found, attempts, notBeforeMs });
      }
    },
    addResults(lease, given) {
      const entry = held(lease);
      if (given.some(({ line }) => !entry.lines.has(line))) throw new StoreError('broken', 'no such line');
      for (const result of given) {
        if (entry.results.has(result.line)) continue;
        entry.results.set(result.line, result);
        const { counts, usage } = entry.batch;
        const more = result.usage;
        entry.batch = {
          ...entry.batch,
          ...(result.unrun === true ? { unrun: (entry.batch.unrun ?? 0) + 1 } : {}),
          counts: {
            ...counts,
            completed: counts.completed + Number(result.ok),
            failed: counts.failed + Number(!result.ok),
          },
          usage: {
            inputTokens: usage.inputTokens + (more?.inputTokens ?? 0),
            cachedTokens: usage.cachedTokens + (more?.cachedTokens ?? 0),
            outputTokens: usage.outputTokens + (more?.outputTokens ?? 0),
            reasoningTokens: usage.reasoningTokens + (more?.reasoningTokens ?? 0),
          },
        };
      }
    },
    move(lease, status, nowSeconds) {
      const entry = held(lease);
      const moves = entry.batch.status !== status && ['in_progress', 'cancelling'].includes(entry.batch.status);
      return moves && status !== 'validating' ? to(entry, status, nowSeconds) : entry.batch;
    },
    results: (lease, { ok, afterLine, limit }) =>
      [...held(lease).results.values()]
        .filter((result) => result.ok === ok && result.line > afterLine)
        .toSorted((one, other) => one.line - other.line)
        .slice(0, limit)
        .map(({ line, text }) => ({ line, ok, text })),
    finish(lease, { status, output, error, errors, nowSeconds }) {
      const before = owned(lease);
      if (before !== undefined && isOver(before) && before.batch.status === status) return before.batch;
      const entry = held(lease);
      for (const file of [output, error]) if (file !== undefined && !files.has(file.id)) files.set(file.id, file);
      return to(entry, status, nowSeconds, {
        ...(output !== undefined && { outputFileId: output.id }),
        ...(error !== undefined && { errorFileId: error.id }),
        ...(errors !== undefined && { errors }),
      });
    },
  };
}
