/** warmlane's own pages: health answers on the data port, which never call a model, and the admin listener. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { Script } from '../../src/sim/fault-steps.ts';
import { until } from '../../src/sim/fault-steps.ts';
import { DONE, FIN, ROLE, T, USE, wholeAnswer } from '../../src/sim/sse-script.ts';
import { paced } from '../support/exchange.ts';
import { type Proxy, startProxy } from '../support/proxy.ts';
import { chatBody, postBytes, R0, requestBytes } from '../support/raw-http.ts';
import { createStage, eventually, type Stage, untilAsked, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

/** Probes only at the start: what a backend hears later comes from a request. */
const quiet = { fleet: { probeIntervalMs: 600_000 } };
const quickProbes = { fleet: { probeIntervalMs: 30, probeDownIntervalMs: 30, probeTimeoutMs: 500 } };

async function ask(proxy: Proxy, request: string | Uint8Array) {
  const client = await stage.client(proxy);
  client.send(request);
  const answer = await client.answer();
  client.leave();
  return { ...answer, json: JSON.parse(answer.body.toString()) as unknown };
}

async function readiness(proxy: Proxy, path = '/readyz'): Promise<unknown> {
  const { status, json } = await ask(proxy, requestBytes(`GET ${path}`));
  return status === 200 ? 'ready' : (json as { reason: string }).reason;
}

describe('health on the data port', () => {
  it('is answered without asking a backend, and is no request', async () => {
    const backend = await stage.backend();
    const proxy = await stage.proxy(backend, { change: quiet });
    const probes = backend.probes.length;
    for (const path of ['/livez', '/readyz', '/health', '/health?full=1', 'http://any/livez']) {
      expect(await ask(proxy, requestBytes(`GET ${path}`))).toMatchObject({ status: 200, json: { status: 'ok' } });
    }
    const client = await stage.client(proxy);
    client.send(requestBytes('HEAD /readyz'));
    await client.until(() => client.received.includes('\r\n\r\n'));
    expect(client.received.toString()).toMatch(/^HTTP\/1\.1 200 /);
    expect(client.received.toString().endsWith('\r\n\r\n')).toBe(true);
    expect([backend.probes.length, usersOf(backend).length]).toEqual([probes, 0]);
    expect(await proxy.records(0)).toEqual([]);
  });

  it('is GET and HEAD of these three paths; everything beside them is the backend’s', async () => {
    const backend = await stage.backend({ onRequest: (): Script => [wholeAnswer(200, { theirs: true })] });
    const proxy = await stage.proxy(backend);
    for (const line of [
      'POST /health',
      'GET /healthz',
      'GET /health/',
      'GET /v1/health',
      'GET /ping',
      'OPTIONS /readyz',
    ]) {
      expect([line, (await ask(proxy, requestBytes(line))).json]).toEqual([line, { theirs: true }]);
    }
  });

  it('does not depend on the Host header, nor on a backend that hangs', async () => {
    const backend = await stage.backend({ onRequest: (): Script => [60_000] });
    const proxy = await stage.proxy(backend, { places: 1 });
    const busy = await stage.client(proxy);
    busy.send(R0);
    await untilAsked(backend, 1);
    for (const host of ['10.0.0.7:8484', '[::1]:8484', 'warm_lane']) {
      expect((await ask(proxy, requestBytes('GET /livez', { Host: host }))).status).toBe(200);
    }
    expect(await readiness(proxy)).toBe('ready');
  });

  it('says that it is not ready while no backend takes work, and is ready again by itself', async () => {
    const [a, b] = [await stage.backend(), await stage.backend()];
    const proxy = await stage.proxy([a, b], { change: quickProbes });
    expect(await readiness(proxy)).toBe('ready');
    await a.refuse();
    await eventually(() => proxy.app.fleet.snapshot().backends[0]?.health === 'down', 'the first to be seen down');
    expect(await readiness(proxy)).toBe('ready');
    await b.refuse();
    await eventually(() => proxy.app.fleet.snapshot().backends[1]?.health === 'down', 'the second to be seen down');
    expect(await readiness(proxy)).toBe('no backend takes work');
    expect(await readiness(proxy, '/health')).toBe('no backend takes work');
    expect((await ask(proxy, requestBytes('GET /livez'))).status).toBe(200);
    await a.listenAgain();
    await eventually(async () => (await readiness(proxy)) === 'ready', 'readiness to come back');
  });

  it('says that it is not ready while the model loads', async () => {
    let loading = true;
    const answer = wholeAnswer(
      503,
      { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } },
      { Server: 'llama.cpp' },
    );
    const backend = await stage.backend({
      onRequest: (): Script => [wholeAnswer(200, { choices: [] })],
      probes: { engine: 'llama-server', override: () => (loading ? [answer] : undefined) },
    });
    const proxy = await stage.proxy(backend, { change: quickProbes });
    expect(await readiness(proxy)).toBe('no backend takes work');
    loading = false;
    await eventually(async () => (await readiness(proxy)) === 'ready', 'the model to be there');
    for (let i = 0; i < 2; i += 1) await ask(proxy, postBytes('/v1/chat/completions', { ...chatBody, stream: false }));
    // Only the first answer after the load paid for it.
    expect((await proxy.records(2)).map(({ warmth }) => warmth)).toEqual(['cold_start', 'unknown']);
  });

  it('says that it is not ready with no backend at all, and requests are told the same', async () => {
    const proxy = await startProxy([]);
    expect(await readiness(proxy)).toBe('no backend is configured');
    expect(await ask(proxy, R0)).toMatchObject({
      status: 503,
      json: { error: { code: 'no_backend', source: 'warmlane' } },
    });
    await proxy.close();
  });

  it('says that it is not ready while shutting down, and still that it lives', async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const backend = await stage.backend({ onRequest: (): Script => [until(gate), wholeAnswer(200, {})] });
    const proxy = await startProxy([backend.url]);
    const [running, ready, live] = [await stage.client(proxy), await stage.client(proxy), await stage.client(proxy)];
    running.send(postBytes('/v1/chat/completions', {}));
    await untilAsked(backend, 1);
    // Connections that are in use when the shutdown begins: idle ones are closed.
    ready.send('GET /readyz HTTP/1.1\r\n');
    live.send('GET /livez HTTP/1.1\r\n');
    await new Promise((resolve) => void setTimeout(resolve, 30));
    const stopped = proxy.app.stop();
    ready.send('Host: x\r\n\r\n');
    live.send('Host: x\r\n\r\n');
    expect((await ready.answer()).body.toString()).toBe('{"status":"unavailable","reason":"shutting down"}');
    expect((await live.answer()).status).toBe(200);
    go();
    expect((await running.answer()).status).toBe(200);
    await stopped;
  });
});

async function page(proxy: Proxy, path: string): Promise<{ status: number; json: unknown }> {
  const answer = await fetch(`${proxy.adminUrl}${path}`);
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
  return { status: answer.status, json: await answer.json() };
}

describe('the admin listener', () => {
  it('tells what it has', async () => {
    const proxy = await stage.proxy(await stage.backend());
    const { status, json } = await page(proxy, '/');
    expect(status).toBe(200);
    const own = ['/healthz', '/running', '/records?limit=100', '/records/{request id}', '/backends'];
    const pages = ['/engines', '/findings'];
    expect(Object.keys(json as object)).toEqual(expect.arrayContaining([...own, ...pages]));
    expect((await page(proxy, '/healthz')).json).toMatchObject({
      status: 'ok',
      uptimeSeconds: expect.any(Number) as number,
      rssBytes: expect.any(Number) as number,
    });
    expect((await page(proxy, '/nowhere')).status).toBe(404);
  });

  it('shows a request while it runs and while it waits', async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const backend = await stage.backend({ onRequest: (): Script => [until(gate), wholeAnswer(200, {})] });
    const proxy = await stage.proxy(backend, { places: 1 });
    const [first, second] = [await stage.client(proxy), await stage.client(proxy)];
    first.send(postBytes('/v1/chat/completions?key=secret', chatBody, { 'X-Request-Id': 'first' }));
    await untilAsked(backend, 1);
    second.send(postBytes('/v1/chat/completions', chatBody, { 'X-Request-Id': 'second' }));
    type Running = { waiting: number; running: Record<string, unknown>[] };
    await eventually(async () => ((await page(proxy, '/running')).json as Running).waiting === 1, 'one to wait');
    const { running } = (await page(proxy, '/running')).json as Running;
    expect(running).toMatchObject([
      {
        requestId: 'first',
        endpoint: 'chat',
        path: '/v1/chat/completions',
        model: 'm',
        backend: `b${backend.port}`,
        phase: 'waiting_head',
        attempts: 1,
      },
      { requestId: 'second', phase: 'queued', attempts: 0 },
    ]);
    expect(JSON.stringify(running)).not.toContain('secret');
    expect((await page(proxy, '/backends')).json).toMatchObject({
      backends: [
        { name: `b${backend.port}`, url: backend.url, health: 'up', models: ['m'], load: { jobs: 1, slots: 1 } },
      ],
    });
    go();
    await Promise.all([first.answer(), second.answer()]);
  });

  it('keeps the last records, newest first, and gives as many as are asked for', async () => {
    const backend = await stage.backend({ onRequest: (): Script => [wholeAnswer(200, {})] });
    const proxy = await stage.proxy(backend, { change: { http: { maxRecords: 5 } } });
    for (let i = 0; i < 8; i += 1) await ask(proxy, postBytes('/v1/chat/completions', {}, { 'X-Request-Id': `r${i}` }));
    const ids = async (query: string) =>
      ((await page(proxy, `/records${query}`)).json as { records: RequestRecord[] }).records.map(
        ({ requestId }) => requestId,
      );
    await eventually(async () => (await ids(''))[0] === 'r7', 'the last record');
    expect(await ids('')).toEqual(['r7', 'r6', 'r5', 'r4', 'r3']);
    expect(await ids('?limit=2')).toEqual(['r7', 'r6']);
    expect(await ids('?limit=0')).toEqual([]);
    expect(await ids('?limit=999999')).toHaveLength(5);
    for (const bad of ['-1', 'x', '1.5', '']) expect((await page(proxy, `/records?limit=${bad}`)).status).toBe(400);
  });

  it('gives one record whole, with the moment of every token, by its id', async () => {
    const backend = await stage.backend({
      onRequest: () => paced(5, ROLE, T('a'), T('b'), FIN('stop'), USE(4, 2), DONE),
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(postBytes('/v1/chat/completions', chatBody, { 'X-Request-Id': 'a/b?c=1' }));
    await client.answer();
    await proxy.records(1);
    const { status, json: shown } = await page(proxy, `/records/${encodeURIComponent('a/b?c=1')}`);
    const json = shown as RequestRecord;
    expect(status).toBe(200);
    expect(json).toMatchObject({
      requestId: 'a/b?c=1',
      outcome: 'ok',
      tokens: { output: { value: 2, source: 'usage' } },
    });
    expect(json.stamps?.atMs).toHaveLength(2);
    expect(json.stamps?.atMs[1]).toBe(json.timeline.lastToken);
    expect((await page(proxy, '/records/nobody')).status).toBe(404);
  });

  it('never shows a prompt, an answer or a key', async () => {
    const secrets = ['PROMPT-7', 'ANSWER-7', 'KEY-7', 'COOKIE-7', 'QUERY-7', 'BACKENDKEY-7'];
    const backend = await stage.backend({ onRequest: () => paced(1, ROLE, T('ANSWER-7'), FIN('stop'), DONE) });
    const backends = [{ name: 'b', url: backend.url, apiKey: 'BACKENDKEY-7' }];
    const proxy = await stage.proxy(backend, { change: { fleet: { backends } } });
    const body = { ...chatBody, messages: [{ role: 'user', content: 'PROMPT-7' }] };
    const client = await stage.client(proxy);
    client.send(
      postBytes('/v1/chat/completions?key=QUERY-7', body, { Authorization: 'Bearer KEY-7', Cookie: 'COOKIE-7' }),
    );
    expect((await client.answer()).body.includes('ANSWER-7')).toBe(true);
    const shown = JSON.stringify([
      await proxy.records(1),
      await page(proxy, '/backends'),
      await page(proxy, '/running'),
      proxy.logged,
    ]);
    for (const secret of secrets) expect(shown).not.toContain(secret);
  });
});
