/**
 * Starts a real vLLM on the CPU, ready in half a minute to two, with the flags that most tests want: four sequences,
 * prefill in steps of 128 tokens, the smallest cache block, cached tokens reported, tools, reasoning, a queue limit of
 * twelve, aborts in the log, and a SIGTERM that lets running streams finish.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { startChild, untilReady } from './child-process.ts';
import { vllmCounterNames } from './counters.ts';
import { createEngine, modelName, type Engine } from './engine.ts';
import { vllmFiles } from './installed.ts';
import { healthy } from './llama-server.ts';

export const vllmQueueLimit = 12;

const baseFlags = [
  ...['--max-model-len', '2048', '--max-num-seqs', '4', '--max-num-batched-tokens', '128', '--block-size', '32'],
  ...['--enforce-eager', '--enable-prompt-tokens-details', '--enable-log-requests'],
  ...['--enable-auto-tool-choice', '--tool-call-parser', 'hermes', '--reasoning-parser', 'qwen3'],
  ...['--structured-outputs-config', '{"enable_in_reasoning":true}'],
];

/** Streams finish after SIGTERM; too many requests at once are refused. */
export const vllmFlags = [...baseFlags, '--shutdown-timeout', '20', '--max-num-queued-reqs', String(vllmQueueLimit)];

/** As vLLM comes: SIGTERM leaves open streams silent. */
export const vllmAbruptFlags = baseFlags;

/** A CPU without AVX-512 only imitates bfloat16, at a quarter of float32's speed. */
const quickType =
  existsSync('/proc/cpuinfo') && !/\bavx512f\b/.test(readFileSync('/proc/cpuinfo', 'utf8'))
    ? ['--dtype', 'float32']
    : [];

const allocator = '/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4';

export async function startVllm(
  flags: readonly string[] = vllmFlags,
  env: Readonly<Record<string, string>> = {},
): Promise<Engine> {
  const port = await findFreePort();
  const child = startChild({
    command: vllmFiles.python,
    args: [
      // The console script looks for a package of another name, and dies.
      ...['-m', 'vllm.entrypoints.openai.api_server', '--model', vllmFiles.model, '--served-model-name', modelName],
      ...['--host', '127.0.0.1', '--port', String(port), ...quickType, ...flags],
    ],
    env: {
      VLLM_CPU_KVCACHE_SPACE: '1',
      VLLM_CPU_OMP_THREADS_BIND: 'nobind',
      OMP_NUM_THREADS: '1',
      HF_HUB_OFFLINE: '1',
      VLLM_NO_USAGE_STATS: '1',
      ...(existsSync(allocator) ? { LD_PRELOAD: allocator } : {}),
      ...env,
    },
  });
  const url = `http://127.0.0.1:${port}`;
  await untilReady(child, 'vLLM to answer /health', async () => ((await healthy(url)) ? true : undefined), 300_000);
  return createEngine('vllm', url, child, vllmCounterNames, 30_000);
}

/** A port that was free a moment ago, for servers that can't be told to choose one and say which. */
export function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      // A listening TCP server's address is an AddressInfo; the other types are for pipes and closed servers.
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
