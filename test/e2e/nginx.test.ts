/** Streams through warmlane when there is an nginx with its defaults before or behind it. */
import { connect as connectH2, constants } from 'node:http2';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DONE, FIN, ROLE, sseHead, T, chunk, lastChunk } from '../../src/sim/sse-script.ts';
import type { Script } from '../../src/sim/fault-steps.ts';
import { paced } from '../support/exchange.ts';
import { hasNginx, startNginx, type Nginx } from '../support/nginx.ts';
import { createAuthority, hasOpenssl } from '../support/openssl.ts';
import { startProxy } from '../support/proxy.ts';
import { chatBody, R0, rawClient } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

if (!hasNginx)
  console.warn(
    'LEFT OUT: test/e2e/nginx.test.ts (C094 to C096 behind a real nginx), since there is no `nginx` on this machine.',
  );

const everyMs = 60;
const tokens = Array.from({ length: 8 }, (_, i) => T(`t${i}`));
const events = [ROLE, ...tokens, FIN('stop'), DONE];

/** A token stream arrives as it was sent; a busy machine may bundle a few, a buffering proxy bundles all. */
function expectSteady(readsMs: readonly number[]): void {
  expect(readsMs.length).toBeGreaterThanOrEqual(tokens.length / 2);
  expect((readsMs.at(-1) ?? 0) - (readsMs[0] ?? 0)).toBeGreaterThan(everyMs * (tokens.length - 3));
}

describe.runIf(hasNginx)('a stream', () => {
  let stage: Stage;
  const servers: { close(): Promise<unknown> }[] = [];
  beforeEach(() => {
    stage = createStage();
  });
  afterEach(async () => {
    await stage.close();
    for (const server of servers.splice(0).toReversed()) await server.close();
  });
  async function nginx(...args: Parameters<typeof startNginx>): Promise<Nginx> {
    const server = await startNginx(...args);
    servers.push(server);
    return server;
  }

  async function readAt(port: number) {
    const client = await rawClient(port);
    client.send(R0);
    const answer = await client.answer();
    client.leave();
    expect(answer.body.toString()).toBe(events.join(''));
    return {
      answer,
      readsMs: client.reads.filter(({ text }) => text.includes('"content":"t')).map(({ atMs }) => atMs),
    };
  }

  it('C095 comes token by token through an nginx with its defaults, though the backend gave no marker', async () => {
    const proxy = await stage.proxy(await stage.backend({ onRequest: () => paced(everyMs, ...events) }));
    const { readsMs } = await readAt((await nginx(proxy.port)).port);
    expectSteady(readsMs);
  });

  it('C096 comes token by token though an nginx behind warmlane took the marker away', async () => {
    const marked = (): Script => [
      sseHead({ 'X-Accel-Buffering': 'no' }),
      ...events.flatMap((event) => [everyMs, chunk(event)]),
      lastChunk,
    ];
    const inner = await nginx((await stage.backend({ onRequest: marked })).port);
    const proxy = await startProxy([`http://127.0.0.1:${inner.port}`]);
    servers.push(proxy);
    const direct = await readAt(proxy.port);
    expect(direct.answer.headers['x-accel-buffering']).toBe('no');
    const { readsMs } = await readAt((await nginx(proxy.port)).port);
    expectSteady(readsMs);
  });

  it.runIf(hasOpenssl)('C094 comes through an HTTP/2 edge to a strict client', async () => {
    const authority = createAuthority();
    const backend = await stage.backend({
      onRequest: () => [
        sseHead({ Connection: 'keep-alive', 'Keep-Alive': 'timeout=5' }),
        ...events.flatMap((event) => [everyMs, chunk(event)]),
        lastChunk,
      ],
    });
    const proxy = await stage.proxy(backend);
    const edge = await nginx(proxy.port, authority.sign('DNS:localhost'));
    const session = connectH2(`https://127.0.0.1:${edge.port}`, { ca: authority.ca, servername: 'localhost' });
    const sessionErrors: unknown[] = [];
    session.on('error', (error) => sessionErrors.push(error));
    for (let round = 0; round < 2; round += 1) {
      const stream = session.request({
        [constants.HTTP2_HEADER_METHOD]: 'POST',
        [constants.HTTP2_HEADER_PATH]: '/v1/chat/completions',
        'content-type': 'application/json',
      });
      let headers: Record<string, unknown> = {};
      const readsMs: number[] = [];
      let text = '';
      stream.on('response', (received) => (headers = received));
      stream.on('data', (bytes: Buffer) => {
        text += bytes.toString();
        if (bytes.includes('"content":"t')) readsMs.push(performance.now());
      });
      stream.end(JSON.stringify(chatBody));
      await new Promise((resolve, reject) => stream.once('end', resolve).once('error', reject));
      expect(headers[':status']).toBe(200);
      for (const name of ['connection', 'keep-alive', 'transfer-encoding']) expect(headers).not.toHaveProperty(name);
      expect(text).toBe(events.join(''));
      expectSteady(readsMs);
    }
    expect(sessionErrors).toEqual([]);
    await new Promise<void>((resolve) => session.close(resolve));
    authority.remove();
  });
});
