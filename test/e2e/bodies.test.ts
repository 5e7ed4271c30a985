/** Request bodies: the same bytes at the backend whatever they are, read for routing without being held longer than need be. */
import { createHash } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { hang, pause, readOn, run, type Script, stopReading, until } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer, ScriptedServerSettings } from '../../src/sim/faults.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { pass } from '../support/exchange.ts';
import { chatBody, parseAnswer, postBytes, R0, requestBytes, type RawClient } from '../support/raw-http.ts';
import type { Proxy } from '../support/proxy.ts';
import { createStage, eventually, loadOf, sleep, type Stage, untilAsked, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const MiB = 1024 * 1024;
const plain = (): Script => [wholeAnswer(200, { ok: true })];

function sha256(bytes: string | Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function post(
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
  path = '/v1/chat/completions',
): Buffer {
  return requestBytes(`POST ${path}`, { 'Content-Type': 'application/json', ...headers }, body);
}

/** Two backends that serve the models `big` and `small`. */
async function twoModels(
  onRequest: ScriptedServerSettings['onRequest'] = plain,
): Promise<{ big: ScriptedServer; small: ScriptedServer; proxy: Proxy }> {
  const settings = onRequest === undefined ? {} : { onRequest };
  const big = await stage.backend({ ...settings, probes: { model: 'big' } });
  const small = await stage.backend({ ...settings, probes: { model: 'small' } });
  return { big, small, proxy: await stage.proxy([big, small]) };
}

/** The next answer on a kept connection. */
async function nextAnswer(client: RawClient, send: string | Uint8Array, timeoutMs = 10_000) {
  const before = client.received.length;
  client.send(send);
  await client.until(
    () => parseAnswer(client.received.subarray(before), client.ended !== 'no')?.complete === true,
    timeoutMs,
  );
  const answer = parseAnswer(client.received.subarray(before), client.ended !== 'no');
  if (answer === undefined) throw new Error('no answer');
  return answer;
}

describe('a JSON body', () => {
  it('C105 reaches the backend byte for byte, fifty times over, however oddly it is written', async () => {
    const tool = (i: number) =>
      `{"type" :"function",\t"function":{ "strict":false,"parameters":{"required":["z","a"],"properties":{"z":{"type":"string"},"a":{"enum":[1.0,1e2,-0]}},"type":"object"},"name":"t${i}"}}`;
    const body = `\n{ "tools":[${Array.from({ length: 30 }, (_, i) => tool(i)).join(' ,\n')}],"stream":false,"model":"m",\r\n"messages":[{"content":"hi","role":"user"}] }\n\n`;
    const backend = await stage.backend({ onRequest: plain, probes: { engine: 'vllm' } });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    for (let i = 0; i < 50; i += 1) await nextAnswer(client, post(body));
    const seen = usersOf(backend);
    expect(seen).toHaveLength(50);
    expect(new Set(seen.map((request) => sha256(request.body)))).toEqual(new Set([sha256(body)]));
    expect(new Set(seen.map((request) => request.header('content-length')))).toEqual(
      new Set([String(Buffer.byteLength(body))]),
    );
  });

  it('C105 differs by one splice alone where usage is asked for, and not at all with usage: passive', async () => {
    const body = '{"messages":[{"content":"hi","role":"user"}],\t"stream" : true ,"model":"m"}';
    for (const [usage, expected] of [
      ['ask', body.replace('{', '{"stream_options":{"include_usage":true},')],
      ['passive', body],
    ] as const) {
      const { asked } = await pass(stage, plain, { engine: 'vllm', request: post(body), change: { relay: { usage } } });
      expect(asked.text()).toBe(expected);
      expect(asked.header('content-length')).toBe(String(Buffer.byteLength(expected)));
    }
  });

  it('C106 keeps its escapes, numbers and blanks', async () => {
    const body =
      '{"model":"m","stream":false,"messages":[{"role":"user","content":"<b>&amp;</b> \\u00e9 \u00e9 \\/ / \\u003c < \u2028 \\u2028 \\ud83d\\ude00 \u{1f600}"}],"x":1.0,"y":1E2,"z":12345678901234567890123,"w":  -0.0,   "v":1e-9999}';
    const { asked } = await pass(stage, plain, { request: post(body) });
    expect(asked.body.equals(Buffer.from(body))).toBe(true);
  });

  it.each(['\\ud83d', '\\udc00', '\\udc00\\ud83d'])(
    "C109 with the lone surrogate %s reaches the one that serves its model, twice, and the engine's own error comes back",
    async (escape) => {
      const body = `{"model":"small","stream":false,"user":"${escape}","messages":[{"role":"user","content":"x${escape}"}]}`;
      const error = { error: { message: 'surrogates not allowed', type: 'BadRequestError', param: null, code: 400 } };
      const { big, small, proxy } = await twoModels(() => [wholeAnswer(400, error)]);
      for (let i = 0; i < 2; i += 1) {
        const client = await stage.client(proxy);
        const answer = await nextAnswer(client, post(body));
        expect(answer.status).toBe(400);
        expect(JSON.parse(answer.body.toString())).toEqual(error);
      }
      expect(usersOf(small).map((request) => request.text())).toEqual([body, body]);
      expect(usersOf(big)).toEqual([]);
      expect((await proxy.records(2)).map(({ outcome, model }) => [outcome, model])).toEqual([
        ['client_error', 'small'],
        ['client_error', 'small'],
      ]);
    },
  );

  it('C109 may have a lone surrogate in the model name itself: forwarded, recorded, logged', async () => {
    const body = '{"model":"m\\ud83d","stream":false}';
    const { asked, record } = await pass(stage, plain, { request: post(body) });
    expect(asked.text()).toBe(body);
    expect(record.outcome).toBe('ok');
  });

  it.each([1024, 4096, 16_384, 65_536])(
    'C110 may have a character across byte %i, and a packet border there',
    async (border) => {
      const { small, proxy } = await twoModels();
      const prefix = '{"stream":false,"messages":[{"role":"user","content":"';
      for (const letter of ['\u0436', 'x', '\u{1f600}']) {
        const filler = 'a'.repeat(border - 1 - prefix.length);
        const body = Buffer.from(`${prefix}${filler}${letter}"}],"model":"small"}`);
        const request = post(body);
        const cut = request.length - body.length + border;
        const client = await stage.client(proxy);
        client.send(request.subarray(0, cut));
        await sleep(20);
        client.send(request.subarray(cut));
        expect((await client.answer()).status).toBe(200);
        expect(usersOf(small).at(-1)?.body.equals(body)).toBe(true);
      }
      expect(usersOf(small)).toHaveLength(3);
    },
  );

  it('C112 with a key twice, once in an escape, is refused; the same words in a message mean nothing', async () => {
    const { big, small, proxy } = await twoModels();
    const rest = '"messages":[{"role":"user","content":"hi"}]}';
    for (const [body, param] of [
      [`{"stream":false,"str\\u0065am":true,"model":"small",${rest}`, 'stream'],
      [`{"mod\\u0065l":"big","model":"small",${rest}`, 'model'],
      [`{"model":"big","Model":"small",${rest}`, 'model'],
      [
        `{"model":"small","stream":true,"stream_options":{"include_usage":false,"includ\\u0065_usage":true},${rest}`,
        'stream_options.include_usage',
      ],
    ]) {
      const answer = await nextAnswer(await stage.client(proxy), post(body ?? ''));
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body.toString())).toMatchObject({
        error: { code: 'duplicate_key', param, source: 'warmlane' },
      });
    }
    expect([...usersOf(big), ...usersOf(small)]).toEqual([]);
    const text = `{"model":"small","stream":false,"messages":[{"role":"user","content":"\\"stream\\":true,\\"model\\":\\"big\\" \\\\\\"","model":"big","stream":1}],"metadata":{"model":"big"}}`;
    expect((await nextAnswer(await stage.client(proxy), post(text))).status).toBe(200);
    expect(usersOf(small).map((request) => request.text())).toEqual([text]);
  });

  it('C112 with a key twice that warmlane does not read is the backend’s matter', async () => {
    const body = '{"model":"m","temperature":0,"temperature":1,"stream":false}';
    const { asked } = await pass(stage, plain, { request: post(body) });
    expect(asked.text()).toBe(body);
  });

  it('C114 may be nested twenty thousand levels deep', async () => {
    const depth = 20_000;
    const nested = `${'{"a":['.repeat(depth / 2)}1${']}'.repeat(depth / 2)}`;
    const body = `{"tools":[{"type":"function","function":{"name":"f","parameters":${nested}}}],"model":"small","stream":false}`;
    const { small, proxy } = await twoModels();
    expect((await nextAnswer(await stage.client(proxy), post(body))).status).toBe(200);
    expect(usersOf(small)[0]?.text()).toBe(body);
  });

  it.each([
    ['not JSON', '{"model":'],
    ['a list', '[{"model":"m"}]'],
    ['not UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x7d])],
    ['a huge number', '{"model":"m","n":1e400,"max_tokens":99999999999999999999999999}'],
    // UTF-16 may hide a priority: `lanes.test.ts`.
  ])('R24 that is %s goes on as it is, and the backend speaks', async (_, body) => {
    const error = { error: { code: 500, message: 'parse error', type: 'server_error' } };
    const { asked, answer } = await pass(stage, () => [wholeAnswer(400, error)], { request: post(body) });
    expect(asked.body.equals(Buffer.from(body as Uint8Array))).toBe(true);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body.toString())).toEqual(error);
  });

  it('R24 whose backend answers 500 to its bad JSON is not sent elsewhere, and that backend stays up', async () => {
    const error =
      '{"error":{"code":500,"message":"[json.exception.parse_error.101] parse error","type":"server_error"}}';
    const bad = { 'Content-Type': 'application/json', Connection: 'close' };
    const settings = {
      onRequest: (): Script => [wholeAnswer(500, error, bad)],
      probes: { engine: 'llama-server' as const },
    };
    const backends = [await stage.backend(settings), await stage.backend(settings)];
    const proxy = await stage.proxy(backends);
    for (let i = 0; i < 3; i += 1) {
      const answer = await nextAnswer(await stage.client(proxy), post('{"model":'));
      expect(answer.status).toBe(500);
      expect(answer.body.toString()).toBe(error);
    }
    expect(backends.flatMap(usersOf)).toHaveLength(3);
    expect(proxy.app.fleet.snapshot().backends.map(({ health }) => health)).toEqual(['up', 'up']);
    for (const record of await proxy.records(3))
      expect(record).toMatchObject({ attempts: 1, outcome: 'upstream_error', status: 500, spokenBy: 'backend' });
  });

  it("R24 that is compressed passes as it is, and llama-server's empty 415 comes back", async () => {
    const body = gzipSync(JSON.stringify(chatBody));
    const { asked, answer } = await pass(stage, () => [wholeAnswer(415, '', { Server: 'llama.cpp' })], {
      engine: 'llama-server',
      request: post(body, { 'Content-Encoding': 'gzip' }),
    });
    expect(asked.body.equals(body)).toBe(true);
    expect(asked.header('content-encoding')).toBe('gzip');
    expect(answer).toMatchObject({ status: 415, complete: true });
    expect(answer.body).toHaveLength(0);
  });
});

describe('a body with chunked coding', () => {
  it('is held and sent with its length, where it is read', async () => {
    const text = JSON.stringify({ ...chatBody, stream: false });
    const request = requestBytes('POST /v1/chat/completions', {
      'Content-Type': 'application/json',
      'Transfer-Encoding': 'chunked',
    });
    const framed = Buffer.concat([
      request,
      chunk(text.slice(0, 10)),
      chunk(text.slice(10)),
      Buffer.from('0\r\nX-Trailer: t\r\n\r\n'),
    ]);
    const { asked } = await pass(stage, plain, { request: framed });
    expect(asked.text()).toBe(text);
    expect(asked.header('content-length')).toBe(String(text.length));
    expect(asked.header('transfer-encoding')).toBeUndefined();
    expect(asked.header('x-trailer')).toBeUndefined();
  });

  it('is passed on as it comes, where nobody reads it', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend));
    client.send(
      requestBytes('POST /upload', { 'Content-Type': 'application/octet-stream', 'Transfer-Encoding': 'chunked' }),
    );
    client.send(chunk('first'));
    const asked = await untilAsked(backend, 1);
    await eventually(() => asked.body.toString() === 'first', 'the first piece, while the rest is still to come');
    client.send(Buffer.concat([chunk('second'), Buffer.from(lastChunk)]));
    expect((await client.answer()).status).toBe(200);
    expect(asked.text()).toBe('firstsecond');
    expect(asked.header('transfer-encoding')).toBe('chunked');
  });
});

describe('Expect: 100-continue', () => {
  it.each([
    ['a JSON body', '/v1/chat/completions', 'application/json'],
    ['a form', '/v1/audio/transcriptions', 'multipart/form-data; boundary=b'],
    ['a body that nobody reads', '/upload', 'application/octet-stream'],
  ])('C097 is met at once for %s; the backend gets the whole body and no Expect', async (_, path, type) => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend));
    const body = Buffer.from(`{"model":"m","stream":false,"input":"${'x'.repeat(2 * MiB)}"}`);
    client.send(
      requestBytes(`POST ${path}`, {
        'Content-Type': type,
        'Content-Length': String(body.length),
        Expect: '100-continue',
      }),
    );
    const { sentMs } = client;
    await client.until(() => client.received.includes('HTTP/1.1 100 Continue\r\n\r\n'));
    expect(performance.now() - sentMs).toBeLessThan(250);
    client.send(body);
    expect((await client.answer()).status).toBe(200);
    const [asked] = usersOf(backend);
    expect(asked?.body.equals(body)).toBe(true);
    expect(asked?.header('expect')).toBeUndefined();
  });

  it('C097 is answered with 413 instead, when the body is too large, and nothing follows on that connection', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend, { change: { http: { maxBodyBytes: 1000 } } }));
    client.send(
      requestBytes('POST /v1/chat/completions', {
        'Content-Type': 'application/json',
        'Content-Length': '2000000',
        Expect: '100-continue',
      }),
    );
    const answer = await client.answer();
    expect(client.received.toString('latin1').startsWith('HTTP/1.1 413 ')).toBe(true);
    expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { code: 'body_too_large', source: 'warmlane' } });
    expect(answer.headers['connection']).toBe('close');
    await client.until(() => client.ended === 'fin');
    expect(usersOf(backend)).toEqual([]);
  });
});

describe('a body that is too large', () => {
  it.each(['with its length told', 'in chunks'])(
    'is refused with 413 %s, and the next request on the connection works',
    async (how) => {
      const backend = await stage.backend({ onRequest: plain });
      const proxy = await stage.proxy(backend, { change: { http: { maxBodyBytes: 100_000 } } });
      const client = await stage.client(proxy);
      const body = `{"model":"m","input":"${'x'.repeat(3 * MiB)}"}`;
      const chunked = how === 'in chunks';
      const sent = chunked
        ? Buffer.concat([
            requestBytes('POST /v1/embeddings', { 'Content-Type': 'application/json', 'Transfer-Encoding': 'chunked' }),
            chunk(body),
            Buffer.from(lastChunk),
          ])
        : post(body, {}, '/v1/embeddings');
      const refused = await nextAnswer(client, sent);
      expect(refused.status).toBe(413);
      const [record] = await proxy.records(1);
      expect(record).toMatchObject({ endpoint: 'embeddings', status: 413, responseBytes: refused.body.length });
      expect(record?.requestBytes).toBe(chunked ? undefined : body.length);
      expect((await nextAnswer(client, post('{"model":"m"}', {}, '/v1/embeddings'))).status).toBe(200);
      expect(usersOf(backend)).toHaveLength(1);
    },
  );
});

describe('a backend that answers before it has the whole body', () => {
  const tooLarge = { error: { message: 'too large', type: 'x', code: 413 } };
  const refusing = (connection: { socket: { destroy(): unknown } }): Script => [
    stopReading(),
    wholeAnswer(413, tooLarge, { Connection: 'close' }),
    pause(30),
    run(() => void connection.socket.destroy()),
  ];

  it.each([
    [
      'streamed through',
      'POST /v1/audio/transcriptions',
      'multipart/form-data; boundary=b',
      '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\n',
    ],
    ['held', 'POST /v1/embeddings', 'application/json', '{"model":"m","input":"'],
    ['unread', 'POST /upload', 'application/octet-stream', ''],
  ])(
    'C116 and closes: the client gets its 413 with its body, and it stays up (30 MB, %s)',
    async (_, line, type, begin) => {
      const backend = await stage.backend({
        answerAfter: 'head',
        onRequest: ({ method }, connection): Script => (method === 'POST' ? refusing(connection) : plain()),
      });
      const proxy = await stage.proxy(backend);
      const client = await stage.client(proxy);
      const body = Buffer.concat([
        Buffer.from(begin),
        Buffer.alloc(30 * MiB, 'x'),
        Buffer.from(type === 'application/json' ? '"}' : '\r\n--b--\r\n'),
      ]);
      const answer = await nextAnswer(client, requestBytes(line, { 'Content-Type': type }, body));
      expect(answer.status).toBe(413);
      expect(JSON.parse(answer.body.toString())).toEqual(tooLarge);
      const [record] = await proxy.records(1);
      expect(record).toMatchObject({ outcome: 'client_error', status: 413, spokenBy: 'backend', attempts: 1 });
      expect(proxy.app.fleet.snapshot().backends[0]?.health).toBe('up');
      expect((await nextAnswer(client, requestBytes('GET /x'))).status).toBe(200);
    },
  );

  it.each([true, false])(
    'C117 and keeps its socket (reading on: %s): the next request on the client’s connection works',
    async (readsOn) => {
      const backend = await stage.backend({
        answerAfter: 'head',
        onRequest: ({ method }): Script =>
          method === 'GET'
            ? plain()
            : [...(readsOn ? [] : [stopReading()]), 5, wholeAnswer(200, { early: true }), hang()],
      });
      const proxy = await stage.proxy(backend);
      const client = await stage.client(proxy);
      const upload = requestBytes('POST /v1/audio/transcriptions', {
        'Content-Type': 'multipart/form-data; boundary=b',
        'Content-Length': String(5 * MiB),
      });
      const begin =
        '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';
      const body = Buffer.concat([Buffer.from(begin), Buffer.alloc(5 * MiB - begin.length, 'x')]);
      client.send(Buffer.concat([upload, body.subarray(0, 1024)]));
      const early = await client.answer();
      expect(early.body.toString()).toBe('{"early":true}');
      client.send(body.subarray(1024));
      const next = await nextAnswer(client, requestBytes('GET /x')).catch(async () => {
        await client.until(() => client.ended !== 'no');
        return undefined;
      });
      expect(next?.status).toBe(200);
      expect((await proxy.records(2)).map(({ outcome }) => outcome)).toEqual(['ok', 'ok']);
    },
  );
});

/** A form as browsers and SDKs write it. */
function form(
  boundary: string,
  parts: readonly (readonly [disposition: string, value: string | Uint8Array])[],
): Buffer {
  const pieces = parts.flatMap(([disposition, value]) => [
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`),
    Buffer.from(value as Uint8Array),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

describe('a form', () => {
  const binary = Buffer.from('RIFF\r\n--\r\n----x\0\r\n--x"\r\n\0\xff\r\n\r\n--', 'latin1');

  it('C118 arrives byte for byte with its boundary, at the backend that its model part names', async () => {
    const { big, small, proxy } = await twoModels();
    const type = 'multipart/form-data; boundary="--x\\"y"';
    const body = form('--x"y', [
      ['name="model"', 'small'],
      ['name="file"; filename="speech.wav"', binary],
      ['name="response_format"', 'json'],
    ]);
    const answer = await nextAnswer(
      await stage.client(proxy),
      requestBytes('POST /v1/audio/transcriptions', { 'Content-Type': type }, body),
    );
    expect(answer.status).toBe(200);
    const [asked] = usersOf(small);
    expect(asked?.body.equals(body)).toBe(true);
    expect(asked?.header('content-type')).toBe(type);
    expect(asked?.header('content-length')).toBe(String(body.length));
    expect(usersOf(big)).toEqual([]);
    expect((await proxy.records(1))[0]).toMatchObject({
      endpoint: 'audio',
      model: 'small',
      outcome: 'ok',
      requestBytes: body.length,
    });
  });

  it('C118 begins to arrive while its file is still on its way', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend));
    const body = form('b', [
      ['name="model"', 'm'],
      ['name="file"; filename="a.wav"', Buffer.alloc(200_000, 7)],
    ]);
    const request = requestBytes(
      'POST /v1/audio/transcriptions',
      { 'Content-Type': 'multipart/form-data; boundary=b' },
      body,
    );
    client.send(request.subarray(0, 100_000));
    const asked = await untilAsked(backend, 1);
    await eventually(() => asked.body.length > 90_000, 'what has come so far');
    expect(asked.complete).toBe(false);
    client.send(request.subarray(100_000));
    expect((await client.answer()).status).toBe(200);
    expect(asked.body.equals(body)).toBe(true);
  });

  const file = Buffer.alloc(30 * MiB, 1);
  const lastModel = form('b', [
    ['name="file"; filename="a.wav"', file],
    ['name="model"', 'small'],
  ]);
  const noModel = form('b', [['name="file"; filename="a.wav"', file]]);
  const formType = { 'Content-Type': 'multipart/form-data; boundary=b' };

  it('R09 C080 that streams and waits for a place is forgotten when its client leaves', async () => {
    const backend = await stage.backend({ onRequest: () => [60_000] });
    const proxy = await stage.proxy(backend, { places: 1 });
    const busy = await stage.client(proxy);
    busy.send(R0);
    await untilAsked(backend, 1);
    const body = form('b', [
      ['name="model"', 'm'],
      ['name="file"; filename="a.wav"', Buffer.alloc(500_000, 3)],
    ]);
    const waiting = await stage.client(proxy);
    waiting.send(requestBytes('POST /v1/audio/transcriptions', formType, body).subarray(0, 400_000));
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'the upload to wait');
    waiting.leave();
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'client_abort', phase: 'queued', endpoint: 'audio' });
    expect(usersOf(backend)).toHaveLength(1);
  });

  it('that streams counts from its last byte: a slow client is not booked on warmlane', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    const body = form('b', [
      ['name="model"', 'm'],
      ['name="file"; filename="a.wav"', Buffer.alloc(50_000, 3)],
    ]);
    client.send(requestBytes('POST /v1/audio/transcriptions', { ...formType, 'Transfer-Encoding': 'chunked' }));
    client.send(chunk(body.subarray(0, 1000)));
    await untilAsked(backend, 1);
    await sleep(400);
    client.send(chunk(body.subarray(1000)));
    client.send(lastChunk);
    expect((await client.answer()).status).toBe(200);
    const [record] = await proxy.records(1);
    expect(record?.requestBytes).toBe(body.length);
    expect(record?.figures.overheadMs).toBeLessThan(200);
    expect(record?.figures.e2eMs).toBeLessThan(300);
  });

  it.each([
    ['behind a file of 30 MB', lastModel],
    ['nowhere, beside a file of 30 MB', noModel],
  ])('C119 with its model %s is refused where backends differ, and the connection goes on', async (_, body) => {
    const { big, small, proxy } = await twoModels();
    const client = await stage.client(proxy);
    const answer = await nextAnswer(client, requestBytes('POST /v1/audio/transcriptions', formType, body));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { code: 'model_after_file', param: 'model', source: 'warmlane' },
    });
    expect(answer.body.toString()).toContain('before the file');
    expect((await nextAnswer(client, requestBytes('GET /x'))).status).toBe(200);
    expect([...usersOf(big), ...usersOf(small)].map(({ method }) => method)).toEqual(['GET']);
  });

  it.each([
    ['behind a file of 30 MB', lastModel],
    ['nowhere, beside a file of 30 MB', noModel],
  ])('C119 with its model %s streams to the one backend there is, without being held', async (_, body) => {
    const backend = await stage.backend({ onRequest: plain });
    const proxy = await stage.proxy(backend, { change: { http: { maxHeldBytes: 2 * MiB } } });
    const answer = await nextAnswer(
      await stage.client(proxy),
      requestBytes('POST /v1/audio/transcriptions', formType, body),
    );
    expect(answer.status).toBe(200);
    expect(sha256(usersOf(backend)[0]?.body ?? '')).toBe(sha256(body));
  });

  it('C119 with a small file first is routed by the model behind it', async () => {
    const { small, proxy } = await twoModels();
    const body = form('b', [
      ['name="file"; filename="a.wav"', Buffer.alloc(500_000, 2)],
      ['name="model"', 'small'],
    ]);
    expect(
      (await nextAnswer(await stage.client(proxy), requestBytes('POST /v1/audio/transcriptions', formType, body)))
        .status,
    ).toBe(200);
    expect(usersOf(small)[0]?.body.equals(body)).toBe(true);
  });

  it('C119 is taken from its client no faster than its backend takes it', async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const backend = await stage.backend({
      answerAfter: 'head',
      onRequest: (request): Script => [
        stopReading(),
        until(gate),
        readOn(),
        run(() => eventually(() => request.complete, 'the rest of the upload', 15_000)),
        wholeAnswer(200, { ok: true }),
      ],
    });
    const proxy = await stage.proxy(backend, { change: { http: { maxHeldBytes: 2 * MiB } } });
    const client = await stage.client(proxy);
    const body = form('b', [
      ['name="model"', 'm'],
      ['name="file"; filename="a.wav"', Buffer.alloc(60 * MiB, 1)],
    ]);
    client.send(requestBytes('POST /v1/audio/transcriptions', formType, body));
    await untilAsked(backend, 1);
    let before = -1;
    // What the kernel and both sockets hold is taken at once; then nothing more.
    await eventually(async () => {
      const { writableLength } = client.socket;
      const still = writableLength === before;
      before = writableLength;
      await sleep(150);
      return still;
    }, 'the upload to stand still');
    expect(client.socket.writableLength).toBeGreaterThan(30 * MiB);
    go();
    await eventually(() => client.socket.writableLength === 0, 'the upload to go on', 15_000);
    expect((await client.answer(15_000)).status).toBe(200);
    expect(usersOf(backend)[0]?.body.length).toBe(body.length);
  });
});

describe('a model alias', () => {
  const aliases = { 'gpt-4o': 'small', 'text-embedding-3': 'a "quoted" \u00e9 model' };
  const change = { classify: { modelAliases: aliases } };

  it.each([
    [
      '{"model" :\t"gpt-4o" ,"stream":false,"messages":[{"role":"user","content":"gpt-4o"}]}',
      '{"model" :\t"small" ,"stream":false,"messages":[{"role":"user","content":"gpt-4o"}]}',
    ],
    ['{"stream":false,"model":"gpt\\u002d4o"}', '{"stream":false,"model":"small"}'],
    ['{"model":"text-embedding-3","input":"x"}', '{"model":"a \\"quoted\\" \u00e9 model","input":"x"}'],
    ['{"model":"toString","input":"x"}', '{"model":"toString","input":"x"}'],
  ])('is replaced in its own bytes and nowhere else: %s', async (body, expected) => {
    const { asked, record } = await pass(stage, plain, { request: post(body), change });
    expect(asked.text()).toBe(expected);
    expect(asked.header('content-length')).toBe(String(Buffer.byteLength(expected)));
    expect(record.model).toBe((JSON.parse(body) as { model: string }).model);
  });

  it('is replaced beside the splice for usage', async () => {
    const body = '{"messages":[],"model":"gpt-4o","stream":true}';
    const { asked } = await pass(stage, plain, { engine: 'vllm', request: post(body), change });
    expect(asked.text()).toBe('{"stream_options":{"include_usage":true},"messages":[],"model":"small","stream":true}');
  });

  it.each(['with its length told', 'in chunks'])('is replaced in a form that streams, %s', async (how) => {
    const backend = await stage.backend({ onRequest: plain });
    const client = await stage.client(await stage.proxy(backend, { change }));
    const parts = (model: string): Buffer =>
      form('b', [
        ['name="model"', model],
        ['name="file"; filename="gpt-4o"', Buffer.alloc(300_000, 3)],
      ]);
    const type = { 'Content-Type': 'multipart/form-data; boundary=b' };
    const body = parts('gpt-4o');
    if (how === 'in chunks') {
      client.send(requestBytes('POST /v1/audio/transcriptions', { ...type, 'Transfer-Encoding': 'chunked' }));
      for (let at = 0; at < body.length; at += 50_000) client.send(chunk(body.subarray(at, at + 50_000)));
      client.send(lastChunk);
    } else client.send(requestBytes('POST /v1/audio/transcriptions', type, body));
    expect((await client.answer()).status).toBe(200);
    const asked = usersOf(backend)[0] as RawRequest;
    expect(asked.body.equals(parts('small'))).toBe(true);
    expect(asked.header('content-length')).toBe(how === 'in chunks' ? undefined : String(parts('small').length));
  });

  it.each([
    ['/v1/models/gpt-4o', '/v1/models/small'],
    ['/v1/models/text-embedding-3?x=1', '/v1/models/a%20%22quoted%22%20%C3%A9%20model?x=1'],
    ['/props?autoload=false&model=gpt%2D4o&x=gpt-4o', '/props?autoload=false&model=small&x=gpt-4o'],
    ['/props?model=gpt-4o&model=gpt-4o', '/props?model=gpt-4o&model=gpt-4o'],
    ['/props?amodel=gpt-4o', '/props?amodel=gpt-4o'],
  ])('is replaced in a target, where that names the model: %s', async (target, expected) => {
    const { asked } = await pass(stage, plain, { request: requestBytes(`GET ${target}`), change });
    expect(asked.target).toBe(expected);
  });

  it('leads to the backend that serves what it stands for', async () => {
    const big = await stage.backend({ onRequest: plain, probes: { model: 'big' } });
    const small = await stage.backend({ onRequest: plain, probes: { model: 'small' } });
    const proxy = await stage.proxy([big, small], { change });
    for (let i = 0; i < 3; i += 1)
      await nextAnswer(await stage.client(proxy), post('{"model":"gpt-4o","stream":false}'));
    expect(usersOf(small)).toHaveLength(3);
    expect(usersOf(big)).toEqual([]);
  });
});

describe('the memory of held bodies', () => {
  it('has a bound for all of them together: one more is refused with 503, and taken once there is room', async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const backend = await stage.backend({ onRequest: (): Script => [until(gate), wholeAnswer(200, { ok: true })] });
    const proxy = await stage.proxy(backend, { change: { http: { maxBodyBytes: 2 * MiB, maxHeldBytes: 3 * MiB } } });
    const body = post(`{"model":"m","input":"${'x'.repeat(2 * MiB - 100)}"}`, {}, '/v1/embeddings');
    const first = await stage.client(proxy);
    first.send(body);
    await untilAsked(backend, 1);
    const second = await stage.client(proxy);
    const refused = await nextAnswer(second, body);
    expect(refused.status).toBe(503);
    expect(JSON.parse(refused.body.toString())).toMatchObject({
      error: { code: 'bodies_memory_full', source: 'warmlane' },
    });
    expect(refused.headers['retry-after']).toBe('1');
    go();
    expect((await first.answer()).status).toBe(200);
    await proxy.records(2);
    expect((await nextAnswer(second, body)).status).toBe(200);
    expect((await proxy.records(3)).map(({ outcome }) => outcome)).toEqual(['rejected', 'ok', 'ok']);
  });

  it('is given back when a client leaves in the middle of its body', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const proxy = await stage.proxy(backend, { change: { http: { maxBodyBytes: 2 * MiB, maxHeldBytes: 3 * MiB } } });
    const body = post(`{"model":"m","input":"${'x'.repeat(2 * MiB - 100)}"}`, {}, '/v1/embeddings');
    for (let i = 0; i < 4; i += 1) {
      const client = await stage.client(proxy);
      client.send(body.subarray(0, body.length - 10));
      await eventually(() => client.socket.writableLength === 0, 'the body to be taken');
      await sleep(30);
      client.leave();
      await proxy.records(i + 1);
    }
    expect((await proxy.records(4)).map(({ outcome, phase }) => [outcome, phase])).toEqual(
      Array.from({ length: 4 }, () => ['client_abort', 'receiving']),
    );
    expect((await nextAnswer(await stage.client(proxy), body)).status).toBe(200);
  });

  it('costs the streams beside it nothing: 40 MB of JSON are read as they come', async () => {
    let done = false;
    const backend = await stage.backend({
      *onRequest({ target }): Generator<string | Uint8Array | number> {
        if (target === '/v1/embeddings') {
          yield wholeAnswer(200, { ok: true });
          return;
        }
        yield sseHead();
        yield chunk(ROLE);
        while (!done) {
          yield 10;
          yield chunk(T('t'));
        }
        yield chunk(FIN('stop'), DONE);
        yield lastChunk;
      },
    });
    const proxy = await stage.proxy(backend);
    const streaming = await stage.client(proxy);
    streaming.send(postBytes('/v1/chat/completions', chatBody));
    await streaming.until(() => streaming.reads.length > 3);
    const body = Buffer.from(`{"input":[${'12.5,'.repeat(8_000_000)}0],"model":"m"}`);
    const begunMs = performance.now();
    JSON.parse(body.toString());
    const parsedMs = performance.now() - begunMs;
    const lag = monitorEventLoopDelay({ resolution: 5 });
    const uploading = await stage.client(proxy);
    lag.enable();
    const request = post(body, {}, '/v1/embeddings');
    for (let at = 0; at < request.length; at += 256 * 1024) {
      uploading.send(request.subarray(at, at + 256 * 1024));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await uploading.answer(20_000)).status).toBe(200);
    lag.disable();
    done = true;
    await streaming.answer();
    // A parser that takes the whole at once would hold everybody up for as long as this one did.
    expect(lag.max / 1e6).toBeLessThan(parsedMs / 2);
    expect((await proxy.records(2)).map(({ outcome }) => outcome)).toEqual(['ok', 'ok']);
  }, 40_000);
});
