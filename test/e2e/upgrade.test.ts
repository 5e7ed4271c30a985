/** WebSockets through warmlane, and requests that offer another protocol in passing. */
import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { WebSocket } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Script } from '../../src/sim/fault-steps.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import { type ConfigChange, type Proxy, startProxy } from '../support/proxy.ts';
import { parseAnswer, postBytes, chatBody, rawClient, requestBytes, type RawClient } from '../support/raw-http.ts';
import { createStage, eventually, loadOf, type Stage, usersOf } from '../support/stage.ts';
import {
  createUpgradeBackend,
  handshakeBytes,
  switching,
  type Handshake,
  type UpgradeBackend,
} from '../support/upgrade-backend.ts';

let stage: Stage;
const open: { close(): Promise<unknown> }[] = [];
beforeEach(() => {
  stage = createStage();
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
  await stage.close();
});

async function behind(
  onHandshake: (handshake: Handshake) => void,
  change: ConfigChange = {},
  model?: string,
): Promise<{ backend: UpgradeBackend; proxy: Proxy }> {
  const backend = await createUpgradeBackend({ onHandshake, ...(model === undefined ? {} : { model }) });
  const proxy = await startProxy([backend.url], change);
  open.push(proxy, backend);
  return { backend, proxy };
}

async function connectTo(proxy: Proxy): Promise<RawClient> {
  const client = await rawClient(proxy.port);
  open.push({ close: async () => client.leave() });
  return client;
}

const agree = ({ socket }: Handshake) => void socket.write(switching);

describe('a WebSocket', () => {
  it('passes with its handshake as it was, then bytes both ways, until either side ends', async () => {
    const { backend, proxy } = await behind(agree);
    const client = await connectTo(proxy);
    client.send(
      handshakeBytes('/v1/realtime?model=m', { Authorization: 'Bearer k', 'Sec-WebSocket-Protocol': 'realtime' }),
    );
    await client.until(() => client.received.toString('latin1') === switching);
    const [handshake] = backend.handshakes;
    expect(handshake?.head.split('\r\n')[0]).toBe('GET /v1/realtime?model=m HTTP/1.1');
    expect(handshake?.header('upgrade')).toBe('websocket');
    expect(handshake?.header('connection')).toBe('Upgrade');
    expect(handshake?.header('host')).toBe(`127.0.0.1:${backend.port}`);
    expect(handshake?.header('sec-websocket-key')).toBe('dGhlIHNhbXBsZSBub25jZQ==');
    expect(handshake?.header('sec-websocket-protocol')).toBe('realtime');
    expect(handshake?.header('authorization')).toBe('Bearer k');
    expect(handshake?.header('via')).toBe('1.1 warmlane');
    const load = await loadOf(proxy);
    expect(load.jobs).toBe(1);
    expect(load.running).toMatchObject([
      {
        requestId: handshake?.header('x-request-id'),
        method: 'GET',
        path: '/v1/realtime',
        model: 'm',
        backend: `127.0.0.1:${backend.port}`,
        phase: 'tunnel',
        attempts: 1,
      },
    ]);
    expect(proxy.app.running()).toHaveLength(1);
    const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, i) => i % 256));
    client.send(bytes);
    await eventually(() => handshake?.received() === bytes.toString('latin1'), 'all bytes at the backend');
    handshake?.socket.write(bytes);
    await client.until(() => client.received.length === switching.length + bytes.length);
    expect(client.received.subarray(switching.length).equals(bytes)).toBe(true);
    handshake?.socket.end('bye');
    await client.until(() => client.ended === 'fin');
    expect(client.received.toString('latin1').endsWith('bye')).toBe(true);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({
      outcome: 'ok',
      reason: 'backend_closed',
      status: 101,
      path: '/v1/realtime',
      model: 'm',
      responseBytes: bytes.length + 3,
      requestId: handshake?.header('x-request-id'),
    });
    expect(await loadOf(proxy)).toMatchObject({ jobs: 0, running: [] });
    await eventually(() => backend.open === 0, 'the backend to be left');
  });

  it('is counted by the gauges of what is under way for as long as it is open', async () => {
    const { proxy } = await behind(agree);
    const gauges = async () =>
      (await (await fetch(`${proxy.adminUrl}/metrics`)).text())
        .split('\n')
        .filter((line) => /^(http_server_active_requests|warmlane_requests_running)\{/.test(line));
    const client = await connectTo(proxy);
    client.send(handshakeBytes('/ws'));
    await client.until(() => client.received.length === switching.length);
    expect(await gauges()).toEqual([
      expect.stringMatching(/^http_server_active_requests\{.*method="GET".*\} 1$/),
      expect.stringMatching(/^warmlane_requests_running\{.*phase="tunnel".*\} 1$/),
    ]);
    client.leave();
    await proxy.records(1);
    expect(await gauges()).toEqual([expect.stringMatching(/ 0$/), expect.stringMatching(/ 0$/)]);
  });

  it('loses no byte that came right behind a head, on either side', async () => {
    const { backend, proxy } = await behind(({ socket }) => void socket.write(`${switching}early`));
    const client = await connectTo(proxy);
    client.send(`${handshakeBytes('/ws')}first`);
    await client.until(() => client.received.toString('latin1') === `${switching}early`);
    await eventually(() => backend.handshakes[0]?.received() === 'first', 'the first bytes');
  });

  it('ends at the backend when its client goes, with what was still to be sent, by a full close', async () => {
    const { backend, proxy } = await behind(agree);
    const client = await connectTo(proxy);
    client.send(handshakeBytes('/ws'));
    await client.until(() => client.received.length === switching.length);
    client.send('last words');
    client.halfClose();
    await eventually(() => backend.handshakes[0]?.received() === 'last words', 'the last words');
    await eventually(() => backend.open === 0, 'the end at the backend');
    await client.until(() => client.ended === 'fin');
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'ok', reason: 'client_closed', status: 101 });
  });

  it('works with a real client, and on a connection that served a request before', async () => {
    const { proxy } = await behind(({ socket, head }) => {
      if (!/^Upgrade:/im.test(head)) return void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      const key = /sec-websocket-key: *(.*)\r\n/i.exec(head)?.[1] ?? '';
      const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      );
      return void socket.write(Buffer.from('\x81\x05hello', 'latin1'));
    });
    const socket = new WebSocket(`ws://127.0.0.1:${proxy.port}/v1/realtime`);
    const message = await new Promise((resolve, reject) => {
      socket.addEventListener('message', (event) => resolve(event.data));
      socket.addEventListener('error', () => reject(new Error('the handshake failed')));
    });
    expect(message).toBe('hello');
    socket.close();
    const client = await connectTo(proxy);
    client.send(requestBytes('GET /x'));
    expect((await client.answer()).body.toString()).toBe('ok');
    client.send(handshakeBytes('/ws'));
    await client.until(() => client.received.includes('101 Switching'));
  });

  it.each([
    [
      'with its length told',
      'HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\nConnection: keep-alive\r\nWWW-Authenticate: Bearer\r\n\r\nkey?',
      'key?',
      401,
      'client_error',
    ],
    [
      'in chunks',
      'HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno \r\n5\r\nroute\r\n0\r\n\r\n',
      'no route',
      404,
      'client_error',
    ],
    ['without a body', 'HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n', '', 426, 'client_error'],
    ['as if nothing was offered', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi', 'hi', 200, 'ok'],
  ] as const)(
    'that is answered otherwise %s: the answer is passed on and ends the connection',
    async (_, bytes, body, status, outcome) => {
      const { backend, proxy } = await behind(({ socket }) => void socket.write(bytes));
      const client = await connectTo(proxy);
      // What follows is no frame but a second request: it must not reach the backend behind warmlane's back.
      client.send(handshakeBytes('/nowhere') + handshakeBytes('/second'));
      const answer = await client.answer();
      expect(answer.status).toBe(status);
      expect(answer.body.toString()).toBe(body);
      expect(answer.headers['connection']).toBe('close');
      if (status === 401) expect(answer.headers['www-authenticate']).toBe('Bearer');
      client.send(requestBytes('POST /sleep'));
      await client.until(() => client.ended !== 'no');
      await eventually(() => backend.open === 0, 'the connection to the backend to be closed');
      expect(backend.handshakes).toHaveLength(1);
      expect(backend.handshakes[0]?.received()).toBe('');
      expect((await proxy.records(1))[0]).toMatchObject({ outcome, status, spokenBy: 'backend' });
      expect((await loadOf(proxy)).jobs).toBe(0);
    },
  );

  it.each(['/sleep', '/tools', '/v1/load_lora_adapter', '//sleep'])('opens no closed route: %s', async (path) => {
    const { backend, proxy } = await behind(agree);
    const client = await connectTo(proxy);
    client.send(handshakeBytes(path));
    const answer = await client.answer();
    expect(answer.status).toBe(403);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'route_closed', source: 'warmlane' } });
    await client.until(() => client.ended !== 'no');
    expect(backend.handshakes).toEqual([]);
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'client_error', status: 403, reason: 'route_closed' });
  });

  it('is not begun while shutting down; one that is open is ended at the drain deadline', async () => {
    const { backend, proxy } = await behind(agree, { http: { drainMs: 300 } });
    const [running, late] = [await connectTo(proxy), await connectTo(proxy)];
    running.send(handshakeBytes('/ws'));
    await running.until(() => running.received.length === switching.length);
    const stopped = proxy.app.stop();
    late.send(handshakeBytes('/ws'));
    const answer = await late.answer();
    expect(answer.status).toBe(503);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'shutting_down' } });
    expect(running.ended).toBe('no');
    await running.until(() => running.ended !== 'no');
    await stopped;
    expect(backend.handshakes).toHaveLength(1);
    expect(proxy.logged.filter(({ msg }) => msg === 'request').map(({ outcome }) => outcome)).toEqual([
      'shutdown',
      'shutdown',
    ]);
  });

  it('goes to a backend that serves the model that its query names', async () => {
    const a = await createUpgradeBackend({ model: 'a', onHandshake: agree });
    const b = await createUpgradeBackend({ model: 'b', onHandshake: agree });
    const proxy = await startProxy([a.url, b.url]);
    open.push(proxy, a, b);
    for (let i = 0; i < 3; i += 1) {
      const client = await connectTo(proxy);
      client.send(handshakeBytes('/v1/realtime?model=b'));
      await client.until(() => client.received.length === switching.length);
    }
    expect([a.handshakes.length, b.handshakes.length]).toEqual([0, 3]);
    const aliased = await startProxy([a.url, b.url], { classify: { modelAliases: { 'gpt-realtime': 'b' } } });
    open.unshift(aliased);
    const client = await connectTo(aliased);
    client.send(handshakeBytes('/v1/realtime?model=gpt-realtime'));
    await client.until(() => client.received.length === switching.length);
    expect(b.handshakes.at(-1)?.head.split('\r\n')[0]).toBe('GET /v1/realtime?model=b HTTP/1.1');
    const lost = await connectTo(proxy);
    lost.send(handshakeBytes('/v1/realtime?model=c'));
    expect((await lost.answer()).status).toBe(404);
  });

  it('tries another backend when one is not there, and says so when none is', async () => {
    const a = await createUpgradeBackend({ onHandshake: agree });
    const b = await createUpgradeBackend({ onHandshake: agree });
    const proxy = await startProxy([a.url, b.url], {
      fleet: { probeIntervalMs: 600_000, probeDownIntervalMs: 600_000 },
    });
    open.push(proxy, a, b);
    await a.close();
    for (let i = 0; i < 2; i += 1) {
      const client = await connectTo(proxy);
      client.send(handshakeBytes('/ws'));
      await client.until(() => client.received.length === switching.length);
    }
    expect(b.handshakes).toHaveLength(2);
    await b.close();
    const client = await connectTo(proxy);
    client.send(handshakeBytes('/ws'));
    const answer = await client.answer();
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { code: 'backend_unreachable', source: 'backend' },
    });
    expect(proxy.app.fleet.snapshot().backends.map(({ health }) => health)).toEqual(['down', 'down']);
  });

  it.each([
    ['a backend that is silent in its answer', 'contentStallMs', 'content_stall', 'timeout'],
    ['all of an answer that takes too long', 'totalMs', 'total_timeout', 'timeout'],
  ] as const)('that is answered otherwise is bounded in time: %s', async (_, key, reason, outcome) => {
    const { backend, proxy } = await behind(
      ({ socket }) => void socket.write('HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nno'),
      { relay: { deadlines: { [key]: 200 } } },
    );
    const client = await connectTo(proxy);
    client.send(handshakeBytes('/ws'));
    await client.until(() => client.ended !== 'no');
    await eventually(() => backend.open === 0, 'the backend to be left');
    expect((await proxy.records(1))[0]).toMatchObject({ outcome, reason, status: 404, phase: 'reading_answer' });
    expect((await loadOf(proxy)).jobs).toBe(0);
  });

  it('that is answered otherwise to a client that never reads is cut on both sides', async () => {
    const { backend, proxy } = await behind(
      ({ socket }) => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n');
        socket.write(Buffer.alloc(100_000_000));
      },
      { relay: { deadlines: { clientStallMs: 300 } } },
    );
    const deaf = connect(proxy.port, '127.0.0.1');
    deaf.on('error', () => deaf.destroy());
    open.push({ close: async () => deaf.destroy() });
    deaf.write(handshakeBytes('/ws'));
    deaf.pause();
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'client_abort', reason: 'client_stalled' });
    await eventually(() => backend.open === 0, 'the backend to be left');
    expect((await loadOf(proxy)).jobs).toBe(0);
  });

  it('is given up when the backend does not answer the handshake in time', async () => {
    const { backend, proxy } = await behind(() => {}, { relay: { deadlines: { headMs: 150 } } });
    const client = await connectTo(proxy);
    client.send(handshakeBytes('/ws'));
    const answer = await client.answer();
    expect(answer.status).toBe(504);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'head_timeout' } });
    await eventually(() => backend.open === 0, 'the backend to be left');
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'timeout', status: 504 });
    expect((await proxy.records(1))[0]?.timeline.head).toBeUndefined();
    expect((await proxy.records(1))[0]?.responseBytes).toBe(answer.body.length);
  });

  it('is forgotten everywhere when its client leaves before the handshake is answered', async () => {
    const { backend, proxy } = await behind(() => {});
    const client = await connectTo(proxy);
    client.send(handshakeBytes('/ws'));
    await eventually(() => backend.handshakes.length === 1, 'the handshake');
    client.leave();
    await eventually(() => backend.open === 0, 'the backend to be left');
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'client_abort', phase: 'waiting_head' });
    expect((await loadOf(proxy)).jobs).toBe(0);
  });

  it('whose backend answers with what is no HTTP gets 502', async () => {
    const { proxy } = await behind(({ socket }) => void socket.end('nonsense\r\n\r\n'));
    const client = await connectTo(proxy);
    client.send(handshakeBytes('/ws'));
    expect((await client.answer()).status).toBe(502);
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_error', status: 502 });
  });
});

describe('an offer of another protocol', () => {
  const offers = [
    ['h2c', { Upgrade: 'h2c', Connection: 'Upgrade, HTTP2-Settings', 'HTTP2-Settings': 'AAMAAABkAAQAAP__' }],
    ['TLS/1.0, with other options', { Upgrade: 'TLS/1.0', Connection: 'keep-alive, upgrade, X-Hop', 'X-Hop': '1' }],
    ['a WebSocket by POST', { Upgrade: 'websocket', Connection: 'Upgrade' }],
  ] as const;

  it.each(offers)(
    '(%s) is not taken up: the request is served, body and all, and the next one, too',
    async (_, headers) => {
      const backend = await stage.backend({ onRequest: (): Script => [wholeAnswer(200, { ok: true })] });
      const proxy = await stage.proxy(backend);
      const client = await stage.client(proxy);
      const big = JSON.stringify({ ...chatBody, stream: false, user: 'x'.repeat(200_000) });
      for (let i = 1; i <= 3; i += 1) {
        const before = client.received.length;
        client.send(postBytes('/v1/chat/completions', big, headers));
        await client.until(() => parseAnswer(client.received.subarray(before))?.complete === true);
        expect(parseAnswer(client.received.subarray(before))?.status).toBe(200);
        const asked = usersOf(backend)[i - 1];
        expect(asked?.text()).toBe(big);
        for (const name of ['upgrade', 'http2-settings', 'x-hop']) expect(asked?.header(name)).toBeUndefined();
      }
      expect((await proxy.records(3)).map(({ outcome }) => outcome)).toEqual(['ok', 'ok', 'ok']);
    },
  );

  it('is not taken up behind a request that is still being answered', async () => {
    const backend = await stage.backend({ onRequest: (): Script => [100, wholeAnswer(200, { ok: true })] });
    const client = await stage.client(await stage.proxy(backend));
    client.send(requestBytes('GET /slow') + handshakeBytes('/ws'));
    await client.until(() => client.ended !== 'no');
    expect(client.received.includes('101')).toBe(false);
    expect(usersOf(backend).map(({ target }) => target)).not.toContain('/ws');
  });
});
