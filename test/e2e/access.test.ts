/** Keys over real sockets: who is let in, what is told to who isn't, and that no key ever reaches a backend. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import type { Script } from '../../src/sim/fault-steps.ts';
import { DONE, FIN, ROLE, T, USE, wholeAnswer, wholeStream } from '../../src/sim/sse-script.ts';
import { accessOf, keyOf, type KeyedTenant } from '../support/keys.ts';
import { type ConfigChange, type Proxy, startProxy } from '../support/proxy.ts';
import { chatBody, postBytes, type RawAnswer, requestBytes } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';
import { createUpgradeBackend, handshakeBytes, switching } from '../support/upgrade-backend.ts';

let stage: Stage;
const open: { close(): Promise<unknown> }[] = [];
beforeEach(() => {
  stage = createStage();
});
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
  await stage.close();
});

const tenants: readonly KeyedTenant[] = [{ name: 'a' }, { name: 'b', models: ['qwen', 'fast'] }];
const ok = { id: 'x', object: 'chat.completion', choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } };
const plain = (): Script => [wholeAnswer(200, ok)];

async function keyed(onRequest: (request: RawRequest) => Script = plain, change: ConfigChange = {}) {
  const backend = await stage.backend({ onRequest });
  const proxy = await stage.proxy(backend, { change: { access: accessOf(tenants), ...change } });
  return { backend, proxy };
}

async function ask(proxy: Proxy, request: string | Uint8Array): Promise<RawAnswer> {
  const client = await stage.client(proxy);
  client.send(request);
  const answer = await client.answer();
  client.leave();
  return answer;
}

const bearer = (tenant: string) => ({ Authorization: `Bearer ${keyOf(tenant)}` });

function errorOf(answer: RawAnswer): Record<string, unknown> {
  return (JSON.parse(answer.body.toString()) as { error: Record<string, unknown> }).error;
}

describe('with auth', () => {
  it.each([
    'POST /v1/chat/completions',
    'POST /invocations',
    'POST /tokenize',
    'GET /metrics',
    'GET /v1/models',
    'GET /',
    'GET /health/../v1/models',
    'GET /livez/x',
    'POST /health',
    'GET /%6Civez',
    'DELETE /v1/responses/resp_1',
    'OPTIONS /v1/chat/completions',
    'BREW /coffee',
  ])('R26 %s without a key is refused, and nothing reaches a backend', async (line) => {
    const { backend, proxy } = await keyed();
    const answer = await ask(proxy, requestBytes(line));
    // Node's parser knows no such method.
    expect(answer.status).toBe(line.startsWith('BREW') ? 400 : 401);
    if (answer.status === 401) {
      expect(errorOf(answer)).toMatchObject({
        code: 'invalid_api_key',
        type: 'invalid_request_error',
        source: 'warmlane',
      });
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="warmlane"');
    }
    expect(usersOf(backend)).toEqual([]);
  });

  it.each(['/livez', '/readyz', '/health'])('R26 GET %s needs no key', async (path) => {
    const { proxy } = await keyed();
    expect(await ask(proxy, requestBytes(`GET ${path}`))).toMatchObject({ status: 200 });
  });

  it('a refused upload is not read to be kept: the answer comes before the body has', async () => {
    const { proxy } = await keyed();
    const client = await stage.client(proxy);
    client.send('POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n{"model":');
    expect(await client.answer()).toMatchObject({ status: 401 });
  });

  it('C099 answers preflights as before, with and without origins of its own', async () => {
    const preflight = requestBytes('OPTIONS /v1/chat/completions', {
      Origin: 'https://app.example',
      'Access-Control-Request-Method': 'POST',
      Cookie: 'c=1',
    });
    const { backend, proxy } = await keyed(() => [wholeAnswer(200, 'OK', { 'Access-Control-Allow-Origin': '*' })]);
    const passed = await ask(proxy, preflight);
    expect([passed.status, passed.headers['access-control-allow-origin']]).toEqual([200, '*']);
    expect(usersOf(backend)[0]?.header('cookie')).toBeUndefined();
    const own = await keyed(plain, { http: { cors: { origins: ['https://app.example'] } } });
    expect(await ask(own.proxy, preflight)).toMatchObject({ status: 204 });
    // Pages must be able to read why they were refused.
    const refused = await ask(
      own.proxy,
      postBytes('/v1/chat/completions', chatBody, { Origin: 'https://app.example' }),
    );
    expect([refused.status, refused.headers['access-control-allow-origin']]).toEqual([401, 'https://app.example']);
  });

  it("C099 C101 a preflight without a key isn't lent the backend's, and one with a body is no preflight", async () => {
    const backend = await stage.backend({ onRequest: plain });
    const backends = [{ name: 'one', url: backend.url, apiKey: 'backend-key' }];
    const proxy = await stage.proxy(backend, { change: { fleet: { backends }, access: accessOf(tenants) } });
    const asks = { Origin: 'https://app.example', 'Access-Control-Request-Method': 'POST' };
    const keys = [{}, { Authorization: 'Bearer nobody-knows-it' }, bearer('a')];
    for (const key of keys) {
      const answer = await ask(proxy, requestBytes('OPTIONS /v1/chat/completions', { ...asks, ...key }));
      expect(answer.status).toBe(200);
    }
    const asked = usersOf(backend);
    expect(asked.map((request) => request.header('authorization'))).toEqual([
      undefined,
      undefined,
      'Bearer backend-key',
    ]);
    expect(asked.map((request) => request.text())).toEqual(['', '', '']);
    const withBody = [
      requestBytes('OPTIONS /v1/chat/completions', asks, '{"messages":[]}'),
      requestBytes('OPTIONS /v1/chat/completions', { ...asks, 'Transfer-Encoding': 'chunked' }),
    ];
    for (const request of withBody) expect(await ask(proxy, request)).toMatchObject({ status: 401 });
    expect(usersOf(backend)).toHaveLength(3);
  });

  it.each<[string, Record<string, string>]>([
    ['Authorization', bearer('a')],
    ['x-api-key', { 'x-api-key': keyOf('a') }],
    ['api-key', { 'Api-Key': keyOf('a') }],
  ])('C102 a key in %s lets in, and stays here with every other credential; the rest passes', async (_, key) => {
    const { backend, proxy } = await keyed();
    const other = { Cookie: 'c=1', 'x-goog-api-key': 's3', 'x-request-id': 'r', 'X-Mine': 'yes' };
    expect(await ask(proxy, postBytes('/v1/chat/completions', chatBody, { ...key, ...other }))).toMatchObject({
      status: 200,
    });
    const [asked] = usersOf(backend);
    for (const name of ['authorization', 'x-api-key', 'api-key', 'cookie', 'x-goog-api-key'])
      expect(asked?.header(name)).toBeUndefined();
    expect([asked?.header('x-request-id'), asked?.header('x-mine')]).toEqual(['r', 'yes']);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ tenant: 'a', lane: 'online', outcome: 'ok' });
    const kept = JSON.stringify([proxy.logged, record]);
    expect(kept).not.toContain(keyOf('a'));
    expect(proxy.logged.find(({ msg }) => msg === 'request')).toMatchObject({ tenant: 'a' });
  });

  it("C101 the backend gets its own key, whatever the client's says, with the list of models too", async () => {
    const backend = await stage.backend({ onRequest: plain });
    const other = await stage.backend({ onRequest: plain });
    const backends = [backend, other].map(({ url, port }) => ({ name: `b${port}`, url, apiKey: 'backend-key' }));
    const proxy = await stage.proxy([backend, other], { change: { fleet: { backends }, access: accessOf(tenants) } });
    for (const key of [bearer('a'), { 'x-api-key': keyOf('a') }])
      await ask(proxy, postBytes('/v1/chat/completions', chatBody, key));
    await ask(proxy, requestBytes('GET /v1/models', bearer('a')));
    const asked = [backend, other].flatMap((server) => [...usersOf(server), ...server.probes]);
    expect(asked.filter(({ target }) => target === '/v1/chat/completions')).toHaveLength(2);
    for (const request of asked) {
      expect(request.header('authorization')).toBe('Bearer backend-key');
      expect(request.header('x-api-key')).toBeUndefined();
    }
  });

  it('a wrong key is refused in the words of the API that was asked, and its record has neither key nor tenant', async () => {
    const { proxy } = await keyed();
    const wrong = { Authorization: 'Bearer sk-a-secret-guess' };
    const chat = await ask(proxy, postBytes('/v1/chat/completions', chatBody, wrong));
    expect(errorOf(chat)).toMatchObject({ code: 'invalid_api_key', param: null });
    expect(chat.headers['www-authenticate']).toContain('error="invalid_token"');
    const messages = await ask(proxy, postBytes('/v1/messages', chatBody, { 'x-api-key': 'sk-a-secret-guess' }));
    expect(JSON.parse(messages.body.toString())).toMatchObject({
      type: 'error',
      error: { type: 'authentication_error' },
    });
    const records = await proxy.records(2);
    for (const record of records) {
      expect(record).toMatchObject({ outcome: 'client_error', status: 401, reason: 'invalid_api_key' });
      expect(record.tenant).toBeUndefined();
    }
    expect(JSON.stringify([proxy.logged, records, chat.body.toString()])).not.toContain('secret-guess');
  });

  it('the official clients raise the errors that their users catch', async () => {
    const { proxy } = await keyed(() => [wholeStream(ROLE, T('hi'), FIN('stop'), USE(3, 1), DONE)]);
    const openai = (tenant: string) => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: keyOf(tenant), maxRetries: 0 });
    const body = { model: 'm', messages: [{ role: 'user' as const, content: 'hi' }] };
    await expect(openai('nobody').chat.completions.create(body)).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(openai('b').chat.completions.create(body)).rejects.toBeInstanceOf(OpenAI.PermissionDeniedError);
    const stream = await openai('b').chat.completions.create({ ...body, model: 'qwen', stream: true });
    let text = '';
    for await (const part of stream) text += part.choices[0]?.delta.content ?? '';
    expect(text).toBe('hi');
    const anthropic = (tenant: string) => new Anthropic({ baseURL: proxy.url, apiKey: keyOf(tenant), maxRetries: 0 });
    const message = { ...body, max_tokens: 5 };
    await expect(anthropic('nobody').messages.create(message)).rejects.toBeInstanceOf(Anthropic.AuthenticationError);
    await expect(anthropic('b').messages.create(message)).rejects.toBeInstanceOf(Anthropic.PermissionDeniedError);
  });

  it('a reload takes keys over at once', async () => {
    const { proxy } = await keyed();
    const request = postBytes('/v1/chat/completions', chatBody, bearer('new'));
    expect(await ask(proxy, request)).toMatchObject({ status: 401 });
    const inForce = proxy.app.reload({
      ...proxy.config,
      access: accessOf([{ name: 'new', lane: 'batch' }]),
    });
    expect(inForce).toMatchObject({ changed: ['auth'], needsRestart: [] });
    expect(await ask(proxy, request)).toMatchObject({ status: 200 });
    expect(await ask(proxy, postBytes('/v1/chat/completions', chatBody, bearer('a')))).toMatchObject({ status: 401 });
    expect((await proxy.records(3))[1]).toMatchObject({ tenant: 'new', lane: 'batch' });
  });
});

describe('a tenant with models of its own', () => {
  it('sees only those in the list, with one backend and with several, aliases among them', async () => {
    const answer = { object: 'list', data: ['qwen', 'big', 'small'].map((id) => ({ id, object: 'model' })) };
    const list = () => [wholeAnswer(200, answer)];
    const one = await stage.backend({ onRequest: list, probes: { engine: 'vllm', model: 'qwen' } });
    const two = await stage.backend({ onRequest: list, probes: { engine: 'vllm', model: 'big' } });
    const change = { access: accessOf(tenants), classify: { modelAliases: { fast: 'big', quick: 'qwen' } } };
    const single = await stage.proxy(one, { change: { access: change.access } });
    const several = await stage.proxy([one, two], { change });
    const ids = async (proxy: Proxy, tenant: string) => {
      const { status, body } = await ask(proxy, requestBytes('GET /v1/models', bearer(tenant)));
      expect(status).toBe(200);
      return (JSON.parse(body.toString()) as { data: { id: string }[] }).data.map(({ id }) => id);
    };
    expect(await ids(single, 'b')).toEqual(['qwen']);
    expect(await ids(single, 'a')).toEqual(['qwen', 'big', 'small']);
    expect((await ids(several, 'b')).toSorted()).toEqual(['fast', 'quick', 'qwen']);
    expect((await ids(several, 'a')).toSorted()).toEqual(['big', 'fast', 'quick', 'qwen']);
  });

  it.each([
    ['POST /v1/chat/completions', { model: 'big' }],
    ['POST /v1/chat/completions', {}],
    ['POST /v1/embeddings', { model: 'big', input: 'x' }],
    ['POST /unknown', { model: 'big' }],
    ['GET /v1/models/big', undefined],
    ['GET /props', undefined],
  ])('may not have another: %s %j is refused', async (line, body) => {
    const { backend, proxy } = await keyed();
    const [, path = ''] = line.split(' ');
    const request = body === undefined ? requestBytes(line, bearer('b')) : postBytes(path, body, bearer('b'));
    const answer = await ask(proxy, request);
    expect(answer.status).toBe(403);
    expect(errorOf(answer)).toMatchObject({ code: 'model_not_allowed', param: 'model', source: 'warmlane' });
    expect(usersOf(backend)).toEqual([]);
    expect((await proxy.records(1))[0]).toMatchObject({
      tenant: 'b',
      outcome: 'client_error',
      reason: 'model_not_allowed',
    });
  });
});

describe('a request that is refused before it waits', () => {
  it.each([
    ['a limit', {}, 'limit_requests', 429],
    ["a model that isn't its tenant's", { model: 'big' }, 'model_not_allowed', 403],
  ])('by %s is told of in the lane of its key', async (_by, over, reason, status) => {
    const night = { name: 'n', lane: 'batch', models: ['qwen'], limits: { requestsPerMinute: 1 } } as const;
    const { proxy } = await keyed(plain, { access: accessOf([night]) });
    const post = (body: object) =>
      ask(proxy, postBytes('/v1/chat/completions', { ...chatBody, stream: false, ...body }, bearer('n')));
    expect(await post({ model: 'qwen' })).toMatchObject({ status: 200 });
    expect(await post({ model: 'qwen', ...over })).toMatchObject({ status });
    const [, refused] = await proxy.records(2);
    expect(refused).toMatchObject({ lane: 'batch', reason, tenant: 'n' });
    expect(proxy.logged.filter(({ msg, lane }) => msg === 'request' && lane === 'batch')).toHaveLength(2);
    const metrics = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    const counted = metrics.split('\n').filter((line) => line.startsWith('warmlane_requests_total{'));
    expect(counted).toHaveLength(2);
    for (const line of counted) expect(line).toContain('lane="batch"');
  });
});

describe('a WebSocket', () => {
  it('R26 needs a key, which stays here', async () => {
    const backend = await createUpgradeBackend({ onHandshake: ({ socket }) => void socket.write(switching) });
    const change = { access: accessOf([{ name: 'a', lane: 'batch', limits: { concurrent: 1 } }]) };
    const proxy = await startProxy([backend.url], change);
    open.push(proxy, backend);
    const refused = await ask(proxy, handshakeBytes('/v1/realtime?model=m', {}));
    expect(refused.status).toBe(401);
    expect(refused.headers['www-authenticate']).toBe('Bearer realm="warmlane"');
    expect(backend.handshakes).toEqual([]);

    const client = await stage.client(proxy);
    client.send(handshakeBytes('/v1/realtime?model=m', bearer('a')));
    await client.until(() => client.received.toString('latin1') === switching);
    expect(backend.handshakes[0]?.header('authorization')).toBeUndefined();
    // It counts for as long as it is open.
    expect(await ask(proxy, handshakeBytes('/v1/realtime?model=m', bearer('a')))).toMatchObject({ status: 429 });
    expect(await ask(proxy, postBytes('/v1/chat/completions', chatBody, bearer('a')))).toMatchObject({ status: 429 });
    client.leave();
    const records = await proxy.records(4);
    expect(records.find(({ status }) => status === 101)).toMatchObject({ tenant: 'a', lane: 'batch' });
    // What a limit refuses is refused in its key's lane.
    const over = records.filter(({ status }) => status === 429);
    expect(over.map(({ lane }) => lane)).toEqual(['batch', 'batch']);
    const again = await stage.client(proxy);
    again.send(handshakeBytes('/v1/realtime?model=m', bearer('a')));
    await again.until(() => again.received.toString('latin1') === switching);
  });
});

describe('without auth', () => {
  it('nobody has a tenant, and the lane is by rule, body and header all the same', async () => {
    const { proxy, backend } = await keyed(plain, { access: { rules: [{ model: 'bge*', lane: 'batch' }] } });
    const send = (body: object, headers: Record<string, string> = {}) =>
      ask(proxy, postBytes('/v1/chat/completions', { messages: [], ...body }, headers));
    await send({ model: 'm' }, { Authorization: 'Bearer anything' });
    await send({ model: 'bge-m3' }, { 'X-Warmlane-Lane': 'online' });
    await send({ model: 'm', service_tier: 'flex' });
    await send({ model: 'm', service_tier: 'priority' });
    await send({ model: 'm' }, { 'X-Warmlane-Lane': 'batch' });
    const records = await proxy.records(5);
    expect(records.map(({ lane }) => lane)).toEqual(['online', 'batch', 'batch', 'online', 'batch']);
    expect(records.every(({ tenant }) => tenant === undefined)).toBe(true);
    const asked = usersOf(backend);
    expect(asked[0]?.header('authorization')).toBe('Bearer anything');
    expect(asked[2]?.body.toString()).toContain('"service_tier":"flex"');
    expect(asked[4]?.header('x-warmlane-lane')).toBe('batch');
  });
});
