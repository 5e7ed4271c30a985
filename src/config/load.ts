/**
 * File, environment and flags → one frozen Config, or every problem at once. Flags win over the environment, it over
 * the file, that over the defaults. The only effects are reading the config file and the PEM files that it names.
 */
import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import * as v from 'valibot';

import { batchFolderProblems } from './batch.ts';
import { buildConfig } from './build.ts';
import type { Config } from './config.ts';
import { type ConfigFlags, readEnvironment, variables } from './environment.ts';
import { readKeys } from './key-files.ts';
import { prepare } from './keys.ts';
import { originOf, overlay } from './layers.ts';
import { readPemFiles } from './pem.ts';
import { type ConfigProblem, inOrder, isSecret, type KeyPath, pathText } from './problem.ts';
import { type Environment, namesIn, resolveReferences } from './reference.ts';
import { configFileSchema } from './schema.ts';
import { readShapeFiles } from './shape-files.ts';
import { readSource, type Source } from './source.ts';
import { readWarmFiles } from './warm-prompts.ts';

export interface LoadRequest {
  /** Path of the config file as the user wrote it; else `WARMLANE_CONFIG`, else none. */
  readonly file?: string;
  readonly env: Environment;
  readonly flags: ConfigFlags;
  /** Streams run meanwhile: what may never come to its end, a pipe or a device, isn't read. */
  readonly isRunning?: boolean;
}

export interface Loaded {
  readonly ok: true;
  readonly config: Config;
  /** The demo was asked for. */
  readonly demo: boolean;
  /** The file that was read, if one was. */
  readonly file?: string;
}

export type LoadResult = Loaded | { readonly ok: false; readonly problems: readonly ConfigProblem[] };

/** Far above any fleet's file, far below what would stall the start. */
const largestFileBytes = 1024 * 1024;

export function loadConfig(request: LoadRequest): LoadResult {
  const file = request.file ?? environmentFile(request.env);
  const read = file === undefined ? noFile : readConfigFile(file, request.isRunning === true);
  const environment = readEnvironment(request.env, read.names);
  const layers = overlay(read.source?.value ?? {}, request.flags, environment.flags);
  const problems: ConfigProblem[] = [...read.problems, ...environment.problems];
  const place = (path: KeyPath, message: string, part: 'key' | 'value' = 'value') =>
    problems.push(placed({ file, source: read.source, origins: layers.origins }, path, message, part));

  const resolved = resolveReferences(layers.value, request.env, (path) => originOf(layers.origins, path) !== undefined);
  for (const { path, message } of resolved.problems) place(path, message);

  const prepared = prepare(configFileSchema, resolved.value, resolved.whole);
  for (const { path, message, part } of prepared.faults) place(path, message, part);
  const checked = v.safeParse(configFileSchema, prepared.value);
  const unset = new Set(resolved.problems.map(({ path }) => pathText(path)));
  for (const issue of checked.issues ?? []) {
    const path = (issue.path ?? []).map((item) => item.key as string | number);
    // What is wrong with a value that could not be put together is said above.
    if (!unset.has(pathText(path))) place(path, sentence(issue, path, resolved.touched));
  }
  const pem = readPemFiles(prepared.value, file === undefined ? '.' : dirname(resolve(file)));
  const shapeFiles = readShapeFiles(prepared.value, file === undefined ? '.' : dirname(resolve(file)));
  const warmFiles = readWarmFiles(prepared.value, file === undefined ? '.' : dirname(resolve(file)));
  const keys = readKeys(prepared.value, file === undefined ? '.' : dirname(resolve(file)), unset);
  for (const { path, message } of [...pem.problems, ...shapeFiles.problems, ...warmFiles.problems, ...keys.problems])
    if (!unset.has(pathText(path))) place(path, message);

  for (const { path, message } of batchFolderProblems(
    prepared.value,
    file === undefined ? '.' : dirname(resolve(file)),
  ))
    if (!unset.has(pathText(path))) place(path, message);

  const contradiction = demoAndBackends(request.flags, environment.flags);
  if (contradiction !== undefined) problems.push(contradiction);

  if (problems.length > 0 || !checked.success) return { ok: false, problems: inOrder(problems) };
  const demo = request.flags.demo ?? environment.flags.demo ?? false;
  return {
    ok: true,
    config: buildConfig(checked.output, pem.texts, {
      modelConfigs: shapeFiles.values,
      warmBodies: warmFiles.bodies,
      keys: keys.byItem,
      folder: file === undefined ? '.' : dirname(resolve(file)),
    }),
    demo,
    ...(file === undefined ? {} : { file }),
  };
}

/** A file's backends give way to the demo; two words of one command line can't. */
function demoAndBackends(flags: ConfigFlags, env: ConfigFlags): ConfigProblem | undefined {
  const [asked, backends] =
    flags.demo === undefined ? [env.demo, flags.backends ?? env.backends] : [flags.demo, flags.backends];
  if (asked !== true || backends === undefined) return undefined;
  const path = flags.demo === undefined ? variables.demo : '--demo';
  const other = flags.backends === undefined ? variables.backends : '--backend';
  return { path, message: `both this and ${other} say what to serve; leave one out` };
}

function environmentFile(env: Environment): string | undefined {
  const file = env[variables.config];
  return file === '' ? undefined : file;
}

interface ReadFile {
  readonly source: Source | undefined;
  /** Environment variables that it names. */
  readonly names: ReadonlySet<string>;
  readonly problems: readonly ConfigProblem[];
}

const noFile: ReadFile = { source: undefined, names: new Set(), problems: [] };

function readConfigFile(file: string, isRunning: boolean): ReadFile {
  const failed = (message: string): ReadFile => ({ ...noFile, problems: [{ file, path: '', message }] });
  let text: string;
  try {
    const stats = statSync(file);
    if (isRunning && !stats.isFile() && !stats.isDirectory()) return failed('this is no regular file');
    if (stats.size > largestFileBytes) return failed('the file is larger than 1 MiB; that is no configuration');
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') return failed('the file is not there');
    return failed(code === 'EISDIR' ? 'this is a folder, not a file' : `the file can't be read (${String(code)})`);
  }
  const source = readSource(text);
  const problems = source.problems.map((problem) => ({ file, path: '', ...problem }));
  return { source, names: namesIn(text), problems };
}

interface Places {
  readonly file: string | undefined;
  readonly source: Source | undefined;
  readonly origins: ReadonlyMap<string, string>;
}

function placed(places: Places, path: KeyPath, message: string, part: 'key' | 'value'): ConfigProblem {
  const origin = originOf(places.origins, path);
  if (origin !== undefined) {
    const ordinal = path[0] === 'backends' && typeof path[1] === 'number' ? ` (number ${path[1] + 1})` : '';
    return { path: `${origin}${ordinal}`, message };
  }
  if (places.file === undefined) return { path: pathText(path), message };
  const position = places.source?.locate(path, part);
  return { file: places.file, path: pathText(path), message, ...position };
}

/** The field's own sentence, and what stands there instead where that helps and gives nothing away. */
function sentence(issue: v.BaseIssue<unknown>, path: KeyPath, touched: ReadonlySet<string>): string {
  if (issue.kind === 'schema' && issue.input === undefined) return 'is missing';
  if (issue.input === null) return `has no value; it ${issue.message}, or leave the key out`;
  if (isSecret(path) || touched.has(pathText(path))) return issue.message;
  const found = shownValue(issue);
  return found === undefined ? issue.message : `${issue.message}, not ${found}`;
}

function shownValue({ kind, type, input }: v.BaseIssue<unknown>): string | undefined {
  if (typeof input === 'number' || typeof input === 'boolean') return String(input);
  if (kind !== 'schema') return undefined;
  if (typeof input !== 'string') return Array.isArray(input) ? 'a list' : 'a map';
  return ['picklist', 'number', 'boolean'].includes(type) && input.length <= 40 ? JSON.stringify(input) : undefined;
}
