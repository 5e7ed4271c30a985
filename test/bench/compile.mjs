/**
 * Compiles the bench's C programs, once per content: the binaries lie in `.cache/bench/<hash of the sources>`.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';

/** @param {string} benchFolder */
function hashSources(benchFolder) {
  const hash = createHash('sha256');
  const headers = readdirSync(join(benchFolder, 'native')).toSorted();
  for (const name of ['backend.c', 'client.c', ...headers.map((header) => join('native', header))]) {
    hash.update(name).update(readFileSync(join(benchFolder, name)));
  }
  return hash.digest('hex').slice(0, 16);
}

/**
 * @param {string} benchFolder
 * @param {string} cacheFolder
 * @returns {{ backend: string, client: string } | { missing: string }} paths of the programs, or why there are none
 */
export function compilePrograms(benchFolder, cacheFolder) {
  const compiler = process.env.CC ?? 'cc';
  const folder = join(cacheFolder, hashSources(benchFolder));
  const built = { backend: join(folder, 'backend'), client: join(folder, 'client') };
  if (existsSync(built.backend) && existsSync(built.client)) return built;
  if (spawnSync(compiler, ['--version'], { stdio: 'ignore' }).error)
    return { missing: `no C compiler: \`${compiler}\` can't be run` };
  mkdirSync(folder, { recursive: true });
  for (const program of /** @type {const} */ (['backend', 'client'])) {
    const unfinished = `${built[program]}.${process.pid}`;
    const result = spawnSync(compiler, ['-O2', '-o', unfinished, join(benchFolder, `${program}.c`), '-lm'], {
      encoding: 'utf8',
    });
    if (result.status !== 0) throw new Error(`${program}.c doesn't compile:\n${result.stderr}`);
    renameSync(unfinished, built[program]);
  }
  return built;
}
