import { afterEach, describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../../src/sim/virtual-clock.ts';
import { dataOf, openRawClient, postRequest, takeApart } from './raw-client.ts';
import { get, metric, post, quickVllm, simRig, untilTrue } from './sim-rig.ts';
import { recorded } from './wire-shape.ts';

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

describe("vLLM's ways", () => {
  it('R28 sends the head at once, even behind a full batch', async () => {
    const server = await serve({ ...quickVllm, engine: { ...quickVllm.engine, maxSequences: 1 } });
    const busy = await openRawClient(server.port);
    busy.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 300, ignore_eos: true }));
    await busy.until((text) => text.includes('content'));
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', chat));
    await client.until((text) => text.endsWith('\r\n\r\n'));
    expect(client.bytes.includes('data:')).toBe(false);
    expect(server.engine.view()).toMatchObject({ running: 1, waiting: 1 });
    busy.close();
    await client.until((text) => text.includes('[DONE]'));
    client.close();
  });

  it('R03 refuses with 503 when the queue is full, and in the stream when requests race for the last place', async () => {
    const clock = createVirtualClock();
    const server = await serve({ ...quickVllm, maxQueuedRequests: 2, frontendMs: 5 }, { clock });
    const long = { ...chat, max_tokens: 400, ignore_eos: true };
    const clients = await Promise.all(Array.from({ length: 4 }, () => openRawClient(server.port)));
    for (const client of clients) client.send(postRequest('/v1/chat/completions', long));
    await untilTrue(() => clock.pending === 4);
    clock.runUntil(clock.nowMs() + 50);
    const heads = await Promise.all(clients.map((client) => client.until((text) => text.includes('data:'))));
    const refused = heads.filter((text) => text.includes('"error"'));
    expect(refused).toHaveLength(2);
    const raced = takeApart(clients.find((client) => client.bytes.includes('"error"'))?.bytes ?? Buffer.alloc(0));
    expect(raced.chunks).toEqual(recorded('vllm/error-busy-in-stream').chunks);
    const late = await post(server, '/v1/chat/completions', chat);
    expect([late.status, late.body]).toEqual([503, recorded('vllm/error-busy').body]);
    expect(metric((await get(server, '/metrics')).body, 'vllm:admission_rejections_total')).toBe(3);
    for (const client of clients) client.close();
  });

  it('R27 aborts when the socket closes, in each phase, and counts such aborts nowhere', async () => {
    const server = await serve({ ...quickVllm, engine: { ...quickVllm.engine, maxSequences: 1 } });
    for (const stream of [true, false]) {
      const running = await openRawClient(server.port);
      running.send(postRequest('/v1/chat/completions', { ...chat, stream, max_tokens: 900, ignore_eos: true }));
      const waiting = await openRawClient(server.port);
      waiting.send(postRequest('/v1/chat/completions', { ...chat, stream, max_tokens: 900, ignore_eos: true }));
      await untilTrue(() => server.engine.view().running === 1 && server.engine.view().waiting === 1);
      waiting.close();
      await untilTrue(() => server.engine.view().waiting === 0);
      running.close();
      await untilTrue(() => server.engine.view().running === 0);
    }
    const { counters } = server.engine.view();
    expect(counters.ended).toMatchObject({ aborted: 4, stop: 0, length: 0 });
    expect(counters.generatedTokens).toBeLessThan(600);
    const { body } = await get(server, '/metrics');
    expect(body).toContain('finished_reason="abort",model_name="simulated"} 0.0');
    expect(metric(body, 'vllm:generation_tokens_total')).toBe(counters.generatedTokens);
  });

  it('R11 takes a half-close for leaving', async () => {
    const server = await serve(quickVllm);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 900, ignore_eos: true }));
    await client.until((text) => text.includes('content'));
    client.socket.end();
    await client.untilOver();
    await untilTrue(() => server.engine.view().running === 0);
    expect(server.engine.view().counters.ended.aborted).toBe(1);
  });

  it('R02 keeps a connection after streams and refusals, for five idle seconds', async () => {
    const server = await serve(quickVllm);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', chat));
    await client.until((text) => text.includes('0\r\n\r\n'));
    client.send(postRequest('/v1/chat/completions', '{'));
    await client.until((text) => text.includes('json_invalid'));
    client.send(postRequest('/v1/chat/completions', { ...chat, stream: false }));
    await client.until((text) => text.includes('"chat.completion"'));
    const endedMs = performance.now();
    await client.untilOver(7_000);
    expect(performance.now() - endedMs).toBeGreaterThan(4_500);
    expect(performance.now() - endedMs).toBeLessThan(6_500);
  });

  it('R06 ends running streams with an error event and [DONE] when the engine dies', async () => {
    const server = await serve(quickVllm);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 900, ignore_eos: true }));
    await client.until((text) => text.includes('content'));
    server.enter('dead');
    await client.until((text) => text.endsWith('0\r\n\r\n'));
    expect(takeApart(client.bytes).chunks.slice(-2)).toEqual(recorded('vllm/engine-died-mid-stream').chunks.slice(-2));
    expect((await get(server, '/health')).status).toBe(503);
    expect((await post(server, '/v1/chat/completions', chat)).status).toBe(500);
    client.close();
  });

  it('R05 finishes running streams while draining, and refuses new ones with 500 although healthy', async () => {
    const server = await serve(quickVllm);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 30, ignore_eos: true }));
    await client.until((text) => text.includes('content'));
    server.enter('draining');
    expect((await get(server, '/health')).status).toBe(200);
    expect(await post(server, '/v1/chat/completions', chat)).toMatchObject({
      status: 500,
      body: expect.stringContaining('cannot schedule new futures after shutdown') as string,
    });
    await client.until((text) => text.includes('[DONE]'));
    client.close();
  });

  it('R04 falls silent on SIGTERM: no error, no end, and the port refuses', async () => {
    const server = await serve(quickVllm);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 900, ignore_eos: true }));
    await client.until((text) => text.includes('content'));
    server.enter('silent');
    await new Promise((resolve) => setTimeout(resolve, 20));
    const bytes = client.bytes.length;
    await expect(openRawClient(server.port)).rejects.toThrow('ECONNREFUSED');
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect([client.bytes.length, client.over]).toEqual([bytes, false]);
    client.close();
  });

  it('refuses connections until its model is loaded', async () => {
    const server = await serve({ ...quickVllm, loadingMs: 80 });
    await expect(openRawClient(server.port)).rejects.toThrow('ECONNREFUSED');
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect((await get(server, '/health')).status).toBe(200);
  });
});

describe("vLLM's numbers", () => {
  it('agree between answers, counters and cache', async () => {
    const server = await serve(quickVllm);
    const long = {
      ...chat,
      messages: [{ role: 'user', content: 'one of many words '.repeat(60) }],
      stream_options: { include_usage: true },
    };
    const usageOf = async (body: object) =>
      parse(dataOf((await post(server, '/v1/chat/completions', body)).body).at(-2))['usage'] as {
        prompt_tokens: number;
        completion_tokens: number;
        prompt_tokens_details: { cached_tokens: number };
      };
    const cold = await usageOf(long);
    const warm = await usageOf(long);
    expect(cold.prompt_tokens_details).toEqual({
      cached_tokens: 0,
      created_cache_tokens: Math.floor(cold.prompt_tokens / 16) * 16,
    });
    expect(warm.prompt_tokens_details.cached_tokens).toBe(Math.floor((warm.prompt_tokens - 1) / 16) * 16);
    expect((await usageOf({ ...long, cache_salt: 'x' })).prompt_tokens_details.cached_tokens).toBe(0);
    const { body } = await get(server, '/metrics');
    expect(metric(body, 'vllm:prompt_tokens_total')).toBe(3 * cold.prompt_tokens);
    expect(metric(body, 'vllm:prompt_tokens_cached_total')).toBe(warm.prompt_tokens_details.cached_tokens);
    expect(metric(body, 'vllm:prefix_cache_hits_total')).toBe(warm.prompt_tokens_details.cached_tokens);
    expect(metric(body, 'vllm:generation_tokens_total')).toBe(18);
    expect(metric(body, 'vllm:time_to_first_token_seconds_count')).toBe(3);
    expect(metric(body, 'vllm:inter_token_latency_seconds_count')).toBe(15);
    expect(body).toContain('vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="simulated"} 3.0');
  });

  it('say nothing of cached tokens without the server flag', async () => {
    const server = await serve({ ...quickVllm, promptTokensDetails: false });
    const streamed = await post(server, '/v1/chat/completions', { ...chat, stream_options: { include_usage: true } });
    expect(streamed.body).not.toContain('prompt_tokens_details');
    expect((await post(server, '/v1/chat/completions', { ...chat, stream: false })).body).toContain(
      '"prompt_tokens_details":null',
    );
  });

  it('count the end token, which is an event without text', async () => {
    const server = await serve({ ...quickVllm, answer: { minSentences: 1, maxSentences: 1 } });
    const answer = await post(server, '/v1/chat/completions', {
      ...chat,
      max_tokens: 50,
      return_token_ids: true,
      stream_options: { include_usage: true },
    });
    const events = dataOf(answer.body);
    expect(events.at(-3)).toContain(
      '"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":[2]',
    );
    expect(parse(events.at(-2))['usage']).toMatchObject({ completion_tokens: events.length - 3 });
    const ignored = await post(server, '/v1/chat/completions', { ...chat, max_tokens: 50, ignore_eos: true });
    expect(dataOf(ignored.body)).toHaveLength(50 + 2);
  });

  it('R14 hold text back because of a stop string, and end before it', async () => {
    const server = await serve(quickVllm);
    const answer = await post(server, '/v1/chat/completions', {
      ...chat,
      max_tokens: 50,
      stop: ['simulated'],
      stream_options: { include_usage: true },
    });
    const events = dataOf(answer.body);
    expect(events[1]).toContain('"content":""');
    expect(events.at(-3)).toContain('"finish_reason":"stop","stop_reason":"simulated"');
    const text = events
      .slice(1, -2)
      .map((data) => (parse(data)['choices'] as { delta: { content: string } }[])[0]?.delta.content);
    expect(text.join('')).toBe('This answer is ');
    expect(parse(events.at(-2))['usage']).toMatchObject({ completion_tokens: 4 });
  });

  it('repeat: the same request at temperature 0 or with a seed gives the same text, another seed another', async () => {
    const server = await serve(quickVllm);
    const textOf = async (more: object) => {
      const { body } = await post(server, '/v1/chat/completions', { ...chat, stream: false, max_tokens: 60, ...more });
      return (parse(body)['choices'] as { message: { content: string } }[])[0]?.message.content;
    };
    expect(await textOf({})).toBe(await textOf({}));
    expect(await textOf({ temperature: 1, seed: 4 })).toBe(await textOf({ temperature: 1, seed: 4 }));
    expect(await textOf({ temperature: 1, seed: 4 })).not.toBe(await textOf({ temperature: 1, seed: 5 }));
  });

  it('count several prompts of one completion together', async () => {
    const server = await serve(quickVllm);
    const answer = parse(
      (await post(server, '/v1/completions', { prompt: ['Once upon a time', [5, 6, 7]], n: 2, max_tokens: 3 })).body,
    );
    expect(answer['choices']).toHaveLength(4);
    expect(answer['usage']).toMatchObject({ prompt_tokens: 7, completion_tokens: 12, total_tokens: 19 });
  });

  it('are served by priority where the engine schedules so', async () => {
    const server = await serve({
      ...quickVllm,
      engine: { ...quickVllm.engine, maxSequences: 1, scheduling: 'priority' },
    });
    const busy = await openRawClient(server.port);
    busy.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 60, ignore_eos: true }));
    await busy.until((text) => text.includes('content'));
    const order: string[] = [];
    const late = post(server, '/v1/chat/completions', chat, { 'X-Vllm-Priority': '10' }).then(() => order.push('late'));
    await untilTrue(() => server.engine.view().waiting === 1);
    const soon = post(server, '/v1/chat/completions', { ...chat, priority: 0 }).then(() => order.push('soon'));
    await Promise.all([late, soon]);
    expect(order).toEqual(['soon', 'late']);
    busy.close();
  });
});
