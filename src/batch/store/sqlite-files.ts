/** Entries of files in SQLite. Their bytes are the shelf's. */
import { fileCells, fileColumns, fileOf, type FileRow } from './rows.ts';
import type { SqliteCore } from './sqlite-core.ts';
import type { SqliteDatabase } from './sqlite-file.ts';
import { marks, prepare } from './sqlite-statement.ts';

type FileCalls = Pick<
  SqliteCore,
  'addFile' | 'file' | 'files' | 'fileBytes' | 'removeFile' | 'dropExpiredFiles' | 'unknownFiles'
>;

const columns = fileColumns.join(', ');
const isRead = 'exists (select 1 from batches where input_file_id = files.id and open = 1)';

export function createSqliteFiles(database: SqliteDatabase): FileCalls {
  const add = prepare(
    database,
    `insert into files (${columns}) values (${marks(fileColumns.length)}) on conflict (id) do nothing`,
  );
  const one = prepare<FileRow>(database, `select ${columns} from files where tenant = ? and id = ?`);
  const place = prepare<{ seq: number }>(database, 'select seq from files where tenant = ? and id = ?');
  const older = prepare<FileRow>(database, listing('<', 'desc'));
  const newer = prepare<FileRow>(database, listing('>', 'asc'));
  const total = prepare<{ bytes: number }>(
    database,
    'select coalesce(sum(bytes), 0) as bytes from files where tenant = ?',
  );
  const readBy = prepare<{ busy: number }>(database, `select ${isRead} as busy from files where tenant = ? and id = ?`);
  const remove = prepare(database, 'delete from files where tenant = ? and id = ?');
  const expired = prepare<{ id: string }>(
    database,
    `delete from files where seq in
       (select seq from files where expires_at <= ? and not ${isRead} order by expires_at limit ?) returning id`,
  );
  const unknown = prepare<{ id: string }>(
    database,
    'select value as id from json_each(?) where value not in (select id from files)',
  );

  return {
    addFile(file) {
      add.run(...fileCells(file));
    },
    file(tenant, id) {
      const row = one.get(tenant, id);
      return row === undefined ? undefined : fileOf(row);
    },
    files(tenant, { limit, after, order, purpose }) {
      let from = order === 'desc' ? Number.MAX_SAFE_INTEGER : 0;
      if (after !== undefined) {
        const found = place.get(tenant, after);
        if (found === undefined) return undefined;
        from = found.seq;
      }
      const rows = (order === 'desc' ? older : newer).all(tenant, from, purpose ?? null, purpose ?? null, limit + 1);
      return { files: rows.slice(0, limit).map(fileOf), hasMore: rows.length > limit };
    },
    fileBytes: (tenant) => total.get(tenant)?.bytes ?? 0,
    removeFile(tenant, id) {
      const found = readBy.get(tenant, id);
      if (found === undefined) return 'absent';
      if (found.busy === 1) return 'in_use';
      remove.run(tenant, id);
      return 'removed';
    },
    dropExpiredFiles: (nowSeconds, limit) => expired.all(nowSeconds, limit).map(({ id }) => id),
    unknownFiles: (ids) => unknown.all(JSON.stringify(ids)).map(({ id }) => id),
  };
}

function listing(side: '<' | '>', order: 'asc' | 'desc'): string {
  return `select ${columns} from files
    where tenant = ? and seq ${side} ? and (? is null or purpose = ?) order by seq ${order} limit ?`;
}
