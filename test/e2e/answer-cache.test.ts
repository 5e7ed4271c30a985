/** The exact-answer cache over real sockets: the very same bytes, whose they are, what is never kept, and that off means off. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AnswerCacheSettings } from '../../src/cache/settings.ts';
import { fin, send, type ScriptStep } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
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
} from '../../src/sim/sse-script.ts';
import { paced } from '../support/exchange.ts';
import type { Proxy } from '../support/proxy.ts';
import { postBytes, type RawAnswer } from '../support/raw-http.ts';
import { createStage, eventually, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const on: AnswerCacheSettings = {
  enabled: true,
  maxBytes: 1024 * 1024,
  ttlMs: 60_000,
  maxAnswerBytes: 64 * 1024,
  header: 'x-warmlane-cache',
  tenantHeaders: [],
};
const path = '/v1/chat/completions';
const greedy = { model: 'm', temperature: 0, stream: true, messages: [{ role: 'user', content: 'hi' }] };
const events = [ROLE, T('a'), T('b'), FIN('stop'), USE(4, 2), DONE];

async function start(
  onRequest: () => Iterable<ScriptStep>,
  cache: AnswerCacheSettings = on,
  engine: 'openai' | 'vllm' = 'openai',
) {
  const backend = await stage.backend({ onRequest, probes: { engine } });
  const proxy = await stage.proxy(backend, { change: { answerCache: cache } });
  await eventually(
    () => proxy.app.fleet.snapshot().backends.every(({ health }) => health === 'up'),
    'the backend is up',
  );
  return { backend, proxy };
}

async function ask(
  proxy: Proxy,
  body: object | string = greedy,
  headers: Readonly<Record<string, string>> = {},
): Promise<RawAnswer> {
  const before = (await proxy.records(0)).length;
  const client = await stage.client(proxy);
  client.send(postBytes(path, body, headers));
  const answer = await client.answer();
  await proxy.records(before + 1);
  return answer;
}

const asked = (backend: ScriptedServer) => usersOf(backend).length;

async function metric(proxy: Proxy, name: string): Promise<number | undefined> {
  const text = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`${name} `) || one.startsWith(`${name}{`));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

describe('the exact-answer cache', () => {
  it('gives a stream again, byte for byte as its client got it, and asks no backend', async () => {
    const { backend, proxy } = await start(() => paced(2, ...events), on, 'vllm');
    const first = await ask(proxy);
    expect(first.headers['x-warmlane-cache']).toBe('miss');
    // Usage was asked for and taken out again: what is kept is what the client got.
    expect(first.body.toString()).toBe([ROLE, T('a'), T('b'), FIN('stop'), DONE].join(''));
    const again = await ask(proxy);
    expect(again.body.equals(first.body)).toBe(true);
    expect(again).toMatchObject({ status: 200, reason: 'OK', complete: true });
    expect(again.headers).toMatchObject({
      'content-type': first.headers['content-type'],
      via: '1.1 warmlane',
      age: '0',
    });
    expect(again.headers['x-warmlane-cache']).toBe('hit; age=0');
    // That was the other request's way.
    expect(again.headers['x-warmlane-backend']).toBeUndefined();
    expect(again.headers['server-timing']).toBeUndefined();
    expect(again.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
    expect(asked(backend)).toBe(1);
  });

  it('gives an answer that did not stream again', async () => {
    const answer = {
      id: 'x',
      choices: [{ index: 0, message: { role: 'assistant', content: 'ü' }, finish_reason: 'stop' }],
    };
    const { backend, proxy } = await start(() => [wholeAnswer(200, answer, { Server: 'b' })]);
    const body = { ...greedy, stream: false };
    const [first, again] = [await ask(proxy, body), await ask(proxy, body)];
    expect(again.body.equals(first.body)).toBe(true);
    expect(again.headers).toMatchObject({ server: 'b', 'content-length': first.headers['content-length'] });
    expect(asked(backend)).toBe(1);
  });

  it('keeps the connection for the next request, pipelined ones too', async () => {
    const { backend, proxy } = await start(() => paced(2, ...events));
    await ask(proxy);
    const client = await stage.client(proxy);
    const one = postBytes(path, greedy);
    client.send(one + one);
    await client.until(() => client.received.toString('latin1').split('hit; age=').length === 3);
    expect(asked(backend)).toBe(1);
  });

  it('never shares between two tenants', async () => {
    const { backend, proxy } = await start(() => paced(2, ...events));
    await ask(proxy, greedy, { Authorization: 'Bearer one' });
    const other = await ask(proxy, greedy, { Authorization: 'Bearer two' });
    expect(other.headers['x-warmlane-cache']).toBe('miss');
    const nobody = await ask(proxy);
    expect(nobody.headers['x-warmlane-cache']).toBe('miss');
    expect(asked(backend)).toBe(3);
  });

  it('takes no other request for the same one', async () => {
    const { backend, proxy } = await start(() => paced(2, ...events));
    await ask(proxy);
    await ask(proxy, { ...greedy, messages: [{ role: 'user', content: 'hi!' }] });
    await ask(proxy, JSON.stringify(greedy).replace(',', ', '));
    await ask(proxy, greedy, { Accept: 'text/event-stream' });
    expect(asked(backend)).toBe(4);
  });

  const broken: readonly (readonly [string, () => ScriptStep[]])[] = [
    ['breaks', () => [send(sseHead()), send(chunk(ROLE, T('a'))), 5, fin()]],
    ['ends without its end marker', () => paced(2, ROLE, T('a'), FIN('stop'))],
    ['ends without a finish', () => paced(2, ROLE, T('a'))],
    ['tells an error', () => paced(2, ROLE, 'data: {"error":{"message":"no","code":500}}\n\n', DONE)],
    ['is an error', () => [wholeAnswer(400, { error: { message: 'no' } })]],
    ['is busy', () => [wholeAnswer(503, { error: { message: 'no' } })]],
    [
      'ends with its connection',
      () => [
        send(responseHead(200, { 'Content-Type': 'application/json', Connection: 'close' })),
        send('{"a":1}'),
        fin(),
      ],
    ],
    ['sets a cookie', () => [wholeAnswer(200, { a: 1 }, { 'Set-Cookie': 'a=b' })]],
    [
      'comes compressed',
      () => [wholeAnswer(200, 'xyz', { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' })],
    ],
  ];
  it.each(broken)('never keeps an answer that %s', async (_how, script) => {
    const { backend, proxy } = await start(script);
    await ask(proxy);
    await ask(proxy);
    expect(asked(backend)).toBe(2);
    expect(await metric(proxy, 'warmlane_answer_cache_stored_total')).toBe(0);
  });

  it('never keeps an answer that its client left', async () => {
    const { backend, proxy } = await start(() =>
      paced(20, ROLE, ...Array.from({ length: 20 }, () => T('a')), FIN('stop'), DONE),
    );
    const client = await stage.client(proxy);
    client.send(postBytes(path, greedy));
    await client.until(() => client.received.includes('"a"'));
    client.leave();
    const [record] = await proxy.records(1);
    expect(record?.outcome).toBe('client_abort');
    const next = await ask(proxy);
    expect(next.headers['x-warmlane-cache']).toBe('miss');
    expect(asked(backend)).toBe(2);
  });

  it('is counted apart: a record of its own kind, no engine traffic', async () => {
    const { proxy } = await start(() => paced(2, ...events));
    await ask(proxy);
    await ask(proxy);
    const records = await proxy.records(2);
    expect(records[1]).toMatchObject({
      outcome: 'ok',
      warmth: 'replayed',
      attempts: 0,
      status: 200,
      spokenBy: 'warmlane',
    });
    expect(records[1]?.backend).toBeUndefined();
    expect(records[1]?.tokens).toEqual({});
    expect(records[1]?.figures.ttftMs).toBeUndefined();
    const stats = (await (await fetch(`${proxy.adminUrl}/stats`)).json()) as { populations: { warmth: string }[] };
    expect(stats.populations.map(({ warmth }) => warmth)).not.toContain('replayed');
    expect(await metric(proxy, 'warmlane_answer_cache_hits_total')).toBe(1);
    expect(await metric(proxy, 'warmlane_answer_cache_misses_total')).toBe(1);
    expect(await metric(proxy, 'warmlane_answer_cache_entries')).toBe(1);
    expect(await metric(proxy, 'warmlane_answer_cache_saved_prompt_tokens_total')).toBe(4);
    expect(await metric(proxy, 'warmlane_answer_cache_saved_output_tokens_total')).toBe(2);
  });

  it('changes nothing while it is off', async () => {
    const { backend, proxy } = await start(() => paced(2, ...events), { ...on, enabled: false });
    const [first, again] = [await ask(proxy), await ask(proxy, greedy, { 'X-Warmlane-Cache': 'allow' })];
    expect(again.body.equals(first.body)).toBe(true);
    expect(first.headers['x-warmlane-cache']).toBeUndefined();
    expect(again.headers['x-warmlane-cache']).toBeUndefined();
    expect(asked(backend)).toBe(2);
    expect(await metric(proxy, 'warmlane_answer_cache_hits_total')).toBeUndefined();
  });

  it('leaves the chunks of a recorded stream as they came', async () => {
    const pieces = [ROLE + T('a'), T('b'), FIN('stop') + DONE];
    const { proxy } = await start(() => [
      send(sseHead()),
      ...pieces.flatMap((piece) => [10, send(chunk(piece))]),
      send(lastChunk),
    ]);
    const first = await ask(proxy);
    expect(first.chunks).toEqual(pieces.map((piece) => Buffer.byteLength(piece)));
  });
});
