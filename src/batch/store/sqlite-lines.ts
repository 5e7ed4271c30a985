/**
 * Lines and their results in SQLite. A line's result and its mark `done` are written together, so a line that has a result is
 * never pending again. What an ended batch leaves behind goes piecewise (`sweepLeftovers`), so that no call waits long.
 */
import { StoreError } from './port.ts';
import { decodeText, encodeText, sumResults } from './rows.ts';
import type { SqliteBatches } from './sqlite-batches.ts';
import type { SqliteCore } from './sqlite-core.ts';
import type { SqliteDatabase } from './sqlite-file.ts';
import { prepare } from './sqlite-statement.ts';

type LineCalls = Pick<SqliteCore, 'addLines' | 'pending' | 'noteRetries' | 'addResults' | 'results'>;

interface LineRow {
  readonly line: number;
  readonly rank: number;
  readonly custom_id: string;
  readonly at: number;
  readonly bytes: number;
  readonly attempts: number;
  readonly not_before_ms: number;
}

interface ResultRow {
  readonly line: number;
  readonly ok: number;
  readonly text: string;
}

export function createSqliteLines(database: SqliteDatabase, { held }: SqliteBatches): LineCalls {
  const clear = prepare(database, 'delete from lines where batch = ?');
  const add = prepare(
    database,
    `insert into lines (batch, line, rank, custom_id, at, bytes) values (?, ?, ?, ?, ?, ?)
      on conflict (batch, line) do nothing`,
  );
  const next = prepare<LineRow>(
    database,
    `select line, rank, custom_id, at, bytes, attempts, not_before_ms from lines
      where batch = ? and done = 0 and rank > ? order by rank limit ?`,
  );
  const note = prepare(
    database,
    'update lines set attempts = ?, not_before_ms = ? where batch = ? and line = ? and done = 0',
  );
  const known = prepare(database, 'select 1 from lines where batch = ? and line = ?');
  const mark = prepare(database, 'update lines set done = 1 where batch = ? and line = ? and done = 0');
  const keep = prepare(database, 'insert into results (batch, line, ok, text) values (?, ?, ?, ?)');
  const count = prepare(
    database,
    `update batches set completed = completed + ?, failed = failed + ?, unrun = unrun + ?, input_tokens = input_tokens + ?,
       cached_tokens = cached_tokens + ?, output_tokens = output_tokens + ?, reasoning_tokens = reasoning_tokens + ?
      where seq = ?`,
  );
  const some = prepare<ResultRow>(
    database,
    'select line, ok, text from results where batch = ? and ok = ? and line > ? order by line limit ?',
  );

  return {
    addLines(lease, lines, first) {
      const { seq, status, in_progress_at: begun } = held(lease);
      if (begun !== null || (status !== 'validating' && status !== 'cancelling'))
        throw new StoreError('broken', `${lease.batchId} is ${status}: its lines stand`);
      if (first) clear.run(seq);
      for (const { line, rank, customId, at, bytes } of lines)
        add.run(seq, line, rank, encodeText(customId), at, bytes);
    },
    pending(lease, { afterRank, limit }) {
      return next.all(held(lease).seq, afterRank, limit).map((row) => ({
        line: row.line,
        rank: row.rank,
        customId: decodeText(row.custom_id),
        at: row.at,
        bytes: row.bytes,
        attempts: row.attempts,
        notBeforeMs: row.not_before_ms,
      }));
    },
    noteRetries(lease, retries) {
      const { seq } = held(lease);
      for (const { line, attempts, notBeforeMs } of retries) note.run(attempts, notBeforeMs, seq, line);
    },
    addResults(lease, results) {
      const { seq } = held(lease);
      const fresh = results.filter(({ line }) => {
        if (mark.run(seq, line) > 0) return true;
        if (known.get(seq, line) !== undefined) return false;
        throw new StoreError('broken', `${lease.batchId} has no line ${line}`);
      });
      for (const { line, ok, text } of fresh) keep.run(seq, line, Number(ok), text);
      const sums = sumResults(fresh);
      count.run(
        sums.completed,
        sums.failed,
        sums.unrun,
        sums.inputTokens,
        sums.cachedTokens,
        sums.outputTokens,
        sums.reasoningTokens,
        seq,
      );
    },
    results(lease, { ok, afterLine, limit }) {
      const rows = some.all(held(lease).seq, Number(ok), afterLine, limit);
      return rows.map((row) => ({ line: row.line, ok: row.ok === 1, text: row.text }));
    },
  };
}

/**
 * Removes up to `limit` rows that ended batches left behind.
 * @returns whether there may be more
 */
export function sweepLeftovers(database: SqliteDatabase, limit: number): boolean {
  const found = prepare<{ seq: number }>(database, 'select seq from batches where leftover = 1 limit 1').get();
  if (found === undefined) return false;
  for (const [table, key] of [
    ['results', 'seq'],
    ['lines', 'line'],
  ] as const) {
    const removed = prepare(
      database,
      `delete from ${table} where batch = ? and ${key} in (select ${key} from ${table} where batch = ? limit ?)`,
    ).run(found.seq, found.seq, limit);
    if (removed > 0) return true;
  }
  prepare(database, 'update batches set leftover = 0 where seq = ?').run(found.seq);
  return true;
}
