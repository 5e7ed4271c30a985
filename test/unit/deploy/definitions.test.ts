/** `deploy/definitions.md` names every field of the log line and of the record, and every word that stands in them. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import type { RequestRecord } from '../../../src/domain/record.ts';
import { finish, role, text, usage } from '../../support/events.ts';
import { observe } from '../../support/observe.ts';
import { logFields } from '../../support/log-fields.ts';
import { sampleNote } from '../../support/sample-routing.ts';

const root = new URL('../../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');
const page = read('deploy/definitions.md');
const section = page.slice(page.indexOf('\n## The log line and the record\n'), page.indexOf('\n## Choices\n'));

/** The quoted words of a union type or of the list that it is of, or the names of an interface, as the source has them. */
function words(path: string, name: string): readonly string[] {
  const source = read(path).replace(/\/\*\*[\s\S]*?\*\//g, '');
  const type = new RegExp(`export type ${name} =([^;]*);`).exec(source)?.[1];
  const list = /^\s*\(typeof (\w+)\)\[number\]$/.exec(type ?? '')?.[1];
  const spelt = list === undefined ? type : new RegExp(`export const ${list} = \\[([^\\]]*)\\]`).exec(source)?.[1];
  if (spelt !== undefined) return [...spelt.matchAll(/'([^']+)'/g)].map(([, word = '']) => word);
  const body = new RegExp(`export interface ${name} \\{\\n([\\s\\S]*?)\\n\\}`).exec(source)?.[1] ?? '';
  return [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, word = '']) => word);
}

describe('deploy/definitions.md', () => {
  it('names every field of the log line, in the first column', () => {
    const record: RequestRecord = {
      ...observe({ engine: 'vllm' }, [
        [100, role()],
        [150, text('a')],
        [180, finish('stop') + usage(12, 1)],
      ]),
      stalls: [{ atMs: 1, durationMs: 2, requestId: 'r', promptTokens: 3 }],
      routing: sampleNote(),
      assessment: { missed: [{ cause: 'diverged', tokens: 5 }] },
    };
    const named = section
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .map((line) => line.split('|')[1])
      .join();
    const fields = Object.keys(logFields(record));
    expect(fields.length).toBeGreaterThan(40);
    expect(fields.filter((field) => !named.includes(`\`${field}\``))).toEqual([]);
  });

  it.each([
    ['src/domain/record.ts', 'RequestRecord', ['tokens', 'figures', 'stalls']],
    ['src/domain/record.ts', 'Timeline', []],
    ['src/domain/record.ts', 'Figures', []],
    ['src/domain/record.ts', 'TokenStamps', []],
    ['src/domain/names.ts', 'Outcome', []],
    ['src/domain/names.ts', 'Phase', []],
    ['src/domain/names.ts', 'Warmth', []],
    ['src/domain/names.ts', 'Lane', []],
  ])('%s: names every word of %s', (path, name, nested) => {
    const all = words(path, name);
    expect(all.length).toBeGreaterThan(1);
    expect(all.filter((word) => !nested.includes(word) && !section.includes(`\`${word}\``))).toEqual([]);
    for (const word of nested) expect(section).toMatch(new RegExp(`\`${word}[.[]`));
  });

  it.each([
    ['RecordMark', /`(\w+)`/g],
    ['CountSource', /`(\w+)`/g],
    ['TpotWindow', /`(\w+)`/g],
  ])('names every word of %s', (name, quoted) => {
    const there = new Set([...page.matchAll(quoted)].map(([, word]) => word));
    const all = words('src/domain/record.ts', name).filter((word) => !word.startsWith('none_'));
    expect(all.length).toBeGreaterThan(2);
    expect(all.filter((word) => !there.has(word))).toEqual([]);
  });
});
