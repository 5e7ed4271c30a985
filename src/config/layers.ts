/**
 * Lays what flags and environment say over the file's value, and remembers who said what. Pure.
 */
import { resolve } from 'node:path';

import { type ConfigFlags, variables } from './environment.ts';
import { type KeyPath, pathText } from './problem.ts';

export interface Layers {
  readonly value: unknown;
  /** Path text → the flag or variable that said it. */
  readonly origins: ReadonlyMap<string, string>;
}

/** Puts what flags and environment say over the file's value, where that is a map at all. */
export function overlay(fileValue: unknown, flags: ConfigFlags, env: ConfigFlags): Layers {
  const origins = new Map<string, string>();
  if (!isMap(fileValue)) return { value: fileValue, origins };
  const value: Record<string, unknown> = { ...fileValue };
  const said = <T>(path: string, flag: string, variable: string, fromFlag: T | undefined, fromEnv: T | undefined) => {
    if (fromFlag === undefined && fromEnv === undefined) return undefined;
    origins.set(path, fromFlag === undefined ? variable : flag);
    return fromFlag ?? fromEnv;
  };
  const put = (section: string, key: string, text: string | undefined) => {
    const there = value[section] ?? {};
    if (text !== undefined && isMap(there)) value[section] = { ...there, [key]: text };
  };
  const urls = said('backends', '--backend', variables.backends, flags.backends, env.backends);
  if (urls !== undefined) value['backends'] = urls.map((url) => ({ url }));
  const listen = said('listen', '--listen', variables.listen, flags.listen, env.listen);
  if (listen !== undefined) value['listen'] = listen;
  put(
    'admin',
    'listen',
    said('admin.listen', '--admin-listen', variables.adminListen, flags.adminListen, env.adminListen),
  );
  put('log', 'level', said('log.level', '--log-level', variables.logLevel, flags.logLevel, env.logLevel));
  put('log', 'format', said('log.format', '--log-format', variables.logFormat, flags.logFormat, env.logFormat));
  const batchDir = said('batch.directory', '--batch-dir', variables.batchDir, flags.batchDir, env.batchDir);
  // A file's own paths are relative to the file.
  put('batch', 'directory', batchDir === undefined ? undefined : resolve(batchDir));
  return { value, origins };
}

/** The flag or variable that said the value at a path or around it. */
export function originOf(origins: ReadonlyMap<string, string>, path: KeyPath): string | undefined {
  for (let length = path.length; length > 0; length -= 1) {
    const origin = origins.get(pathText(path.slice(0, length)));
    if (origin !== undefined) return origin;
  }
  return undefined;
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
