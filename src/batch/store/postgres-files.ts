/** Entries of files in Postgres. Their bytes are the shelf's. */
import type { BatchStore } from './port.ts';
import type { PostgresLink } from './postgres-link.ts';
import { columnList, filled, placeholders } from './postgres-text.ts';
import { fileCells, fileColumns, fileOf, type FileRow } from './rows.ts';

type FileCalls = Pick<
  BatchStore,
  'addFile' | 'file' | 'files' | 'fileBytes' | 'removeFile' | 'dropExpiredFiles' | 'unknownFiles'
>;

const columns = columnList(fileColumns);
const readBy = (file: string) => `exists (select 1 from warmlane_batches where input_file_id = ${file} and open)`;

export const addFileSql = `insert into warmlane_files (${columns}) values (${placeholders(fileColumns.length)})
  on conflict (id) do nothing`;

export function createPostgresFiles({ once, transaction }: PostgresLink): FileCalls {
  return {
    async addFile(file) {
      await once.run(addFileSql, ...fileCells(file));
    },
    async file(tenant, id) {
      const [row] = await once.rows<FileRow>(
        `select ${columns} from warmlane_files where tenant = $1 and id = $2`,
        filled(tenant),
        filled(id),
      );
      return row === undefined ? undefined : fileOf(row);
    },
    async files(tenant, { limit, after, order, purpose }) {
      let from: number | null = null;
      if (after !== undefined) {
        const [place] = await once.rows<{ seq: number }>(
          'select seq from warmlane_files where tenant = $1 and id = $2',
          filled(tenant),
          filled(after),
        );
        if (place === undefined) return undefined;
        from = place.seq;
      }
      const rows = await once.rows<FileRow>(
        `select ${columns} from warmlane_files
          where tenant = $1 and ($2::bigint is null or seq ${order === 'desc' ? '<' : '>'} $2)
            and ($3::text is null or purpose = $3) order by seq ${order} limit $4`,
        filled(tenant),
        from,
        purpose === undefined ? null : filled(purpose),
        limit + 1,
      );
      return { files: rows.slice(0, limit).map(fileOf), hasMore: rows.length > limit };
    },
    async fileBytes(tenant) {
      const [row] = await once.rows<{ bytes: number }>(
        'select coalesce(sum(bytes), 0)::bigint as bytes from warmlane_files where tenant = $1',
        filled(tenant),
      );
      return row?.bytes ?? 0;
    },
    removeFile: async (tenant, id) =>
      await transaction(async (turn) => {
        // Waits for a batch that is being added on it, which the next statement then sees.
        const [row] = await turn.rows<{ seq: number }>(
          'select seq from warmlane_files where tenant = $1 and id = $2 for update',
          filled(tenant),
          filled(id),
        );
        if (row === undefined) return 'absent';
        const removed = await turn.run(
          `delete from warmlane_files where seq = $1 and not ${readBy('warmlane_files.id')}`,
          row.seq,
        );
        return removed === 0 ? 'in_use' : 'removed';
      }),
    dropExpiredFiles: async (nowSeconds, limit) =>
      await transaction(async (turn) => {
        const locked = await turn.rows<{ seq: number }>(
          `select seq from warmlane_files where expires_at <= $1 and not ${readBy('warmlane_files.id')}
            order by expires_at limit $2 for update skip locked`,
          nowSeconds,
          limit,
        );
        const dropped = await turn.rows<{ id: string }>(
          `delete from warmlane_files where seq = any($1::bigint[]) and not ${readBy('warmlane_files.id')} returning id`,
          locked.map(({ seq }) => seq),
        );
        return dropped.map(({ id }) => id);
      }),
    async unknownFiles(ids) {
      const rows = await once.rows<{ id: string }>(
        `select given.id from unnest($1::text[]) as given (id)
          where not exists (select 1 from warmlane_files where warmlane_files.id = given.id)`,
        ids.map(filled),
      );
      return rows.map(({ id }) => id);
    },
  };
}
