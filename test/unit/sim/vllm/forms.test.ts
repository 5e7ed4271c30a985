import { afterEach, describe, expect, it } from 'vitest';
import { dataOf } from '../raw-client.ts';
import { get, metric, post, quickVllm, simRig } from '../sim-rig.ts';
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

describe("vLLM's wire forms", () => {
  it.each([
    ['chat-plain', 24 + 2],
    ['chat-usage', 24 + 3],
    ['chat-continuous-usage', 8 + 3],
    ['chat-return-token-ids', 8 + 3],
    ['stream-interval-5', 8 + 3],
    ['completions-stream', 12 + 2],
    ['messages-stream', 12 + 5],
    ['prefix-cold', 6 + 3],
  ] as const)('%s: same head, same keys, same chunks', async (name, chunks) => {
    const real = recorded(`vllm/${name}`);
    const server = await serve(quickVllm);
    const answer = await post(server, real.request.path, { ...real.request.body, model: 'simulated' });
    expect(answer.status).toBe(200);
    expect(headerNames(answer)).toEqual(headerNames(real));
    expect(chunkShapes(answer)).toEqual(chunkShapes(real));
    expect([answer.chunks.length, real.chunks.length]).toEqual([chunks, chunks]);
    expect(answer.headers).toContainEqual(['x-simulated', 'warmlane']);
  });

  it('responses-stream: two events before anything is computed, the rest as recorded', async () => {
    const real = recorded('vllm/responses-stream');
    const server = await serve(quickVllm);
    const answer = await post(server, real.request.path, { ...real.request.body, model: 'simulated' });
    expect(chunkShapes(answer)).toEqual(chunkShapes(real));
    const numbers = dataOf(answer.body).map((data) => parse(data)['sequence_number']);
    expect(numbers).toEqual(numbers.map((_, index) => index));
  });

  it('chat-n2: all roles first, the choices interleaved, one usage with the sum', async () => {
    const real = recorded('vllm/chat-n2');
    const server = await serve(quickVllm);
    const answer = await post(server, real.request.path, { ...real.request.body, model: 'simulated' });
    expect(new Set(chunkShapes(answer))).toEqual(new Set(chunkShapes(real)));
    expect(answer.chunks.slice(0, 2).map((chunk) => chunk.includes('"role"'))).toEqual([true, true]);
    const usage = parse(dataOf(answer.chunks.at(-2) ?? '')[0])['usage'];
    expect(usage).toMatchObject({ completion_tokens: 16 });
    // Each choice looks its prompt up by itself, as the real server's counters show.
    const { body } = await get(server, '/metrics');
    const prompt = (usage as { prompt_tokens: number }).prompt_tokens;
    expect(metric(body, 'vllm:prefix_cache_queries_total')).toBe(2 * prompt);
  });

  it('chat-non-stream: same keys and nulls, head and body in two reads', async () => {
    const real = recorded('vllm/chat-non-stream');
    const server = await serve(quickVllm);
    const answer = await post(server, real.request.path, { ...real.request.body, model: 'simulated' });
    expect(shapeOf(answer.body)).toBe(shapeOf(real.body));
    expect(headerNames(answer)).toEqual(headerNames(real));
  });

  it.each([
    ['error-unknown-model', 404],
    ['error-context-overflow', 400],
    ['error-bad-json', 400],
  ] as const)('%s: same words', async (name, status) => {
    const real = recorded(`vllm/${name}`);
    const server = await serve(quickVllm);
    const body =
      name === 'error-bad-json'
        ? '{"model":'
        : { ...real.request.body, model: name === 'error-unknown-model' ? 'nope' : 'simulated' };
    const answer = await post(server, real.request.path, body);
    expect([answer.status, real.status]).toEqual([status, status]);
    expect(answer.body).toBe(real.body.replace('smollm2', 'simulated'));
    expect(headerNames(answer)).toEqual(headerNames(real));
  });

  it('error-401: error is a string, and only /v1 is guarded', async () => {
    const server = await serve({ ...quickVllm, apiKey: 'k1' });
    const answer = await post(server, '/v1/chat/completions', chat);
    expect([answer.status, answer.body]).toEqual([401, recorded('vllm/error-401').body]);
    expect((await get(server, '/health')).status).toBe(200);
    expect((await post(server, '/v1/chat/completions', chat, { Authorization: 'Bearer k1' })).status).toBe(200);
  });

  it('speaks of missing routes and wrong methods without an error object', async () => {
    const server = await serve(quickVllm);
    expect(await get(server, '/v1/embeddings')).toMatchObject({ status: 404, body: '{"detail":"Not Found"}' });
    expect(await get(server, '/v1/chat/completions')).toMatchObject({
      status: 405,
      body: '{"detail":"Method Not Allowed"}',
    });
  });

  it('says that it is simulated, and describes itself as a fleet looks it up', async () => {
    const server = await serve(quickVllm);
    expect((await get(server, '/version')).body).toBe('{"version":"0.32.0+simulated"}');
    expect(parse((await get(server, '/v1/models')).body)).toMatchObject({
      data: [{ id: 'simulated', owned_by: 'vllm', max_model_len: 2048 }],
    });
    expect((await get(server, '/metrics')).body).toContain('vllm:cache_config_info{block_size="16"');
    const { body } = await post(server, '/v1/chat/completions', { ...chat, stream: false });
    expect(body).toContain('This answer is simulated.');
  });

  it('turns text into tokens and back', async () => {
    const server = await serve(quickVllm);
    const counted = parse((await post(server, '/tokenize', { model: 'simulated', prompt: 'hello there, world' })).body);
    expect(counted).toMatchObject({ count: 4, max_model_len: 2048, token_strs: null });
    expect((await post(server, '/detokenize', { tokens: counted['tokens'] })).body).toBe(
      '{"prompt":"hello there, world"}',
    );
  });
});
