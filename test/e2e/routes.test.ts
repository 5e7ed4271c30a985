/** Every route of the model servers works through warmlane: what each is taken for, and that its bytes stay what they are. */
import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ControlKey, controlKeys } from '../../src/classify/settings.ts';
import type { Engine } from '../../src/domain/names.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import type { Script } from '../../src/sim/fault-steps.ts';
import { until } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
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
import { paced, pass } from '../support/exchange.ts';
import { chatBody, postBytes, requestBytes } from '../support/raw-http.ts';
import type { Proxy } from '../support/proxy.ts';
import { createStage, eventually, loadOf, type Stage, untilAsked, untilIdle, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const plain = (): Script => [wholeAnswer(200, { ok: true })];

async function ask(proxy: Proxy, request: string | Uint8Array) {
  const client = await stage.client(proxy);
  client.send(request);
  const answer = await client.answer();
  client.leave();
  return answer;
}

function text(content: string, finish: string | null = null): string {
  const choice = { index: 0, text: content, logprobs: null, finish_reason: finish };
  return sseEvent({ id: 'cmpl-1', object: 'text_completion', created: 1_780_000_000, model: 'm', choices: [choice] });
}

/** An event whose name is its type, as Responses and Messages write it. */
function typed(type: string, data: object = {}): string {
  return sseEvent({ type, ...data }, type);
}

const responseUsage = {
  input_tokens: 7,
  input_tokens_details: { cached_tokens: 4 },
  output_tokens: 2,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 9,
};

function responseEvents(id: string): readonly string[] {
  return [
    typed('response.created', {
      sequence_number: 0,
      response: { id, object: 'response', status: 'in_progress', model: 'm' },
    }),
    typed('response.output_text.delta', {
      sequence_number: 1,
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      delta: 'He',
    }),
    typed('response.output_text.delta', {
      sequence_number: 2,
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      delta: 'llo',
    }),
    typed('response.completed', {
      sequence_number: 3,
      response: { id, object: 'response', status: 'completed', model: 'm', usage: responseUsage },
    }),
  ];
}

const messageEvents = [
  typed('message_start', {
    message: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [],
      model: 'm',
      stop_reason: null,
      usage: { input_tokens: 7, output_tokens: 0 },
    },
  }),
  typed('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
  typed('ping'),
  typed('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'He' } }),
  typed('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'llo' } }),
  typed('content_block_stop', { index: 0 }),
  typed('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 2 } }),
  typed('message_stop'),
];

const timings = {
  cache_n: 3,
  prompt_n: 4,
  prompt_ms: 20,
  prompt_per_token_ms: 5,
  prompt_per_second: 200,
  predicted_n: 2,
  predicted_ms: 10,
  predicted_per_token_ms: 10,
  predicted_per_second: 200,
};
const nativeEvents = [
  sseEvent({
    index: 0,
    content: 'He',
    tokens: [1],
    stop: false,
    id_slot: -1,
    tokens_predicted: 1,
    tokens_evaluated: 7,
  }),
  sseEvent({
    index: 0,
    content: 'llo',
    tokens: [2],
    stop: false,
    id_slot: -1,
    tokens_predicted: 2,
    tokens_evaluated: 7,
  }),
  sseEvent({
    index: 0,
    content: '',
    tokens: [],
    id_slot: 0,
    stop: true,
    model: 'm',
    tokens_predicted: 2,
    tokens_evaluated: 7,
    stop_type: 'eos',
    truncated: false,
    tokens_cached: 9,
    timings,
  }),
];

const line = (data: object) => `${JSON.stringify({ model: 'm', created_at: '2026-11-29T14:00:00.1Z', ...data })}\n`;
const counted = {
  done_reason: 'stop',
  total_duration: 900_000_000,
  prompt_eval_count: 7,
  prompt_eval_duration: 30_000_000,
  eval_count: 2,
  eval_duration: 240_000_000,
};
const ollamaChat = [
  line({ message: { role: 'assistant', content: 'He' }, done: false }),
  line({ message: { role: 'assistant', content: 'llo' }, done: false }),
  line({ message: { role: 'assistant', content: '' }, done: true, ...counted }),
];
const ollamaGenerate = [
  line({ response: 'He', done: false }),
  line({ response: 'llo', done: false }),
  line({ response: '', done: true, ...counted }),
];

interface Streamed {
  readonly name: string;
  readonly engine: Engine;
  readonly path: string;
  readonly body: object;
  readonly events: readonly string[];
  readonly record: Partial<RequestRecord>;
  readonly type?: string;
}

const sse = 'text/event-stream';
const seven = { prompt: { value: 7 }, output: { value: 2 } } as unknown as RequestRecord['tokens'];
const chatEvents = [ROLE, T('He'), T('llo'), FIN('stop'), USE(7, 2), DONE];
const textEvents = [text('He'), text('llo', 'stop'), USE(7, 2), DONE];
const usage = { stream_options: { include_usage: true } };

const streamed: readonly Streamed[] = [
  {
    name: 'chat',
    engine: 'vllm',
    path: '/v1/chat/completions',
    body: { ...chatBody, ...usage },
    events: chatEvents,
    record: { endpoint: 'chat', format: 'chat', tokens: seven, finishReasons: ['stop'] },
  },
  {
    name: 'chat without /v1',
    engine: 'llama-server',
    path: '/chat/completions',
    body: chatBody,
    events: chatEvents,
    record: { endpoint: 'chat', format: 'chat', tokens: seven },
  },
  {
    name: 'completions',
    engine: 'vllm',
    path: '/v1/completions',
    body: { model: 'm', prompt: 'x', stream: true, ...usage },
    events: textEvents,
    record: { endpoint: 'completions', format: 'completions', tokens: seven, finishReasons: ['stop'] },
  },
  {
    name: 'Responses',
    engine: 'openai',
    path: '/v1/responses',
    body: { model: 'm', input: 'x', stream: true },
    events: responseEvents('resp_1'),
    record: { endpoint: 'responses', format: 'responses', tokens: seven },
  },
  {
    name: 'Anthropic messages',
    engine: 'vllm',
    path: '/v1/messages',
    body: { model: 'm', max_tokens: 9, messages: [], stream: true },
    events: messageEvents,
    record: { endpoint: 'messages', format: 'messages', tokens: seven, finishReasons: ['end_turn'] },
  },
  {
    name: "llama.cpp's completion",
    engine: 'llama-server',
    path: '/completion',
    body: { prompt: 'x', stream: true },
    events: nativeEvents,
    record: { endpoint: 'native_completion', format: 'llama_native', tokens: seven },
  },
  {
    name: "llama.cpp's completions without /v1",
    engine: 'llama-server',
    path: '/completions',
    body: { prompt: 'x', stream: true },
    events: nativeEvents,
    record: { endpoint: 'native_completion', format: 'llama_native', tokens: seven },
  },
  {
    name: 'infill',
    engine: 'llama-server',
    path: '/infill',
    body: { input_prefix: 'a', input_suffix: 'b', stream: true },
    events: nativeEvents,
    record: { endpoint: 'infill', format: 'llama_native', tokens: seven },
  },
  {
    name: "Ollama's chat, streamed by default",
    engine: 'ollama',
    path: '/api/chat',
    body: { model: 'm', messages: [] },
    events: ollamaChat,
    record: { endpoint: 'ollama_chat', format: 'ollama_chat', tokens: seven },
    type: 'application/x-ndjson',
  },
  {
    name: "Ollama's generate",
    engine: 'ollama',
    path: '/api/generate',
    body: { model: 'm', prompt: 'x', stream: true },
    events: ollamaGenerate,
    record: { endpoint: 'ollama_generate', format: 'ollama_generate', tokens: seven },
    type: 'application/x-ndjson',
  },
  {
    name: "SageMaker's invocations with messages",
    engine: 'vllm',
    path: '/invocations',
    body: { ...chatBody, ...usage },
    events: chatEvents,
    record: { endpoint: 'chat', format: 'chat', tokens: seven },
  },
  {
    name: 'a chat of a server below a path',
    engine: 'openai',
    path: '/api/v0/chat/completions',
    body: chatBody,
    events: chatEvents,
    record: { endpoint: 'chat', tokens: seven },
  },
];

describe('a streamed answer', () => {
  it.each(streamed)(
    'of $name passes event by event, unchanged, and is understood',
    async ({ engine, path, body, events, record, type = sse }) => {
      const head = responseHead(200, { 'Content-Type': type, 'Transfer-Encoding': 'chunked' });
      const script = () => [head, ...events.flatMap((event) => [25, chunk(event)]), lastChunk];
      const { answer, asked, record: kept } = await pass(stage, script, { engine, request: postBytes(path, body) });
      expect(answer).toMatchObject({ status: 200, complete: true });
      expect(answer.body.toString()).toBe(events.join(''));
      expect(answer.chunks).toHaveLength(events.length);
      expect(answer.headers['x-accel-buffering']).toBe('no');
      expect(asked.target).toBe(path);
      expect(asked.json()).toEqual(body);
      expect(kept).toMatchObject({ ...record, streamed: true, outcome: 'ok', status: 200, path, events: 2 });
      expect(kept.figures.ttftMs).toBeGreaterThan(20);
    },
  );

  it('that is asked for by GET, of a stored response, streams too', async () => {
    const events = responseEvents('resp_9').slice(1);
    const { answer, record } = await pass(stage, () => paced(15, ...events), {
      request: requestBytes('GET /v1/responses/resp_9?stream=true&starting_after=0'),
    });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(answer.chunks).toHaveLength(events.length);
    expect(record).toMatchObject({ endpoint: 'responses', outcome: 'ok', streamed: false });
  });

  it('of a transcription comes event by event while its form was streamed', async () => {
    const events = [
      sseEvent({ object: 'transcription.chunk', choices: [{ delta: { content: 'a' } }] }),
      sseEvent({ object: 'transcription.chunk', choices: [{ delta: { content: 'b' }, finish_reason: 'stop' }] }),
      DONE,
    ];
    const form =
      '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--b--\r\n';
    const { answer, asked, record } = await pass(stage, () => paced(15, ...events), {
      request: requestBytes(
        'POST /v1/audio/transcriptions',
        { 'Content-Type': 'multipart/form-data; boundary=b' },
        form,
      ),
    });
    expect(asked.text()).toBe(form);
    expect(answer.body.toString()).toBe(events.join(''));
    expect(answer.chunks).toHaveLength(events.length);
    expect(record).toMatchObject({ endpoint: 'audio', model: 'm', outcome: 'ok' });
  });

  it('of a path that nobody knows passes just so', async () => {
    const events = ['data: 1\n\n', 'data: 2\n\n', ': x\n\n'];
    const { answer, record } = await pass(stage, () => paced(15, ...events), {
      request: postBytes('/v9/agents/run', { model: 'm', stream: true }),
    });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(answer.chunks).toHaveLength(3);
    expect(record).toMatchObject({ endpoint: 'other', model: 'm', outcome: 'ok', path: '/v9/agents/run' });
  });
});

const embedding = {
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: [0.1, -2e-7] }],
  model: 'm',
  usage: { prompt_tokens: 7, total_tokens: 7 },
};

describe('an answer that is not streamed', () => {
  it.each([
    ['POST', '/v1/embeddings', { model: 'm', input: 'x' }, embedding, 'embeddings'],
    [
      'POST',
      '/api/embed',
      { model: 'm', input: 'x' },
      { model: 'm', embeddings: [[0.1]], prompt_eval_count: 7 },
      'embeddings',
    ],
    [
      'POST',
      '/v1/rerank',
      { model: 'm', query: 'q', documents: ['a'] },
      { results: [{ index: 0, relevance_score: 0.5 }] },
      'rerank',
    ],
    ['POST', '/rerank', { model: 'm', query: 'q', documents: ['a'] }, { results: [] }, 'rerank'],
    ['POST', '/v1/score', { model: 'm', text_1: 'a', text_2: 'b' }, { data: [] }, 'rerank'],
    ['POST', '/tokenize', { content: 'hi' }, { tokens: [1, 2] }, 'tokenize'],
    ['POST', '/detokenize', { tokens: [1, 2] }, { content: 'hi' }, 'tokenize'],
    ['POST', '/apply-template', { messages: [] }, { prompt: '' }, 'tokenize'],
    ['POST', '/v1/messages/count_tokens', { model: 'm', messages: [] }, { input_tokens: 4 }, 'tokenize'],
    ['GET', '/props', undefined, { total_slots: 4, model_alias: 'm' }, 'other'],
    ['GET', '/slots', undefined, [{ id: 0, is_processing: false }], 'other'],
    ['GET', '/lora-adapters', undefined, [], 'other'],
    ['GET', '/version', undefined, { version: '0.32.0' }, 'other'],
    ['GET', '/v1/health', undefined, { status: 'ok' }, 'other'],
    ['GET', '/api/tags', undefined, { models: [] }, 'other'],
    ['POST', '/api/show', { model: 'm' }, { details: {} }, 'other'],
    ['GET', '/', undefined, { hello: 'llama.cpp' }, 'other'],
    ['GET', '/v1/models/m', undefined, { id: 'm', object: 'model' }, 'other'],
    ['DELETE', '/v1/files/f', undefined, { deleted: true }, 'other'],
  ] as const)('of %s %s passes unchanged', async (method, path, body, answer, endpoint) => {
    const {
      asked,
      answer: got,
      record,
    } = await pass(stage, () => [wholeAnswer(200, answer)], {
      request: requestBytes(
        `${method} ${path}`,
        body === undefined ? {} : { 'Content-Type': 'application/json' },
        body === undefined ? '' : JSON.stringify(body),
      ),
    });
    expect(asked).toMatchObject({ method, target: path });
    expect(asked.text()).toBe(body === undefined ? '' : JSON.stringify(body));
    expect(got.body.toString()).toBe(JSON.stringify(answer));
    expect(got.headers['content-length']).toBe(String(JSON.stringify(answer).length));
    expect(record).toMatchObject({ endpoint, method, path, outcome: 'ok', status: 200 });
  });

  it('tells its tokens all the same', async () => {
    const answer = {
      id: 'x',
      object: 'chat.completion',
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9, prompt_tokens_details: { cached_tokens: 4 } },
    };
    const { record } = await pass(stage, () => [wholeAnswer(200, answer)], {
      request: postBytes('/v1/chat/completions', { ...chatBody, stream: false }),
    });
    expect(record).toMatchObject({
      streamed: false,
      tokens: { prompt: { value: 7 }, output: { value: 2 }, cached: { value: 4 } },
      finishReasons: ['stop'],
    });
    expect(
      (
        await pass(stage, () => [wholeAnswer(200, embedding)], {
          request: postBytes('/v1/embeddings', { model: 'm', input: 'x' }),
        })
      ).record.tokens,
    ).toMatchObject({ prompt: { value: 7 } });
  });

  it('may be binary: speech passes byte for byte, in whatever framing', async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7919) % 256));
    const hash = createHash('sha256').update(bytes).digest('hex');
    const framings: Script[] = [
      [wholeAnswer(200, bytes, { 'Content-Type': 'audio/mpeg' })],
      [
        responseHead(200, { 'Content-Type': 'audio/mpeg', 'Transfer-Encoding': 'chunked' }),
        chunk(bytes.subarray(0, 100_001)),
        chunk(bytes.subarray(100_001)),
        lastChunk,
      ],
    ];
    for (const framing of framings) {
      const { answer, record } = await pass(stage, () => framing, {
        request: postBytes('/v1/audio/speech', { model: 'm', input: 'hi', voice: 'a' }),
      });
      expect(createHash('sha256').update(answer.body).digest('hex')).toBe(hash);
      expect(answer.headers['content-type']).toBe('audio/mpeg');
      expect(record).toMatchObject({ endpoint: 'audio', outcome: 'ok', responseBytes: bytes.length });
    }
  });

  it.each([
    [400, { error: { message: 'no', type: 'BadRequestError', param: null, code: 400 } }, 'client_error'],
    [401, { error: 'Unauthorized' }, 'client_error'],
    [404, { detail: 'Not Found' }, 'client_error'],
    [415, {}, 'client_error'],
    [422, { error: 'x', error_type: 'validation' }, 'client_error'],
    [429, { error: 'x', error_type: 'overloaded' }, 'rejected'],
    [500, { error: { code: 500, message: 'x', type: 'server_error' } }, 'upstream_error'],
    [501, { error: { code: 501, message: 'x', type: 'not_supported_error' } }, 'upstream_error'],
    [503, { error: { message: 'busy', type: 'Service Unavailable', code: 503 } }, 'rejected'],
  ])("with the backend's own error %i passes as it is", async (status, body, outcome) => {
    const { answer, record } = await pass(
      stage,
      () => [wholeAnswer(status, body, { 'Retry-After': '7', 'WWW-Authenticate': 'Bearer' })],
      { request: postBytes('/v1/chat/completions', chatBody) },
    );
    expect(answer.status).toBe(status);
    expect(answer.body.toString()).toBe(JSON.stringify(body));
    expect(answer.headers).toMatchObject({
      'retry-after': '7',
      'www-authenticate': 'Bearer',
      'content-type': 'application/json',
    });
    expect(record).toMatchObject({ outcome, status, spokenBy: 'backend', attempts: 1 });
  });
});

/** Two backends that serve the same model, each telling its name. */
async function twins(
  onRequest?: (name: string) => (request: ReturnType<typeof usersOf>[number]) => Script,
): Promise<{ a: ScriptedServer; b: ScriptedServer; proxy: Proxy }> {
  const answer = onRequest ?? ((name: string) => (): Script => [wholeAnswer(200, { name })]);
  const a = await stage.backend({ onRequest: answer('a') });
  const b = await stage.backend({ onRequest: answer('b') });
  // Prompts that are alike would go to one of them.
  return { a, b, proxy: await stage.proxy([a, b], { change: { route: { policy: 'round-robin' } } }) };
}

describe('what one backend keeps', () => {
  const whole = (id: string): Script => [
    wholeAnswer(200, { id, object: 'response', status: 'completed', model: 'm', output: [], usage: responseUsage }),
  ];

  it('is asked for where it began: a response by its id, its successor, its deletion', async () => {
    let made = 0;
    const { a, b, proxy } = await twins(
      () =>
        ({ method, target }): Script =>
          method === 'POST' && target === '/v1/responses' ? whole(`resp_${(made += 1)}`) : plain(),
    );
    const create = (more: object = {}) => postBytes('/v1/responses', { model: 'm', input: 'x', ...more });
    for (let i = 0; i < 4; i += 1) await ask(proxy, create());
    expect([usersOf(a).length, usersOf(b).length]).toEqual([2, 2]);
    const home = (server: ScriptedServer, i: number) =>
      usersOf(server)[i] === undefined ? '' : `resp_${server === a ? [1, 3][i] : [2, 4][i]}`;
    const before = { a: usersOf(a).length, b: usersOf(b).length };
    for (let round = 0; round < 3; round += 1) {
      await ask(proxy, requestBytes(`GET /v1/responses/${home(a, 0)}`));
      await ask(proxy, create({ previous_response_id: home(a, 1) }));
      await ask(proxy, requestBytes(`DELETE /v1/responses/${home(a, 0)}`));
      await ask(proxy, requestBytes(`GET /v1/responses/${home(a, 0)}/input_items?limit=1`));
    }
    expect(usersOf(a)).toHaveLength(before.a + 12);
    expect(usersOf(b)).toHaveLength(before.b);
    await ask(proxy, create({ previous_response_id: home(b, 0) }));
    expect(usersOf(b)).toHaveLength(before.b + 1);
  });

  it('is asked for nowhere else when that backend is gone: the error names it', async () => {
    const { a, b, proxy } = await twins(() => () => whole('resp_x'));
    await ask(proxy, postBytes('/v1/responses', { model: 'm', input: 'x' }));
    const [home, other] = usersOf(a).length === 1 ? [a, b] : [b, a];
    await home.refuse();
    for (const connection of home.connections) connection.socket.destroy();
    for (const request of [
      requestBytes('GET /v1/responses/resp_x'),
      postBytes('/v1/responses', { model: 'm', input: 'x', previous_response_id: 'resp_x' }),
    ]) {
      const answer = await ask(proxy, request);
      expect(answer.status).toBe(502);
      expect(answer.body.toString()).toContain(`127.0.0.1:${home.port}`);
    }
    expect(usersOf(other)).toHaveLength(0);
  });

  it('is asked for where it began when it was streamed', async () => {
    const { a, b, proxy } = await twins(
      () =>
        ({ target }): Script =>
          target === '/v1/responses' ? paced(1, ...responseEvents('resp_s')) : plain(),
    );
    await ask(proxy, postBytes('/v1/responses', { model: 'm', input: 'x', stream: true }));
    const home = usersOf(a).length === 1 ? a : b;
    for (let i = 0; i < 4; i += 1) await ask(proxy, requestBytes('GET /v1/responses/resp_s'));
    expect(usersOf(home)).toHaveLength(5);
  });

  it('is cancelled where it runs, while it runs', async () => {
    let cancel = () => {};
    const cancelled = new Promise<void>((resolve) => (cancel = resolve));
    const { a, b, proxy } = await twins(() => ({ target }): Script => {
      const [created = '', ...rest] = responseEvents('resp_r');
      if (target === '/v1/responses') return [sseHead(), chunk(created), until(cancelled), chunk(...rest), lastChunk];
      cancel();
      return plain();
    });
    const client = await stage.client(proxy);
    client.send(postBytes('/v1/responses', { model: 'm', input: 'x', stream: true }));
    await client.until(() => client.received.includes('resp_r'));
    const home = usersOf(a).length === 1 ? a : b;
    await ask(proxy, postBytes('/v1/responses/resp_r/cancel', ''));
    expect(usersOf(home).map(({ target }) => target)).toEqual(['/v1/responses', '/v1/responses/resp_r/cancel']);
    expect((await client.answer()).complete).toBe(true);
  });

  it("is steered where it runs: llama-server's control of a chat under way", async () => {
    let stop = () => {};
    const stopped = new Promise<void>((resolve) => (stop = resolve));
    const { a, b, proxy } = await twins(() => ({ target }): Script => {
      if (target === '/v1/chat/completions')
        return [
          sseHead(),
          chunk(ROLE, delta({ reasoning_content: 'hm' })),
          until(stopped),
          chunk(FIN('stop'), DONE),
          lastChunk,
        ];
      stop();
      return plain();
    });
    const client = await stage.client(proxy);
    client.send(postBytes('/v1/chat/completions', chatBody));
    await client.until(() => client.received.includes('hm'));
    const home = usersOf(a).length === 1 ? a : b;
    await ask(proxy, postBytes('/v1/chat/completions/control', { id: 'chatcmpl-scripted', action: 'reasoning_end' }));
    expect(usersOf(home)).toHaveLength(2);
    await client.answer();
  });

  it('is a conversation, named by the body or by the header', async () => {
    const { a, b, proxy } = await twins();
    for (let i = 0; i < 4; i += 1)
      await ask(proxy, postBytes('/v1/responses', { model: 'm', input: 'x', conversation: { id: 'conv_1' } }));
    expect([usersOf(a).length, usersOf(b).length].toSorted((x, y) => x - y)).toEqual([0, 4]);
    for (let i = 0; i < 4; i += 1)
      await ask(proxy, postBytes('/v1/chat/completions', { model: 'm' }, { 'X-Conversation-Id': 'c-2' }));
    expect([usersOf(a).length, usersOf(b).length].every((count) => count % 4 === 0)).toBe(true);
  });

  it('is a stream that its client left and takes up again', async () => {
    const { a, b, proxy } = await twins(
      () =>
        ({ method }): Script =>
          method === 'POST' ? [sseHead(), chunk(ROLE, T('a')), 10_000] : plain(),
    );
    const client = await stage.client(proxy);
    client.send(postBytes('/v1/chat/completions', chatBody, { 'X-Conversation-Id': 'c-3' }));
    await client.until(() => client.received.includes('"a"'));
    client.leave();
    await proxy.records(1);
    const home = usersOf(a).length === 1 ? a : b;
    for (let i = 0; i < 3; i += 1) await ask(proxy, requestBytes('GET /v1/stream?conv_id=c-3&from=0'));
    expect(usersOf(home)).toHaveLength(4);
  });
});

describe('X-Conversation-Id', () => {
  it.each([
    ['llama-server', false, undefined],
    ['llama-server', true, 'c-1'],
    ['vllm', false, 'c-1'],
  ] as const)('on its way to %s with routes.passConversationId %s', async (engine, passConversationId, expected) => {
    const { asked } = await pass(stage, plain, {
      engine,
      change: { relay: { passConversationId } },
      request: postBytes('/v1/chat/completions', { model: 'm' }, { 'X-Conversation-Id': 'c-1' }),
    });
    expect(asked.header('x-conversation-id')).toBe(expected);
  });
});

/** One route of each group that changes an engine. */
const controls: Readonly<Record<ControlKey, readonly string[]>> = {
  lora: ['POST /v1/load_lora_adapter', 'POST /v1/unload_lora_adapter', 'POST /lora-adapters'],
  sleep: [
    'POST /sleep?level=1',
    'POST /wake_up',
    'GET /sleep',
    'POST /%73leep',
    'POST //sleep/',
    'POST /v1/../sleep',
    'POST http://x/sleep',
    'POST /sleep%0A',
  ],
  cache_reset: ['POST /reset_prefix_cache', 'GET /flush_cache'],
  slots: ['POST /slots/0?action=erase', 'POST /slots/1?action=save', 'POST /llama/slots/0?action=restore'],
  props: ['POST /props'],
  models: ['POST /models/load', 'POST /models/unload', 'POST /api/pull', 'DELETE /api/delete'],
  pause: ['POST /pause', 'POST /resume'],
  abort: ['POST /abort_requests', 'POST /inference/v1/abort_requests', 'POST /abort_request'],
  profile: ['POST /start_profile', 'POST /stop_profile'],
  scale: ['POST /scale_elastic_ep'],
  weights: ['POST /update_weights_from_disk', 'POST /init_weights_update_group'],
  rpc: ['POST /collective_rpc'],
  stream_delete: ['DELETE /v1/stream?conv_id=x'],
  tools: ['POST /tools', 'GET /cors-proxy?url=x'],
};

describe('a route that changes an engine', () => {
  it('is closed, by whatever spelling, and the refusal names the key that opens it', async () => {
    const { a, b, proxy } = await twins();
    for (const key of controlKeys) {
      for (const route of controls[key]) {
        const answer = await ask(proxy, requestBytes(route, { 'Content-Type': 'application/json' }, '{}'));
        expect([route, answer.status]).toEqual([route, 403]);
        expect(JSON.parse(answer.body.toString())).toMatchObject({
          error: { code: 'route_closed', source: 'warmlane' },
        });
        expect(answer.body.toString()).toContain(`routes.open: [${key}]`);
      }
    }
    expect([...usersOf(a), ...usersOf(b)]).toEqual([]);
  });

  it.each(controlKeys)('of the group %s is opened by its key, and by no other', async (key) => {
    const backend = await stage.backend({ onRequest: plain });
    const proxy = await stage.proxy(backend, { change: { classify: { openRoutes: [key] } } });
    for (const route of controls[key]) {
      const answer = await ask(proxy, requestBytes(route, { 'Content-Type': 'application/json' }, '{}'));
      expect([route, answer.status]).toEqual([route, 200]);
    }
    expect(usersOf(backend)).toHaveLength(controls[key].length);
    const other = controlKeys.find((each) => each !== key) ?? 'lora';
    expect((await ask(proxy, requestBytes(controls[other][0] ?? '', {}, '{}'))).status).toBe(403);
  });

  it('has neighbours that only read, and those pass', async () => {
    const backend = await stage.backend({ onRequest: plain });
    const proxy = await stage.proxy(backend);
    for (const route of [
      'GET /slots',
      'GET /props',
      'GET /lora-adapters',
      'GET /models',
      'GET /is_sleeping',
      'POST /v1/systemone',
      'GET /v1/stream?conv_id=x',
      'POST /v1/sleepy',
    ]) {
      expect([route, (await ask(proxy, requestBytes(route, {}))).status]).toEqual([route, 200]);
    }
  });
});

describe('a model that is not served', () => {
  it('is asked for all the same when there is one backend', async () => {
    const { answer, asked } = await pass(stage, plain, {
      request: postBytes('/v1/chat/completions', { ...chatBody, model: 'nobody' }),
    });
    expect(answer.status).toBe(200);
    expect(asked.json()).toMatchObject({ model: 'nobody' });
  });

  it.each([
    [
      '/v1/chat/completions',
      { error: { type: 'invalid_request_error', param: 'model', code: 'model_not_found', source: 'warmlane' } },
    ],
    ['/v1/messages', { type: 'error', error: { type: 'invalid_request_error', code: 'model_not_found' } }],
    ['/api/chat', { error: expect.stringContaining('nobody') as string }],
  ])('gets 404 from several, in the shape that clients of %s expect', async (path, shape) => {
    const { a, b, proxy } = await twins();
    const answer = await ask(proxy, postBytes(path, { ...chatBody, model: 'nobody' }));
    expect([answer.status, answer.reason]).toEqual([404, 'Not Found']);
    expect(JSON.parse(answer.body.toString())).toMatchObject(shape);
    expect(answer.body.toString()).toContain('Served here: m');
    expect([...usersOf(a), ...usersOf(b)]).toEqual([]);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({
      outcome: 'client_error',
      status: 404,
      reason: 'model_not_found',
      phase: 'receiving',
      spokenBy: 'warmlane',
      attempts: 0,
    });
    // It never waited: no queue has a figure of it.
    expect(record?.timeline).not.toHaveProperty('queued');
    expect(record?.figures).not.toHaveProperty('queueMs');
    const stats = (await (await fetch(`${proxy.adminUrl}/stats`)).json()) as {
      readonly all: { readonly figures: { readonly queue: { readonly requests: number } } };
    };
    expect(stats.all.figures.queue.requests).toBe(0);
  });
});

describe('places', () => {
  it('are taken by generating routes only, one for each choice and prompt', async () => {
    let go = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const backend = await stage.backend({
      onRequest: (): Script => [until(gate), wholeAnswer(200, {})],
      probes: { engine: 'llama-server', slots: 8 },
    });
    const proxy = await stage.proxy(backend);
    const jobs: [string, object, number][] = [
      ['/v1/chat/completions', { model: 'm', n: 2 }, 2],
      ['/v1/completions', { model: 'm', prompt: ['a', 'b'], n: 2 }, 4],
      ['/v1/embeddings', { model: 'm', input: ['a', 'b'] }, 0],
      ['/tokenize', { content: 'x' }, 0],
      ['/infill', { input_prefix: 'x' }, 1],
    ];
    let slots = 0;
    const clients = [];
    for (const [index, [path, body, taken]] of jobs.entries()) {
      const client = await stage.client(proxy);
      client.send(postBytes(path, body));
      await untilAsked(backend, index + 1);
      slots += taken;
      expect([path, (await loadOf(proxy)).slots]).toEqual([path, slots]);
      clients.push(client);
    }
    // Seven of eight are taken: a job for two waits, and what takes none passes by.
    const waiting = await stage.client(proxy);
    waiting.send(postBytes('/v1/chat/completions', { model: 'm', n: 2, user: 'waits' }));
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'one to wait');
    go();
    for (const client of [...clients, waiting]) expect((await client.answer()).status).toBe(200);
    await untilIdle(proxy);
    expect(usersOf(backend).at(-1)?.json()).toMatchObject({ user: 'waits' });
  });

  it('are not given to a prompt that cannot fit there', async () => {
    const small = await stage.backend({ onRequest: plain, probes: { engine: 'llama-server', contextTokens: 256 } });
    const large = await stage.backend({ onRequest: plain, probes: { engine: 'llama-server', contextTokens: 100_000 } });
    const proxy = await stage.proxy([small, large]);
    const long = postBytes('/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'user', content: 'word '.repeat(4000) }],
    });
    for (let i = 0; i < 4; i += 1) await ask(proxy, long);
    expect([usersOf(small).length, usersOf(large).length]).toEqual([0, 4]);
    for (let i = 0; i < 4; i += 1) await ask(proxy, postBytes('/v1/chat/completions', { model: 'm' }));
    expect(usersOf(small).length).toBeGreaterThan(0);
  });
});
