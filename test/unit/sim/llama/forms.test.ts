import { afterEach, describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../../../src/sim/virtual-clock.ts';
import { dataOf, getRequest, openRawClient, postRequest, takeApart } from '../raw-client.ts';
import { exchange, get, post, quickLlama, quickTime, simRig, untilTrue } from '../sim-rig.ts';
import { chunkShapes, headerNames, recorded, shapeOf } from '../wire-shape.ts';

const { serve, closeAll } = simRig();
afterEach(closeAll);

const chat = {
  messages: [{ role: 'user', content: 'Name three colours.' }],
  temperature: 0,
  max_tokens: 6,
  stream: true,
};
const parse = (text: string | undefined): Record<string, unknown> =>
  JSON.parse(text ?? 'null') as Record<string, unknown>;
const smallBatch = { ...quickLlama, engine: { ...quickLlama.engine, stepTokens: 128 } };

describe("llama-server's wire forms", () => {
  it.each([
    ['chat-plain', 24 + 2],
    ['chat-usage', 24 + 2],
    ['chat-prefix-hit', 2 + 12 + 2],
    ['completions', 16 + 2],
    ['native-completion', 12 + 1],
    ['infill', 8 + 1],
    ['messages', 8 + 1],
    ['responses', 8 + 1],
  ] as const)('%s: same head, same keys, same chunks, events in the same chunks', async (name, chunks) => {
    const real = recorded(`llama-server/${name}`);
    const server = await serve(quickLlama);
    const answer = await post(server, real.request.path, real.request.body);
    expect(answer.status).toBe(200);
    expect(headerNames(answer)).toEqual(headerNames(real));
    expect(chunkShapes(answer)).toEqual(chunkShapes(real));
    expect([answer.chunks.length, real.chunks.length]).toEqual([chunks, chunks]);
    expect(answer.headers).toContainEqual(['x-simulated', 'warmlane']);
  });

  it('chat-timings-per-token: timings on each token, an end token without an event', async () => {
    const real = recorded('llama-server/chat-timings-per-token');
    const server = await serve({ ...quickLlama, answer: { minSentences: 2, maxSentences: 2 } });
    const answer = await post(server, real.request.path, { ...real.request.body, max_tokens: 100 });
    expect(chunkShapes(answer)).toEqual(chunkShapes(real));
    const events = dataOf(answer.body).slice(0, -1).map(parse);
    // A role event, the tokens, the finish event; the end token is counted and not shown.
    expect(events.at(-1)?.['timings']).toMatchObject({ predicted_n: events.length - 1 });
  });

  it('chat-progress-small-batch: one progress event for the start and one for each batch', async () => {
    const server = await serve(smallBatch);
    const real = recorded('llama-server/chat-progress-small-batch');
    const answer = await post(server, real.request.path, real.request.body);
    expect(chunkShapes(answer)).toEqual(chunkShapes(real));
    const progress = dataOf(answer.body)
      .slice(0, -1)
      .map((data) => parse(data)['prompt_progress'])
      .filter((value) => value !== undefined) as { total: number; processed: number; cache: number }[];
    const total = progress[0]?.total ?? 0;
    expect(progress.map((one) => one.processed)).toEqual([
      0,
      ...Array.from({ length: Math.floor(total / 128) }, (_, batch) => 128 * (batch + 1)),
      total,
    ]);
  });

  it('chat-n2 (R18): one usage for each choice, the first before the other choice has ended', async () => {
    const real = recorded('llama-server/chat-n2');
    const server = await serve({ ...quickLlama, answer: { minSentences: 1, maxSentences: 9 } });
    const answer = await post(server, real.request.path, { ...real.request.body, max_tokens: 200, seed: 3 });
    expect(new Set(chunkShapes(answer))).toEqual(new Set(chunkShapes(real)));
    const usages = answer.chunks.flatMap((chunk, index) => (chunk.includes('"usage"') ? [index] : []));
    expect(usages).toHaveLength(2);
    expect(usages[0]).toBeLessThan(answer.chunks.length - 3);
  });

  it('chat-stop-string: what may begin the stop string is held back, the last text carries timings', async () => {
    const real = recorded('llama-server/chat-stop-string');
    const server = await serve(quickLlama);
    const answer = await post(server, real.request.path, { ...real.request.body, stop: ['simulated', 'zzz'] });
    expect(chunkShapes(answer)).toEqual(chunkShapes(real));
    const deltas = dataOf(answer.body)
      .slice(1, -3)
      .map((data) => (parse(data)['choices'] as { delta: { content: string } }[])[0]?.delta.content);
    expect(deltas.join('')).toBe('This answer is ');
  });

  it.each([['chat-nonstream'], ['models'], ['metrics'], ['slots-idle']] as const)(
    '%s: same keys in the same order',
    async (name) => {
      const real = recorded(`llama-server/${name}`);
      const server = await serve(quickLlama);
      // Two requests of different prompts, so that both slots have had a task.
      await post(server, '/v1/chat/completions', { ...chat, stream: false, max_tokens: 8 });
      await post(server, '/v1/chat/completions', {
        ...chat,
        messages: [{ role: 'user', content: 'x'.repeat(400) }],
        max_tokens: 8,
      });
      const answer =
        name === 'chat-nonstream'
          ? await post(server, real.request.path, real.request.body)
          : await get(server, real.request.path);
      const kinds = (body: string) => (name === 'metrics' ? body.replace(/ [0-9.]+$/gm, ' N') : shapeOf(body));
      expect(kinds(answer.body)).toBe(kinds(real.body));
      expect(headerNames(answer)).toEqual(headerNames(real));
    },
  );

  it.each([
    ['error-401', { apiKey: 'KEY1' }],
    ['error-404', {}],
    ['error-bad-json', { badJsonStatus: 500 }],
    ['b11549-error-bad-json', { badJsonStatus: 400 }],
    ['error-context-overflow', {}],
    ['error-503-loading', { loadingMs: 60_000 }],
  ] as const)('%s: same words, and the connection closes', async (name, more) => {
    const real = recorded(`llama-server/${name}`);
    const server = await serve({ ...quickLlama, ...more });
    const client = await openRawClient(server.port);
    const body = name.endsWith('bad-json') ? '{"model":"smollm2","messages":[' : real.request.body;
    client.send(name === 'error-404' ? getRequest('/v1/nothing') : postRequest(real.request.path, body));
    await client.untilOver();
    const answer = takeApart(client.bytes);
    expect([answer.status, headerNames(answer)]).toEqual([real.status, headerNames(real)]);
    const figures = (text: string) => text.replace(/\d{4}/g, 'N');
    expect(figures(answer.body)).toBe(figures(real.body));
  });

  it('chat-ping-in-prefill: a lone colon in a chunk of its own for each silent interval', async () => {
    const clock = createVirtualClock();
    const slow = { ...quickLlama.engine, stepTime: { ...quickTime, baseMs: 7_500 } };
    const server = await serve({ ...quickLlama, engine: slow }, { clock });
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 1, sse_ping_interval: 2 }));
    await untilTrue(() => server.engine.view().running === 1);
    clock.runUntil(10_000);
    await client.untilOver();
    const answer = takeApart(client.bytes);
    expect(answer.chunks.slice(0, 3)).toEqual([':\n\n', ':\n\n', ':\n\n']);
    expect(answer.chunks).toHaveLength(3 + 3);
    const real = recorded('llama-server/chat-ping-in-prefill');
    expect(chunkShapes(answer)).toEqual(chunkShapes(real).filter((shape) => !isPlainToken(shape)));
  });

  it('R08 error-in-stream: the error as an event, no finish, no [DONE]', async () => {
    const cache = { kind: 'slots', slotTokens: 160, unified: true, ramTokens: 0, minSimilarity: 0.1 } as const;
    const server = await serve({ ...quickLlama, engine: { ...quickLlama.engine, cache } });
    const long = { ...chat, max_tokens: 400, ignore_eos: true };
    const [answer] = await Promise.all([
      post(server, '/v1/chat/completions', long),
      post(server, '/v1/chat/completions', long),
    ]);
    expect(answer.chunks.at(-1)).toBe(recorded('llama-server/error-in-stream').chunks.at(-1));
    expect(answer.complete).toBe(true);
  });

  it('describes itself with the keys of the real /props, and as simulated', async () => {
    const server = await serve(quickLlama);
    const { body } = await get(server, '/props');
    // Seen on b10434.
    expect(Object.keys(parse(body))).toEqual([
      ...[
        'default_generation_settings',
        'total_slots',
        'model_alias',
        'model_ftype',
        'model_path',
        'modalities',
        'media_marker',
      ],
      ...[
        'endpoint_slots',
        'endpoint_props',
        'endpoint_metrics',
        'ui',
        'ui_settings',
        'chat_template',
        'chat_template_caps',
      ],
      ...['bos_token', 'eos_token', 'build_info', 'is_sleeping', 'cors_proxy_enabled'],
    ]);
    expect(parse(body)).toMatchObject({
      total_slots: 2,
      model_alias: 'simulated',
      build_info: 'b0-simulated',
      default_generation_settings: { n_ctx: 2048 },
    });
  });

  it('answers Anthropic and Responses requests whole, with the keys seen on b10434', async () => {
    const server = await serve(quickLlama);
    const message = await post(server, '/v1/messages', { messages: chat.messages, max_tokens: 3 });
    expect(shapeOf(message.body)).toBe(
      '{"id":S,"type":S,"role":S,"content":[{"type":S,"text":S}],"model":S,"stop_reason":S,"stop_sequence":null,"usage":{"cache_read_input_tokens":I,"input_tokens":I,"output_tokens":I}}',
    );
    const response = await post(server, '/v1/responses', { input: 'hi', max_output_tokens: 3 });
    expect(shapeOf(response.body)).toBe(
      '{"completed_at":I,"created_at":I,"id":S,"model":S,"object":S,"output":[{"content":[{"type":S,"annotations":[],"logprobs":[],"text":S}],"id":S,"role":S,"status":S,"type":S}],"status":S,"usage":{"input_tokens":I,"output_tokens":I,"total_tokens":I,"input_tokens_details":{"cached_tokens":I}}}',
    );
    expect((await post(server, '/v1/messages', {})).status).toBe(500);
    expect((await post(server, '/v1/chat/completions', {})).status).toBe(400);
  });

  it('counts tokens, cuts texts and turns tokens back', async () => {
    const server = await serve(quickLlama);
    const counted = parse((await post(server, '/v1/messages/count_tokens', { messages: chat.messages })).body);
    const whole = parse((await post(server, '/v1/chat/completions', { ...chat, stream: false })).body);
    expect(whole['usage']).toMatchObject({ prompt_tokens: counted['input_tokens'] });
    const { tokens } = parse((await post(server, '/tokenize', { content: 'hello there' })).body);
    expect((await post(server, '/detokenize', { tokens })).body).toBe('{"content":"hello there"}');
    expect((await post(server, '/tokenize', { content: 'hello there', with_pieces: true })).body).toContain(
      '"piece":" there"',
    );
  });

  it('answers a preflight, and echoes an origin', async () => {
    const server = await serve(quickLlama);
    const answer = await exchange(
      server,
      'OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nOrigin: http://a.test\r\n\r\n',
    );
    expect(answer.headers).toContainEqual(['Access-Control-Allow-Origin', 'http://a.test']);
    expect(answer.status).toBe(200);
  });
});

/** A token after the first: no role event beside it. */
function isPlainToken(shape: string): boolean {
  return shape.includes('"content":S') && !shape.includes('"role"');
}
