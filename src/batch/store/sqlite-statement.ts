/**
 * Prepared statements of libsql with types: parameters are always one array, since a lone `null` would be taken for an object of
 * named ones, and rows are what the caller says that they are.
 */
import type { Cell } from './rows.ts';
import type { SqliteDatabase } from './sqlite-file.ts';

export interface SqliteStatement<Row> {
  /** The first row. */
  get(...cells: readonly Cell[]): Row | undefined;
  all(...cells: readonly Cell[]): readonly Row[];
  /** @returns how many rows changed */
  run(...cells: readonly Cell[]): number;
}

export function prepare<Row>(database: SqliteDatabase, sql: string): SqliteStatement<Row> {
  const statement = database.prepare<[readonly Cell[]]>(sql);
  return {
    get: (...cells) => statement.get(cells) as Row | undefined,
    all: (...cells) => statement.all(cells) as Row[],
    run: (...cells) => statement.run(cells).changes,
  };
}

/** `?, ?, ?` */
export function marks(count: number): string {
  return Array.from({ length: count }, () => '?').join(', ');
}
