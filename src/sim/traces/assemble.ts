/**
 * Rows of a trace → its requests: in order, from time 0, each with ids that cover its prompt. Turns of one session are chained,
 * times in coarse bins are spread. Pure, but for its seeded chance.
 */
import { createSeededRandom } from '../seeded-random.ts';
import type { TraceFormat, TraceRow } from './row.ts';
import { joinTurns } from './sessions.ts';
import { spread } from './spread.ts';
import { createFreshIds, type Trace, type TraceProblem, type TraceRequest } from './trace.ts';

export interface Assembled {
  readonly trace: Trace;
  readonly problems: readonly TraceProblem[];
}

export function assemble(
  rows: readonly TraceRow[],
  format: TraceFormat,
  settings: { readonly name: string; readonly seed: number },
): Assembled {
  const known = internIds(rows);
  const fresh = createFreshIds(known.count);
  const problems: TraceProblem[] = [];
  const { firsts, turns, hashTokens } = joinTurns(known.rows, { format, fresh });
  const timed = firsts.filter((row) => {
    if (row.timestampMs !== undefined) return true;
    problems.push({ line: row.line, why: 'timestamp is missing, and no turn of its session stands before it' });
    return false;
  });
  const random = createSeededRandom(settings.seed);
  const times = spread(
    timed.map(({ timestampMs }) => timestampMs ?? 0),
    random,
  );
  const beginMs = times.reduce((least, ms) => Math.min(least, ms), Infinity);
  const order = times
    .map((ms, index) => ({ ms: ms - beginMs, index }))
    .toSorted((a, b) => a.ms - b.ms || a.index - b.index);
  const requests: TraceRequest[] = [];
  for (const { ms, index } of order) {
    const row = timed[index];
    if (row !== undefined) place(row, ms);
  }

  function place(first: TraceRow, atMs: number): void {
    let before = requests.length;
    requests.push(requestOf(first, { atMs }));
    for (const turn of turns.get(first) ?? []) {
      const after = { request: before, delayMs: turn.delayMs ?? 0 };
      before = requests.length;
      requests.push(requestOf(turn, { atMs, after }));
    }
  }

  function requestOf(row: TraceRow, when: Pick<TraceRequest, 'atMs' | 'after'>): TraceRequest {
    const { promptTokens, outputTokens, session, hashIds = [] } = row;
    const wanted = Math.ceil(promptTokens / hashTokens);
    const missing = (wanted - hashIds.length) * hashTokens;
    return {
      ...when,
      promptTokens,
      outputTokens,
      hashIds: missing > 0 ? [...hashIds, ...fresh(missing, hashTokens)] : hashIds.slice(0, wanted),
      ...(session === undefined ? {} : { session }),
    };
  }

  return { trace: { name: settings.name, hashTokens, requests }, problems };
}

/** Small whole numbers in place of whatever ids the trace has. */
function internIds(rows: readonly TraceRow[]): { readonly rows: readonly TraceRow[]; readonly count: number } {
  const small = new Map<number, number>();
  const intern = (id: number) => {
    const known = small.get(id);
    if (known !== undefined) return known;
    small.set(id, small.size);
    return small.size - 1;
  };
  const interned = rows.map((row) => (row.hashIds === undefined ? row : { ...row, hashIds: row.hashIds.map(intern) }));
  return { rows: interned, count: small.size };
}
