/**
 * Where backends come from, as the checked file says it → settings; and lists of backends that come from elsewhere, a file
 * or the admin API, checked by the same schema as those of the config. Reads no file itself but the PEM files that they name.
 */
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import * as v from 'valibot';

import type { HardwareSettings } from '../account/ceiling/settings.ts';
import type { BackendSettings, DiscoverySettings } from '../fleet/settings.ts';
import type { ListenSettings } from '../http/settings.ts';
import type { RouteSettings } from '../route/settings.ts';
import { hostPort, isOwnAddress } from './address.ts';
import { type backend, backends } from './backend-schema.ts';
import { prepare } from './keys.ts';
import { readPemFiles } from './pem.ts';
import { type ConfigProblem, inOrder, isSecret, type KeyPath, pathText } from './problem.ts';
import { type Environment, resolveReferences } from './reference.ts';
import type { ConfigFile } from './schema.ts';
import { readSource } from './source.ts';

type BackendInFile = v.InferOutput<typeof backend>;

/** What others than the fleet want to know of a backend. */
export interface BackendExtra {
  readonly hardware?: HardwareSettings;
  readonly cache?: RouteSettings['caches'][string];
}

export interface NamedBackend {
  readonly settings: BackendSettings;
  readonly extra?: BackendExtra;
}

export type BackendsRead =
  | { readonly ok: true; readonly backends: readonly NamedBackend[] }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] };

/** What a list of backends that isn't part of the config is read against. */
export interface Surroundings {
  readonly env: Environment;
  /** warmlane's own addresses, which no backend can have. */
  readonly own: readonly ListenSettings[];
}

/** The same bound as for the config file. */
const largestFileBytes = 1024 * 1024;

export function backendSettings(one: BackendInFile, ca: string | undefined): BackendSettings {
  const { hardware: _, cache: __, name = hostPort(one.url), ...rest } = one;
  return { ...traits(rest, ca), name, url: one.url };
}

/** @param folder what a relative path is relative to */
export function discoverySettings(
  { discovery }: Pick<ConfigFile, 'discovery'>,
  pems: ReadonlyMap<string, string>,
  folder: string,
): DiscoverySettings {
  const { dns, file } = discovery;
  return {
    dns: dns.map(({ name, port, scheme, path, intervalMs, family, ...each }, index) => ({
      name,
      ...(port === undefined ? {} : { port }),
      scheme,
      path,
      intervalMs,
      family,
      each: traits(each, pems.get(`discovery.dns[${index}].tls.caFile`)),
    })),
    ...(file === undefined ? {} : { file: { path: resolve(folder, file.path) } }),
  };
}

function traits<T extends Pick<BackendInFile, 'tls'>>({ tls, ...rest }: T, ca: string | undefined) {
  if (tls === undefined) return rest;
  const { serverName, verify } = tls;
  return {
    ...rest,
    tls: { verify, ...(ca === undefined ? {} : { ca }), ...(serverName === undefined ? {} : { serverName }) },
  };
}

/** A file with a list of backends, or with a map that holds one under `backends`. Never throws. */
export function readBackendsFile(path: string, around: Surroundings): BackendsRead {
  const failed = (message: string): BackendsRead => ({ ok: false, problems: [{ file: path, path: '', message }] });
  let text: string;
  try {
    const stats = statSync(path);
    if (!stats.isFile()) return failed('this is no regular file');
    if (stats.size > largestFileBytes) return failed('the file is larger than 1 MiB; that is no list of backends');
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    return failed(code === 'ENOENT' ? 'the file is not there' : `the file can't be read (${code})`);
  }
  const source = readSource(text);
  if (source.problems.length > 0)
    return { ok: false, problems: source.problems.map((problem) => ({ file: path, path: '', ...problem })) };
  const { value } = source;
  const bare = Array.isArray(value);
  if (!bare && !(typeof value === 'object' && value !== null && 'backends' in value))
    return failed('there is no list in it: write - url: http://…, or the same under backends:');
  return readBackends(bare ? { backends: value } : value, { ...around, folder: dirname(path) }, (at, part) => ({
    file: path,
    ...source.locate(bare ? at.slice(1) : at, part),
  }));
}

/** One backend, as the admin API is given it. Never throws. */
export function readBackend(value: unknown, around: Surroundings): BackendsRead {
  const read = readBackends({ backends: [value] }, { ...around, folder: '.', noReferences: true }, () => ({}));
  if (read.ok) return read;
  const shown = read.problems.map((problem) => ({
    ...problem,
    path: problem.path.replace(/^backends(\[0\])?\.?/, ''),
  }));
  return { ok: false, problems: shown };
}

const listSchema = v.strictObject({ backends }, 'must be a map of keys');

function readBackends(
  value: unknown,
  around: Surroundings & { readonly folder: string; readonly noReferences?: true },
  locate: (path: KeyPath, part: 'key' | 'value') => Partial<ConfigProblem>,
): BackendsRead {
  const problems: ConfigProblem[] = [];
  const place = (path: KeyPath, message: string, part: 'key' | 'value' = 'value') =>
    problems.push({ ...locate(path, part), path: pathText(path), message });
  // What comes by API may not read the environment.
  const resolved = resolveReferences(value, around.env, () => around.noReferences === true);
  for (const { path, message } of resolved.problems) place(path, message);
  const prepared = prepare(listSchema, resolved.value, resolved.whole);
  for (const { path, message, part } of prepared.faults) place(path, message, part);
  const checked = v.safeParse(listSchema, prepared.value);
  for (const issue of checked.issues ?? []) {
    const path = (issue.path ?? []).map((item) => item.key as string | number);
    const missing = issue.kind === 'schema' && issue.input === undefined;
    place(path, missing && !isSecret(path) ? 'is missing' : issue.message);
  }
  const pem = around.noReferences === true ? undefined : readPemFiles(prepared.value, around.folder);
  for (const { path, message } of pem?.problems ?? []) place(path, message);
  for (const [index, one] of (checked.success ? checked.output.backends : []).entries()) {
    if (around.own.some((own) => isOwnAddress(one.url, own)))
      place(['backends', index, 'url'], "this is warmlane's own address; name the model server's");
    if (around.noReferences === true && one.tls?.caFile !== undefined)
      place(['backends', index, 'tls', 'caFile'], 'can stand only in a file of the machine that warmlane runs on');
  }
  if (problems.length > 0 || !checked.success) return { ok: false, problems: inOrder(problems) };
  return {
    ok: true,
    backends: checked.output.backends.map((one, index) => named(one, pem?.texts.get(`backends[${index}].tls.caFile`))),
  };
}

function named(one: BackendInFile, ca: string | undefined): NamedBackend {
  const settings = backendSettings(one, ca);
  const { hardware, cache } = one;
  if (hardware === undefined && cache === undefined) return { settings };
  const extra = { ...(hardware === undefined ? {} : { hardware }), ...(cache === undefined ? {} : { cache }) };
  return { settings, extra };
}
