/**
 * The keys under `auth.keys` as hashes with their tenants: those of the config itself are hashed here and go no further, those of
 * files are read once, at load. Says what can't be: a key of two tenants, a tenant with two sets of terms, a rule for nobody.
 * Messages never hold a key, a hash or a line of a file.
 */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

import { anonymousTenant } from '../domain/tenant.ts';
import type { KeyPath } from './problem.ts';
import { pathText } from './problem.ts';

export interface HashedKey {
  readonly tenant: string;
  /** 64 hex digits in lower case */
  readonly sha256: string;
  /** It stood in the configuration, and can be guessed. */
  readonly isWeak: boolean;
}

export interface HashedKeys {
  /** By path text of the item that they come from. */
  readonly byItem: ReadonlyMap<string, readonly HashedKey[]>;
  readonly problems: readonly { readonly path: KeyPath; readonly message: string }[];
}

/** Some 50,000 keys. */
const largestFileBytes = 4 * 1024 * 1024;
/** 24 characters of base64 hold 144 bits. */
const shortestStrong = 24;
const fewestDistinct = 8;

const ownName = `the name ${anonymousTenant} is warmlane's own, for requests that show no key; choose another one`;
const howToHash = 'hash a key with: printf %s KEY | sha256sum';

/**
 * @param value the config file's value, checked or not
 * @param folder what relative paths are relative to
 * @param unread path texts of values that could not be read: nothing is said of who is missing where a name may stand there
 */
export function readKeys(value: unknown, folder: string, unread: ReadonlySet<string>): HashedKeys {
  const byItem = new Map<string, readonly HashedKey[]>();
  const problems: { path: KeyPath; message: string }[] = [];
  const say = (path: KeyPath, message: string) => problems.push({ path, message });
  const owners = new Map<string, { readonly tenant: string; readonly place: string }>();
  const terms = new Map<string, string>();
  const items = listOf(fieldOf(fieldOf(value, 'auth'), 'keys'));
  /** All names of tenants are known. */
  let isWhole = true;
  for (const [index, item] of items.entries()) {
    const at: KeyPath = ['auth', 'keys', index];
    const place = pathText(at);
    const keys = keysOf(item, folder, (message) => {
      isWhole = false;
      say([...at, 'file'], message);
    });
    if (unread.has(`${place}.name`) || unread.has(`${place}.file`)) isWhole = false;
    if (keys.some(({ tenant }) => tenant === anonymousTenant)) say(at, ownName);
    for (const { sha256, tenant } of keys) {
      const owner = owners.get(sha256);
      if (owner !== undefined) say(at, `a key of ${tenant} is the same as one in ${owner.place}; keep one`);
      else owners.set(sha256, { tenant, place });
    }
    if (['weight', 'models', 'limits'].some((name) => fieldOf(item, name) !== undefined))
      for (const tenant of new Set(keys.map((key) => key.tenant))) {
        const before = terms.get(tenant);
        if (before !== undefined) say(at, `weight, models or limits of ${tenant} stand in ${before}; keep them in one`);
        else terms.set(tenant, place);
      }
    byItem.set(place, keys);
  }
  const tenants = new Set([...byItem.values()].flat().map(({ tenant }) => tenant));
  for (const [index, rule] of listOf(fieldOf(fieldOf(value, 'lanes'), 'rules')).entries()) {
    const tenant = fieldOf(rule, 'tenant');
    if (isWhole && typeof tenant === 'string' && !tenants.has(tenant))
      say(['lanes', 'rules', index, 'tenant'], 'no key under auth.keys has this name');
  }
  return { byItem, problems };
}

function keysOf(item: unknown, folder: string, say: (message: string) => void): readonly HashedKey[] {
  const [name, key, sha256, file] = ['name', 'key', 'sha256', 'file'].map((part) => fieldOf(item, part));
  if (typeof file === 'string' && file !== '') return keysInFile(resolve(folder, file), say);
  if (typeof name !== 'string') return [];
  // An empty one is no key, as is said elsewhere, and two of them are not the same one.
  if (key === '') return [];
  if (typeof key === 'string') {
    const isWeak = key.length < shortestStrong || new Set(key).size < fewestDistinct;
    return [{ tenant: name, sha256: createHash('sha256').update(key).digest('hex'), isWeak }];
  }
  return typeof sha256 === 'string' ? [{ tenant: name, sha256: sha256.toLowerCase(), isWeak: false }] : [];
}

/** Blank lines and those that begin with # count for nothing; the `-` that sha256sum writes may stand behind a hash. */
function keysInFile(path: string, say: (message: string) => void): readonly HashedKey[] {
  const read = readText(path);
  if ('message' in read) {
    say(read.message);
    return [];
  }
  const keys: HashedKey[] = [];
  for (const [index, line] of read.text.split(/\r?\n/).entries()) {
    if (/^\s*(#.*)?$/.test(line)) continue;
    const [, tenant, sha256] = /^\s*([A-Za-z0-9._:[\]-]{1,64})\s+([0-9a-fA-F]{64})(?:\s+-)?\s*$/.exec(line) ?? [];
    if (tenant === undefined || sha256 === undefined) {
      say(`line ${index + 1}: must be a name (letters, digits or . _ : [ ] -) and a SHA-256; ${howToHash}`);
      return [];
    }
    keys.push({ tenant, sha256: sha256.toLowerCase(), isWeak: false });
  }
  if (keys.length === 0) say(`the file has no keys; a line for each: name sha256; ${howToHash}`);
  return keys;
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

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function fieldOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}
