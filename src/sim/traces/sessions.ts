/**
 * Turns of one session in Mooncake's extended form. AIPerf and Dynamo let a turn tell only what is new in it, and carry answers
 * along themselves; other traces repeat the whole prompt. Both are told apart here, and every turn gets its whole prompt.
 */
import type { TraceFormat, TraceRow } from './row.ts';
import type { FreshIds } from './trace.ts';

export interface JoinedTurns {
  /** rows that come at a time of their own */
  readonly firsts: readonly TraceRow[];
  /** by first row: those that follow one another's ends */
  readonly turns: ReadonlyMap<TraceRow, readonly TraceRow[]>;
  /** finer than the format's where messages were put together */
  readonly hashTokens: number;
}

/** Ids of a message that is put together with others: borders are rounded to so many tokens. */
const fineTokens = 16;

export function joinTurns(
  rows: readonly TraceRow[],
  { format, fresh }: { readonly format: TraceFormat; readonly fresh: FreshIds },
): JoinedTurns {
  const sessions = format.turns ? bySession(rows) : [];
  if (sessions.length === 0) return { firsts: rows, turns: new Map(), hashTokens: format.hashTokens };
  const isWhole = sessions.every(repeatsPrompt);
  const hashTokens = isWhole ? format.hashTokens : fineTokens;
  const refine = createRefiner(format.hashTokens / fineTokens);
  const replaced = new Map<TraceRow, TraceRow>();
  const followers = new Map<TraceRow, readonly TraceRow[]>();
  const within = new Set<TraceRow>();
  for (const session of sessions) {
    const whole = isWhole ? session : carriedAlong(session, { refine, fresh });
    session.forEach((row, index) => {
      if (index > 0) within.add(row);
      else if (whole[0] !== undefined) replaced.set(row, whole[0]);
    });
    if (whole[0] !== undefined) followers.set(whole[0], whole.slice(1));
  }
  const firsts = rows
    .filter((row) => !within.has(row))
    .map((row) => replaced.get(row) ?? (isWhole ? row : { ...row, ...fineIds(row, { refine, fresh }) }));
  return { firsts, turns: followers, hashTokens };
}

/** Sessions of several turns, whose later ones tell no time of their own. */
function bySession(rows: readonly TraceRow[]): readonly (readonly TraceRow[])[] {
  const sessions = new Map<string, TraceRow[]>();
  for (const row of rows) {
    if (row.session === undefined) continue;
    const turns = sessions.get(row.session);
    // With a time of its own it is an arrival like any other, and tells its whole prompt.
    if (turns === undefined) sessions.set(row.session, [row]);
    else if (row.timestampMs === undefined) turns.push(row);
  }
  return [...sessions.values()].filter((turns) => turns.length > 1);
}

/** Each turn begins with the ids of the one before it, but for the last, which may have been partial. */
function repeatsPrompt(turns: readonly TraceRow[]): boolean {
  return turns.every((turn, index) => {
    const before = turns[index - 1]?.hashIds ?? [];
    const own = turn.hashIds ?? [];
    return own.length >= before.length && before.slice(0, -1).every((id, at) => own[at] === id);
  });
}

interface FineDeps {
  /** an id's parts, each an id */
  readonly refine: (id: number) => readonly number[];
  readonly fresh: FreshIds;
}

/** What is new in a turn, behind all earlier messages and answers. */
function carriedAlong(turns: readonly TraceRow[], deps: FineDeps): readonly TraceRow[] {
  let history: readonly number[] = [];
  return turns.map((turn) => {
    const own = fineIds(turn, deps).hashIds;
    const hashIds = [...history, ...own];
    history = [...hashIds, ...deps.fresh(turn.outputTokens, fineTokens)];
    return { ...turn, promptTokens: hashIds.length * fineTokens, hashIds };
  });
}

function fineIds(row: TraceRow, { refine, fresh }: FineDeps): { readonly hashIds: readonly number[] } {
  const wanted = Math.ceil(row.promptTokens / fineTokens);
  const ids = (row.hashIds ?? []).flatMap(refine);
  const missing = (wanted - ids.length) * fineTokens;
  return { hashIds: missing > 0 ? [...ids, ...fresh(missing, fineTokens)] : ids.slice(0, wanted) };
}

/** Ids of an id's parts: below 0, where no others are. */
function createRefiner(parts: number): FineDeps['refine'] {
  return (id) => Array.from({ length: parts }, (_, part) => -1 - (id * parts + part));
}
