/** Decision 3: usage is asked for where that is needed and harmless, and its event is taken out again, byte for byte. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/domain/names.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import { hang, run, send, trickle, type ScriptStep } from '../../src/sim/fault-steps.ts';
import {
  chunk,
  delta,
  DONE,
  FIN,
  lastChunk,
  responseHead,
  ROLE,
  sseEvent,
  sseHead,
  T,
  USE,
  wholeAnswer,
} from '../../src/sim/sse-script.ts';
import {
  backendsAre,
  marksOf,
  paced,
  pass,
  played,
  scripted,
  ways,
  type Passed,
  type PassOptions,
} from '../support/exchange.ts';
import { chatBody, postBytes, R0, R1 } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const asked = '"stream_options":{"include_usage":true}';
const events = [ROLE, T('a'), T('b'), FIN('stop'), USE(4, 2), DONE];
const body = events.join('');
const withoutUsage = events.filter((event) => event !== USE(4, 2)).join('');

const vllm = (script: () => ScriptStep[], options: PassOptions = {}): Promise<Passed> =>
  pass(stage, script, { engine: 'vllm', ...options });

describe('usage that nobody asked for', () => {
  it.each(['vllm', 'sglang'] as const)(
    'C032 is asked for on %s by one member, and taken out of the stream again',
    async (engine) => {
      const { answer, asked: request, record } = await pass(stage, () => paced(10, ...events), { engine });
      const sent = JSON.stringify(chatBody);
      expect(request.text()).toBe(sent.replace('{', `{${asked},`));
      expect(request.header('content-length')).toBe(String(request.body.length));
      expect(answer.body.toString()).toBe(withoutUsage);
      expect(answer).toMatchObject({ complete: true });
      expect(record.tokens).toMatchObject({ prompt: { value: 4 }, output: { value: 2, source: 'usage' } });
      expect(marksOf(record)).toEqual([]);
    },
  );

  it.each(['llama-server', 'openai', 'tgi', 'ollama'] as const)(
    'C032 is not asked for on %s: both ways byte for byte',
    async (engine) => {
      const { answer, asked: request } = await pass(stage, () => paced(10, ...events), { engine });
      expect(request.text()).toBe(JSON.stringify(chatBody));
      expect(answer.body.toString()).toBe(body);
    },
  );

  it('C032 is not asked for with `usage: passive`', async () => {
    const { answer, asked: request } = await vllm(() => paced(10, ...events), {
      change: { relay: { usage: 'passive' } },
    });
    expect(request.text()).toBe(JSON.stringify(chatBody));
    expect(answer.body.toString()).toBe(body);
  });

  it('C032 is not asked for twice: a client that asks gets its own event', async () => {
    const { answer, asked: request, record } = await vllm(() => paced(10, ...events), { request: R1 });
    expect(Buffer.concat([request.body]).toString()).toBe(R1.slice(R1.indexOf('\r\n\r\n') + 4));
    expect(answer.body.toString()).toBe(body);
    expect(record.tokens.output).toEqual({ value: 2, source: 'usage' });
  });

  it.each([
    ['a `false`', { stream_options: { include_usage: false } }, '"stream_options":{"include_usage":true}'],
    ['a null', { stream_options: null }, '"stream_options":{"include_usage":true}'],
  ])('C032 is asked for in the place of %s, with all other bytes as they were', async (_, more, wanted) => {
    const sent = JSON.stringify({ ...chatBody, ...more, temperature: 0.7 });
    const { answer, asked: request } = await vllm(() => paced(5, ...events), {
      request: postBytes('/v1/chat/completions', sent),
    });
    expect(request.text()).toBe(sent.replace(/"stream_options":(null|\{[^}]*\})/, wanted));
    expect(answer.body.toString()).toBe(withoutUsage);
  });

  it('C032 is not asked for by a request that isn’t streamed', async () => {
    const sent = { ...chatBody, stream: false };
    const { asked: request } = await vllm(() => [wholeAnswer(200, { choices: [] })], {
      request: postBytes('/v1/chat/completions', sent),
    });
    expect(request.text()).toBe(JSON.stringify(sent));
  });

  it('C032 is asked for in text completions too', async () => {
    const word = (text: string, reason: string | null) =>
      sseEvent({ id: 'c', object: 'text_completion', choices: [{ index: 0, text, finish_reason: reason }] });
    const told = sseEvent({
      id: 'c',
      object: 'text_completion',
      choices: [],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    });
    const sent = JSON.stringify({ model: 'm', prompt: 'hi', stream: true });
    const {
      answer,
      asked: request,
      record,
    } = await vllm(() => paced(5, word('a', null), word('b', 'stop'), told, DONE), {
      request: postBytes('/v1/completions', sent),
    });
    expect(request.text()).toBe(sent.replace('{', `{${asked},`));
    expect(answer.body.toString()).toBe([word('a', null), word('b', 'stop'), DONE].join(''));
    expect(record.tokens).toMatchObject({ prompt: { value: 3 }, output: { value: 2, source: 'usage' } });
  });
});

describe('the event that is taken out', () => {
  it.each(ways)('C032 goes whole and alone, however the stream comes: %s', async (way) => {
    for (const ending of ['\n', '\r\n', '\r']) {
      const ended = (text: string) => text.replaceAll('\n', ending);
      const { answer, record } = await vllm(() => played(ended(body), way));
      expect(answer.body.toString()).toBe(ended(withoutUsage));
      expect(answer.complete).toBe(true);
      expect(record).toMatchObject({ outcome: 'ok', events: 2, tokens: { output: { value: 2, source: 'usage' } } });
    }
  });

  it('C032 goes too from an answer whose length was announced: the length is not promised to the client', async () => {
    const { answer } = await vllm(() => [
      send(responseHead(200, { 'Content-Type': 'text/event-stream', 'Content-Length': String(body.length) })),
      trickle(body, 11),
    ]);
    expect(answer.headers['content-length']).toBeUndefined();
    expect(answer.body.toString()).toBe(withoutUsage);
    expect(answer.complete).toBe(true);
  });

  it('C032 is the one without choices only: usage beside a choice stays', async () => {
    const running = delta({ content: 'c' }).replace(
      '"choices"',
      '"usage":{"prompt_tokens":4,"completion_tokens":3},"choices"',
    );
    const { answer, record } = await vllm(() => paced(5, ROLE, T('a'), T('b'), running, FIN('stop'), USE(4, 3), DONE));
    expect(answer.body.toString()).toBe([ROLE, T('a'), T('b'), running, FIN('stop'), DONE].join(''));
    expect(record.tokens.output).toEqual({ value: 3, source: 'usage' });
  });

  it('C032 R18 goes for every choice that tells its own, or for none', async () => {
    const request = postBytes('/v1/chat/completions', { ...chatBody, n: 2 });
    const both = [ROLE, T('a', 0), FIN('stop', 0), USE(4, 1), T('b', 1), FIN('stop', 1), USE(4, 1), DONE];
    const sglang = await pass(stage, () => paced(10, ...both), { engine: 'sglang', request });
    expect(sglang.answer.body.toString()).toBe(both.filter((event) => event !== USE(4, 1)).join(''));
    const llama = await pass(stage, () => paced(10, ...both), { engine: 'llama-server', request });
    expect(llama.answer.body.toString()).toBe(both.join(''));
  });

  it('C032 delays nothing: a token whose event is unfinished passes at once until a finish reason was seen', async () => {
    const half = T('half a token’s event');
    const bytes = Buffer.from(half);
    let seenMs = 0;
    const { answer, client } = await vllm(() => [
      send(sseHead()),
      send(chunk(ROLE, bytes.subarray(0, 60))),
      300,
      run(() => void (seenMs = performance.now())),
      send(chunk(bytes.subarray(60))),
      send(chunk(FIN('stop'), USE(3, 1), DONE)),
      send(lastChunk),
    ]);
    expect(answer.body.toString()).toBe([ROLE, half, FIN('stop'), DONE].join(''));
    const early = client.reads
      .filter(({ atMs }) => atMs < seenMs)
      .map(({ text }) => text)
      .join('');
    expect(early).toContain(bytes.subarray(0, 60).toString('latin1'));
  });
});

describe('an engine that answers otherwise', () => {
  it('C032 gives an error: it passes as it came, lengths and all', async () => {
    const text = JSON.stringify({ error: { message: 'no', code: 400 } });
    const { answer } = await vllm(() => [wholeAnswer(400, text, { 'Content-Type': 'application/json', 'X-A': '1' })]);
    expect(answer).toMatchObject({ status: 400, complete: true });
    expect(answer.headers).toMatchObject({ 'content-length': String(text.length), 'x-a': '1' });
    expect(answer.body.toString()).toBe(text);
  });

  it('C032 gives JSON to a request for a stream: nothing is taken out of it', async () => {
    const json = {
      id: 'x',
      choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
    };
    const { answer, record } = await vllm(() => [wholeAnswer(200, json)]);
    expect(answer.body.toString()).toBe(JSON.stringify(json));
    expect(record).toMatchObject({ outcome: 'ok', streamed: false, tokens: { output: { value: 1 } } });
    expect(record.stamps).toBeUndefined();
  });

  it('C032 a stream whose client leaves while bytes are held back leaves nothing behind', async () => {
    const { record } = await leaveInTheMiddle('vllm');
    expect(record).toMatchObject({ outcome: 'client_abort', tokens: { output: { value: 1 } } });
  });
});

async function leaveInTheMiddle(engine: Engine): Promise<{ record: RequestRecord | undefined }> {
  const backend = await scripted(
    stage,
    () => [send(sseHead()), send(chunk(ROLE, T('a'), FIN('stop'), USE(3, 1).slice(0, 20))), hang()],
    engine,
  );
  const proxy = await stage.proxy(backend, { change: backendsAre([backend], engine) });
  const client = await stage.client(proxy);
  client.send(R0);
  await client.until(() => client.received.includes('"stop"'));
  client.leave();
  const [record] = await proxy.records(1);
  return { record };
}
