import { afterEach, describe, expect, it } from 'vitest';
import { createScriptedServer, type ScriptedServer, type ScriptedServerSettings } from '../../../src/sim/faults.ts';
import {
  at,
  fin,
  hang,
  pause,
  readOn,
  repeat,
  reset,
  run,
  send,
  stopReading,
  trickle,
  until,
  waitForClose,
} from '../../../src/sim/fault-steps.ts';
import {
  chunk,
  DONE,
  FIN,
  lastChunk,
  ROLE,
  sseHead,
  T,
  USE,
  wholeAnswer,
  wholeStream,
} from '../../../src/sim/sse-script.ts';
import { dataOf, getRequest, openRawClient, postRequest, takeApart, type RawClient } from './raw-client.ts';
import { untilTrue } from './sim-rig.ts';

const servers: ScriptedServer[] = [];
const clients: RawClient[] = [];

async function serve(settings: ScriptedServerSettings): Promise<ScriptedServer> {
  const server = await createScriptedServer(settings);
  servers.push(server);
  return server;
}

async function connectTo(server: ScriptedServer): Promise<RawClient> {
  const client = await openRawClient(server.port);
  clients.push(client);
  return client;
}

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const chat = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] };

describe('scripted server', () => {
  it('plays bytes with pauses and keeps the connection for the next request', async () => {
    const server = await serve({
      onRequest: () => [sseHead(), chunk(ROLE), pause(40), chunk(T('a')), 40, chunk(FIN('stop'), DONE), lastChunk],
    });
    const client = await connectTo(server);
    client.send(postRequest('/v1/chat/completions', chat));
    await client.until((text) => text.endsWith('0\r\n\r\n'));
    const answer = takeApart(client.bytes);
    expect(answer.chunks).toEqual([ROLE, T('a'), FIN('stop') + DONE]);
    expect(answer.complete).toBe(true);
    const first = client.reads[0]?.atMs ?? 0;
    expect((client.reads.at(-1)?.atMs ?? 0) - first).toBeGreaterThan(70);
    client.send(postRequest('/v1/chat/completions', chat));
    await client.until(
      (text) =>
        text.length >= 2 * answer.body.length && text.endsWith('0\r\n\r\n') && text.split('HTTP/1.1').length === 3,
    );
    expect(server.connections).toHaveLength(1);
    expect(server.requests).toHaveLength(2);
  });

  it('keeps each byte of a request, its head as sent and its body without chunk framing', async () => {
    const server = await serve({ onRequest: () => [wholeAnswer(200, { ok: true })] });
    const client = await connectTo(server);
    const head = 'POST /v1/x?y=1 HTTP/1.1\r\nHOST: sim\r\nX-Odd:  two  \r\nTransfer-Encoding: chunked\r\n\r\n';
    client.send(`${head}5;ext=1\r\n{"a":`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    client.send('\r\n2\r\n1}\r\n0\r\nX-Trailer: t\r\n\r\n');
    const [request] = await server.waitForRequests(1);
    await client.until((text) => text.includes('{"ok":true}'));
    expect(request?.rawHead.toString()).toBe(head);
    expect(request?.header('x-odd')).toBe('two');
    expect(request?.headers[0]).toEqual(['HOST', 'sim']);
    expect(request?.json()).toEqual({ a: 1 });
    expect(request?.rawBody.toString()).toBe('5;ext=1\r\n{"a":\r\n2\r\n1}\r\n0\r\nX-Trailer: t\r\n\r\n');
    expect(request?.raw.toString()).toBe(head + (request?.rawBody.toString() ?? ''));
    expect((request?.bodyMs ?? 0) - (request?.headMs ?? 0)).toBeGreaterThan(15);
  });

  it('answers probes by itself, so that scripts see users only, in the words of the chosen engine', async () => {
    const server = await serve({
      onRequest: () => [wholeAnswer(200, 'mine')],
      probes: { engine: 'llama-server', slots: 3 },
    });
    for (const [path, expected] of [
      ['/health', '{"status":"ok"}'],
      ['/props', '"total_slots":3'],
      ['/version', 'File Not Found'],
      ['/v1/models', '"owned_by":"llamacpp"'],
      ['/slots', '"is_processing":false'],
      ['/metrics', 'llamacpp:requests_processing'],
    ] as const) {
      const client = await connectTo(server);
      client.send(getRequest(path, { 'User-Agent': 'warmlane' }));
      expect(await client.until((text) => text.includes(expected))).toContain(expected);
    }
    expect(server.requests).toHaveLength(0);
    expect(server.probes.map((probe) => probe.target)).toEqual([
      '/health',
      '/props',
      '/version',
      '/v1/models',
      '/slots',
      '/metrics',
    ]);
    const user = await connectTo(server);
    user.send(getRequest('/v1/models'));
    await user.until((text) => text.endsWith('mine'));
    expect(server.requests).toHaveLength(1);
    const own = await serve({ onRequest: () => [wholeAnswer(200, 'mine')], probes: false });
    const client = await connectTo(own);
    client.send(getRequest('/health'));
    await client.until((text) => text.endsWith('mine'));
    expect(own.requests).toHaveLength(1);
  });

  it('resets, ends, hangs and pings for ever as told', async () => {
    const server = await serve({
      onRequest: (request) => {
        if (request.target === '/reset') return [sseHead(), chunk(T('a')), pause(20), reset()];
        if (request.target === '/fin') return [sseHead(), chunk(T('a')), fin()];
        if (request.target === '/ping') return [sseHead(), repeat(chunk(':\n\n'), 10)];
        return [sseHead(), hang(), chunk(T('never'))];
      },
    });
    const [onReset, onFin, onPing, onHang] = await Promise.all([0, 1, 2, 3].map(() => connectTo(server)));
    onReset?.send(postRequest('/reset', chat));
    await onReset?.untilOver();
    expect(onReset?.errorCode).toBe('ECONNRESET');
    onFin?.send(postRequest('/fin', chat));
    await onFin?.untilOver();
    expect(onFin?.errorCode).toBeUndefined();
    expect(takeApart(onFin?.bytes ?? Buffer.alloc(0)).complete).toBe(false);
    onPing?.send(postRequest('/ping', chat));
    await onPing?.until((text) => text.split('3\r\n:\n\n\r\n').length > 4);
    onHang?.send(postRequest('/hang', chat));
    await onHang?.until((text) => text.endsWith('\r\n\r\n'));
    expect(server.openSockets).toBe(2);
    const closing = performance.now();
    onPing?.close();
    onHang?.close();
    await Promise.all(server.connections.map((connection) => connection.closed));
    expect(performance.now() - closing).toBeLessThan(2_000);
    expect(server.openSockets).toBe(0);
    expect(server.faults).toEqual([]);
  });

  it('tells when the other side went away, and lets a script wait for it', async () => {
    const seen: string[] = [];
    const server = await serve({ onRequest: () => [sseHead(), waitForClose(), run(() => void seen.push('gone'))] });
    const client = await connectTo(server);
    client.send(postRequest('/v1/chat/completions', chat));
    await client.until((text) => text.endsWith('\r\n\r\n'));
    const closedMs = performance.now();
    client.close();
    const connection = server.connections[0];
    await connection?.closed;
    expect(seen).toEqual(['gone']);
    expect((connection?.goneMs ?? 0) - closedMs).toBeLessThan(1_000);
    expect(connection?.whenMs('open')).toBeLessThan(connection?.whenMs('data') ?? 0);
  });

  it('begins before the body when asked to, and can refuse to read it for a while', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const server = await serve({
      answerAfter: 'head',
      onRequest: () => [stopReading(), wholeAnswer(413, { error: 'too large' }), until(gate), readOn(), hang()],
    });
    const client = await connectTo(server);
    client.send('POST /v1/x HTTP/1.1\r\nHost: sim\r\nContent-Length: 5000000\r\n\r\n');
    await client.until((text) => text.includes('too large'));
    client.send(Buffer.alloc(5_000_000));
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(client.socket.writableLength).toBeGreaterThan(0);
    expect(server.requests[0]?.complete).toBe(false);
    open();
    await untilTrue(() => server.requests[0]?.complete === true);
    expect(server.requests[0]?.body).toHaveLength(5_000_000);
  });

  it('waits for gates, counts absolute times from the request, and cuts writes as small as one byte', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const server = await serve({
      onRequest: () => [
        until(gate),
        send('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n'),
        at(80),
        trickle('abc', 1, 5),
      ],
    });
    const client = await connectTo(server);
    const sentMs = performance.now();
    client.send(postRequest('/v1/x', {}));
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(client.reads).toHaveLength(0);
    open();
    await client.until((text) => text.endsWith('abc'));
    const written = server.connections[0]?.events.filter((event) => event.kind === 'wrote') ?? [];
    expect(written.map((event) => event.bytes).slice(1)).toEqual([1, 1, 1]);
    expect((client.reads[1]?.atMs ?? 0) - sentMs).toBeGreaterThan(78);
  });

  it('meets back-pressure when a generator sends more than the client takes', async () => {
    async function* flood() {
      yield sseHead();
      for (;;) yield chunk(T('x'.repeat(60_000)));
    }
    const server = await serve({ onRequest: flood });
    const client = await connectTo(server);
    client.socket.pause();
    client.send(postRequest('/v1/chat/completions', chat));
    await server.waitForRequests(1);
    let sent = -1;
    for (let still = 0; still < 3;) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      const now = server.connections[0]?.sentBytes ?? 0;
      still = now === sent ? still + 1 : 0;
      sent = now;
    }
    expect(sent).toBeLessThan(30_000_000);
  });

  it('refuses new connections and takes them again on the same port, while open ones live on', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => (open = resolve));
    const server = await serve({ onRequest: () => [sseHead(), until(gate), chunk(T('late')), lastChunk] });
    const client = await connectTo(server);
    client.send(postRequest('/v1/chat/completions', chat));
    await server.waitForRequests(1);
    await server.refuse();
    await expect(openRawClient(server.port)).rejects.toThrow('ECONNREFUSED');
    await server.listenAgain();
    await connectTo(server);
    open();
    await client.until((text) => text.endsWith('0\r\n\r\n'));
    expect(dataOf(takeApart(client.bytes).body)).toHaveLength(1);
  });

  it('can speak or reset before any request, and reports a script that threw', async () => {
    const server = await serve({
      onConnection: (connection) => (connection.id === 0 ? [pause(10), reset()] : undefined),
      onRequest: () => [run(() => Promise.reject(new Error('broken script')))],
    });
    const first = await connectTo(server);
    await first.untilOver();
    const second = await connectTo(server);
    second.send(postRequest('/v1/x', {}));
    await second.untilOver();
    expect(server.faults.map((fault) => fault.message)).toEqual(['broken script']);
  });

  it('answers pipelined requests one after another', async () => {
    const server = await serve({ onRequest: (request) => [pause(10), wholeAnswer(200, `n${request.number}`)] });
    const client = await connectTo(server);
    client.send(postRequest('/a', {}) + postRequest('/b', {}));
    const text = await client.until((received) => received.endsWith('n1'));
    expect(text.indexOf('n0')).toBeLessThan(text.indexOf('n1'));
  });
});

describe('script bytes', () => {
  it('frame what they say', () => {
    const answer = takeApart(wholeStream(ROLE, T('é'), FIN('stop'), USE(3, 1), DONE));
    expect(answer.complete).toBe(true);
    expect(answer.chunks).toHaveLength(5);
    expect(JSON.parse(dataOf(answer.chunks[1] ?? '')[0] ?? '')).toMatchObject({
      choices: [{ delta: { content: 'é' } }],
    });
    expect(JSON.parse(dataOf(answer.chunks[3] ?? '')[0] ?? '')).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    });
    expect(dataOf(answer.chunks[4] ?? '')).toEqual(['[DONE]']);
  });
});
