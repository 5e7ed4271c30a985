/** Simulated servers on real sockets with quick engines, and one-shot requests to them, for the simulator's tests. */
import type { EngineSettings } from '../../../src/sim/settings.ts';
import { createSimServer, type SimServer, type SimServerDeps } from '../../../src/sim/server.ts';
import {
  laptopLlamaServer,
  laptopVllmServer,
  type LlamaServerSettings,
  type VllmServerSettings,
} from '../../../src/sim/server-settings.ts';
import { plainTime } from './engine-rig.ts';
import { openRawClient, postRequest, takeApart, type TakenApart } from './raw-client.ts';

/** 2 ms a step, nothing for the rest. */
export const quickTime: EngineSettings['stepTime'] = {
  ...plainTime,
  baseMs: 2,
  perSequenceMs: 0,
  perContextTokenMs: 0,
  perPrefillTokenMs: 0,
};

const longAnswers = { minSentences: 40, maxSentences: 40 };

export const quickVllm: VllmServerSettings = {
  ...laptopVllmServer,
  answer: longAnswers,
  contextTokens: 2048,
  frontendMs: 1,
  engine: {
    ...laptopVllmServer.engine,
    stepTokens: 2048,
    stepTime: quickTime,
    cache: { kind: 'blocks', blockTokens: 16, blocks: 1024, prefixCaching: true },
  },
};

export const quickLlama: LlamaServerSettings = {
  ...laptopLlamaServer,
  answer: longAnswers,
  engine: {
    ...laptopLlamaServer.engine,
    maxSequences: 2,
    stepTime: quickTime,
    cache: { kind: 'slots', slotTokens: 2048, unified: false, ramTokens: 0, minSimilarity: 0.1 },
  },
};

export interface SimRig {
  readonly serve: (settings: VllmServerSettings | LlamaServerSettings, deps?: SimServerDeps) => Promise<SimServer>;
  readonly closeAll: () => Promise<void>;
}

export function simRig(): SimRig {
  const servers: SimServer[] = [];
  return {
    async serve(settings, deps) {
      const server = await createSimServer(settings, deps);
      servers.push(server);
      return server;
    },
    async closeAll() {
      await Promise.all(servers.splice(0).map((server) => server.close()));
    },
  };
}

/** One POST on a fresh connection, its whole answer taken apart. */
export function post(
  server: SimServer,
  path: string,
  body: object | string,
  headers: Readonly<Record<string, string>> = {},
): Promise<TakenApart> {
  return exchange(server, postRequest(path, body, headers));
}

export async function get(
  server: SimServer,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<TakenApart> {
  const extra = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return exchange(server, `GET ${path} HTTP/1.1\r\nHost: sim\r\n${extra.join('')}\r\n`);
}

export async function exchange(server: SimServer, request: string): Promise<TakenApart> {
  const client = await openRawClient(server.port);
  client.send(request);
  await client.until(() => client.bytes.includes('\r\n\r\n') && takeApart(client.bytes).complete, 10_000);
  client.close();
  return takeApart(client.bytes);
}

/** Value of one line of a Prometheus text. */
export function metric(text: string, name: string): number | undefined {
  const line = text.split('\n').find((entry) => entry.startsWith(`${name}{`) || entry.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ') + 1));
}

/** Waits for something that needs no message. @throws after 3 s */
export async function untilTrue(seen: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + 3_000;
  while (!seen()) {
    if (performance.now() > deadlineMs) throw new Error(`not within 3 s: ${seen.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
}
