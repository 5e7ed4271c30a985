/** Event streams in every legal and illegal shape, over real sockets: the same bytes come out, and they are understood. */
import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../src/domain/record.ts';
import { send, trickle } from '../../src/sim/fault-steps.ts';
import { chunk, delta, DONE, FIN, lastChunk, ROLE, sseEvent, sseHead, T, USE } from '../../src/sim/sse-script.ts';
import { again, factsOf, marksOf, pass, played, type Way, ways } from '../support/exchange.ts';
import { unlagged } from '../support/moments.ts';
import { R1 } from '../support/raw-http.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Plays a body in one way and demands that it comes out as it went in. */
async function through(body: string | Uint8Array, way: Way): Promise<RequestRecord> {
  const { answer, record, proxy, backend } = await pass(stage, () => played(body, way), { request: R1 });
  expect(answer).toMatchObject({ status: 200, complete: true });
  expect(sha256(answer.body)).toBe(sha256(Buffer.from(body as Uint8Array)));
  expect(usersOf(backend)).toHaveLength(1);
  expect(proxy.logged.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  return record;
}

describe.each(ways)('a stream that comes %s', (way) => {
  it('C002 keeps every CR of a stream whose lines all end in CRLF, and six events are seen in it', async () => {
    const json = [ROLE, T('a'), T('b'), FIN('stop'), USE(5, 2)].map((event) => event.slice('data: '.length, -2));
    const body = [...json, '[DONE]'].map((data) => `event: message\r\ndata: ${data}\r\n\r\n`).join('');
    const record = await through(body, way);
    expect(record).toMatchObject({ outcome: 'ok', events: 2, finishReasons: ['stop'], responseModel: 'm' });
    expect(marksOf(record)).toEqual([]);
    expect(record.tokens).toMatchObject({ prompt: { value: 5 }, output: { value: 2, source: 'usage' } });
    expect(record.timeline.role).toBeDefined();
  });

  it('C003 reads lines that end in CR alone, the last one too', async () => {
    const body = [T('a'), T('b'), USE(5, 2), DONE].join('').replaceAll('\n', '\r');
    const record = await through(body, way);
    expect(record).toMatchObject({ outcome: 'ok', events: 2, tokens: { output: { value: 2, source: 'usage' } } });
    expect(marksOf(record)).toEqual([]);
  });

  it('C004 measures a CRLF stream as the same stream with LF', async () => {
    const body = [ROLE, T('a'), T('b'), FIN('stop'), USE(7, 2), DONE].join('');
    const [lf, crlf] = [await through(body, way), await through(body.replaceAll('\n', '\r\n'), way)];
    expect(factsOf(crlf)).toEqual(factsOf(lf));
    expect(lf).toMatchObject({ events: 2, finishReasons: ['stop'], tokens: { output: { value: 2 } } });
    for (const record of [lf, crlf]) expect(record.figures.ttftMs).toBeGreaterThan(0);
  });

  it('C006 leaves four-byte characters whole, wherever the reads cut them', async () => {
    const call = (text: string) => delta({ tool_calls: [{ index: 0, function: { arguments: text } }] });
    const body = [ROLE, call('{"f":"😀ü"}'), call('日本語 🧑‍🚀'), FIN('tool_calls'), DONE].join('');
    const record = await through(body, way);
    expect(record).toMatchObject({ outcome: 'ok', events: 2, finishReasons: ['tool_calls'] });
  });

  it('C010 takes a bare colon for a comment: no event, no error, no second try', async () => {
    const record = await through([':\n\n:\n\n:\n\n', ROLE, T('x'), FIN('stop'), DONE].join(''), way);
    expect(record).toMatchObject({ outcome: 'ok', events: 1, attempts: 1 });
    expect(marksOf(record)).toEqual(['estimated_tokens']);
  });

  it('C011 reads data without a blank after its colon', async () => {
    const record = await through(`${T('x').replace('data: ', 'data:')}data:[DONE]\n\n`, way);
    expect(record).toMatchObject({ outcome: 'ok', events: 1 });
    expect(marksOf(record)).toEqual(['estimated_tokens']);
  });

  it('C012 strips one blank at most; a line without a colon and an unknown field are neither tokens nor errors', async () => {
    const first = 'data:  {"choices":[{"index":0,"delta":{"content":" 42"}}]}\n\n';
    const record = await through([first, 'data\n', 'foo: bar\n\n', 'data\n\n', DONE].join(''), way);
    expect(record).toMatchObject({ outcome: 'ok', events: 1 });
    expect(marksOf(record)).toEqual(['estimated_tokens']);
  });

  it('C014 reads two objects in one event as two, and goes on (CHOICE)', async () => {
    const call = (text: string) => delta({ tool_calls: [{ index: 0, function: { arguments: text } }] });
    const both = `${call('{').trimEnd()}\n${call('}').trimEnd()}\n\n`;
    const record = await through([both, USE(4, 2), DONE].join(''), way);
    expect(record).toMatchObject({ outcome: 'ok', events: 2, tokens: { output: { value: 2, source: 'usage' } } });
    expect(marksOf(record)).toEqual([]);
  });

  it.each([
    ['nothing', ''],
    ['one LF', '\n'],
    ['one CRLF', '\r\n'],
  ])('C015 counts a last event that ends in %s, and adds no byte to it', async (_, ending) => {
    const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
    const last = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage })}`;
    const record = await through(`${T('a')}${last}${ending}`, way);
    expect(record).toMatchObject({
      outcome: 'ok',
      finishReasons: ['stop'],
      tokens: { prompt: { value: 3 }, output: { value: 1 } },
    });
  });

  it('C017 reads data among id, event and retry lines', async () => {
    const record = await through(`id: q-1\nevent: message\nretry: 3000\n${T('x')}${DONE}`, way);
    expect(record).toMatchObject({ outcome: 'ok', events: 1 });
    expect(marksOf(record)).toEqual(['estimated_tokens']);
  });

  it('C020 takes empty data for a sign of life', async () => {
    const record = await through(['event: ping\ndata: ""\n\n', 'data:\n\n', T('x'), DONE].join(''), way);
    expect(record).toMatchObject({ outcome: 'ok', events: 1 });
    expect(marksOf(record)).toEqual(['estimated_tokens']);
  });
});

describe('a paced stream', () => {
  it.each([
    ['C010', ':\n\n:\n\n:\n\n'],
    ['C020', 'event: ping\ndata: ""\n\ndata:\n\n'],
  ])('%s has its first token at the text, not at the pings before it', async (_, pings) => {
    const { record, writesMs } = await pass(stage, () => [
      send(sseHead()),
      send(chunk(pings)),
      150,
      send(chunk(T('x'))),
      send(chunk(FIN('stop'), DONE)),
      send(lastChunk),
    ]);
    expect(record.timeline.firstToken).toBeGreaterThanOrEqual(writesMs[2] ?? Number.NaN);
    expect(record.figures.ttftMs).toBeGreaterThan(140);
    expect(record.timeline.firstByte).toBeLessThan(writesMs[2] ?? Number.NaN);
  });

  it('C002 C006 comes out event by event: each reaches the client before the backend writes the next', async () => {
    const events = [ROLE, T('😀'), T('b'), FIN('stop'), DONE];
    const steps = [send(sseHead()), ...events.flatMap((event) => [send(chunk(event)), 100]), send(lastChunk)];
    const { client, writesMs, answer } = await unlagged(() => pass(stage, () => steps));
    expect(answer.chunks).toEqual(events.map((event) => Buffer.byteLength(event)));
    for (const [i, event] of events.entries()) {
      const read = client.reads.find(({ text }) => text.includes(Buffer.from(event).toString('latin1')));
      expect(read?.atMs).toBeGreaterThanOrEqual(writesMs[i + 1] ?? Number.NaN);
      expect(read?.atMs).toBeLessThan(writesMs[i + 2] ?? Number.NaN);
    }
  });
});

describe('the backend’s chunk framing', () => {
  it('C022 may be cut at every byte, extensions and all, and the connection serves on', async () => {
    const payload = 'data: 0123456789abcdefghijkl\n\n';
    expect(payload.length).toBe(0x1e);
    const pieces = [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r',
      '\n1',
      'e;ext=1\r',
      '\n',
      payload.slice(0, 9),
      `${payload.slice(9)}\r`,
      '\n0\r',
      '\n\r',
      '\n',
    ];
    const first = await pass(stage, () => pieces.flatMap((piece) => [send(piece), 15]));
    expect(first.answer).toMatchObject({ status: 200, complete: true });
    expect(first.answer.body.toString()).toBe(payload);
    const second = await again(stage, first);
    expect(second.answer.body.toString()).toBe(payload);
    expect(second.asked.connectionId).toBe(first.asked.connectionId);
  });

  it('C022 is understood alike with every byte of the answer in a write of its own', async () => {
    const body = [ROLE, T('a'), FIN('stop'), DONE].join('');
    const pieces = [
      chunk(ROLE),
      Buffer.from(`${T('a').length.toString(16)};a="b;c"\r\n${T('a')}\r\n`),
      chunk(FIN('stop'), DONE),
    ];
    const { answer, record } = await pass(stage, () => [
      trickle(Buffer.concat([Buffer.from(sseHead()), ...pieces, Buffer.from('000;last\r\nX-Trailer: 1\r\n\r\n')])),
    ]);
    expect(answer).toMatchObject({ complete: true });
    expect(answer.body.toString()).toBe(body);
    expect(record).toMatchObject({ outcome: 'ok', events: 1 });
  });

  it('C022 loses its trailers, which no client of these servers reads (CHOICE)', async () => {
    const { client, answer } = await pass(stage, () => [
      send(sseHead({ Trailer: 'X-Sum' })),
      send(chunk(T('a'), FIN('stop'), DONE)),
      send('0\r\nX-Sum: 1\r\n\r\n'),
    ]);
    expect(answer.complete).toBe(true);
    expect(client.received.toString('latin1')).not.toMatch(/x-sum|trailer/i);
    expect(client.received.subarray(-5).toString()).toBe('0\r\n\r\n');
  });
});

describe('an answer that doesn’t say what it is', () => {
  it('C060 is read as a stream if its first bytes look like one (CHOICE)', async () => {
    const body = [': hi\n\n', ROLE, T('a'), T('b'), FIN('stop'), USE(3, 2), DONE].join('');
    const { answer, record } = await pass(
      stage,
      () => [send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'), trickle(chunk(body)), send(lastChunk)],
      { request: R1 },
    );
    expect(answer.body.toString()).toBe(body);
    expect(answer.headers['content-type']).toBeUndefined();
    expect(record).toMatchObject({
      outcome: 'ok',
      streamed: true,
      events: 2,
      tokens: { output: { value: 2, source: 'usage' } },
    });
  });

  it('C060 passes unread when it looks like nothing that is known', async () => {
    const body = Buffer.from([0, 1, 2, 255, 254, 10, 10, 13]);
    const { answer, record } = await pass(stage, () => [
      send('HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n'),
      send(body),
    ]);
    expect(answer.body.equals(body)).toBe(true);
    expect(record).toMatchObject({ outcome: 'ok', streamed: false, events: 0, tokens: {} });
  });
});

describe('an event name', () => {
  it('C017 belongs to the data of its own event, whatever line comes first', async () => {
    const started = {
      type: 'message_start',
      message: { id: 'x', model: 'm', usage: { input_tokens: 4, output_tokens: 1 } },
    };
    const text = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' } };
    const finished = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } };
    const body = [
      sseEvent(started, 'message_start'),
      sseEvent({ type: 'ping' }, 'ping'),
      `data: ${JSON.stringify(text)}\nevent: content_block_delta\n\n`,
      sseEvent(finished, 'message_delta'),
      sseEvent({ type: 'message_stop' }, 'message_stop'),
    ].join('');
    const { answer, record } = await pass(stage, () => played(body, 'byte by byte'), {
      request: R1.replace('/v1/chat/completions', '/v1/messages'),
    });
    expect(answer.body.toString()).toBe(body);
    expect(record).toMatchObject({
      outcome: 'ok',
      format: 'messages',
      events: 1,
      finishReasons: ['end_turn'],
      tokens: { prompt: { value: 4 }, output: { value: 2 } },
    });
  });
});
