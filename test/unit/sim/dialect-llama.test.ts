import { afterEach, describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../../src/sim/virtual-clock.ts';
import { getRequest, openRawClient, postRequest, takeApart } from './raw-client.ts';
import { get, metric, post, quickLlama, quickTime, simRig, untilTrue } from './sim-rig.ts';
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

describe("llama-server's ways", () => {
  it('R28 sends nothing while queued; the head comes with the slot', async () => {
    const server = await serve({ ...quickLlama, engine: { ...quickLlama.engine, maxSequences: 1 } });
    const busy = await openRawClient(server.port);
    busy.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 400, ignore_eos: true }));
    await busy.until((text) => text.includes('content'));
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', chat));
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(client.bytes).toHaveLength(0);
    busy.close();
    await client.until((text) => text.includes('[DONE]'));
    client.close();
  });

  it('R01 closes after each stream although it announced to keep the connection, and on the 100th answer', async () => {
    const server = await serve(quickLlama);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', chat));
    await client.untilOver();
    expect(takeApart(client.bytes)).toMatchObject({ complete: true });
    expect(takeApart(client.bytes).headers).toContainEqual(['Keep-Alive', 'timeout=5, max=100']);
    const patient = await openRawClient(server.port);
    for (let count = 1; count <= 100; count += 1) {
      patient.send(getRequest('/health'));
      await patient.until((text) => text.split('{"status":"ok"}').length === count + 1);
    }
    await patient.untilOver();
    expect(patient.bytes.toString().split('Connection: close')).toHaveLength(2);
  });

  it('R17 puts role and first token, and finish, usage and timings, into one read each', async () => {
    const server = await serve(quickLlama);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, stream_options: { include_usage: true } }));
    await client.untilOver();
    const reads = client.reads.map((read) => read.bytes.toString());
    expect(reads[0]?.endsWith('\r\n\r\n')).toBe(true);
    expect(reads[1]).toMatch(/"role".*"content":"This"/s);
    expect(reads.at(-1)).toMatch(/"finish_reason":"length".*"usage".*\[DONE\]/s);
  });

  it('stops a decoding stream at its next token, and counts what was made when the slot is released', async () => {
    const server = await serve(quickLlama);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 900, ignore_eos: true }));
    await client.until((text) => text.split('content').length > 10);
    expect(metric((await get(server, '/metrics')).body, 'llamacpp:tokens_predicted_total')).toBe(0);
    client.close();
    await untilTrue(() => server.engine.view().running === 0);
    const { counters } = server.engine.view();
    expect(metric((await get(server, '/metrics')).body, 'llamacpp:tokens_predicted_total')).toBe(
      counters.generatedTokens,
    );
    expect(counters.generatedTokens).toBeLessThan(100);
  });

  it('R09 finds a silent leaver by a poll, which the results of others put off', async () => {
    const server = await serve({ ...quickLlama, abortPollMs: 60 });
    const unstreamed = { ...chat, stream: false, max_tokens: 1500, ignore_eos: true };
    const alone = await openRawClient(server.port);
    alone.send(postRequest('/v1/chat/completions', { ...unstreamed, max_tokens: 30 }));
    await untilTrue(() => server.engine.view().running === 1);
    alone.close();
    // It makes results by itself, and runs to its end.
    await untilTrue(() => server.engine.view().running === 0);
    expect(server.engine.view().counters.ended).toMatchObject({ length: 1, aborted: 0 });
    const slow = await serve({
      ...quickLlama,
      abortPollMs: 60,
      engine: { ...quickLlama.engine, stepTime: { ...quickTime, baseMs: 200 } },
    });
    const gone = await openRawClient(slow.port);
    gone.send(postRequest('/v1/chat/completions', unstreamed));
    await untilTrue(() => slow.engine.view().running === 1);
    gone.close();
    await untilTrue(() => slow.engine.view().counters.ended.aborted === 1);
    expect(slow.engine.view().counters.generatedTokens).toBeLessThan(4);
  });

  it('R10 finds one by the same poll while its prompt is computed step by step, and stops at the next border', async () => {
    const stepTime = { ...quickTime, perPrefillTokenMs: 1 };
    const server = await serve({
      ...quickLlama,
      abortPollMs: 100,
      engine: { ...quickLlama.engine, stepTokens: 32, stepTime },
    });
    const client = await openRawClient(server.port);
    const messages = [{ role: 'user', content: 'word '.repeat(900) }];
    client.send(postRequest('/v1/chat/completions', { ...chat, messages }));
    await untilTrue(() => server.engine.view().running === 1);
    client.close();
    await untilTrue(() => server.engine.view().running === 0);
    expect(server.engine.view().counters).toMatchObject({ generatedTokens: 0, ended: { aborted: 1 } });
  });

  it('R13 puts the poll off with each look at /slots', async () => {
    const clock = createVirtualClock();
    const server = await serve(
      { ...quickLlama, engine: { ...quickLlama.engine, stepTime: { ...quickTime, baseMs: 60_000 } } },
      { clock },
    );
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, stream: false }));
    await untilTrue(() => server.engine.view().running === 1);
    client.close();
    await untilTrue(() => server.openSockets === 0);
    while (clock.nowMs() < 59_200) {
      clock.runUntil(clock.nowMs() + 900);
      await get(server, '/slots');
    }
    clock.runUntil(60_001);
    // The first token is there; nobody was asked to stop.
    expect(server.engine.view()).toMatchObject({ running: 1, counters: { generatedTokens: 1 } });
    clock.runUntil(120_002);
    expect(server.engine.view()).toMatchObject({ running: 0, counters: { generatedTokens: 2, ended: { aborted: 1 } } });
  });

  it('R12 leaves /health without an answer while all HTTP threads are taken', async () => {
    const server = await serve({ ...quickLlama, httpThreads: 3 });
    const clients = await Promise.all([0, 1, 2].map(() => openRawClient(server.port)));
    for (const client of clients)
      client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 150, ignore_eos: true }));
    await untilTrue(() => server.engine.view().waiting === 1);
    const probe = await openRawClient(server.port);
    probe.send(getRequest('/health'));
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(probe.bytes).toHaveLength(0);
    await probe.until((text) => text.includes('"ok"'));
    probe.close();
    for (const client of clients) client.close();
  });

  it('R07 falls silent on SIGTERM until the next ping, then cuts', async () => {
    const server = await serve({ ...quickLlama, pingIntervalMs: 80 });
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 900, ignore_eos: true }));
    await client.until((text) => text.includes('content'));
    server.enter('silent');
    await expect(openRawClient(server.port)).rejects.toThrow('ECONNREFUSED');
    await client.untilOver();
    const answer = takeApart(client.bytes);
    expect(answer.chunks.at(-1)).toBe(':\n\n');
    expect(answer.complete).toBe(false);
  });

  it('shows its slots while they work', async () => {
    const server = await serve(quickLlama);
    const client = await openRawClient(server.port);
    client.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 900, ignore_eos: true }));
    await client.until((text) => text.split('content').length > 6);
    const slots = JSON.parse((await get(server, '/slots')).body) as {
      is_processing: boolean;
      n_prompt_tokens: number;
      next_token: { n_decoded: number; n_remain: number }[];
    }[];
    expect(slots.map((slot) => slot.is_processing)).toEqual([true, false]);
    const next = slots[0]?.next_token[0];
    expect((next?.n_decoded ?? 0) + (next?.n_remain ?? 0)).toBe(900);
    const whole = await openRawClient(server.port);
    whole.send(postRequest('/v1/chat/completions', { ...chat, max_tokens: 900, ignore_eos: true }));
    await whole.until((text) => text.includes('content'));
    expect((await get(server, '/slots?fail_on_no_slot=1')).body).toBe(
      recorded('llama-server/slots-fail-on-no-slot').body,
    );
    client.close();
    whole.close();
  });

  it('accepts any model name, and at most as many choices as it has slots', async () => {
    const server = await serve(quickLlama);
    expect((await post(server, '/v1/chat/completions', { ...chat, model: 'anything' })).status).toBe(200);
    expect(await post(server, '/v1/chat/completions', { ...chat, n: 3 })).toMatchObject({
      status: 400,
      body: expect.stringContaining('1 <= value <= 2, but got 3') as string,
    });
  });

  it('refuses a compressed body', async () => {
    const server = await serve(quickLlama);
    expect((await post(server, '/v1/chat/completions', chat, { 'Content-Encoding': 'gzip' })).status).toBe(415);
  });
});

describe("llama-server's numbers", () => {
  it('agree between answers, counters and cache', async () => {
    const server = await serve(quickLlama);
    const body = { ...chat, stream: false, messages: [{ role: 'user', content: 'one of many words '.repeat(60) }] };
    const ask = async () => parse((await post(server, '/v1/chat/completions', body)).body);
    const cold = await ask();
    const warm = await ask();
    const { prompt_tokens: prompt } = cold['usage'] as { prompt_tokens: number };
    expect(cold['timings']).toMatchObject({ cache_n: 0, prompt_n: prompt, predicted_n: 6 });
    expect(warm['timings']).toMatchObject({ cache_n: prompt - 1, prompt_n: 1 });
    expect(warm['usage']).toMatchObject({
      prompt_tokens_details: { cached_tokens: prompt - 1 },
      completion_tokens: 6,
      total_tokens: prompt + 6,
    });
    const text = (await get(server, '/metrics')).body;
    expect(metric(text, 'llamacpp:prompt_tokens_total')).toBe(prompt + 1);
    expect(metric(text, 'llamacpp:prompt_tokens_cached_total')).toBe(prompt - 1);
    expect(metric(text, 'llamacpp:tokens_predicted_total')).toBe(12);
    expect(metric(text, 'llamacpp:n_tokens_max')).toBe(prompt + 5);
    expect(metric(text, 'llamacpp:predicted_tokens_seconds')).toBeGreaterThan(0);
    expect(metric((await get(server, '/metrics')).body, 'llamacpp:predicted_tokens_seconds')).toBe(0);
  });

  it('R22 give rates that leave the first token out, and none for a single token', async () => {
    const server = await serve(quickLlama);
    const timingsOf = async (tokens: number) => {
      const body = parse(
        (await post(server, '/v1/chat/completions', { ...chat, stream: false, max_tokens: tokens })).body,
      );
      return body['timings'] as { predicted_ms: number; predicted_per_token_ms: number; predicted_per_second: number };
    };
    const many = await timingsOf(11);
    expect(many.predicted_per_token_ms).toBeCloseTo(many.predicted_ms / 10, 6);
    expect(await timingsOf(1)).toMatchObject({
      predicted_ms: 0.001,
      predicted_per_token_ms: 0,
      predicted_per_second: 0,
    });
  });

  it('find the answer of the turn before in the next prompt', async () => {
    const server = await serve(quickLlama);
    const first = parse((await post(server, '/v1/chat/completions', { ...chat, stream: false, max_tokens: 40 })).body);
    const answer = (first['choices'] as { message: { content: string } }[])[0]?.message.content ?? '';
    const messages = [...chat.messages, { role: 'assistant', content: answer }, { role: 'user', content: 'And then?' }];
    const next = parse((await post(server, '/v1/chat/completions', { ...chat, stream: false, messages })).body);
    const before = (first['usage'] as { total_tokens: number }).total_tokens;
    expect((next['timings'] as { cache_n: number }).cache_n).toBe(before - 1);
  });
});
