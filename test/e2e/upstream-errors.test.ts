/** Backends that fail, cut off or contradict themselves, over real sockets: what the client can tell, what is recorded. */
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { reset, send } from '../../src/sim/fault-steps.ts';
import { DONE, FIN, responseHead, ROLE, sseEvent, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { again, paced, pass } from '../support/exchange.ts';
import { postBytes, R0, R1, chatBody } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const notStreamed = postBytes('/v1/chat/completions', { ...chatBody, stream: false });
const eventStream = { 'Content-Type': 'text/event-stream' };

describe('an error inside a stream', () => {
  it('C048 reaches the client as it came, is no success, and nothing is added', async () => {
    const events = [sseEvent({ error: { message: 'queue full', type: 'overloaded', code: 503 } }), DONE];
    const { answer, record } = await pass(stage, () => paced(5, ...events));
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record).toMatchObject({
      outcome: 'upstream_error',
      reason: 'error_event',
      status: 200,
      spokenBy: 'backend',
      finishReasons: [],
    });
  });

  it('C048 after tokens keeps what was counted before it', async () => {
    const events = [ROLE, T('a'), T('b'), sseEvent({ error: { message: 'x', code: 500 } }), DONE];
    const { answer, record } = await pass(stage, () => paced(5, ...events));
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record).toMatchObject({
      outcome: 'upstream_error',
      events: 2,
      tokens: { output: { value: 2 } },
      finishReasons: [],
    });
  });

  it('C049 that is the first thing passes unchanged where the engine isn’t known to do that; the backend stays (CHOICE)', async () => {
    const events = [': hi\n\n', sseEvent({ error: { code: 400, message: 'bad' } }, 'error')];
    const first = await pass(stage, () => paced(5, ...events));
    expect(first.answer).toMatchObject({ status: 200, complete: true });
    expect(first.answer.body.toString()).toBe(events.join(''));
    expect(first.record).toMatchObject({ outcome: 'upstream_error', attempts: 1 });
    expect(first.proxy.app.fleet.snapshot().backends[0]?.health).toBe('up');
    const second = await again(stage, first);
    expect(second.answer.body.toString()).toBe(events.join(''));
  });
});

describe('an error status', () => {
  it.each([
    [429, '17'],
    [429, 'Wed, 21 Oct 2026 07:28:00 GMT'],
    [503, '17'],
  ])('C059 %i keeps its Retry-After (%s), its limits and its body', async (status, retryAfter) => {
    const body = '{"error": {"message": "slow down" , "code": "rate"}}';
    const headers = {
      'Content-Type': 'application/json',
      'Retry-After': retryAfter,
      'x-ratelimit-remaining-requests': '0',
    };
    const { answer, record, backend } = await pass(stage, () => [wholeAnswer(status, body, headers)]);
    expect(answer).toMatchObject({ status, complete: true });
    expect(answer.headers).toMatchObject({
      'retry-after': retryAfter,
      'x-ratelimit-remaining-requests': '0',
      'content-type': 'application/json',
    });
    expect(answer.body.toString()).toBe(body);
    expect(record).toMatchObject({ outcome: 'rejected', status, spokenBy: 'backend', attempts: 1 });
    expect(usersOf(backend)).toHaveLength(1);
  });

  it.each([
    [400, 'client_error'],
    [401, 'client_error'],
    [404, 'client_error'],
    [422, 'client_error'],
    [500, 'upstream_error'],
    [501, 'upstream_error'],
    [504, 'upstream_error'],
  ])('C059 %i passes with reason, headers and body, once (%s)', async (status, outcome) => {
    const bytes = Buffer.concat([
      Buffer.from(
        responseHead(
          status,
          { 'Content-Type': 'text/plain', 'X-Of-Backend': 'ä', 'Content-Length': '5' },
          'My Own Words',
        ),
      ),
      Buffer.from('so so'),
    ]);
    const { answer, record, backend } = await pass(stage, () => [bytes]);
    expect(answer).toMatchObject({ status, reason: 'My Own Words', complete: true });
    expect(answer.body.toString()).toBe('so so');
    expect(answer.headers['x-of-backend']).toBe(Buffer.from('ä').toString('latin1'));
    expect(record).toMatchObject({ outcome, status, reason: `status_${status}`, spokenBy: 'backend' });
    expect(usersOf(backend)).toHaveLength(1);
  });

  it.each([
    ['whole gzip', gzipSync(JSON.stringify({ error: { message: 'x' } }))],
    ['broken gzip', Buffer.from([0x1f, 0x8b, 8, 0, 255, 254, 1, 2, 3])],
  ])('C061 with a body in %s passes byte for byte', async (_, bytes) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' };
    const { answer, record } = await pass(stage, () => [wholeAnswer(500, bytes, headers)]);
    expect(answer).toMatchObject({ status: 500, complete: true });
    expect(answer.headers['content-encoding']).toBe('gzip');
    expect(answer.body.equals(bytes)).toBe(true);
    expect(record).toMatchObject({ outcome: 'upstream_error', status: 500 });
  });

  it('C061 an encoded answer that nobody asked for passes unread, and the record says why it counts nothing', async () => {
    const bytes = gzipSync([T('a'), FIN('stop'), DONE].join(''));
    const { answer, record, asked } = await pass(
      stage,
      () => [
        send(responseHead(200, { ...eventStream, 'Content-Encoding': 'gzip', 'Content-Length': String(bytes.length) })),
        send(bytes),
      ],
      {
        request: R0.replace('Host: test', 'Host: test\r\nAccept-Encoding: gzip, br'),
      },
    );
    expect(asked.header('accept-encoding')).toBeUndefined();
    expect(answer.body.equals(bytes)).toBe(true);
    expect(record).toMatchObject({ outcome: 'ok', tokens: {}, events: 0 });
    expect(record.marks).toContain('encoded_answer');
  });

  it('C059 500 and 503 that come slowly pass after a second as they come', async () => {
    const body = '{"error":{"message":"slow"}}';
    const { answer, client, writesMs } = await pass(stage, () => [
      send(responseHead(500, { 'Content-Type': 'application/json', 'Content-Length': String(body.length) })),
      send(body.slice(0, 10)),
      1500,
      send(body.slice(10)),
    ]);
    expect(answer.body.toString()).toBe(body);
    const [first] = client.reads;
    expect((first?.atMs ?? 0) - (writesMs[0] ?? 0)).toBeGreaterThan(900);
    expect(first?.atMs).toBeLessThan(writesMs[2] ?? Number.NaN);
  });

  it('C059 500 whose body is huge is not held whole', async () => {
    const big = Buffer.alloc(300 * 1024, 'e');
    const { answer } = await pass(stage, () => [wholeAnswer(500, big, { 'Content-Type': 'text/plain' })]);
    expect(answer.body.equals(big)).toBe(true);
  });
});

describe('a content type that isn’t true', () => {
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const json = JSON.stringify({
    id: 'x',
    choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }],
    usage,
  });

  it('C060 JSON called an event stream is passed on untouched and read as JSON', async () => {
    const { answer, record } = await pass(stage, () => [wholeAnswer(200, json, eventStream)], { request: notStreamed });
    expect(answer.body.toString()).toBe(json);
    expect(answer.headers['content-type']).toBe('text/event-stream');
    expect(record).toMatchObject({
      outcome: 'ok',
      streamed: false,
      tokens: { prompt: { value: 1 }, output: { value: 1, source: 'usage' } },
    });
    expect(record.stamps).toBeUndefined();
  });

  it('C060 JSON to a request for a stream is no stream: no gaps, its counts all the same', async () => {
    const { answer, record } = await pass(
      stage,
      () => [wholeAnswer(200, json, { 'Content-Type': 'application/json' })],
      { request: R1 },
    );
    expect(answer.body.toString()).toBe(json);
    expect(record).toMatchObject({ outcome: 'ok', streamed: false, tokens: { output: { value: 1 } } });
    expect([record.stamps, record.figures.ttftMs, record.figures.maxItlMs]).toEqual([undefined, undefined, undefined]);
  });

  it('C060 JSON called an event stream that reports an error is one', async () => {
    const { answer, record } = await pass(stage, () => [wholeAnswer(200, '{"error":{"message":"no"}}', eventStream)], {
      request: notStreamed,
    });
    expect(answer.body.toString()).toBe('{"error":{"message":"no"}}');
    expect(record).toMatchObject({ outcome: 'upstream_error', reason: 'error_event' });
  });
});

describe('an answer that isn’t HTTP', () => {
  it.each([
    ['a greeting of another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['two different lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc'],
    ['length and chunks', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['a header without a colon', 'HTTP/1.1 200 OK\r\nnonsense\r\n\r\n'],
  ])('C054 %s is a 502 that says the backend is the cause', async (_, bytes) => {
    const { answer, record, proxy } = await pass(stage, () => [send(bytes)]);
    expect(answer).toMatchObject({ status: 502, complete: true });
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { code: 'backend_bad_response', source: 'backend', type: 'api_error' },
    });
    expect(record).toMatchObject({
      outcome: 'upstream_error',
      reason: 'backend_bad_response',
      status: 502,
      spokenBy: 'backend',
    });
    expect(proxy.app.fleet.snapshot().backends[0]?.health).toBe('up');
  });

  it('C056 no answer at all is a 502, and nothing is tried again where the request may have been worked on', async () => {
    const { answer, record, backend } = await pass(stage, () => [100, reset()]);
    expect(answer.status).toBe(502);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { code: 'backend_closed_early', source: 'backend' },
    });
    expect(record).toMatchObject({ outcome: 'upstream_error', attempts: 1, status: 502 });
    expect(usersOf(backend)).toHaveLength(1);
  });
});
