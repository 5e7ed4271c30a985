/**
 * The `config.json` files that `models.shapes` names: read once, at load, so that a missing one is found at start. What they
 * say is judged where shapes are made.
 */
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

import type { KeyPath } from './problem.ts';
import { pathText } from './problem.ts';

/** The longest published ones, with their lists of quantised modules, have some 200 KiB. */
const largestFileBytes = 4 * 1024 * 1024;

export interface ShapeFiles {
  /** Parsed, by path text of the key that names the file. */
  readonly values: ReadonlyMap<string, unknown>;
  readonly problems: readonly { readonly path: KeyPath; readonly message: string }[];
}

/**
 * @param value the config file's value, checked or not
 * @param folder what relative paths are relative to
 */
export function readShapeFiles(value: unknown, folder: string): ShapeFiles {
  const values = new Map<string, unknown>();
  const problems: { path: KeyPath; message: string }[] = [];
  const shapes = fieldOf(fieldOf(value, 'models'), 'shapes');
  for (const [index, shape] of (Array.isArray(shapes) ? shapes : []).entries()) {
    const name = fieldOf(shape, 'configFile');
    if (typeof name !== 'string' || name === '') continue;
    const path: KeyPath = ['models', 'shapes', index, 'configFile'];
    const read = readJson(resolve(folder, name));
    if ('message' in read) problems.push({ path, message: read.message });
    else values.set(pathText(path), read.json);
  }
  return { values, problems };
}

function readJson(path: string): { readonly json: unknown } | { readonly message: string } {
  try {
    const stats = statSync(path);
    if (stats.isDirectory()) return { message: 'this is a folder; name the config.json in it' };
    // A device or a pipe tells no size, and may never end.
    if (!stats.isFile()) return { message: 'this is no regular file' };
    if (stats.size > largestFileBytes) return { message: 'the file is larger than 4 MiB; that is no config.json' };
    return { json: JSON.parse(readFileSync(path, 'utf8')) };
  } catch (error) {
    if (error instanceof SyntaxError) return { message: 'the file is no JSON' };
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    if (code === 'ENOENT') return { message: 'the file is not there' };
    return { message: `the file can't be read (${code})` };
  }
}

function fieldOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}
