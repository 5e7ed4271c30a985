/** The official `openai` and `@anthropic-ai/sdk` clients, unmodified, against simulated and scripted servers behind warmlane. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { toFile } from 'openai';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Script } from '../../src/sim/fault-steps.ts';
import { hang, reset } from '../../src/sim/fault-steps.ts';
import type { SimServer } from '../../src/sim/server.ts';
import { chunk, ROLE, sseEvent, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { type Proxy, startProxy } from '../support/proxy.ts';
import { createStage, type Stage, untilAsked, usersOf } from '../support/stage.ts';
import { quickLlama, quickVllm, simRig } from '../unit/sim/sim-rig.ts';

const openaiFor = (proxy: Proxy, maxRetries = 0) =>
  new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: 'none', maxRetries });
const anthropicFor = (proxy: Proxy, maxRetries = 0) =>
  new Anthropic({ baseURL: proxy.url, apiKey: 'none', maxRetries });

function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe.each([quickVllm, quickLlama])('in front of a simulated $dialect server', (settings) => {
  const rig = simRig();
  let server: SimServer;
  let proxy: Proxy;
  beforeAll(async () => {
    server = await rig.serve(settings);
    proxy = await startProxy([server.url]);
  });
  afterAll(async () => {
    await proxy.close();
    await rig.closeAll();
  });
  const chat = () => ({
    model: settings.model,
    messages: [{ role: 'user' as const, content: 'Tell me a long story.' }],
    max_tokens: 12,
  });
  const lastRecord = async () => (await proxy.records(1)).at(-1);

  it('openai gets a whole chat', async () => {
    const answer = await openaiFor(proxy).chat.completions.create(chat());
    expect(answer.choices[0]?.message.content).toBeTruthy();
    expect(answer.usage?.completion_tokens).toBe(12);
    expect(answer._request_id).toBe((await lastRecord())?.requestId);
  });

  it('openai gets a streamed chat, without the usage that only warmlane asked for', async () => {
    let text = '';
    let usages = 0;
    let finish: string | null = null;
    for await (const part of await openaiFor(proxy).chat.completions.create({ ...chat(), stream: true })) {
      text += part.choices[0]?.delta.content ?? '';
      finish = part.choices[0]?.finish_reason ?? finish;
      if (settings.dialect === 'vllm' && part.usage) usages += 1;
    }
    expect(text.length).toBeGreaterThan(10);
    expect([finish, usages]).toEqual(['length', 0]);
    expect(await lastRecord()).toMatchObject({ outcome: 'ok', streamed: true, tokens: { output: { value: 12 } } });
  });

  it('openai gets the usage that it asked for, once', async () => {
    const usages: number[] = [];
    const stream = await openaiFor(proxy).chat.completions.create({
      ...chat(),
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const part of stream) if (part.usage) usages.push(part.usage.completion_tokens);
    expect(usages).toEqual([12]);
  });

  it('openai gets a text completion, streamed and whole, and the models', async () => {
    const prompt = { model: settings.model, prompt: 'Once', max_tokens: 6 };
    expect((await openaiFor(proxy).completions.create(prompt)).choices[0]?.text).toBeTruthy();
    let text = '';
    for await (const part of await openaiFor(proxy).completions.create({ ...prompt, stream: true }))
      text += part.choices[0]?.text ?? '';
    expect(text).not.toBe('');
    expect((await openaiFor(proxy).models.list()).data.map(({ id }) => id)).toEqual([settings.model]);
  });

  it('openai gets a response, streamed and whole', async () => {
    const ask = { model: settings.model, input: 'Tell me a long story.', max_output_tokens: 8 };
    expect((await openaiFor(proxy).responses.create(ask)).output_text).toBeTruthy();
    const types: string[] = [];
    for await (const event of await openaiFor(proxy).responses.create({ ...ask, stream: true })) types.push(event.type);
    expect(types[0]).toBe('response.created');
    expect(types.filter((type) => type === 'response.output_text.delta').length).toBeGreaterThan(1);
    expect(types.at(-1)).toBe('response.completed');
  });

  it('openai breaks a stream off, and that is an abort', async () => {
    const stream = await openaiFor(proxy).chat.completions.create({ ...chat(), max_tokens: 400, stream: true });
    const before = (await proxy.records(0)).length;
    for await (const part of stream) if (part.choices[0]?.delta.content) break;
    expect((await proxy.records(before + 1))[before]).toMatchObject({ outcome: 'client_abort', phase: 'streaming' });
  });

  it('anthropic gets a message, streamed and whole', async () => {
    const ask = {
      model: settings.model,
      max_tokens: 8,
      messages: [{ role: 'user' as const, content: 'Tell me a long story.' }],
    };
    const whole = await anthropicFor(proxy).messages.create(ask);
    expect(whole.content[0]).toMatchObject({ type: 'text' });
    expect(whole.usage.output_tokens).toBe(8);
    const deltas: string[] = [];
    const stream = anthropicFor(proxy).messages.stream(ask);
    stream.on('text', (text) => deltas.push(text));
    const final = await stream.finalMessage();
    expect(deltas.length).toBeGreaterThan(1);
    expect(final).toMatchObject({ stop_reason: 'max_tokens', usage: { output_tokens: 8 } });
    expect(await lastRecord()).toMatchObject({ endpoint: 'messages', outcome: 'ok', tokens: { output: { value: 8 } } });
  });
});

describe('in front of scripted servers', () => {
  let stage: Stage;
  beforeEach(() => {
    stage = createStage();
  });
  afterEach(() => stage.close());
  const chat = { model: 'm', messages: [{ role: 'user' as const, content: 'hi' }] };
  const message = { model: 'm', max_tokens: 5, messages: [{ role: 'user' as const, content: 'hi' }] };

  async function served(
    onRequest: () => Script,
    more: { places?: number; change?: Parameters<Stage['proxy']>[1] } = {},
  ) {
    const backend = await stage.backend({ onRequest });
    const proxy = await stage.proxy(backend, {
      ...more.change,
      ...(more.places === undefined ? {} : { places: more.places }),
    });
    return { backend, proxy };
  }

  it("openai raises the backend's own errors as their classes", async () => {
    for (const [status, type] of [
      [400, OpenAI.BadRequestError],
      [401, OpenAI.AuthenticationError],
      [404, OpenAI.NotFoundError],
      [422, OpenAI.UnprocessableEntityError],
      [429, OpenAI.RateLimitError],
      [500, OpenAI.InternalServerError],
    ] as const) {
      const { proxy } = await served(() => [
        wholeAnswer(status, { error: { message: `no: ${status}`, type: 'x', param: 'p', code: 'c' } }),
      ]);
      for (const stream of [false, true]) {
        const error = await failure(openaiFor(proxy).chat.completions.create({ ...chat, stream }));
        expect(error).toBeInstanceOf(type);
        expect(error).toMatchObject({ status, code: 'c', param: 'p', message: `${status} no: ${status}` });
      }
    }
  });

  it("both raise warmlane's own refusals as their classes", async () => {
    const a = await stage.backend({ probes: { model: 'a' } });
    const b = await stage.backend({ probes: { model: 'b' } });
    const proxy = await stage.proxy([a, b]);
    const fromOpenai = await failure(openaiFor(proxy).chat.completions.create(chat));
    expect(fromOpenai).toBeInstanceOf(OpenAI.NotFoundError);
    expect(fromOpenai).toMatchObject({ code: 'model_not_found', param: 'model' });
    const fromAnthropic = await failure(anthropicFor(proxy).messages.create(message));
    expect(fromAnthropic).toBeInstanceOf(Anthropic.NotFoundError);
    expect(fromAnthropic).toMatchObject({
      status: 404,
      error: { type: 'error', error: { type: 'invalid_request_error' } },
    });
  });

  it('openai waits and tries again when the queue is full, as it is told', async () => {
    const backend = await stage.backend({
      onRequest: (): Script => [200, wholeAnswer(200, { choices: [{ message: { content: 'x' } }] })],
    });
    const proxy = await stage.proxy(backend, { places: 1, change: { admit: { maxQueuedJobs: 0 } } });
    const first = openaiFor(proxy).chat.completions.create(chat);
    await untilAsked(backend, 1);
    const refused = await failure(openaiFor(proxy).chat.completions.create(chat));
    expect(refused).toBeInstanceOf(OpenAI.RateLimitError);
    expect(refused).toMatchObject({ code: 'queue_full' });
    const second = openaiFor(proxy, 2).chat.completions.create(chat);
    expect((await first).choices[0]?.message.content).toBe('x');
    expect((await second).choices[0]?.message.content).toBe('x');
  });

  it('openai raises an error where a stream breaks off, after what had come', async () => {
    const { proxy } = await served(() => [sseHead(), chunk(ROLE, T('one')), 30, chunk(T('two')), 30, reset()]);
    let text = '';
    const error = await failure(
      (async () => {
        for await (const part of await openaiFor(proxy).chat.completions.create({ ...chat, stream: true }))
          text += part.choices[0]?.delta.content ?? '';
      })(),
    );
    expect(text).toBe('onetwo');
    expect(error).toBeInstanceOf(OpenAI.APIError);
    expect(error).toMatchObject({ code: 'backend_closed_early' });
  });

  it('openai raises an error where a response breaks off', async () => {
    const created = sseEvent(
      { type: 'response.created', sequence_number: 0, response: { id: 'r', object: 'response', output: [] } },
      'response.created',
    );
    const text = sseEvent(
      {
        type: 'response.output_text.delta',
        sequence_number: 1,
        item_id: 'm',
        output_index: 0,
        content_index: 0,
        delta: 'a',
      },
      'response.output_text.delta',
    );
    const { proxy } = await served(() => [sseHead(), chunk(created), chunk(text), 30, reset()]);
    const types: string[] = [];
    const error = await failure(
      (async () => {
        for await (const event of await openaiFor(proxy).responses.create({ model: 'm', input: 'x', stream: true }))
          types.push(event.type);
      })(),
    );
    expect(types.slice(0, 2)).toEqual(['response.created', 'response.output_text.delta']);
    expect(error instanceof Error || types.includes('error')).toBe(true);
    expect(types).not.toContain('response.completed');
  });

  it('anthropic raises an error where a stream breaks off', async () => {
    const start = sseEvent(
      {
        type: 'message_start',
        message: {
          id: 'm',
          type: 'message',
          role: 'assistant',
          content: [],
          model: 'm',
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 1, output_tokens: 0 },
        },
      },
      'message_start',
    );
    const block = sseEvent(
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      'content_block_start',
    );
    const text = sseEvent(
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' } },
      'content_block_delta',
    );
    const { proxy } = await served(() => [sseHead(), chunk(start, block), chunk(text), 30, reset()]);
    const texts: string[] = [];
    const stream = anthropicFor(proxy).messages.stream(message);
    stream.on('text', (piece) => texts.push(piece));
    const error = await failure(stream.finalMessage());
    expect(texts).toEqual(['a']);
    expect(error).toBeInstanceOf(Anthropic.APIError);
    expect(JSON.stringify((error as InstanceType<typeof Anthropic.APIError>).error)).toContain('backend_closed_early');
  });

  it('openai uploads an audio file, byte for byte', async () => {
    const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 31) % 256));
    const { backend, proxy } = await served(() => [wholeAnswer(200, { text: 'hello' })]);
    const answer = await openaiFor(proxy).audio.transcriptions.create({
      model: 'm',
      file: await toFile(bytes, 'speech.wav'),
      language: 'en',
    });
    expect(answer.text).toBe('hello');
    expect(usersOf(backend)[0]?.body.includes(bytes)).toBe(true);
    expect((await proxy.records(1))[0]).toMatchObject({ endpoint: 'audio', outcome: 'ok' });
  });

  it('openai gets embeddings, in the form that it asks for by itself', async () => {
    const floats = Buffer.from(new Float32Array([0.5, -1.25]).buffer).toString('base64');
    const { backend, proxy } = await served(() => [
      wholeAnswer(200, {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: floats }],
        model: 'm',
        usage: { prompt_tokens: 1, total_tokens: 1 },
      }),
    ]);
    const answer = await openaiFor(proxy).embeddings.create({ model: 'm', input: 'x' });
    expect([...(answer.data[0]?.embedding ?? [])]).toEqual([0.5, -1.25]);
    expect(usersOf(backend)[0]?.json()).toMatchObject({ encoding_format: 'base64' });
  });

  it('openai follows a response up where it began', async () => {
    const whole = { id: 'resp_1', object: 'response', status: 'completed', model: 'm', output: [] };
    const [a, b] = [
      await stage.backend({ onRequest: () => [wholeAnswer(200, whole)] }),
      await stage.backend({ onRequest: () => [wholeAnswer(200, whole)] }),
    ];
    const proxy = await stage.proxy([a, b]);
    const made = await openaiFor(proxy).responses.create({ model: 'm', input: 'x' });
    const home = usersOf(a).length === 1 ? a : b;
    await openaiFor(proxy).responses.retrieve(made.id);
    await openaiFor(proxy).responses.create({ model: 'm', input: 'y', previous_response_id: made.id });
    await openaiFor(proxy).responses.cancel(made.id);
    expect(usersOf(home)).toHaveLength(4);
  });

  it('anthropic counts tokens', async () => {
    const { backend, proxy } = await served(() => [wholeAnswer(200, { input_tokens: 14 })]);
    expect(
      (await anthropicFor(proxy).messages.countTokens({ model: 'm', messages: message.messages })).input_tokens,
    ).toBe(14);
    expect(usersOf(backend)[0]?.target).toMatch(/^\/v1\/messages\/count_tokens/);
  });

  it('openai gives up by its own time-out, and the backend is left at once', async () => {
    const { backend, proxy } = await served(() => [hang()]);
    const error = await failure(openaiFor(proxy).chat.completions.create(chat, { timeout: 150 }));
    expect(error).toBeInstanceOf(OpenAI.APIConnectionTimeoutError);
    const asked = await untilAsked(backend, 1);
    await backend.connectionOf(asked).peerGone;
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'client_abort', phase: 'waiting_head' });
  });
});
