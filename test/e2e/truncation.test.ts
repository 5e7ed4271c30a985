/** Answers that break off, end early or end with nothing in them: what the client can tell, and what is recorded. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fin, reset, send, type ScriptStep } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, responseHead, ROLE, sseEvent, sseHead, T, USE } from '../../src/sim/sse-script.ts';
import { again, paced, pass } from '../support/exchange.ts';
import { postBytes, type RawAnswer, chatBody } from '../support/raw-http.ts';
import { createStage, loadOf, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const notStreamed = postBytes('/v1/chat/completions', { ...chatBody, stream: false });
const eventStream = { 'Content-Type': 'text/event-stream' };
const toClose = responseHead(200, { ...eventStream, Connection: 'close' });

/** The error events in a body, as the OpenAI clients read them. */
function errorsIn(answer: RawAnswer): { error: { message: string; code: unknown; source?: string } }[] {
  return answer.body
    .toString()
    .split('\n\n')
    .filter((event) => event.startsWith('data: {"error"'))
    .map(
      (event) =>
        JSON.parse(event.slice('data: '.length)) as { error: { message: string; code: unknown; source?: string } },
    );
}

describe('a backend that dies in the middle of a stream', () => {
  const begun = () => [send(sseHead()), send(chunk(ROLE)), send(chunk(T('a'))), send(chunk(T('b'))), 60];

  it.each([
    ['with a reset', [reset()]],
    ['with a FIN before the last chunk', [fin()]],
    ['inside a chunk size', [send('1f'), fin()]],
    ['with what is no chunk', [send('zz\r\n')]],
  ] as const)('C052 %s: an error event between events, an unclean end, no finish reason of ours', async (_, end) => {
    const { answer, client, record } = await pass(stage, () => [...begun(), ...end]);
    expect(answer).toMatchObject({ status: 200, complete: false });
    const text = answer.body.toString();
    expect(text.startsWith([ROLE, T('a'), T('b')].join(''))).toBe(true);
    expect(errorsIn(answer)).toHaveLength(1);
    expect(errorsIn(answer)[0]?.error).toMatchObject({
      source: 'backend',
      message: expect.stringContaining('backend') as string,
    });
    expect(text).not.toMatch(/\[DONE\]|"finish_reason":"/);
    expect(client.received.toString().endsWith('0\r\n\r\n')).toBe(false);
    expect(client.ended).not.toBe('no');
    expect(record).toMatchObject({
      outcome: 'upstream_truncated',
      status: 200,
      events: 2,
      tokens: { output: { value: 2, source: 'events_estimate' } },
      phase: 'streaming',
    });
  });

  it.each([
    ['with a reset', [reset()]],
    ['with a FIN', [fin()]],
  ] as const)('C052 %s inside an event: an unclean end and nothing else (CHOICE)', async (_, end) => {
    const half = 'data: {"choices":[{"index":0,"del';
    const { answer, record } = await pass(stage, () => [...begun(), send(chunk(half)), 60, ...end]);
    expect(answer.complete).toBe(false);
    expect(answer.body.toString()).toBe([ROLE, T('a'), T('b'), half].join(''));
    expect(record).toMatchObject({ outcome: 'upstream_truncated', events: 2 });
  });

  it('C052 inside an event’s last line end: its blank line isn’t ours to add', async () => {
    const { answer } = await pass(stage, () => [...begun(), send(chunk(T('c').slice(0, -1))), 60, fin()]);
    expect(answer.body.toString()).toBe([ROLE, T('a'), T('b'), T('c').slice(0, -1)].join(''));
    expect(answer.complete).toBe(false);
  });

  it('C052 while bytes are held back: what came comes out, then the end', async () => {
    const half = USE(4, 2).slice(0, 60);
    const { answer, record } = await pass(
      stage,
      () => [...begun(), send(chunk(FIN('stop'))), send(chunk(half)), 60, reset()],
      { engine: 'vllm' },
    );
    expect(answer.complete).toBe(false);
    expect(answer.body.toString()).toBe([ROLE, T('a'), T('b'), FIN('stop'), half].join(''));
    expect(record).toMatchObject({ outcome: 'upstream_truncated', finishReasons: ['stop'] });
  });

  it.each([
    [
      '/v1/messages',
      { model: 'm', stream: true, max_tokens: 5, messages: [] },
      /event: error\ndata: \{"type":"error","error":\{/,
    ],
    ['/v1/responses', { model: 'm', stream: true, input: 'hi' }, /event: error\ndata: \{"type":"error","code":/],
    ['/v1/completions', { model: 'm', stream: true, prompt: 'hi' }, /data: \{"error":\{/],
  ])('C052 is told in the stream’s own format: %s', async (path, body, shape) => {
    const { answer } = await pass(
      stage,
      () => [send(sseHead()), send(chunk(sseEvent({ type: 'ping' }, 'ping'))), 60, reset()],
      { request: postBytes(path, body) },
    );
    expect(answer.complete).toBe(false);
    const [last] = answer.body.toString().split('\n\n').slice(-2);
    expect(`${last}\n\n`).toMatch(shape);
  });

  it('C052 is told in a line of Ollama’s', async () => {
    const { answer } = await pass(
      stage,
      () => [
        send(responseHead(200, { 'Content-Type': 'application/x-ndjson', 'Transfer-Encoding': 'chunked' })),
        send(chunk('{"message":{"content":"a"},"done":false}\n')),
        60,
        reset(),
      ],
      { request: postBytes('/api/chat', { model: 'm', messages: [] }), engine: 'ollama' },
    );
    const lines = answer.body.toString().split('\n');
    expect(lines).toHaveLength(3);
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({ error: expect.any(String) as string });
    expect(answer.complete).toBe(false);
  });

  it('C052 frees its place at once, and the next request is served', async () => {
    const first = await pass(stage, () => [...begun(), reset()]);
    expect(await loadOf(first.proxy)).toMatchObject({ jobs: 0, slots: 0, waiting: 0, running: [] });
    const second = await again(stage, first);
    expect(second.answer.status).toBe(200);
    expect(second.connection.id).not.toBe(first.connection.id);
  });
});

describe('an answer that ends with its connection', () => {
  it('C053 in the middle of an event was cut: the client can tell', async () => {
    const half = 'data: {"choices":[{"index":0,"del';
    const { answer, client, record } = await pass(stage, () => [send(toClose), send(T('a')), send(half), 30, fin()]);
    expect(answer.body.toString()).toBe(T('a') + half);
    expect(answer.complete).toBe(false);
    expect(client.received.toString().endsWith('0\r\n\r\n')).toBe(false);
    expect(record).toMatchObject({ outcome: 'upstream_truncated', events: 1 });
  });

  it('C053 between events without a finish reason was cut as well: an error event says so', async () => {
    const { answer, record } = await pass(stage, () => [send(toClose), send(T('a')), 30, fin()]);
    expect(answer.complete).toBe(false);
    expect(errorsIn(answer)).toHaveLength(1);
    expect(record).toMatchObject({ outcome: 'upstream_truncated', reason: 'no_finish' });
  });

  it.each([
    ['a finish reason and an end marker', [T('a'), FIN('stop'), DONE]],
    ['a finish reason alone', [T('a'), FIN('stop')]],
    ['an end marker alone', [T('a'), DONE]],
  ])('C053 is whole with %s', async (_, events) => {
    const { answer, record } = await pass(stage, () => [send(toClose), ...events.map((event) => send(event)), fin()]);
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record.outcome).toBe('ok');
  });

  it('C053 is whole where nothing says what whole is: JSON and what isn’t read', async () => {
    const { answer, record } = await pass(
      stage,
      () => [
        send(responseHead(200, { 'Content-Type': 'application/json', Connection: 'close' })),
        send('{"a":1}'),
        fin(),
      ],
      { request: notStreamed },
    );
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toBe('{"a":1}');
    expect(record.outcome).toBe('ok');
  });

  it('C054 before its announced length was cut: no padding, no clean end, no second use of the connection', async () => {
    const cut = (): ScriptStep[] => [
      send(responseHead(200, { 'Content-Type': 'application/json', 'Content-Length': '500' })),
      send(`{"a":"${'x'.repeat(194)}`),
      30,
      fin(),
    ];
    const first = await pass(stage, cut, { request: notStreamed });
    expect(first.answer).toMatchObject({ status: 200, complete: false });
    expect(first.answer.headers['content-length']).toBe('500');
    expect(first.answer.body).toHaveLength(200);
    expect(first.client.ended).not.toBe('no');
    expect(first.record).toMatchObject({ outcome: 'upstream_truncated' });
    const second = await again(stage, first, { request: notStreamed });
    expect(second.connection.id).not.toBe(first.connection.id);
  });

  it('C054 a stream of announced length gets no error event into its promised bytes', async () => {
    const { answer, record } = await pass(stage, () => [
      send(responseHead(200, { ...eventStream, 'Content-Length': '5000' })),
      send(ROLE),
      send(T('a')),
      30,
      reset(),
    ]);
    expect(answer.body.toString()).toBe(ROLE + T('a'));
    expect(answer.complete).toBe(false);
    expect(record).toMatchObject({ outcome: 'upstream_truncated' });
  });
});

describe('a stream that ends cleanly', () => {
  it.each([
    ['with no event at all', []],
    ['with nothing but comments', [': hi\n\n', ':\n\n']],
  ])('C056 %s is an error of the backend, to which nothing is added', async (_, events) => {
    const { answer, record } = await pass(stage, () => paced(5, ...events));
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record).toMatchObject({ outcome: 'upstream_error', reason: 'empty_stream', events: 0 });
  });

  it('C056 without its end marker is judged by its finish reason', async () => {
    const { answer, record } = await pass(stage, () => paced(5, ROLE, T('a'), FIN('stop')));
    expect(answer.body.toString()).toBe([ROLE, T('a'), FIN('stop')].join(''));
    expect(record).toMatchObject({ outcome: 'ok', finishReasons: ['stop'] });
    expect(record.marks).toContain('no_end_marker');
  });

  it('C056 without either is passed on as it is, and booked as cut (CHOICE)', async () => {
    const { answer, record } = await pass(stage, () => paced(5, ROLE, T('a')));
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(ROLE + T('a'));
    expect(record).toMatchObject({
      outcome: 'upstream_truncated',
      reason: 'no_finish',
      tokens: { output: { value: 1 } },
    });
  });
});
