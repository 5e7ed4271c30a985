/**
 * Starts a real llama-server on a free port, ready in about a second, with the flags that most tests want:
 * two slots of 2048 tokens, prefill in steps of 128 tokens, pings every 2 s so that SIGTERM ends streams soon,
 * prefix hits from slots only, a chat template with tools and reasoning, and token ids that make /infill answer.
 */
import { join } from 'node:path';
import { startChild, untilReady } from './child-process.ts';
import { llamaCounterNames } from './counters.ts';
import { createEngine, modelName, type Engine } from './engine.ts';
import { llamaServerFiles } from './installed.ts';

const fillInTheMiddle = ['pre_token_id=int:3', 'suf_token_id=int:4', 'mid_token_id=int:5']
  .map((pair) => `tokenizer.ggml.fim_${pair}`)
  .join(',');

export const llamaServerFlags = [
  ...['-np', '2', '-c', '4096', '-b', '128', '-t', '1', '-cram', '0'],
  ...['--metrics', '--slots', '--sse-ping-interval', '2'],
  ...['--chat-template-file', join(import.meta.dirname, 'tools.jinja'), '--override-kv', fillInTheMiddle],
];

/** @param flags in place of `llamaServerFlags` */
export async function startLlamaServer(flags: readonly string[] = llamaServerFlags): Promise<Engine> {
  const child = startChild({
    command: llamaServerFiles.binary,
    args: ['-m', llamaServerFiles.model, '--host', '127.0.0.1', '--port', '0', '-a', modelName, ...flags],
  });
  const url = await untilReady(
    child,
    'llama-server to answer /health',
    async () => {
      const address = /listening on (http:\/\/127\.0\.0\.1:\d+)/.exec(child.log())?.[1];
      return address !== undefined && (await healthy(address)) ? address : undefined;
    },
    60_000,
  );
  return createEngine('llama-server', url, child, llamaCounterNames, 6_000);
}

export async function healthy(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/health`, { signal: AbortSignal.timeout(2_000) });
    await answer.arrayBuffer();
    return answer.ok;
  } catch {
    return false;
  }
}
