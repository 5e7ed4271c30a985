/** Heartbeats towards the client: none unless asked for, one comment line each, never inside an event. */
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hang, send, waitForClose } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { again, backendsAre, pass, scripted } from '../support/exchange.ts';
import { chatBody, postBytes, R0 } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const heartbeatMs = 120;
/** Long enough for three heartbeats and the coarse timer behind them. */
const silenceMs = 700;
const beating = { relay: { heartbeatMs } };
const heartbeat = ': warmlane\n';

function countOf(text: string, part: string): number {
  return text.split(part).length - 1;
}

describe('a silent stream', () => {
  const quiet = [
    send(sseHead()),
    send(chunk(`id: 7\n${T('a')}`)),
    silenceMs,
    send(chunk(T('b'), FIN('stop'), DONE)),
    send(lastChunk),
  ];
  const body = [`id: 7\n${T('a')}`, T('b'), FIN('stop'), DONE].join('');

  it('C008 gets no byte of ours by default (CHOICE)', async () => {
    const { answer } = await pass(stage, () => quiet);
    expect(answer.body.toString()).toBe(body);
  });

  it('C008 gets comments of one line and one newline if asked for, between events', async () => {
    const { answer, record } = await pass(stage, () => quiet, { change: beating });
    const text = answer.body.toString();
    expect(text.replaceAll(heartbeat, '')).toBe(body);
    expect(countOf(text, heartbeat)).toBeGreaterThanOrEqual(2);
    expect(text.indexOf(heartbeat)).toBe(`id: 7\n${T('a')}`.length);
    expect(text).not.toMatch(/: warmlane\n\n/);
    expect(record).toMatchObject({ outcome: 'ok', events: 2, finishReasons: ['stop'] });
  });

  it('C008 is read by a client’s library with them as without', async () => {
    const backend = await scripted(stage, () => quiet);
    const proxy = await stage.proxy(backend, { change: beating });
    const openai = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const stream = await openai.chat.completions.create({
      model: 'm',
      stream: true,
      messages: [{ role: 'user', content: 'hi' }],
    });
    const words: (string | null | undefined)[] = [];
    for await (const event of stream) words.push(event.choices[0]?.delta.content);
    expect(words).toEqual(['a', 'b', undefined]);
  });

  it('C008 is a stream first: no heartbeat stands in a JSON answer or one whose length was promised', async () => {
    const slowJson = Buffer.from('{"choices":[]}');
    const json = await pass(
      stage,
      () => [
        send(`HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`),
        send(chunk(slowJson.subarray(0, 5))),
        silenceMs,
        send(chunk(slowJson.subarray(5))),
        send(lastChunk),
      ],
      { change: beating, request: postBytes('/v1/chat/completions', { ...chatBody, stream: false }) },
    );
    expect(json.answer.body.equals(slowJson)).toBe(true);
    const measured = [T('a'), T('b'), DONE];
    const bytes = Buffer.byteLength(measured.join(''));
    const { answer } = await pass(
      stage,
      () => [
        send(`HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ${bytes}\r\n\r\n`),
        send(T('a')),
        silenceMs,
        send(T('b') + DONE),
      ],
      { change: beating },
    );
    expect(answer).toMatchObject({ complete: true });
    expect(answer.body.toString()).toBe(measured.join(''));
  });

  it('C008 gets none before its head: the backend has not spoken yet', async () => {
    const { client, answer } = await pass(stage, () => [silenceMs, wholeAnswer(503, { error: { message: 'no' } })], {
      change: beating,
    });
    expect(answer.status).toBe(503);
    expect(client.reads.length).toBeGreaterThan(0);
    expect(client.received.toString()).not.toContain('warmlane\n');
  });

  it('C008 does not live by our heartbeats: they are no content', async () => {
    const { answer, record } = await pass(stage, () => [send(sseHead()), send(chunk(ROLE, T('a'))), hang()], {
      change: { relay: { heartbeatMs, deadlines: { contentStallMs: 600 } } },
    });
    expect(countOf(answer.body.toString(), heartbeat)).toBeGreaterThanOrEqual(2);
    expect(record).toMatchObject({ outcome: 'timeout', reason: 'content_stall' });
  });
});

describe('half an event', () => {
  const halves = ['data: {"id":"r1","choices":[{"index":0,"del', 'ta":{"content":"x"}}]}\n\n'] as const;
  const script = () => [
    send(sseHead()),
    send(chunk(halves[0])),
    silenceMs,
    send(chunk(halves[1])),
    silenceMs,
    send(chunk(DONE)),
    send(lastChunk),
  ];

  it('C009 has nothing put into its middle; heartbeats come again after its blank line', async () => {
    const { answer } = await pass(stage, script, { change: beating });
    const text = answer.body.toString();
    expect(text).toContain(halves.join(''));
    expect(text.replaceAll(heartbeat, '')).toBe([...halves, DONE].join(''));
    const after = text.slice(text.indexOf(halves[1]) + halves[1].length, text.indexOf(DONE));
    expect(countOf(after, heartbeat)).toBeGreaterThanOrEqual(2);
    expect(text.startsWith(halves[0])).toBe(true);
  });

  it('C009 passes exactly with heartbeats off', async () => {
    const { answer } = await pass(stage, script);
    expect(answer.body.toString()).toBe([...halves, DONE].join(''));
  });

  it.each([
    ['a field name', 'da', 'ta: 1\n\n'],
    ['the blank line of CRLF', 'data: 1\r\n\r', '\ndata: 2\r\n\r\n'],
    ['the two line ends', 'data: 1\n', '\n'],
    ['a comment', ': half a com', 'ment\n\n'],
    [
      'a character',
      Buffer.from('data: ü').subarray(0, -1),
      Buffer.concat([Buffer.from('ü').subarray(1), Buffer.from('\n\n')]),
    ],
  ])('C009 cut inside %s counts as unfinished', async (_, first, second) => {
    const { answer } = await pass(
      stage,
      () => [send(sseHead()), send(chunk(first)), silenceMs, send(chunk(second)), send(lastChunk)],
      {
        change: beating,
      },
    );
    expect(
      answer.body.equals(Buffer.concat([Buffer.from(first as Uint8Array), Buffer.from(second as Uint8Array)])),
    ).toBe(true);
  });
});

describe('a backend that is left', () => {
  it('C008 is left for good: no heartbeat follows into the next answer of the connection', async () => {
    let asked = 0;
    const script = () => {
      asked += 1;
      return asked === 1
        ? [send(sseHead()), send(chunk(ROLE)), waitForClose()]
        : [wholeAnswer(200, { ok: true }), silenceMs];
    };
    const backend = await scripted(stage, script);
    const proxy = await stage.proxy(backend, { change: backendsAre([backend], undefined, beating) });
    const leaver = await stage.client(proxy);
    leaver.send(R0);
    await leaver.until(() => leaver.received.includes(heartbeat));
    leaver.leave();
    await proxy.records(1);
    const { answer } = await again(stage, { proxy, backend });
    expect(answer.body.toString()).toBe('{"ok":true}');
  });
});
