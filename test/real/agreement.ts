/**
 * Two accounts of the same requests: how near they must be, and the table of both that `MEASUREMENTS=1` prints for
 * deploy/measurements.md.
 */
import { expect } from 'vitest';

/** Within a share of `expected` and so many ms on top. */
export function expectNear(
  actual: number,
  expected: number,
  words: string,
  bound: { share: number; ms: number },
): void {
  const room = expected * bound.share + bound.ms;
  expect(Math.abs(actual - expected), `${words}: ${actual} against ${expected}`).toBeLessThanOrEqual(room);
}

export function printTable(
  title: string,
  rows: readonly Readonly<Record<string, string | number | undefined>>[],
): void {
  if (process.env['MEASUREMENTS'] !== '1') return;
  const cells = (values: readonly (string | number | undefined)[]) =>
    `| ${values.map((value) => (typeof value === 'number' && !Number.isInteger(value) ? value.toFixed(2) : String(value ?? '–'))).join(' | ')} |`;
  const names = Object.keys(rows[0] ?? {});
  const lines = [
    cells(names),
    cells(names.map(() => '---:')),
    ...rows.map((row) => cells(names.map((name) => row[name]))),
  ];
  process.stdout.write(`\n${title}\n\n${lines.join('\n')}\n`);
}
