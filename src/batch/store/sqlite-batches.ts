/**
 * Batches in SQLite: their rows, who works on them, and how they come from one status to the next. Every write of a lease's holder
 * begins with `held`, which is the fence.
 */
import { endedStatuses } from '../batch.ts';
import { StoreError, type Lease, type LeasedBatch } from './port.ts';
import {
  batchCells,
  batchColumns,
  batchOf,
  encodeErrors,
  encodeText,
  fileCells,
  fileColumns,
  momentColumns,
  type BatchRow,
} from './rows.ts';
import type { SqliteClock, SqliteCore } from './sqlite-core.ts';
import type { SqliteDatabase } from './sqlite-file.ts';
import { marks, prepare } from './sqlite-statement.ts';

type BatchCalls = Pick<
  SqliteCore,
  | 'addBatch'
  | 'batch'
  | 'batches'
  | 'dropEndedBatches'
  | 'cancel'
  | 'lease'
  | 'renew'
  | 'release'
  | 'begin'
  | 'fail'
  | 'move'
  | 'finish'
  | 'stats'
>;

export interface HeldRow extends BatchRow {
  readonly seq: number;
  readonly open: number;
  readonly lease_epoch: number;
}

export interface SqliteBatches {
  readonly calls: BatchCalls;
  /** The row of a batch that is not over and is the lease's. @throws StoreError `lost` */
  held(lease: Lease): HeldRow;
}

const columns = batchColumns.join(', ');
const heldColumns = `seq, open, lease_epoch, ${columns}`;

export function createSqliteBatches(database: SqliteDatabase, clock: SqliteClock): SqliteBatches {
  const inputFile = prepare(database, 'select 1 from files where tenant = ? and id = ?');
  const add = prepare(
    database,
    `insert into batches (${columns}, open) values (${marks(batchColumns.length + 1)}) on conflict (id) do nothing`,
  );
  const one = prepare<HeldRow>(database, `select ${heldColumns} from batches where tenant = ? and id = ?`);
  const ofLease = prepare<HeldRow>(
    database,
    `select ${heldColumns} from batches where id = ? and lease_owner = ? and lease_epoch = ?`,
  );
  const place = prepare<{ seq: number }>(
    database,
    'select seq from batches where (? is null or tenant = ?) and id = ?',
  );
  const older = prepare<BatchRow>(database, listing('<', 'desc'));
  const newer = prepare<BatchRow>(database, listing('>', 'asc'));
  const cancelling = prepare(
    database,
    `update batches set status = 'cancelling', cancelling_at = ?
      where tenant = ? and id = ? and status in ('validating', 'in_progress')`,
  );
  const forget = prepare(
    database,
    `delete from batches where seq in
       (select seq from batches where open = 0 and leftover = 0
           and coalesce(completed_at, failed_at, expired_at, cancelled_at) <= ?
           and not exists (select 1 from files where id = output_file_id or id = error_file_id)
         order by seq limit ?)`,
  );
  const take = prepare<HeldRow>(
    database,
    `update batches set lease_owner = ?, lease_epoch = lease_epoch + 1, lease_until_ms = ? where seq in
       (select seq from batches where open = 1 and (lease_owner is null or lease_until_ms <= ?)
         order by expires_at, seq limit ?) returning ${heldColumns}`,
  );
  const prolong = prepare<HeldRow>(
    database,
    `update batches set lease_until_ms = ?
      where id = ? and lease_owner = ? and lease_epoch = ? and open = 1 returning ${heldColumns}`,
  );
  const giveBack = prepare(
    database,
    `update batches set lease_owner = null, lease_until_ms = null
      where id = ? and lease_owner = ? and lease_epoch = ? and open = 1`,
  );
  const found = prepare(
    database,
    `update batches set total = ?, model = ?, in_progress_at = case when status = 'validating' then ? end,
       status = case when status = 'validating' then 'in_progress' else status end where seq = ?`,
  );
  const failed = prepare(
    database,
    `update batches set status = 'failed', errors = ?, failed_at = ?, open = 0, leftover = 1 where seq = ?`,
  );
  const addFile = prepare(
    database,
    `insert into files (${fileColumns.join(', ')}) values (${marks(fileColumns.length)}) on conflict (id) do nothing`,
  );
  const ended = prepare(
    database,
    `update batches set open = 0, leftover = 1, errors = ?, output_file_id = ?, error_file_id = ? where seq = ?`,
  );
  const bySeq = prepare<BatchRow>(database, `select ${columns} from batches where seq = ?`);
  const counts = prepare<{ open_batches: number; pending: number | null; oldest: number | null; files: number }>(
    database,
    `select count(*) as open_batches, sum(total - completed - failed) as pending, min(created_at) as oldest,
       (select count(*) from files) as files from batches where open = 1`,
  );
  const size = prepare<{ bytes: number }>(
    database,
    'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
  );

  function held(lease: Lease): HeldRow {
    const row = ofLease.get(lease.batchId, lease.owner, lease.epoch);
    if (row === undefined || row.open === 0)
      throw new StoreError('lost', `${lease.batchId} is no longer ${lease.owner}'s (epoch ${lease.epoch})`);
    return row;
  }

  function again(seq: number) {
    const row = bySeq.get(seq);
    if (row === undefined) throw new Error(`batch ${seq} went away within a transaction`);
    return batchOf(row);
  }

  function setStatus(seq: number, status: keyof typeof momentColumns, nowSeconds: number): void {
    prepare(database, `update batches set status = ?, ${momentColumns[status]} = ? where seq = ?`).run(
      status,
      nowSeconds,
      seq,
    );
  }

  const calls: BatchCalls = {
    addBatch(batch) {
      if (inputFile.get(batch.tenant, batch.inputFileId) === undefined) return 'no_file';
      add.run(...batchCells(batch), endedStatuses.has(batch.status) ? 0 : 1);
      return 'added';
    },
    batch(tenant, id) {
      const row = one.get(tenant, id);
      return row === undefined ? undefined : batchOf(row);
    },
    batches(tenant, { limit, after, order, open }) {
      const whose = tenant ?? null;
      let from = order === 'desc' ? Number.MAX_SAFE_INTEGER : 0;
      if (after !== undefined) {
        const known = place.get(whose, whose, after);
        if (known === undefined) return undefined;
        from = known.seq;
      }
      const wanted = open === undefined ? null : Number(open);
      const rows = (order === 'desc' ? older : newer).all(whose, whose, from, wanted, wanted, limit + 1);
      return { batches: rows.slice(0, limit).map(batchOf), hasMore: rows.length > limit };
    },
    dropEndedBatches: (beforeSeconds, limit) => forget.run(beforeSeconds, limit),
    cancel(tenant, id, nowSeconds) {
      cancelling.run(nowSeconds, tenant, id);
      return calls.batch(tenant, id);
    },
    lease({ owner, ttlMs, max }) {
      const nowMs = clock.nowMs();
      const rows = take.all(owner, nowMs + ttlMs, nowMs, max);
      return rows
        .toSorted((left, right) => left.expires_at - right.expires_at || left.seq - right.seq)
        .map((row): LeasedBatch => ({
          lease: { batchId: row.id, owner, epoch: row.lease_epoch },
          batch: batchOf(row),
        }));
    },
    renew(leases, ttlMs) {
      const untilMs = clock.nowMs() + ttlMs;
      return leases.flatMap((lease): readonly LeasedBatch[] => {
        const row = prolong.get(untilMs, lease.batchId, lease.owner, lease.epoch);
        return row === undefined ? [] : [{ lease, batch: batchOf(row) }];
      });
    },
    release(lease) {
      giveBack.run(lease.batchId, lease.owner, lease.epoch);
    },
    begin(lease, { total, model, nowSeconds }) {
      const row = held(lease);
      const notBegun = row.in_progress_at === null && (row.status === 'validating' || row.status === 'cancelling');
      if (notBegun) found.run(total, model === undefined ? null : encodeText(model), nowSeconds, row.seq);
      return again(row.seq);
    },
    fail(lease, errors, nowSeconds) {
      const row = ofLease.get(lease.batchId, lease.owner, lease.epoch);
      if (row?.status === 'failed') return batchOf(row);
      const { seq, status } = held(lease);
      if (status === 'validating') failed.run(encodeErrors(errors), nowSeconds, seq);
      return again(seq);
    },
    move(lease, status, nowSeconds) {
      const row = held(lease);
      const moves = row.status !== status && (row.status === 'in_progress' || row.status === 'cancelling');
      if (moves && status !== 'validating') setStatus(row.seq, status, nowSeconds);
      return again(row.seq);
    },
    finish(lease, { status, output, error, errors, nowSeconds }) {
      const row = ofLease.get(lease.batchId, lease.owner, lease.epoch);
      // Asked again, since the first answer got lost.
      if (row?.open === 0 && row.status === status) return batchOf(row);
      const { seq, errors: before } = held(lease);
      for (const file of [output, error]) if (file !== undefined) addFile.run(...fileCells(file));
      ended.run(errors === undefined ? before : encodeErrors(errors), output?.id ?? null, error?.id ?? null, seq);
      setStatus(seq, status, nowSeconds);
      return again(seq);
    },
    stats() {
      const row = counts.get();
      return {
        files: row?.files ?? 0,
        openBatches: row?.open_batches ?? 0,
        pendingLines: row?.pending ?? 0,
        ...(row !== undefined && row.oldest !== null && { oldestAt: row.oldest }),
        bytes: size.get()?.bytes ?? 0,
      };
    },
  };
  return { calls, held };
}

function listing(side: '<' | '>', order: 'asc' | 'desc'): string {
  return `select ${columns} from batches where (? is null or tenant = ?) and seq ${side} ?
    and (? is null or open = ?) order by seq ${order} limit ?`;
}
