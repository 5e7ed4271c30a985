import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { createScriptedServer, type ScriptedServer } from '../../../src/sim/faults.ts';
import { exchangeScript, loadExchange, type RecordedExchange, type ReplayPace } from '../../../src/sim/replay.ts';
import { openRawClient, type RawClient } from './raw-client.ts';

const fixtures = fileURLToPath(new URL('../../fixtures/recorded/', import.meta.url));
const load = (name: string) => loadExchange(`${fixtures}${name}`);

const servers: ScriptedServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function play(exchange: RecordedExchange, pace: ReplayPace): Promise<RawClient> {
  const server = await createScriptedServer({ onRequest: () => exchangeScript(exchange, pace), probes: false });
  servers.push(server);
  const client = await openRawClient(server.port);
  client.send(exchange.request);
  await client.until((text) => Buffer.byteLength(text) >= exchange.response.length, 15_000);
  return client;
}

describe('replay of recorded exchanges', () => {
  it('loads every recording that is kept, and its reads add up', async () => {
    const names = ['llama-server', 'vllm'].flatMap((engine) =>
      readdirSync(`${fixtures}${engine}`).map((name) => `${engine}/${name}`),
    );
    const folders = names.filter((name) => !name.includes('.') && !name.endsWith('kv-events'));
    const exchanges = await Promise.all(folders.map(load));
    expect(exchanges.length).toBeGreaterThan(60);
    expect(new Set(exchanges.map((exchange) => exchange.end))).toEqual(
      new Set(['complete', 'closed_by_server', 'closed_by_client', 'silent']),
    );
  });

  it.each([['whole'], ['reads'], ['cut']] as const)('sends the same bytes when played %s', async (kind) => {
    const exchange = await load('vllm/chat-unicode');
    const client = await play(exchange, { kind });
    expect(client.bytes.equals(exchange.response)).toBe(true);
    if (kind === 'cut') expect(client.reads.length).toBeGreaterThan(exchange.reads.length);
    client.close();
  });

  it('keeps the recorded gaps, or divides them', async () => {
    const exchange = await load('vllm/chat-usage');
    const startMs = performance.now();
    const client = await play(exchange, { kind: 'recorded', speed: 4 });
    const expectedMs = (exchange.reads.at(-1)?.atMs ?? 0) / 4;
    const tookMs = (client.reads.at(-1)?.atMs ?? 0) - startMs;
    expect(tookMs).toBeGreaterThan(expectedMs - 5);
    expect(tookMs).toBeLessThan(expectedMs + 3_000);
    expect(client.bytes.equals(exchange.response)).toBe(true);
    client.close();
  });

  it("closes after llama-server's streams, as the server did, and not after vLLM's", async () => {
    const llama = await play(await load('llama-server/chat-plain'), { kind: 'whole' });
    await llama.untilOver();
    expect(llama.errorCode).toBeUndefined();
    const vllm = await play(await load('vllm/chat-plain'), { kind: 'whole' });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(vllm.over).toBe(false);
    vllm.close();
  });

  it('stays silent where the server did', async () => {
    const client = await play(await load('vllm/sigterm-mid-stream'), { kind: 'whole' });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(client.over).toBe(false);
    client.close();
  });
});
