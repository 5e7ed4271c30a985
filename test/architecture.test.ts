/** Reads the import tables of src/README.md and holds every source file against them. */
import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '..');
const src = join(root, 'src');
const readme = readFileSync(join(src, 'README.md'), 'utf8');
const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

function tableUnder(heading: string): ReadonlyMap<string, readonly string[]> {
  const section = readme.split(`## ${heading}`)[1]?.split('\n## ')[0] ?? '';
  const rows = section
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2);
  return new Map(
    rows.map((row) => {
      const [left = '', right = ''] = row
        .split('|')
        .slice(1, 3)
        .map((cell) => cell.replaceAll('`', '').trim());
      return [left, right === '–' ? [] : right.split(',').map((item) => item.trim())];
    }),
  );
}

/** Folder of a file, or its own name when it stands at the top. */
function partOf(path: string): string {
  return path.split('/')[0] ?? '';
}

function importsOf(file: string): readonly string[] {
  const text = readFileSync(join(src, file), 'utf8');
  return [
    ...text.matchAll(/^(?:import|export)\b[^;]*?from\s+'([^']+)'|^import\s+'([^']+)'|\bimport\('([^']+)'\)/gms),
  ].map((match) => match[1] ?? match[2] ?? match[3] ?? '');
}

const allowed = tableUnder('Import table');
const packages = tableUnder('Third-party packages');

describe('the import tables of src/README.md', () => {
  it('name every folder and top-level file of src', () => {
    const parts = new Set(files.map(partOf));
    expect([...parts].filter((part) => !allowed.has(part))).toEqual([]);
    expect([...allowed.keys()].filter((part) => !parts.has(part))).toEqual([]);
  });

  it('hold for every import between folders', () => {
    const broken: string[] = [];
    for (const file of files) {
      const from = partOf(file);
      for (const target of importsOf(file).filter((name) => name.startsWith('.'))) {
        const path = relative(src, resolve(src, dirname(file), target));
        const to = partOf(path);
        const settingsOnly =
          from === 'config' && allowed.get('config')?.includes(to) === true && !['platform', 'domain'].includes(to);
        if (from !== to && !allowed.get(from)?.includes(to)) broken.push(`${file} → ${path}`);
        else if (from !== to && settingsOnly && !path.endsWith('settings.ts'))
          broken.push(`${file} → ${path} (settings only)`);
      }
    }
    expect(broken).toEqual([]);
  });

  it('keep each third-party package in its folders', () => {
    const homes = new Map<string, readonly string[]>();
    for (const [names, folders] of packages) for (const name of names.split(',')) homes.set(name.trim(), folders);
    const broken: string[] = [];
    for (const file of files) {
      for (const target of importsOf(file)) {
        if (target.startsWith('.') || target.startsWith('node:') || builtinModules.includes(target)) continue;
        const name = target.startsWith('@') ? target.split('/').slice(0, 2).join('/') : (target.split('/')[0] ?? '');
        if (homes.get(name)?.includes(partOf(file)) !== true) broken.push(`${file} → ${target}`);
      }
    }
    expect(broken).toEqual([]);
  });

  it('have no file without an opening comment that says what it owns', () => {
    const bare = files.filter((file) => {
      const text = readFileSync(join(src, file), 'utf8').replace(/^#!.*\n/, '');
      return !text.startsWith('/**');
    });
    expect(bare).toEqual([]);
  });
});
