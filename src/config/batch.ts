/**
 * The checked file's `batch` → the settings of `batch/`, and whether its folder can be used: found at load, where whoever starts
 * it is looking, not at the first upload. Makes nothing.
 */
import { accessSync, constants, statfsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

import type { BatchSettings, BatchStoreSettings } from '../batch/settings.ts';
import type { KeyPath } from './problem.ts';
import type { ConfigFile } from './schema.ts';

export function batchSettings({ batch }: ConfigFile, folder: string): BatchSettings {
  const { directory, postgres, ...limits } = batch;
  const store = storeSettings(directory, postgres, folder);
  return store === undefined ? limits : { store, ...limits };
}

function storeSettings(
  directory: string | undefined,
  postgres: ConfigFile['batch']['postgres'],
  folder: string,
): BatchStoreSettings | undefined {
  const place = directory === undefined ? undefined : resolve(folder, directory);
  if (postgres !== undefined)
    return { kind: 'postgres', ...postgres, ...(place === undefined ? {} : { directory: place }) };
  return place === undefined ? undefined : { kind: 'sqlite', directory: place };
}

export interface FolderProblem {
  readonly path: KeyPath;
  readonly message: string;
}

/**
 * @param value the config file's value, checked or not
 * @param folder what relative paths are relative to
 */
export function batchFolderProblems(value: unknown, folder: string): readonly FolderProblem[] {
  const directory = fieldOf(fieldOf(value, 'batch'), 'directory');
  if (typeof directory !== 'string' || directory === '') return [];
  const message = folderFault(resolve(folder, directory));
  return message === undefined ? [] : [{ path: ['batch', 'directory'], message }];
}

/** @returns why nothing could be kept there; undefined also where the folder isn't there yet and could be made */
function folderFault(directory: string): string | undefined {
  let at = directory;
  for (;;) {
    try {
      const found = statSync(at, { throwIfNoEntry: false });
      if (found === undefined && dirname(at) !== at) {
        at = dirname(at);
        continue;
      }
      if (found?.isDirectory() !== true) return `${at} is no folder`;
      accessSync(at, constants.W_OK | constants.X_OK);
      if (isMadeUp(at)) return `nothing can be kept in ${at}: its files are the system's own`;
      return undefined;
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
      const isForbidden = code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
      return isForbidden
        ? `the folder ${at} may not be written by this user`
        : `the folder ${at} can't be used (${code})`;
    }
  }
}

/** proc and sysfs, by their numbers in Linux's `statfs`: they say that they can be written, to root, and take nothing. */
const madeUp: ReadonlySet<number> = new Set([0x9fa0, 0x62656572]);

function isMadeUp(folder: string): boolean {
  return process.platform === 'linux' && madeUp.has(statfsSync(folder).type);
}

function fieldOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}
