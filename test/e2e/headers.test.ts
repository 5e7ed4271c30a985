/** Headers on their way in both directions, and the parts of HTTP that a proxy may not get wrong. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Script } from '../../src/sim/fault-steps.ts';
import { fin, pause } from '../../src/sim/fault-steps.ts';
import {
  chunk,
  DONE,
  FIN,
  lastChunk,
  responseHead,
  ROLE,
  sseHead,
  T,
  USE,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import { again, pass } from '../support/exchange.ts';
import { parseAnswer, postBytes, chatBody, R0, rawClient, requestBytes } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const stream = wholeStream(ROLE, T('a'), FIN('stop'), USE(3, 1), DONE);
const plain = () => [wholeAnswer(200, { ok: true })];

/** Names of a raw head's lines as they stand there, and each line. */
function linesOf(rawHead: string): readonly string[] {
  return rawHead.split('\r\n').slice(1);
}

function valuesOf(rawHead: string, name: string): readonly string[] {
  const lines = linesOf(rawHead).map((line) => [
    line.slice(0, line.indexOf(':')),
    line.slice(line.indexOf(':') + 1).trim(),
  ]);
  return lines.filter(([key]) => key?.toLowerCase() === name).map(([, value]) => value ?? '');
}

describe('headers of an answer', () => {
  it('C090 refuses an answer with both Content-Length and chunked coding, and its socket serves nobody else', async () => {
    const both =
      'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n';
    let asked = 0;
    const first = await pass(stage, () => ((asked += 1) === 1 ? [both] : plain()), {
      request: postBytes('/v1/embeddings', { input: 'x' }),
    });
    expect(first.answer.status).toBe(502);
    expect(JSON.parse(first.answer.body.toString())).toMatchObject({
      error: { code: 'backend_bad_response', source: 'backend' },
    });
    expect(first.answer.body.toString()).toContain('both Content-Length and Transfer-Encoding');
    expect(first.record).toMatchObject({ outcome: 'upstream_error', status: 502, spokenBy: 'backend' });
    const next = await again(stage, first, { request: postBytes('/v1/embeddings', { input: 'x' }) });
    expect(next.answer.body.toString()).toBe('{"ok":true}');
    expect(next.connection.id).not.toBe(first.connection.id);
    expect(first.connection.open).toBe(false);
  });

  it("C093 drops the backend's hop-by-hop headers, and keeps the client's connection though the backend closed its own", async () => {
    const head = responseHead(200, [
      ['Content-Type', 'application/json'],
      ['Connection', 'close, X-Up'],
      ['X-Up', '1'],
      ['Keep-Alive', 'timeout=3'],
      ['Transfer-Encoding', 'chunked'],
      ['Trailer', 'X-T'],
      ['Proxy-Connection', 'close'],
      ['Upgrade', 'h2c'],
      ['X-End', 'kept'],
    ]);
    const body = '{"ok":1}';
    const backend = await stage.backend({ onRequest: () => [head, chunk(body), '0\r\nX-T: 1\r\n\r\n', fin()] });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(postBytes('/v1/embeddings', { input: 'x' }));
    const answer = await client.answer();
    expect(answer.body.toString()).toBe(body);
    expect(answer.headers).toMatchObject({ 'x-end': 'kept', connection: 'keep-alive', 'keep-alive': 'timeout=75' });
    for (const name of ['x-up', 'trailer', 'proxy-connection', 'upgrade', 'x-t'])
      expect(answer.headers).not.toHaveProperty(name);
    const before = client.received.length;
    client.send(postBytes('/v1/embeddings', { input: 'y' }));
    await client.until(() => parseAnswer(client.received.subarray(before))?.complete === true);
    expect(parseAnswer(client.received.subarray(before))?.body.toString()).toBe(body);
    expect(usersOf(backend).map(({ connectionId }) => connectionId)).toHaveLength(2);
    expect(new Set(usersOf(backend).map(({ connectionId }) => connectionId)).size).toBe(2);
  });

  it('C094 says of a connection on a stream only what the own HTTP/1.1 server says: one Connection, one Keep-Alive', async () => {
    const { answer } = await pass(stage, () => [
      sseHead({ Connection: 'keep-alive', 'Keep-Alive': 'timeout=5, max=100' }),
      chunk(ROLE, T('a'), FIN('stop'), DONE),
      lastChunk,
    ]);
    expect(valuesOf(answer.rawHead, 'connection')).toEqual(['keep-alive']);
    expect(valuesOf(answer.rawHead, 'keep-alive')).toEqual(['timeout=75']);
    expect(valuesOf(answer.rawHead, 'transfer-encoding')).toEqual(['chunked']);
    expect(valuesOf(answer.rawHead, 'content-length')).toEqual([]);
  });

  it('C095 marks a stream as not to be buffered nor transformed, and only a stream', async () => {
    const { answer } = await pass(stage, () => [stream]);
    expect(valuesOf(answer.rawHead, 'x-accel-buffering')).toEqual(['no']);
    expect(valuesOf(answer.rawHead, 'cache-control')).toEqual(['no-cache, no-transform']);
    const whole = await pass(stage, plain, {
      request: postBytes('/v1/chat/completions', { ...chatBody, stream: false }),
    });
    expect(valuesOf(whole.answer.rawHead, 'x-accel-buffering')).toEqual([]);
    expect(valuesOf(whole.answer.rawHead, 'cache-control')).toEqual([]);
  });

  it.each([
    ['X-Accel-Buffering', 'no', ['no']],
    ['X-Accel-Buffering', 'yes', ['yes']],
    ['Cache-Control', 'no-store', ['no-store, no-transform']],
    ['Cache-Control', 'no-cache, no-transform', ['no-cache, no-transform']],
  ])("C095 keeps the backend's own %s: %s, and gives it once", async (name, value, expected) => {
    const { answer } = await pass(stage, () => [sseHead({ [name]: value }), chunk(ROLE, FIN('stop'), DONE), lastChunk]);
    expect(valuesOf(answer.rawHead, name.toLowerCase())).toEqual(expected);
  });

  it.each([
    ['text/event-stream;charset=utf-8', 'text/event-stream;charset=utf-8'],
    ['Text/Event-Stream ; charset=UTF-8', 'Text/Event-Stream ; charset=UTF-8'],
    ['no content type, but the first bytes of one,', ''],
  ])('C104 takes %s for a stream, and passes each event at once', async (_, type) => {
    const head = responseHead(200, {
      ...(type === '' ? {} : { 'Content-Type': type }),
      'Transfer-Encoding': 'chunked',
    });
    const events = [ROLE, T('a'), T('b'), FIN('stop'), USE(4, 2), DONE];
    const { answer, record, client } = await pass(stage, function* script(): Generator<
      string | Uint8Array | ReturnType<typeof pause>
    > {
      yield head;
      for (const event of events) {
        yield pause(40);
        yield chunk(event);
      }
      yield lastChunk;
    });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(answer.chunks).toHaveLength(events.length);
    expect(client.reads.length).toBeGreaterThanOrEqual(events.length);
    expect(record).toMatchObject({
      streamed: true,
      outcome: 'ok',
      finishReasons: ['stop'],
      tokens: { output: { value: 2 } },
    });
    expect(record.figures.ttftMs).toBeGreaterThan(70);
    expect(valuesOf(answer.rawHead, 'content-type')).toEqual(type === '' ? [] : [type]);
    expect(valuesOf(answer.rawHead, 'x-accel-buffering')).toEqual(['no']);
  });

  it('pass in their order, case and number, but for framing', async () => {
    const given: [string, string][] = [
      ['server', 'uvicorn'],
      ['X-Odd-CASE', 'a  b'],
      ['Set-Cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['x-ratelimit-remaining-requests', '9'],
      ['openai-processing-ms', '12'],
      ['X-Latin', 'caf\u00e9'],
      ['Content-Type', 'application/json'],
    ];
    const body = '{}';
    const text = given.map(([name, value]) => `${name}: ${value}\r\n`).join('');
    const { answer } = await pass(
      stage,
      () => [Buffer.from(`HTTP/1.1 200 Fine\r\n${text}Content-Length: 2\r\n\r\n${body}`, 'latin1')],
      {
        request: postBytes('/v1/embeddings', { input: 'x' }),
      },
    );
    expect(answer.reason).toBe('Fine');
    expect(linesOf(answer.rawHead).slice(0, given.length)).toEqual(given.map(([name, value]) => `${name}: ${value}`));
    expect(valuesOf(answer.rawHead, 'content-length')).toEqual(['2']);
    expect(valuesOf(answer.rawHead, 'via')).toEqual(['1.1 warmlane']);
  });
});

describe('headers of a request', () => {
  it.each(['/v1/chat/completions', '/v1/files'])(
    'C101 hands the token of the client on as it is, on %s',
    async (path) => {
      const { asked } = await pass(stage, plain, {
        request: postBytes(path, { model: 'm' }, { Authorization: 'Bearer user-7' }),
      });
      expect(asked.headers.filter(([name]) => name.toLowerCase() === 'authorization')).toEqual([
        ['Authorization', 'Bearer user-7'],
      ]);
    },
  );

  it('C101 hands it on with GET /v1/models, too', async () => {
    const { asked } = await pass(stage, plain, {
      request: requestBytes('GET /v1/models', { Authorization: 'Bearer user-7' }),
    });
    expect(asked.header('authorization')).toBe('Bearer user-7');
  });

  it("C101 gives the backend's own key only to a request without credentials", async () => {
    const backend = await stage.backend({ onRequest: plain });
    const backends = [{ name: 'b', url: backend.url, apiKey: 'backend-key' }];
    const proxy = await stage.proxy(backend, { change: { fleet: { backends } } });
    for (const headers of [{}, { Authorization: 'Bearer user-7' }, { 'X-Api-Key': 'user-8' }]) {
      const client = await stage.client(proxy);
      client.send(postBytes('/v1/chat/completions', { model: 'm' }, headers));
      await client.answer();
    }
    expect(usersOf(backend).map((request) => [request.header('authorization'), request.header('x-api-key')])).toEqual([
      ['Bearer backend-key', undefined],
      ['Bearer user-7', undefined],
      [undefined, 'user-8'],
    ]);
    expect(backend.probes.every((probe) => probe.header('authorization') === 'Bearer backend-key')).toBe(true);
  });

  it('C102 R26 passes every credential on while warmlane itself asks for none, and the request id', async () => {
    const given = { 'x-api-key': 's1', 'api-key': 's2', Cookie: 'c=1', 'x-goog-api-key': 's3', 'x-request-id': 'r' };
    const { asked, proxy, record } = await pass(stage, plain, {
      request: postBytes('/v1/chat/completions', { model: 'm' }, given),
    });
    for (const [name, value] of Object.entries(given)) expect(asked.header(name)).toBe(value);
    expect(record.requestId).toBe('r');
    // None of them is logged or recorded.
    const kept = JSON.stringify([proxy.logged, record]);
    for (const secret of ['s1', 's2', 'c=1', 's3']) expect(kept).not.toContain(`"${secret}"`);
  });

  it("loses those that are hop-by-hop, by name or by the client's word", async () => {
    const { asked } = await pass(stage, plain, {
      request: postBytes('/v1/chat/completions', chatBody, {
        Connection: 'keep-alive, X-Mine',
        'X-Mine': '1',
        'Keep-Alive': 'timeout=9',
        TE: 'trailers',
        'Proxy-Authorization': 'Basic x',
        'Proxy-Connection': 'keep-alive',
        'X-Kept': 'yes',
        'User-Agent': 'curl/8',
      }),
    });
    for (const name of ['x-mine', 'te', 'proxy-authorization', 'proxy-connection'])
      expect(asked.header(name)).toBeUndefined();
    expect(asked.header('x-kept')).toBe('yes');
    expect(asked.header('user-agent')).toBe('curl/8');
    expect(asked.headers.filter(([name]) => name.toLowerCase() === 'connection')).toEqual([
      ['Connection', 'keep-alive'],
    ]);
    expect(asked.header('keep-alive')).toBeUndefined();
  });

  it('offer no encoding where the answer is read, and pass the offer on where it is not', async () => {
    const offer = { 'Accept-Encoding': 'gzip, br' };
    const read = await pass(stage, plain, { request: postBytes('/v1/chat/completions', chatBody, offer) });
    expect(read.asked.header('accept-encoding')).toBeUndefined();
    const unread = await pass(stage, plain, { request: requestBytes('GET /metrics', offer) });
    expect(unread.asked.header('accept-encoding')).toBe('gzip, br');
  });

  it('carry characters above 127 as the same bytes', async () => {
    const { asked } = await pass(stage, plain, { request: requestBytes('GET /x', { 'X-Name': 'Zo\u00eb' }) });
    expect(asked.rawHead.toString('latin1')).toContain('X-Name: Zo\u00eb\r\n');
  });
});

describe('the way of a request', () => {
  it('R25 is told by one id: made or kept, sent to the backend, recorded, logged, and told to the client', async () => {
    const made = await pass(stage, plain, { request: postBytes('/v1/chat/completions', { model: 'm' }) });
    const id = made.record.requestId;
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(made.asked.header('x-request-id')).toBe(id);
    expect(made.answer.headers['x-request-id']).toBe(id);
    expect(made.proxy.logged.find(({ msg }) => msg === 'request')).toMatchObject({ requestId: id });
    const kept = await pass(stage, plain, {
      request: postBytes('/v1/chat/completions', { model: 'm' }, { 'X-Request-ID': 'mine-1' }),
    });
    expect([kept.record.requestId, kept.asked.header('x-request-id'), kept.answer.headers['x-request-id']]).toEqual([
      'mine-1',
      'mine-1',
      'mine-1',
    ]);
    expect(kept.asked.headers.filter(([name]) => name.toLowerCase() === 'x-request-id')).toHaveLength(1);
  });

  it('R25 has a new id where that of the client could not stand in a header or a log line', async () => {
    for (const bad of ['a b', 'x'.repeat(129), 'caf\u00e9', '']) {
      const { asked, record } = await pass(stage, plain, {
        request: requestBytes(
          'POST /v1/chat/completions',
          { 'Content-Type': 'application/json', 'X-Request-Id': bad },
          '{}',
        ),
      });
      expect(record.requestId).toMatch(/^[0-9a-f-]{36}$/);
      expect(asked.header('x-request-id')).toBe(record.requestId);
    }
  });

  it("R25 keeps the backend's own id in the answer", async () => {
    const { answer } = await pass(stage, () => [wholeAnswer(200, {}, { 'X-Request-Id': 'theirs' })], {
      request: postBytes('/v1/chat/completions', {}),
    });
    expect(valuesOf(answer.rawHead, 'x-request-id')).toEqual(['theirs']);
  });

  it('is told to the backend in Via, Forwarded and X-Forwarded-*', async () => {
    const { asked, proxy, client } = await pass(stage, plain, {
      request: requestBytes('GET /x', { Host: 'models.example:8484' }),
    });
    expect(asked.header('via')).toBe('1.1 warmlane');
    expect(asked.header('forwarded')).toBe('for=127.0.0.1;proto=http;host="models.example:8484"');
    expect(asked.header('x-forwarded-for')).toBe('127.0.0.1');
    expect(asked.header('x-forwarded-proto')).toBe('http');
    expect(asked.header('x-forwarded-host')).toBe('models.example:8484');
    expect(asked.header('host')).not.toBe('models.example:8484');
    expect(client.socket.remotePort).toBe(proxy.port);
  });

  it('is added to what proxies before said of it', async () => {
    const { asked } = await pass(stage, plain, {
      request: requestBytes('GET /x', {
        Via: '2 edge',
        Forwarded: 'for=203.0.113.9;proto=https',
        'X-Forwarded-For': '203.0.113.9',
        'X-Forwarded-Proto': 'https',
        'X-Forwarded-Host': 'public.example',
      }),
    });
    expect(asked.header('via')).toBe('2 edge, 1.1 warmlane');
    expect(asked.header('forwarded')).toBe('for=203.0.113.9;proto=https, for=127.0.0.1;proto=http;host="test"');
    expect(asked.header('x-forwarded-for')).toBe('203.0.113.9, 127.0.0.1');
    expect(asked.header('x-forwarded-proto')).toBe('https');
    expect(asked.header('x-forwarded-host')).toBe('public.example');
  });

  it('is told with brackets and quotes when it comes over IPv6, and may lead on over IPv6', async () => {
    const backend = await stage.backend({ host: '::1', onRequest: plain });
    expect(backend.url).toBe(`http://[::1]:${backend.port}`);
    const proxy = await stage.proxy(backend, { change: { http: { listen: { host: '::1', port: 0 } } } });
    const client = await rawClient(proxy.port, { host: '::1' });
    client.send(requestBytes('GET /x', { Host: `[::1]:${proxy.port}` }));
    expect((await client.answer()).status).toBe(200);
    client.leave();
    const [asked] = usersOf(backend);
    expect(asked?.header('forwarded')).toBe(`for="[::1]";proto=http;host="[::1]:${proxy.port}"`);
    expect(asked?.header('x-forwarded-for')).toBe('::1');
    expect(asked?.header('host')).toBe(`[::1]:${backend.port}`);
  });
});

describe('an answer without a body', () => {
  it('to HEAD has the length that GET would have, and the connection goes on', async () => {
    const backend = await stage.backend({
      onRequest: ({ method }): Script =>
        method === 'HEAD' ? [responseHead(200, { 'Content-Length': '1234', ETag: '"x"' })] : plain(),
    });
    const client = await stage.client(await stage.proxy(backend));
    client.send(requestBytes('HEAD /v1/files/f1/content'));
    await client.until(() => client.received.includes('\r\n\r\n'));
    const head = client.received.toString('latin1');
    expect(head).toContain('HTTP/1.1 200 OK\r\n');
    expect(head).toMatch(/\r\ncontent-length: 1234\r\n/i);
    expect(head.endsWith('\r\n\r\n')).toBe(true);
    client.send(requestBytes('GET /x'));
    await client.until(() => client.received.includes('{"ok":true}'));
    expect(parseAnswer(client.received.subarray(head.length))?.status).toBe(200);
    expect(usersOf(backend).map(({ method }) => method)).toEqual(['HEAD', 'GET']);
  });

  it.each([
    [204, {}, undefined],
    [304, { 'Content-Length': '77', ETag: '"x"' }, '77'],
  ])('with status %i stays one, and the connection goes on', async (status, headers, length) => {
    const backend = await stage.backend({
      onRequest: ({ method }): Script => (method === 'DELETE' ? [responseHead(status, headers)] : plain()),
    });
    const client = await stage.client(await stage.proxy(backend));
    client.send(requestBytes('DELETE /v1/files/f1'));
    await client.until(() => client.received.includes('\r\n\r\n'));
    const head = client.received.toString('latin1');
    expect(head.startsWith(`HTTP/1.1 ${status} `)).toBe(true);
    expect(/\r\ncontent-length: (.*)\r\n/i.exec(head)?.[1]).toBe(length);
    expect(head).not.toMatch(/transfer-encoding/i);
    expect(head.endsWith('\r\n\r\n')).toBe(true);
    client.send(requestBytes('GET /x'));
    await client.until(() => client.received.includes('{"ok":true}'));
  });
});

describe('a client of HTTP/1.0', () => {
  it('gets a stream without chunk framing, ended by the close', async () => {
    const backend = await stage.backend({ onRequest: () => [stream] });
    const client = await stage.client(await stage.proxy(backend));
    client.send(
      requestBytes(
        'POST /v1/chat/completions HTTP/1.0',
        { 'Content-Type': 'application/json' },
        JSON.stringify(chatBody),
      ),
    );
    const answer = await client.answer();
    expect(client.ended).toBe('fin');
    expect(valuesOf(answer.rawHead, 'transfer-encoding')).toEqual([]);
    expect(answer.headers['connection']).toBe('close');
    expect(answer.body.toString()).toBe([ROLE, T('a'), FIN('stop'), USE(3, 1), DONE].join(''));
    expect(usersOf(backend)[0]).toMatchObject({ httpVersion: '1.1' });
    expect(usersOf(backend)[0]?.header('via')).toBe('1.0 warmlane');
  });

  it('may keep its connection where the length is told', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend));
    client.send(requestBytes('GET /x HTTP/1.0', { Connection: 'keep-alive' }));
    expect(await client.answer()).toMatchObject({
      status: 200,
      headers: { connection: 'keep-alive', 'content-length': '11' },
    });
    const before = client.received.length;
    client.send(requestBytes('GET /x HTTP/1.0', { Connection: 'keep-alive' }));
    await client.until(() => parseAnswer(client.received.subarray(before))?.complete === true);
  });

  it('needs no Host', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend));
    client.send('GET /x HTTP/1.0\r\n\r\n');
    expect((await client.answer()).status).toBe(200);
    expect(usersOf(backend)[0]?.header('x-forwarded-host')).toBeUndefined();
  });
});

describe('a client that pipelines', () => {
  it('R24 gets its answers in order, while each backend connection carries one request at a time', async () => {
    const backend = await stage.backend({
      *onRequest(request): Generator<string | Uint8Array | number> {
        const text = (request.json() as { user: string }).user;
        yield text === 'a' ? 80 : 0;
        yield sseHead();
        for (const part of ['1', '2', '3']) yield chunk(T(text + part));
        yield chunk(FIN('stop'), DONE);
        yield lastChunk;
      },
    });
    const client = await stage.client(await stage.proxy(backend));
    const users = ['a', 'b', 'c'];
    client.send(users.map((user) => postBytes('/v1/chat/completions', { ...chatBody, user })).join(''));
    let at = 0;
    for (const user of users) {
      await client.until(() => parseAnswer(client.received.subarray(at))?.complete === true);
      const bytes = client.received.subarray(at);
      const answer = parseAnswer(bytes);
      expect(answer?.body.toString()).toBe(
        [...['1', '2', '3'].map((part) => T(user + part)), FIN('stop'), DONE].join(''),
      );
      at += bytes.length - (answer?.rest.length ?? 0);
    }
    expect(at).toBe(client.received.length);
    for (const { requests, events } of backend.connections) {
      // A second request on a connection comes after the first one's answer, never together with it.
      if (requests.length < 2) continue;
      const [first, second] = requests;
      expect(second?.firstByteMs).toBeGreaterThan(
        events.find(({ kind, atMs }) => kind === 'wrote' && atMs >= (first?.headMs ?? 0))?.atMs ?? Infinity,
      );
    }
  });
});

describe('a request target', () => {
  it.each([
    ['GET http://models.example/v1/files?x=1', '/v1/files?x=1'],
    ['GET http://models.example', '/'],
    ['GET https://models.example?x=1', '/?x=1'],
  ])('in absolute form (%s) loses scheme and authority', async (line, target) => {
    const { asked } = await pass(stage, plain, { request: requestBytes(line) });
    expect(asked.target).toBe(target);
  });

  it.each([
    '/a%2Fb//c/../d?q=%zz&q=1',
    '/a\\b',
    "/~!$&'()*+,;=:@%20",
    '/x?{"a":[1|2]}^`',
    '//double//slash',
    '/v1/models/org%2Fname',
  ])('is passed on as it was received: %s', async (target) => {
    const { asked } = await pass(stage, plain, { request: requestBytes(`GET ${target}`) });
    expect(asked.target).toBe(target);
  });

  it.each(['OPTIONS', 'TRACE', 'PROPFIND', 'PATCH', 'DELETE', 'PUT'])('passes with the method %s', async (method) => {
    const { asked } = await pass(stage, plain, { request: requestBytes(`${method} /x`) });
    expect(asked).toMatchObject({ method, target: '/x' });
  });

  it('may be * for the server as a whole', async () => {
    const { asked } = await pass(stage, plain, { request: requestBytes('OPTIONS *') });
    expect(asked).toMatchObject({ method: 'OPTIONS', target: '*' });
  });

  it.each(['warm_lane', 'localhost:99999', 'a,b', 'ex\u00e4mple'])(
    'passes whatever Host the client came by: %s',
    async (host) => {
      const { asked, answer } = await pass(stage, plain, { request: requestBytes('GET /x', { Host: host }) });
      expect(answer.status).toBe(200);
      expect(asked.header('x-forwarded-host')).toBe(host);
    },
  );
});

describe('what is not HTTP', () => {
  it.each([
    [
      'two framings',
      'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'two lengths',
      'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello',
    ],
    [
      'a coding that ends in something else',
      'POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n',
    ],
    ['a blank before the colon', 'POST /x HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n\r\nabc'],
    ['no HTTP at all', 'hello\r\n\r\n'],
  ])('is refused before any backend hears of it: %s', async (_, bytes) => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend));
    client.send(bytes);
    const answer = await client.answer();
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'bad_http', source: 'warmlane' } });
    await client.until(() => client.ended !== 'no');
    expect(usersOf(backend)).toEqual([]);
  });

  it('is refused with 431 when its head is too large', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend));
    client.send(`GET /x HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(70_000)}\r\n\r\n`);
    expect((await client.answer()).status).toBe(431);
    expect(usersOf(backend)).toEqual([]);
  });

  it('is an answer to R0 that breaks off in its head', async () => {
    const { answer } = await pass(stage, () => ['HTTP/1.1 200 OK\r\nContent-Ty', fin()], { request: R0 });
    expect(answer.status).toBe(502);
  });
});
