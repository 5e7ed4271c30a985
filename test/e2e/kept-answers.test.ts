/** What backends keep under an id, with keys: it is its tenant's alone, by whatever way it is asked for. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AccessSettings } from '../../src/access/settings.ts';
import { type Script, until } from '../../src/sim/fault-steps.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { accessOf, keyOf } from '../support/keys.ts';
import type { ConfigChange, Proxy } from '../support/proxy.ts';
import { chatBody, postBytes, type RawAnswer, requestBytes } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';
import { handshakeBytes } from '../support/upgrade-backend.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(async () => {
  await stage.close();
});

const by = (tenant: string) => ({ Authorization: `Bearer ${keyOf(tenant)}` });
const asked = { model: 'm', input: 'x' };

function kept(id: string): Script {
  return [wholeAnswer(200, { id, object: 'response', status: 'completed', model: 'm', output: [] })];
}

/** Each new response has the next id; whatever else is asked for gets an answer, as an engine that knows no tenants gives it. */
async function opened(change: ConfigChange = {}, onRequest?: (request: RawRequest) => Script) {
  let made = 0;
  const answer = ({ method, target }: RawRequest): Script =>
    method === 'POST' && target === '/v1/responses'
      ? kept(`resp_${(made += 1)}`)
      : [wholeAnswer(200, { id: 'chat_1', object: 'chat.completion', secret: 'of a', choices: [] })];
  const backend = await stage.backend({ onRequest: onRequest ?? answer });
  const access = accessOf([{ name: 'a' }, { name: 'b' }]);
  return { backend, proxy: await stage.proxy(backend, { change: { access, ...change } }) };
}

async function ask(proxy: Proxy, request: string | Uint8Array): Promise<RawAnswer> {
  const client = await stage.client(proxy);
  client.send(request);
  const answer = await client.answer();
  client.leave();
  return answer;
}

function expectNotFound(answer: RawAnswer): void {
  expect(answer.status).toBe(404);
  const { error } = JSON.parse(answer.body.toString()) as { error: object };
  expect(error).toMatchObject({ code: 'id_not_found', type: 'invalid_request_error', source: 'warmlane' });
}

function unknownPass(access: AccessSettings): AccessSettings {
  const { auth } = access;
  if (auth === undefined) throw new Error('there are no keys');
  return { ...access, auth: { ...auth, unknownIds: 'pass' } };
}

/** Every way to a response. */
const ways = (id: string, key: Readonly<Record<string, string>>): readonly (string | Uint8Array)[] => [
  requestBytes(`GET /v1/responses/${id}`, key),
  requestBytes(`GET /v1/responses/${id}?stream=true`, key),
  requestBytes(`GET /v1/%72esponses/${id}/input_items`, key),
  requestBytes(`GET /v1//responses/${id}`, key),
  requestBytes(`DELETE /v1/responses/${id}`, key),
  postBytes(`/v1/responses/${id}/cancel`, '', key),
  postBytes('/v1/responses', { ...asked, previous_response_id: id }, key),
  postBytes('/v1/responses', { ...asked, conversation: { id } }, key),
  requestBytes(`GET /v1/stream?conv_id=${id}&from=0`, key),
  handshakeBytes(`/v1/responses/${id}`, key),
];

describe('a response that a backend keeps', () => {
  it('is for its tenant alone: another one is told that there is none, and the backend is not asked', async () => {
    const { backend, proxy } = await opened();
    await ask(proxy, postBytes('/v1/responses', asked, by('a')));
    for (const way of ways('resp_1', by('b'))) expectNotFound(await ask(proxy, way));
    expect(usersOf(backend)).toHaveLength(1);
    // This backend knows no handshake.
    for (const way of ways('resp_1', by('a')).slice(0, -1))
      expect(await ask(proxy, way)).toMatchObject({ status: 200 });
  });

  it("another tenant's own beside it opens nothing", async () => {
    const { backend, proxy } = await opened();
    await ask(proxy, postBytes('/v1/responses', asked, by('a')));
    await ask(proxy, postBytes('/v1/responses', asked, by('b')));
    for (const request of [
      postBytes('/v1/responses', { ...asked, previous_response_id: 'resp_2', conversation: 'resp_1' }, by('b')),
      requestBytes('GET /v1/responses/resp_2?conv_id=resp_1', by('b')),
      requestBytes('GET /v1/stream?conv_id=resp_2&conv_id=resp_1', by('b')),
      requestBytes('GET /v1/stream?conv_id=resp_1', { ...by('b'), 'X-Conversation-Id': 'resp_2' }),
    ])
      expectNotFound(await ask(proxy, request));
    expect(usersOf(backend)).toHaveLength(2);
    expect(await ask(proxy, requestBytes('GET /v1/responses/resp_2', by('b')))).toMatchObject({ status: 200 });
  });

  it('is not reached by a spelling of the path that a gateway would make another one of', async () => {
    const { backend, proxy } = await opened({ access: unknownPass(accessOf([{ name: 'a' }, { name: 'b' }])) });
    await ask(proxy, postBytes('/v1/responses', asked, by('a')));
    await ask(proxy, postBytes('/v1/responses', asked, by('b')));
    const goesOn = { ...asked, previous_response_id: 'resp_1' };
    const plainText = { ...by('b'), 'Content-Type': 'text/plain', 'Transfer-Encoding': 'chunked' };
    const text = JSON.stringify(goesOn);
    for (const way of [
      requestBytes('GET /v1/responses/resp_2/../resp_1', by('b')),
      requestBytes('GET /v1/responses/resp_2%2f..%2fresp_1', by('b')),
      requestBytes('GET /v1/models/../responses/resp_1', by('b')),
      handshakeBytes('/v1/models/../responses/resp_1', by('b')),
      requestBytes('DELETE /v1/responses/resp_2;/../resp_1', by('b')),
      ...[
        '//v1/responses',
        '/v1/responses/',
        '/openai/v1/responses',
        '/v1/x/../responses',
        '/v1/responses/render',
      ].flatMap((path) => [
        postBytes(path, goesOn, by('b')),
        requestBytes(`POST ${path}`, plainText, Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`)),
      ]),
    ])
      expectNotFound(await ask(proxy, way));
    expect(usersOf(backend)).toHaveLength(2);
    expect(
      await ask(proxy, postBytes('//v1/responses', { ...asked, previous_response_id: 'resp_2' }, by('b'))),
    ).toMatchObject({ status: 200 });
  });

  it('is not looked for by thousands of names at once', async () => {
    const { backend, proxy } = await opened({ access: unknownPass(accessOf([{ name: 'a' }])) });
    const names = (count: number) => Array.from({ length: count }, (_, index) => `conv_id=c${index}`).join('&');
    expect(await ask(proxy, requestBytes(`GET /v1/stream?${names(2)}`, by('a')))).toMatchObject({ status: 200 });
    expectNotFound(await ask(proxy, requestBytes(`GET /v1/stream?${names(1000)}`, by('a'))));
    expect(usersOf(backend)).toHaveLength(1);
  });

  it("is its tenant's while it is made", async () => {
    let end = () => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    const { proxy } = await opened({}, ({ method }) =>
      method === 'POST'
        ? [sseHead(), chunk(ROLE, T('a')), until(ended), chunk(FIN('stop'), DONE), lastChunk]
        : [wholeAnswer(200, {})],
    );
    const client = await stage.client(proxy);
    client.send(postBytes('/v1/chat/completions', chatBody, { ...by('a'), 'X-Conversation-Id': 'c-1' }));
    await client.until(() => client.received.includes('"a"'));
    const control = { id: 'chatcmpl-scripted', action: 'reasoning_end' };
    for (const way of [
      requestBytes('GET /v1/stream?conv_id=c-1', by('b')),
      postBytes('/v1/chat/completions/control', control, by('b')),
      requestBytes('GET /v1/responses/chatcmpl-scripted', by('b')),
    ])
      expectNotFound(await ask(proxy, way));
    expect(await ask(proxy, requestBytes('GET /v1/stream?conv_id=c-1', by('a')))).toMatchObject({ status: 200 });
    end();
    expect(await client.answer()).toMatchObject({ complete: true });
  });

  it('is a chat that is to be stored, too', async () => {
    const { proxy } = await opened();
    const chat = { ...chatBody, stream: false };
    await ask(proxy, postBytes('/v1/chat/completions', { ...chat, store: true }, by('a')));
    expect(await ask(proxy, requestBytes('GET /v1/chat/completions/chat_1', by('a')))).toMatchObject({ status: 200 });
    expectNotFound(await ask(proxy, requestBytes('GET /v1/chat/completions/chat_1', by('b'))));
  });

  it('is not found by an id that nobody knows, nor in a body that cannot be read', async () => {
    const { backend, proxy } = await opened();
    for (const way of ways('resp_before_the_start', by('a'))) expectNotFound(await ask(proxy, way));
    const utf16 = Buffer.from(JSON.stringify({ ...asked, previous_response_id: 'resp_x' }), 'utf16le');
    expectNotFound(
      await ask(proxy, requestBytes('POST /v1/responses', { ...by('a'), 'Content-Type': 'application/json' }, utf16)),
    );
    expect(usersOf(backend)).toEqual([]);
  });

  it('is asked for by an id that nobody knows where auth.unknownIds lets it pass, and still by no other than its own', async () => {
    const { proxy } = await opened({ access: unknownPass(accessOf([{ name: 'a' }, { name: 'b' }])) });
    for (const tenant of ['a', 'b', 'a'])
      expect(await ask(proxy, requestBytes('GET /v1/responses/resp_before', by(tenant)))).toMatchObject({
        status: 200,
      });
    await ask(proxy, postBytes('/v1/responses', asked, by('a')));
    for (const way of ways('resp_1', by('b'))) expectNotFound(await ask(proxy, way));
  });

  it('is for everybody where no key is asked for', async () => {
    const { proxy } = await opened({ access: { rules: [] } });
    await ask(proxy, postBytes('/v1/responses', asked, by('a')));
    for (const id of ['resp_1', 'resp_before'])
      expect(await ask(proxy, requestBytes(`GET /v1/responses/${id}`, by('b')))).toMatchObject({ status: 200 });
  });

  it('makes nobody its owner by a preflight', async () => {
    const { proxy } = await opened();
    const preflight = { Origin: 'https://app.example', 'Access-Control-Request-Method': 'GET' };
    expect(await ask(proxy, requestBytes('OPTIONS /v1/responses/resp_1', preflight))).toMatchObject({ status: 200 });
    await ask(proxy, postBytes('/v1/responses', asked, by('a')));
    expect(await ask(proxy, requestBytes('GET /v1/responses/resp_1', by('a')))).toMatchObject({ status: 200 });
    expectNotFound(await ask(proxy, requestBytes('GET /v1/responses/resp_1', by('b'))));
  });
});

describe('a conversation that a header begins', () => {
  const in1 = { 'X-Conversation-Id': 'c-1' };

  it("stays its tenant's: another's request of that name goes on without it", async () => {
    const { backend, proxy } = await opened();
    const chat = postBytes('/v1/chat/completions', { ...chatBody, stream: false }, { ...by('a'), ...in1 });
    await ask(proxy, chat);
    const others = [in1, { 'x-conversation-id': 'c-1, c-1' }];
    for (const header of others) {
      const request = postBytes('/v1/chat/completions', { ...chatBody, stream: false }, { ...by('b'), ...header });
      expect(await ask(proxy, request)).toMatchObject({ status: 200 });
    }
    expect(usersOf(backend).map((request) => request.header('x-conversation-id'))).toEqual([
      'c-1',
      undefined,
      undefined,
    ]);
    expectNotFound(await ask(proxy, requestBytes('GET /v1/stream?conv_id=c-1', by('b'))));
    expect(await ask(proxy, requestBytes('GET /v1/stream?conv_id=c-1', by('a')))).toMatchObject({ status: 200 });
  });

  it('is not begun by what only reads', async () => {
    const { backend, proxy } = await opened();
    await ask(proxy, requestBytes('GET /v1/stream', { ...by('b'), ...in1 }));
    expect(usersOf(backend)[0]?.header('x-conversation-id')).toBeUndefined();
    await ask(proxy, postBytes('/v1/chat/completions', { ...chatBody, stream: false }, { ...by('a'), ...in1 }));
    expect(await ask(proxy, requestBytes('GET /v1/stream?conv_id=c-1', by('a')))).toMatchObject({ status: 200 });
  });
});

describe('a conversation that POST /v1/conversations made', () => {
  const body = { items: [{ type: 'message', role: 'user', content: 'x'.repeat(4000) }] };
  const conversation = { id: 'conv_1', object: 'conversation', created_at: 1, metadata: {} };
  const make = (key: Readonly<Record<string, string>>) => postBytes('/v1/conversations', body, key);

  /** Every way to it. */
  const waysTo = (id: string, key: Readonly<Record<string, string>>) => [
    requestBytes(`GET /v1/conversations/${id}`, key),
    postBytes(`/v1/conversations/${id}`, { metadata: {} }, key),
    requestBytes(`GET /v1/conversations/${id}/items?limit=2`, key),
    postBytes(`/v1/conversations/${id}/items`, body, key),
    postBytes('/v1/responses', { ...asked, conversation: id }, key),
    postBytes('/v1/responses', { ...asked, conversation: { id } }, key),
    requestBytes(`DELETE /v1/conversations/${id}`, key),
  ];

  it("is its tenant's alone, and its answer passes as the backend wrote it", async () => {
    const { backend, proxy } = await opened({}, () => [wholeAnswer(200, conversation)]);
    const made = await ask(proxy, make(by('a')));
    expect(made.body.toString()).toBe(JSON.stringify(conversation));
    for (const way of waysTo('conv_1', by('b'))) expectNotFound(await ask(proxy, way));
    expect(usersOf(backend)).toHaveLength(1);
    for (const way of waysTo('conv_1', by('a'))) expect(await ask(proxy, way)).toMatchObject({ status: 200 });
    expect(usersOf(backend)).toHaveLength(8);
  });

  it('is another one where ids that nobody knows may pass', async () => {
    const access = unknownPass(accessOf([{ name: 'a' }, { name: 'b' }]));
    const { proxy } = await opened({ access }, () => [wholeAnswer(201, conversation)]);
    await ask(proxy, make(by('a')));
    for (const way of waysTo('conv_1', by('b'))) expectNotFound(await ask(proxy, way));
    expect(await ask(proxy, requestBytes('GET /v1/conversations/conv_2', by('b')))).toMatchObject({ status: 201 });
  });

  it("is nobody's whose answer is an error or no JSON object, or has an id beyond all bounds", async () => {
    const long = 'c'.repeat(513);
    const answers: Script[] = [
      [wholeAnswer(400, conversation)],
      [wholeAnswer(200, [conversation])],
      [wholeAnswer(200, { id: long })],
      [wholeAnswer(200, {})],
    ];
    const { backend, proxy } = await opened({}, () => answers.shift() ?? [wholeAnswer(200, {})]);
    for (const id of ['conv_1', 'conv_1', long, 'conv_1']) {
      await ask(proxy, make(by('a')));
      expectNotFound(await ask(proxy, requestBytes(`GET /v1/conversations/${id}`, by('a'))));
    }
    expect(usersOf(backend)).toHaveLength(4);
  });

  it('is asked for where it was made, among several backends', async () => {
    const first = await stage.backend({ onRequest: () => [wholeAnswer(200, conversation)] });
    const second = await stage.backend({ onRequest: () => [wholeAnswer(200, { ...conversation, id: 'conv_2' })] });
    const proxy = await stage.proxy([first, second], { change: { access: accessOf([{ name: 'a' }]) } });
    const { body: text } = await ask(proxy, make(by('a')));
    const { id } = JSON.parse(text.toString()) as { id: string };
    const home = id === 'conv_1' ? first : second;
    const before = usersOf(home).length;
    for (let times = 0; times < 6; times += 1) await ask(proxy, requestBytes(`GET /v1/conversations/${id}`, by('a')));
    expect(usersOf(home)).toHaveLength(before + 6);
  });
});
