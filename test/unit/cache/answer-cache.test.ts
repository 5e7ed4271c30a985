import { describe, expect, it } from 'vitest';

import { createAnswerCache, type Consulted } from '../../../src/cache/answer-cache.ts';
import type { AnswerCacheSettings } from '../../../src/cache/settings.ts';
import type { RequestRecord } from '../../../src/domain/record.ts';
import type { ClientHead } from '../../../src/platform/client-port.ts';
import { chunk } from '../../../src/sim/sse-script.ts';
import { jobOf } from '../../support/classified.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { TestClient } from '../../support/memory-client.ts';
import { sampleRecord } from '../../support/sample-record.ts';

const settings: AnswerCacheSettings = {
  enabled: true,
  maxBytes: 64 * 1024,
  ttlMs: 60_000,
  maxAnswerBytes: 16 * 1024,
  header: 'x-warmlane-cache',
  tenantHeaders: [],
};
const json = [
  'X-Warmlane-Backend',
  'b',
  'Server-Timing',
  'queue;dur=1',
  'Content-Type',
  'application/json',
  'X-Request-Id',
  'old',
  'Via',
  '1.1 warmlane',
];
const fine = sampleRecord({
  status: 200,
  tokens: { prompt: { value: 5, source: 'usage' }, output: { value: 7, source: 'usage' } },
});

function world(over: Partial<AnswerCacheSettings> = {}) {
  const clock = createFakeClock();
  const cache = createAnswerCache({ ...settings, ...over }, { clock });
  const ask = (text: string, headers: Record<string, string> = {}, repeated: readonly string[] = []) => {
    const body = Buffer.from(text);
    const target = '/v1/chat/completions';
    const head: ClientHead = {
      requestId: 'new',
      method: 'POST',
      target,
      httpVersion: '1.1',
      rawHeaders: [...Object.entries(headers).flat(), ...repeated],
      header: (name) => headers[name],
      remoteAddress: '',
      secure: false,
      receivedMs: 1,
    };
    const client = new TestClient();
    const consulted = cache.consult({
      head,
      job: jobOf({ body: text }),
      body: { kind: 'held', chunks: [body], bytes: body.length },
      client,
    });
    return { client, consulted };
  };
  /** The whole way of one answer through its recording. */
  const answer = (
    asked: Consulted | undefined,
    text: string,
    { headers = json, record = fine, end = true }: { headers?: string[]; record?: RequestRecord; end?: boolean } = {},
  ) => {
    if (asked?.kind !== 'miss') throw new Error('not a miss');
    const { client, settle } = asked.recording;
    client.head(200, 'OK', headers, { kind: 'stream' });
    client.write(Buffer.from(text));
    if (end) client.end();
    else client.cut();
    settle(record);
  };
  return { clock, cache, ask, answer };
}

const greedy = (word: string) => JSON.stringify({ model: 'm', temperature: 0, messages: [word] });

describe('the answer cache', () => {
  it('gives the very same bytes again, under a head that says so', () => {
    const { ask, answer, clock, cache } = world();
    const first = ask(greedy('a'));
    answer(first.consulted, '{"answer":1}');
    expect(first.client.header('x-warmlane-cache')).toBe('miss');
    clock.advance(12_345);
    const { consulted, client } = ask(greedy('a'));
    if (consulted?.kind !== 'hit') throw new Error('no hit');
    consulted.replay();
    expect(client.text).toBe('{"answer":1}');
    expect(client.how).toBe('ended');
    expect(client.heads[0]).toEqual({
      status: 200,
      framing: { kind: 'length', bytes: 12 },
      headers: [
        'Content-Type',
        'application/json',
        'X-Request-Id',
        'new',
        'Via',
        '1.1 warmlane',
        'Age',
        '12',
        'x-warmlane-cache',
        'hit; age=12',
      ],
    });
    expect(cache.stats()).toMatchObject({
      hits: 1,
      misses: 1,
      stored: 1,
      entries: 1,
      replayedBytes: 12,
      savedPromptTokens: 5,
      savedOutputTokens: 7,
      recordingBytes: 0,
    });
  });

  it('goes by every Authorization that a request has, not by the first', () => {
    const { ask, answer } = world();
    const one = { authorization: 'Bearer 1' };
    answer(ask(greedy('a'), one, ['Authorization', 'Bearer 2']).consulted, 'x');
    expect(ask(greedy('a'), one).consulted?.kind).toBe('miss');
    expect(ask(greedy('a'), one, ['Authorization', 'Bearer 3']).consulted?.kind).toBe('miss');
    expect(ask(greedy('a'), one, ['Authorization', 'Bearer 2']).consulted?.kind).toBe('hit');
  });

  it('says miss in place of what a backend says that is a warmlane itself', () => {
    const { ask, answer } = world();
    const { client, consulted } = ask(greedy('a'));
    answer(consulted, 'x', { headers: ['X-Warmlane-Cache', 'hit; age=3', 'Content-Type', 'application/json'] });
    expect(client.heads[0]?.headers).toEqual(['Content-Type', 'application/json', 'x-warmlane-cache', 'miss']);
  });

  it('takes the chunk framing off what passes verbatim', () => {
    const { ask } = world();
    const { consulted } = ask(greedy('a'));
    if (consulted?.kind !== 'miss') throw new Error('not a miss');
    const { client, settle } = consulted.recording;
    client.head(200, 'OK', ['Content-Type', 'text/event-stream'], { kind: 'stream' });
    client.writeChunks(Buffer.concat([chunk('data: 1\n\n'), chunk('data: 2\n\n')]));
    client.write(Buffer.from('data: [DONE]\n\n'));
    client.end();
    settle(fine);
    const again = ask(greedy('a'));
    if (again.consulted?.kind !== 'hit') throw new Error('no hit');
    again.consulted.replay();
    expect(again.client.text).toBe('data: 1\n\ndata: 2\n\ndata: [DONE]\n\n');
  });

  it('forgets an answer when its time is over', () => {
    const { ask, answer, clock } = world();
    answer(ask(greedy('a')).consulted, 'x');
    clock.advance(59_000);
    expect(ask(greedy('a')).consulted?.kind).toBe('hit');
    clock.advance(1_001);
    expect(ask(greedy('a')).consulted?.kind).toBe('miss');
  });

  it('stays within its bytes: the longest unused makes room', () => {
    const { ask, answer, cache } = world({ maxBytes: 64 * 1024 });
    const long = 'x'.repeat(10_000);
    for (let i = 0; i < 20; i += 1) {
      answer(ask(greedy(String(i))).consulted, long);
      expect(cache.stats().bytes).toBeLessThanOrEqual(64 * 1024);
    }
    expect(ask(greedy('0')).consulted?.kind).toBe('miss');
    expect(ask(greedy('19')).consulted?.kind).toBe('hit');
    expect(cache.stats().evicted).toBeGreaterThan(10);
  });

  it('keeps no answer past the bound of one, and no copy of it', () => {
    const { ask, answer, cache } = world({ maxAnswerBytes: 10 });
    answer(ask(greedy('a')).consulted, 'x'.repeat(11));
    expect(cache.stats()).toMatchObject({ stored: 0, recordingBytes: 0 });
    answer(ask(greedy('b')).consulted, 'x'.repeat(10));
    expect(cache.stats()).toMatchObject({ stored: 1 });
  });

  it('bounds what is being recorded at one time', () => {
    const { ask, cache } = world({ maxBytes: 64 * 1024, maxAnswerBytes: 40 * 1024 });
    const clients = ['a', 'b', 'c'].map((word) => {
      const { consulted } = ask(greedy(word));
      if (consulted?.kind !== 'miss') throw new Error('not a miss');
      consulted.recording.client.head(200, 'OK', json, { kind: 'stream' });
      consulted.recording.client.write(Buffer.alloc(30 * 1024));
      return consulted.recording;
    });
    expect(cache.stats().recordingBytes).toBe(60 * 1024);
    for (const recording of clients) recording.drop();
    expect(cache.stats().recordingBytes).toBe(0);
  });

  const unfit: readonly (readonly [string, Parameters<ReturnType<typeof world>['answer']>[2]])[] = [
    ['was cut', { end: false }],
    ['was booked as truncated', { record: { ...fine, outcome: 'upstream_truncated' } }],
    ['was left by its client', { record: { ...fine, outcome: 'client_abort' } }],
    ['is an error', { record: { ...fine, outcome: 'client_error', status: 400 } }],
    ['has no end marker', { record: { ...fine, marks: ['no_end_marker'] } }],
    ['was not read', { record: { ...fine, marks: ['reading_failed'] } }],
    ['comes in a content coding', { headers: [...json, 'Content-Encoding', 'gzip'] }],
    ['sets a cookie', { headers: [...json, 'Set-Cookie', 'a=b'] }],
    ['must not be stored', { headers: [...json, 'Cache-Control', 'private, no-store'] }],
    ['varies by what is not in the key', { headers: [...json, 'Vary', 'Origin, X-Foo'] }],
  ];
  it.each(unfit)('never keeps an answer that %s', (_what, how) => {
    const { ask, answer, cache } = world();
    answer(ask(greedy('a')).consulted, 'x', how);
    expect(cache.stats()).toMatchObject({ stored: 0, entries: 0, recordingBytes: 0 });
    expect(ask(greedy('a')).consulted?.kind).toBe('miss');
  });

  it('keeps one that varies by what is', () => {
    const { ask, answer, cache } = world();
    answer(ask(greedy('a')).consulted, 'x', { headers: [...json, 'Vary', 'Origin, Accept-Encoding'] });
    expect(cache.stats()).toMatchObject({ stored: 1 });
  });

  it('has nothing to do with a request that is not deterministic, unless its client says so', () => {
    const { ask } = world();
    const warm = JSON.stringify({ model: 'm', temperature: 0.7, messages: [] });
    expect(ask(warm).consulted).toBeUndefined();
    expect(ask(warm, { 'x-warmlane-cache': 'allow' }).consulted?.kind).toBe('miss');
    expect(ask(greedy('a'), { 'x-warmlane-cache': 'bypass' }).consulted).toBeUndefined();
  });

  it('asks anew where a fresh answer is wanted, and gives that one from then on', () => {
    const { ask, answer } = world();
    answer(ask(greedy('a')).consulted, 'old');
    answer(ask(greedy('a'), { 'cache-control': 'no-cache' }).consulted, 'new');
    const { client, consulted } = ask(greedy('a'));
    if (consulted?.kind !== 'hit') throw new Error('no hit');
    consulted.replay();
    expect(client.text).toBe('new');
  });

  it('never gives one tenant what another one got', () => {
    const { ask, answer } = world();
    answer(ask(greedy('a'), { authorization: 'Bearer one' }).consulted, 'x');
    expect(ask(greedy('a'), { authorization: 'Bearer two' }).consulted?.kind).toBe('miss');
    expect(ask(greedy('a')).consulted?.kind).toBe('miss');
    expect(ask(greedy('a'), { authorization: 'Bearer one' }).consulted?.kind).toBe('hit');
  });
});
