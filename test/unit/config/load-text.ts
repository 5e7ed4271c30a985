/**
 * Loads a configuration from a text, by way of a real file in a folder of its own.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

import type { Config } from '../../../src/config/config.ts';
import type { ConfigFlags } from '../../../src/config/environment.ts';
import { loadConfig, type LoadResult } from '../../../src/config/load.ts';
import { problemText } from '../../../src/config/problem.ts';
import type { Environment } from '../../../src/config/reference.ts';

const folder = mkdtempSync(join(tmpdir(), 'warmlane-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

export interface Around {
  readonly env?: Environment;
  readonly flags?: ConfigFlags;
  /** Other files in the config file's folder. */
  readonly beside?: Readonly<Record<string, string>>;
}

export function loadText(text: string, { env = {}, flags = {}, beside = {} }: Around = {}): LoadResult {
  const file = join(folder, 'w.yaml');
  writeFileSync(file, text);
  for (const [name, content] of Object.entries(beside)) writeFileSync(join(folder, name), content);
  return loadConfig({ file, env, flags });
}

/** The config of a text that must be right. */
export function configOf(text: string, around: Around = {}): Config {
  const result = loadText(text, around);
  if (!result.ok) throw new Error(result.problems.map(problemText).join('\n'));
  return result.config;
}

/** The problems of a text that must be wrong, as they are shown, without the folder's name. */
export function problemsOf(text: string, around: Around = {}): readonly string[] {
  const result = loadText(text, around);
  return result.ok ? [] : result.problems.map((problem) => problemText(problem).replaceAll(`${folder}/`, ''));
}
