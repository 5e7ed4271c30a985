/**
 * The table of bug cases in test/README.md is made of the tests' own names; this holds the two together, and holds that
 * no case of the kinds that this version answers for is without a test. `WARMLANE_UPDATE=1` writes the table anew.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname);
const readme = join(root, 'README.md');

/** Cases of all kinds, A to O, and what was seen on the real engines. */
const wanted = [
  ...ids('C', [2, 3, 4, 6, 8, 9, 10, 11, 12, 14, 15, 17, 19, 20, 22]),
  ...ids('C', [23, 25, 27, 30, 32, 33, 35, 37, 38, 39, 40, 42, 43, 44, 45, 46, 47]),
  ...ids('C', [48, 49, 52, 53, 54, 56, 59, 60, 61]),
  ...ids('C', [62, 64, 65, 68, 69, 71, 72, 73, 75]),
  ...ids('C', [77, 78, 79, 80, 81, 82, 83, 84, 88]),
  ...ids('C', [90, 93, 94, 95, 96, 97, 98, 99, 101, 102, 104]),
  ...ids('C', [105, 106, 109, 110, 112, 114, 116, 117, 118, 119]),
  ...ids('C', [121, 123, 124, 126, 127, 128]),
  ...ids('C', [129, 131, 132, 133, 134]),
  ...ids('C', [136, 138, 140, 142, 143, 144, 145, 146, 147, 149, 152, 153, 154, 156, 157, 158]),
  ...ids('C', [161, 162, 164, 165, 166, 167, 169, 170, 172, 173, 174, 176, 177, 179, 180, 181, 185]),
  ...ids('C', [187, 189, 190, 191, 192, 193, 194, 198, 199, 200]),
  ...ids('C', [201, 202, 203, 204, 207, 208]),
  ...ids(
    'R',
    Array.from({ length: 28 }, (_, index) => index + 1),
  ),
];

function ids(letter: 'C' | 'R', numbers: readonly number[]): string[] {
  return numbers.map((number) => letter + String(number).padStart(letter === 'C' ? 3 : 2, '0'));
}

/** id → files with a test (or a group of tests) whose name begins with it. */
function casesInTests(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, Set<string>>();
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' }).toSorted()) {
    if (!file.endsWith('.test.ts') && !file.endsWith('-suite.ts')) continue;
    const text = readFileSync(join(root, file), 'utf8');
    for (const [, name = ''] of text.matchAll(
      /(?:\b(?:it|describe|test)(?:\.each|\.concurrent)?(?:\([^'"`]*?\))?|\]\))\(\s*['"`]((?:[CR]\d{2,3}\b[ ,/and]*)+)/g,
    )) {
      for (const [id] of name.matchAll(/[CR]\d{2,3}/g)) {
        const files = found.get(id) ?? new Set();
        found.set(id, files.add(file));
      }
    }
  }
  return new Map([...found].toSorted(([a], [b]) => compareIds(a, b)).map(([id, files]) => [id, [...files]]));
}

function compareIds(a: string, b: string): number {
  return a[0] === b[0] ? Number(a.slice(1)) - Number(b.slice(1)) : a < b ? -1 : 1;
}

function render(cases: ReadonlyMap<string, readonly string[]>): string {
  const rows = [...cases].map(([id, files]) => `| ${id} | ${files.map((file) => `\`${file}\``).join(', ')} |`);
  return ['| case | tests |', '| --- | --- |', ...rows].join('\n');
}

const start = '<!-- cases: made from the names of the tests -->';
const end = '<!-- end of cases -->';

describe('the table of cases in test/README.md', () => {
  const cases = casesInTests();

  it('has a test for every case that this version answers for', () => {
    expect(wanted.filter((id) => !cases.has(id))).toEqual([]);
  });

  it('says where each case is tested', () => {
    const text = readFileSync(readme, 'utf8');
    const [before = '', rest = ''] = text.split(start);
    const [table = '', after = ''] = rest.split(end);
    const fresh = render(cases);
    if (process.env['WARMLANE_UPDATE'] === '1') writeFileSync(readme, `${before}${start}\n${fresh}\n${end}${after}`);
    else expect(table.trim()).toBe(fresh);
  });
});
