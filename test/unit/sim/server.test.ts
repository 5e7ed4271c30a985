import { Agent, request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { instantLlamaServer, instantVllmServer } from '../../../src/sim/server-settings.ts';
import type { SimServer } from '../../../src/sim/server.ts';
import { openRawClient } from './raw-client.ts';
import { get, post, quickLlama, quickVllm, simRig, untilTrue } from './sim-rig.ts';

const { serve, closeAll } = simRig();
afterEach(closeAll);

const chat = { messages: [{ role: 'user', content: 'hi' }], temperature: 0, max_tokens: 4 };

/** Sends `count` requests over 32 connections. @returns statuses seen */
async function sendMany(server: SimServer, count: number, body: object): Promise<Map<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const text = JSON.stringify(body);
  const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) };
  const statuses = new Map<number, number>();
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const sent = request(`${server.url}/v1/chat/completions`, { method: 'POST', agent, headers }, (response) => {
        const status = response.statusCode ?? 0;
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        response.resume().on('end', resolve).on('error', reject);
      });
      sent.on('error', reject);
      sent.end(text);
    });
  await Promise.all(Array.from({ length: count }, one));
  agent.destroy();
  return statuses;
}

describe('simulated server', () => {
  it.each([
    ['vLLM', instantVllmServer],
    ['llama-server', instantLlamaServer],
  ] as const)('moves many requests quickly in the dialect of %s, and counts each', async (_name, settings) => {
    const server = await serve(settings);
    const beganMs = performance.now();
    expect(await sendMany(server, 1000, { ...chat, max_tokens: 8, ignore_eos: true })).toEqual(new Map([[200, 1000]]));
    expect(performance.now() - beganMs).toBeLessThan(10_000);
    expect(server.engine.view()).toMatchObject({
      running: 0,
      waiting: 0,
      counters: { submitted: 1000, generatedTokens: 8000, ended: { length: 1000 } },
    });
  });

  it('llama-server answers 503 to everything until its model is loaded', async () => {
    const server = await serve({ ...quickLlama, loadingMs: 60 });
    expect((await get(server, '/health')).status).toBe(503);
    await new Promise((resolve) => setTimeout(resolve, 120));
    expect((await get(server, '/health')).status).toBe(200);
  });

  it('refuses a body past its limit and survives a client that leaves while sending', async () => {
    const server = await serve({ ...quickVllm, maxBodyBytes: 1000 });
    expect((await post(server, '/v1/chat/completions', { ...chat, pad: 'x'.repeat(2000) })).status).toBe(413);
    const client = await openRawClient(server.port);
    client.send('POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nContent-Length: 900\r\n\r\nhalf');
    client.close();
    await untilTrue(() => server.openSockets === 0);
    expect((await get(server, '/health')).status).toBe(200);
  });

  it('refuses an empty prompt, which has no first token to compute', async () => {
    for (const settings of [quickVllm, quickLlama]) {
      const server = await serve(settings);
      expect((await post(server, '/v1/completions', { prompt: '' })).status).toBe(400);
    }
  });

  it('closes its port and cuts what is open', async () => {
    const server = await serve(quickVllm);
    const client = await openRawClient(server.port);
    await server.close();
    await client.untilOver();
    await expect(openRawClient(server.port)).rejects.toThrow('ECONNREFUSED');
  });
});
