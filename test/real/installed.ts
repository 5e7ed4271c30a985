/**
 * Where install.sh has put the real servers, and what happens when one is missing: a loud line and a skipped test on a
 * developer's machine, a failure in CI, where a green run must mean that the real servers were there.
 */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const cache = process.env['REAL_SERVERS_CACHE'] ?? join(homedir(), '.cache', 'warmlane');

export const inCi = process.env['CI'] === 'true';

/** The cases that need a vLLM start of their own, half a minute to two each. */
export const longForm = process.env['REAL_SERVERS_LONG'] === '1';

export const llamaServerFiles = {
  binary: join(cache, 'llama-server', 'env', 'bin', 'llama-server-vulkan'),
  model: join(cache, 'llama-server', 'model.gguf'),
};

export const vllmFiles = {
  python: join(cache, 'vllm', 'env', 'bin', 'python'),
  model: join(cache, 'vllm', 'model'),
};

export const jaegerFile = join(cache, 'jaeger', 'jaeger');

export const aiperfFile = join(cache, 'aiperf', 'env', 'bin', 'aiperf');

export type Part = 'llama-server' | 'vllm' | 'jaeger' | 'aiperf';

/** True when the part's install was completed. Says so loudly otherwise, and throws in CI. */
export function installed(part: Part): boolean {
  if (existsSync(join(cache, part, 'complete'))) return true;
  const remedy = `${part} is not installed: its tests can't run. Remedy: test/real/install.sh ${part}`;
  // Jaeger is built from its modules: a machine without Go can't have it.
  if (inCi && !existsSync(join(cache, part, 'no-go'))) throw new Error(remedy);
  console.warn(`\n*** ${remedy}\n`);
  return false;
}
