/**
 * Lines and their results in Postgres. A line's result and its mark `done` are written together, so a line that has a result is
 * never pending again. Results that come while a transaction of their batch runs share the next one.
 */
import type { LineResult } from '../batch.ts';
import { StoreError, type BatchStore, type Lease } from './port.ts';
import { held } from './postgres-batches.ts';
import type { PostgresLink, PostgresTurn } from './postgres-link.ts';
import { createResultGathering } from './result-gathering.ts';
import { decodeText, encodeText, sumResults } from './rows.ts';

type LineCalls = Pick<BatchStore, 'addLines' | 'pending' | 'noteRetries' | 'addResults' | 'results'>;

interface LineRow {
  readonly line: number;
  readonly rank: number;
  readonly custom_id: string;
  readonly at: number;
  readonly bytes: number;
  readonly attempts: number;
  readonly not_before_ms: number;
}

export function createPostgresLines({ transaction }: PostgresLink): LineCalls {
  async function keep(turn: PostgresTurn, lease: Lease, results: readonly LineResult[]): Promise<void> {
    const { seq } = await held(turn, lease);
    const firsts = new Map<number, LineResult>();
    for (const result of results) if (!firsts.has(result.line)) firsts.set(result.line, result);
    const given = [...firsts.values()];
    const marked = await turn.rows<{ line: number }>(
      `with given as (select * from unnest($2::integer[], $3::boolean[], $4::text[]) as g (line, ok, text)),
         marked as (update warmlane_lines l set done = true from given g
            where l.batch = $1 and l.line = g.line and not l.done returning l.line),
         kept as (insert into warmlane_results (batch, ok, line, text)
            select $1, g.ok, g.line, g.text from given g join marked m on m.line = g.line)
       select line from marked`,
      seq,
      given.map(({ line }) => line),
      given.map(({ ok }) => ok),
      given.map(({ text }) => text),
    );
    if (marked.length < given.length) await expectLines(turn, lease, seq, given);
    const sums = sumResults(marked.flatMap(({ line }) => firsts.get(line) ?? []));
    await turn.run(
      `update warmlane_batches set completed = completed + $2, failed = failed + $3, input_tokens = input_tokens + $4,
         cached_tokens = cached_tokens + $5, output_tokens = output_tokens + $6, reasoning_tokens = reasoning_tokens + $7,
         unrun = unrun + $8
        where seq = $1`,
      seq,
      sums.completed,
      sums.failed,
      sums.inputTokens,
      sums.cachedTokens,
      sums.outputTokens,
      sums.reasoningTokens,
      sums.unrun,
    );
  }

  const addResults = createResultGathering(
    async (lease, results) => await transaction(async (turn) => await keep(turn, lease, results)),
  );

  return {
    addResults,
    addLines: async (lease, lines, first) =>
      await transaction(async (turn) => {
        const { seq, status, in_progress_at: begun } = await held(turn, lease);
        if (begun !== null || (status !== 'validating' && status !== 'cancelling'))
          throw new StoreError('broken', `${lease.batchId} is ${status}: its lines stand`);
        if (first) await turn.run('delete from warmlane_lines where batch = $1', seq);
        await turn.run(
          `insert into warmlane_lines (batch, line, rank, custom_id, at, bytes)
            select $1, * from unnest($2::integer[], $3::integer[], $4::text[], $5::bigint[], $6::bigint[])
            on conflict (batch, line) do nothing`,
          seq,
          lines.map(({ line }) => line),
          lines.map(({ rank }) => rank),
          lines.map(({ customId }) => encodeText(customId)),
          lines.map(({ at }) => at),
          lines.map(({ bytes }) => bytes),
        );
      }),
    pending: async (lease, { afterRank, limit }) =>
      await transaction(async (turn) => {
        const { seq } = await held(turn, lease);
        const rows = await turn.rows<LineRow>(
          `select line, rank, custom_id, at, bytes, attempts, not_before_ms from warmlane_lines
            where batch = $1 and not done and rank > $2 order by rank limit $3`,
          seq,
          afterRank,
          limit,
        );
        return rows.map((row) => ({
          line: row.line,
          rank: row.rank,
          customId: decodeText(row.custom_id),
          at: row.at,
          bytes: row.bytes,
          attempts: row.attempts,
          notBeforeMs: row.not_before_ms,
        }));
      }),
    noteRetries: async (lease, retries) =>
      await transaction(async (turn) => {
        const { seq } = await held(turn, lease);
        await turn.run(
          `update warmlane_lines l set attempts = g.attempts, not_before_ms = g.not_before_ms
             from unnest($2::integer[], $3::integer[], $4::bigint[]) as g (line, attempts, not_before_ms)
            where l.batch = $1 and l.line = g.line and not l.done`,
          seq,
          retries.map(({ line }) => line),
          retries.map(({ attempts }) => attempts),
          retries.map(({ notBeforeMs }) => notBeforeMs),
        );
      }),
    results: async (lease, { ok, afterLine, limit }) =>
      await transaction(async (turn) => {
        const { seq } = await held(turn, lease);
        return await turn.rows<LineResult>(
          `select line, ok, text from warmlane_results
            where batch = $1 and ok = $2 and line > $3 order by line limit $4`,
          seq,
          ok,
          afterLine,
          limit,
        );
      }),
  };
}

/** @throws StoreError `broken`: one of them is no line of the batch */
async function expectLines(
  turn: PostgresTurn,
  lease: Lease,
  seq: number,
  results: readonly LineResult[],
): Promise<void> {
  const [row] = await turn.rows<{ line: number }>(
    `select g.line from unnest($2::integer[]) as g (line)
      where not exists (select 1 from warmlane_lines l where l.batch = $1 and l.line = g.line) limit 1`,
    seq,
    results.map(({ line }) => line),
  );
  if (row !== undefined) throw new StoreError('broken', `${lease.batchId} has no line ${row.line}`);
}
