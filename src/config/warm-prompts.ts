/**
 * The prompts that `warmUp.prompts` names, as the bodies of requests: those of files read once, at load, so that a missing one
 * is found at start; those of the config written as clients' libraries write them. Messages never hold a file's content.
 */
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

import type { WarmPrompt } from '../route/warm-up-settings.ts';
import type { KeyPath } from './problem.ts';
import { pathText } from './problem.ts';
import type { ConfigFile } from './schema.ts';

const largestFileBytes = 4 * 1024 * 1024;

export interface WarmFiles {
  /** By path text of the key that names the file, or that is a body itself. */
  readonly bodies: ReadonlyMap<string, string>;
  readonly problems: readonly { readonly path: KeyPath; readonly message: string }[];
}

/**
 * @param value the config file's value, checked or not
 * @param folder what relative paths are relative to
 */
export function readWarmFiles(value: unknown, folder: string): WarmFiles {
  const bodies = new Map<string, string>();
  const problems: { path: KeyPath; message: string }[] = [];
  const prompts = fieldOf(fieldOf(value, 'warmUp'), 'prompts');
  for (const [index, prompt] of (Array.isArray(prompts) ? prompts : []).entries()) {
    for (const key of ['file', 'body'] as const) {
      const given = fieldOf(prompt, key);
      if (typeof given !== 'string' || given === '') continue;
      const path: KeyPath = ['warmUp', 'prompts', index, key];
      const read = key === 'body' ? { text: given } : readText(resolve(folder, given));
      const problem = 'message' in read ? read.message : notABody(read.text, key === 'file' ? 'the file' : 'it');
      if (problem !== undefined) problems.push({ path, message: problem });
      else if ('text' in read) bodies.set(pathText(path), read.text);
    }
  }
  return { bodies, problems };
}

export function warmPrompts(
  { prompts }: ConfigFile['warmUp'],
  bodies: ReadonlyMap<string, string>,
): readonly WarmPrompt[] {
  return prompts.map(({ path, model, messages, prompt, body, file }, index) => {
    const name = `warmUp.prompts[${index}]`;
    const named = model === undefined ? {} : { model };
    if (messages !== undefined) return { name, path: path ?? chatPath, body: JSON.stringify({ ...named, messages }) };
    if (prompt !== undefined)
      return { name, path: path ?? '/v1/completions', body: JSON.stringify({ ...named, prompt }) };
    const read = file === undefined ? body : bodies.get(`${name}.file`);
    return { name, path: path ?? chatPath, body: read ?? '{}' };
  });
}

const chatPath = '/v1/chat/completions';

function notABody(text: string, what: string): string | undefined {
  try {
    const json: unknown = JSON.parse(text);
    const isObject = typeof json === 'object' && json !== null && !Array.isArray(json);
    return isObject ? undefined : `${what} holds no JSON object, as a request's body is`;
  } catch {
    return `${what} is no JSON`;
  }
}

function readText(path: string): { readonly text: string } | { readonly message: string } {
  try {
    const stats = statSync(path);
    // A device or a pipe tells no size, and may never end.
    if (!stats.isFile()) return { message: 'this is no regular file' };
    if (stats.size > largestFileBytes) return { message: 'the file is larger than 4 MiB' };
    return { text: readFileSync(path, 'utf8') };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    return { message: code === 'ENOENT' ? 'the file is not there' : `the file can't be read (${code})` };
  }
}

function fieldOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}
