/**
 * Batches in Postgres: their rows, who works on them, and how they come from one status to the next. Leases run by the database's
 * clock. Every write of a lease's holder begins with `held`, which is the fence: it locks the row until the write is whole.
 */
import { endedStatuses } from '../batch.ts';
import { StoreError, type BatchStore, type Lease, type LeasedBatch } from './port.ts';
import { addFileSql } from './postgres-files.ts';
import type { PostgresLink, PostgresTurn } from './postgres-link.ts';
import { columnList, filled, placeholders } from './postgres-text.ts';
import {
  batchCells,
  batchColumns,
  batchOf,
  encodeErrors,
  encodeText,
  fileCells,
  momentColumns,
  type BatchRow,
} from './rows.ts';

type BatchCalls = Pick<
  BatchStore,
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

interface HeldRow extends BatchRow {
  readonly seq: number;
  readonly open: boolean;
  readonly lease_owner: string;
  readonly lease_epoch: number;
}

const columns = columnList(batchColumns);
const heldColumns = `seq, open, lease_owner, lease_epoch, ${columns}`;

/** The row of a lease's batch, whether it is over or not, locked until the transaction ends. */
async function rowOf(turn: PostgresTurn, lease: Lease): Promise<HeldRow | undefined> {
  const [row] = await turn.rows<HeldRow>(
    `select ${heldColumns} from warmlane_batches
      where id = $1 and lease_owner = $2 and lease_epoch = $3 for no key update`,
    lease.batchId,
    lease.owner,
    lease.epoch,
  );
  return row;
}

/** @throws StoreError `lost` */
export async function held(turn: PostgresTurn, lease: Lease): Promise<HeldRow> {
  return open(await rowOf(turn, lease), lease);
}

function open(row: HeldRow | undefined, lease: Lease): HeldRow {
  if (row?.open === true) return row;
  throw new StoreError('lost', `${lease.batchId} is no longer ${lease.owner}'s (epoch ${lease.epoch})`);
}

export function createPostgresBatches({ once, transaction }: PostgresLink): BatchCalls {
  /** Changes a batch. @returns it afterwards */
  async function change(turn: PostgresTurn, seq: number, set: string, ...cells: readonly (string | number | null)[]) {
    const [row] = await turn.rows<BatchRow>(
      `update warmlane_batches set ${set} where seq = $1 returning ${columns}`,
      seq,
      ...cells,
    );
    if (row === undefined) throw new Error(`batch ${seq} went away within a transaction`);
    return batchOf(row);
  }

  return {
    addBatch: async (batch) =>
      await transaction(async (turn) => {
        const [file] = await turn.rows(
          'select 1 from warmlane_files where tenant = $1 and id = $2 for key share',
          batch.tenant,
          filled(batch.inputFileId),
        );
        if (file === undefined) return 'no_file';
        await turn.run(
          `insert into warmlane_batches (${columns}, open) values (${placeholders(batchColumns.length + 1)})
            on conflict (id) do nothing`,
          ...batchCells(batch),
          !endedStatuses.has(batch.status),
        );
        return 'added';
      }),
    async batch(tenant, id) {
      const [row] = await once.rows<BatchRow>(
        `select ${columns} from warmlane_batches where tenant = $1 and id = $2`,
        filled(tenant),
        filled(id),
      );
      return row === undefined ? undefined : batchOf(row);
    },
    async batches(tenant, { limit, after, order, open: wanted }) {
      const whose = tenant === undefined ? null : filled(tenant);
      let from: number | null = null;
      if (after !== undefined) {
        const [place] = await once.rows<{ seq: number }>(
          'select seq from warmlane_batches where ($1::text is null or tenant = $1) and id = $2',
          whose,
          filled(after),
        );
        if (place === undefined) return undefined;
        from = place.seq;
      }
      const rows = await once.rows<BatchRow>(
        `select ${columns} from warmlane_batches
          where ($1::text is null or tenant = $1) and ($2::bigint is null or seq ${order === 'desc' ? '<' : '>'} $2)
            and ($3::boolean is null or open = $3) order by seq ${order} limit $4`,
        whose,
        from,
        wanted ?? null,
        limit + 1,
      );
      return { batches: rows.slice(0, limit).map(batchOf), hasMore: rows.length > limit };
    },
    dropEndedBatches: async (beforeSeconds, limit) =>
      await once.run(
        `delete from warmlane_batches where seq in
           (select seq from warmlane_batches b
             where not open and coalesce(completed_at, failed_at, expired_at, cancelled_at) <= $1
               and not exists (select 1 from warmlane_files f where f.id in (b.output_file_id, b.error_file_id))
             order by seq limit $2 for update skip locked)`,
        beforeSeconds,
        limit,
      ),
    cancel: async (tenant, id, nowSeconds) =>
      await transaction(async (turn) => {
        await turn.run(
          `update warmlane_batches set status = 'cancelling', cancelling_at = $3
            where tenant = $1 and id = $2 and status in ('validating', 'in_progress')`,
          filled(tenant),
          filled(id),
          nowSeconds,
        );
        const [row] = await turn.rows<BatchRow>(
          `select ${columns} from warmlane_batches where tenant = $1 and id = $2`,
          filled(tenant),
          filled(id),
        );
        return row === undefined ? undefined : batchOf(row);
      }),
    lease: async ({ owner, ttlMs, max }) =>
      await transaction(async (turn) => {
        const rows = await turn.rows<HeldRow>(
          `with free as materialized (
             select seq from warmlane_batches
              where open and (lease_owner is null or lease_until <= clock_timestamp())
              order by expires_at, seq limit $3 for no key update skip locked)
           update warmlane_batches set lease_owner = $1, lease_epoch = lease_epoch + 1,
               lease_until = clock_timestamp() + $2 * interval '1 millisecond'
             where seq in (select seq from free) returning ${heldColumns}`,
          owner,
          ttlMs,
          max,
        );
        return rows
          .toSorted((one, other) => one.expires_at - other.expires_at || one.seq - other.seq)
          .map((row): LeasedBatch => ({
            lease: { batchId: row.id, owner, epoch: row.lease_epoch },
            batch: batchOf(row),
          }));
      }),
    async renew(leases, ttlMs) {
      const given = [
        leases.map(({ batchId }) => batchId),
        leases.map(({ owner }) => owner),
        leases.map(({ epoch }) => epoch),
      ] as const;
      const mine = `from warmlane_batches b join unnest($1::text[], $2::text[], $3::integer[]) as l (id, owner, epoch)
        on b.id = l.id and b.lease_owner = l.owner and b.lease_epoch = l.epoch where b.open`;
      // A row that is locked is being written with this very lease, perhaps for long, and nobody takes it meanwhile.
      await once.run(
        `with mine as materialized (select b.seq ${mine} for no key update of b skip locked)
         update warmlane_batches set lease_until = clock_timestamp() + $4 * interval '1 millisecond'
           where seq in (select seq from mine)`,
        ...given,
        ttlMs,
      );
      const rows = await once.rows<HeldRow>(
        `select b.lease_owner, b.lease_epoch, ${columnList(batchColumns, 'b')} ${mine}`,
        ...given,
      );
      return leases.flatMap((lease): readonly LeasedBatch[] => {
        const row = rows.find(
          (one) => one.id === lease.batchId && one.lease_owner === lease.owner && one.lease_epoch === lease.epoch,
        );
        return row === undefined ? [] : [{ lease, batch: batchOf(row) }];
      });
    },
    async release({ batchId, owner, epoch }) {
      await once.run(
        `update warmlane_batches set lease_owner = null, lease_until = null
          where id = $1 and lease_owner = $2 and lease_epoch = $3 and open`,
        batchId,
        owner,
        epoch,
      );
    },
    begin: async (lease, { total, model, nowSeconds }) =>
      await transaction(async (turn) => {
        const row = await held(turn, lease);
        const notBegun = row.in_progress_at === null && (row.status === 'validating' || row.status === 'cancelling');
        if (!notBegun) return batchOf(row);
        return await change(
          turn,
          row.seq,
          `total = $2, model = $3, in_progress_at = case when status = 'validating' then $4::bigint end,
             status = case when status = 'validating' then 'in_progress' else status end`,
          total,
          model === undefined ? null : encodeText(model),
          nowSeconds,
        );
      }),
    fail: async (lease, errors, nowSeconds) =>
      await transaction(async (turn) => {
        const row = await rowOf(turn, lease);
        // Asked again, since the first answer got lost.
        if (row?.status === 'failed') return batchOf(row);
        const { seq, status } = open(row, lease);
        if (status !== 'validating') return batchOf(open(row, lease));
        await turn.run('delete from warmlane_lines where batch = $1', seq);
        return await change(
          turn,
          seq,
          `status = 'failed', errors = $2, failed_at = $3, open = false`,
          encodeErrors(errors),
          nowSeconds,
        );
      }),
    move: async (lease, status, nowSeconds) =>
      await transaction(async (turn) => {
        const row = await held(turn, lease);
        const moves = row.status !== status && (row.status === 'in_progress' || row.status === 'cancelling');
        if (!moves || status === 'validating') return batchOf(row);
        return await change(turn, row.seq, `status = $2, ${momentColumns[status]} = $3`, status, nowSeconds);
      }),
    finish: async (lease, { status, output, error, errors, nowSeconds }) =>
      await transaction(async (turn) => {
        const row = await rowOf(turn, lease);
        if (row?.open === false && row.status === status) return batchOf(row);
        const { seq, errors: before } = open(row, lease);
        for (const file of [output, error]) if (file !== undefined) await turn.run(addFileSql, ...fileCells(file));
        await turn.run('delete from warmlane_results where batch = $1', seq);
        await turn.run('delete from warmlane_lines where batch = $1', seq);
        return await change(
          turn,
          seq,
          `status = $2, ${momentColumns[status]} = $3, open = false, errors = $4, output_file_id = $5, error_file_id = $6`,
          status,
          nowSeconds,
          errors === undefined ? before : encodeErrors(errors),
          output?.id ?? null,
          error?.id ?? null,
        );
      }),
    async stats() {
      const [row] = await once.rows<{
        open_batches: number;
        pending: number;
        oldest: number | null;
        files: number;
        bytes: number;
      }>(
        `select count(*) as open_batches, coalesce(sum(total - completed - failed), 0)::bigint as pending,
           min(created_at) as oldest, (select count(*) from warmlane_files) as files,
           (select sum(pg_total_relation_size(name::regclass))::bigint from unnest($1::text[]) as name) as bytes
          from warmlane_batches where open`,
        tables,
      );
      return {
        files: row?.files ?? 0,
        openBatches: row?.open_batches ?? 0,
        pendingLines: row?.pending ?? 0,
        ...(row !== undefined && row.oldest !== null && { oldestAt: row.oldest }),
        ...(row !== undefined && { bytes: row.bytes }),
      };
    },
  };
}

const tables = ['files', 'batches', 'lines', 'results', 'shelf_files', 'shelf_chunks'].map(
  (name) => `warmlane_${name}`,
);
