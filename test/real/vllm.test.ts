/** Everything that is proven on one running vLLM. The last test ends it with SIGTERM: the order matters. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { abortSuite, abortsInLog, untilAborts } from './abort-suite.ts';
import { aiperfSuite } from './aiperf-suite.ts';
import { batchSuite } from './batch-suite.ts';
import { startBench, untilIdle, type Bench } from './bench.ts';
import { until } from './child-process.ts';
import { clientSuite } from './client-suite.ts';
import { moved } from './counters.ts';
import { freshPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import { modelName } from './engine.ts';
import { findingsSuite } from './findings-suite.ts';
import { installed } from './installed.ts';
import { vllmLanesSuite } from './lanes-vllm-suite.ts';
import { startLlamaServer } from './llama-server.ts';
import { vllmMeasurementSuite } from './measurement-suite.ts';
import { ask } from './raw-client.ts';
import { expectedPayload, known, only, relay, sha256, start, sum } from './reading.ts';
import { relaySuite } from './relay-suite.ts';
import { vllmRoutingSuite } from './routing-suite.ts';
import { at, carriesToken, normalise, parseEvents, parseJson, textOf } from './stream-events.ts';
import { startVllm, vllmQueueLimit } from './vllm.ts';
import { startWarmlane } from './warmlane.ts';

const plainText = { chat_template_kwargs: { enable_thinking: false } };

describe.runIf(installed('vllm'))('vLLM', () => {
  let running: Bench | undefined;
  const bench = () => known(running, 'the bench');

  beforeAll(async () => {
    running = await startBench(() => startVllm());
  });
  afterAll(() => running?.stop());

  it('is found for what it is: engine, model, version, cache block', async () => {
    const [backend] = await bench().warmlane.backends();
    expect(backend).toMatchObject({
      engine: 'vllm',
      engineKnown: true,
      health: 'up',
      version: '0.32.0',
      blockTokens: 32,
    });
    expect(backend?.models).toEqual(['smollm2']);
  });

  relaySuite('vllm', bench);
  abortSuite('vllm', bench);
  clientSuite('vllm', bench);
  findingsSuite('vllm', bench);
  vllmMeasurementSuite(bench);
  aiperfSuite('vllm', bench);
  vllmRoutingSuite(bench, 32);
  batchSuite('vllm', bench);
  vllmLanesSuite('fcfs', bench);

  describe('streams', () => {
    it('R14 half a character is a token all the same', async () => {
      const before = await untilIdle(bench().engine);
      // Text completions: in a chat the reasoning parser swallows such events.
      const body = { model: modelName, prompt: freshPrompt(), max_tokens: 60, temperature: 0, stream: true };
      const request = {
        path: '/v1/completions',
        body: { ...body, structured_outputs: { choice: ['Ok 👍🏽 你好 🎉 çava'] } },
      };
      const { answer, exchange, record } = await relay(bench(), request);
      const counted = moved(before, await untilIdle(bench().engine));
      expect(textOf(answer)).toBe('Ok 👍🏽 你好 🎉 çava');
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(exchange, false)));
      const empty = answer.events.filter((event) => event.data.includes('"text":""') && carriesToken(event, true));
      expect(empty.length).toBeGreaterThan(0);
      expect(record.events).toBe(answer.events.filter((event) => carriesToken(event, true)).length);
      expect(record.tokens.output?.value).toBe(counted.generated);
    });

    it('R17 R19 two choices: one read is one moment, tokens are summed, TPOT is per choice', async () => {
      const before = await untilIdle(bench().engine);
      const { record, exchange, answer } = await relay(
        bench(),
        streamedChat(freshPrompt(), 20, { ...plainText, n: 2, temperature: 0.8, seed: 3 }),
      );
      const counted = moved(before, await untilIdle(bench().engine));
      expect(counted.generated).toBe(40);
      expect(record.tokens.output?.value).toBe(40);
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(exchange, false)));
      expect(record.marks).toContain('coalesced');
      const response = known(exchange.response, 'response');
      const perChoice = [0, 1].map((index) => {
        const moments = parseEvents(response.payload)
          .filter((event) => carriesToken(event, true) && at(parseJson(event.data), 'choices', 0, 'index') === index)
          .map((event) => response.arrivedAt(event.end));
        return (known(moments.at(-1), 'last token') - known(moments[0], 'first token')) / (moments.length - 1);
      });
      // Across the choices it would be the half.
      const ratio = known(record.figures.tpotMs, 'TPOT') / (sum(perChoice) / 2);
      expect(ratio).toBeGreaterThan(0.8);
      expect(ratio).toBeLessThan(1.25);
    });

    it('reasoning is told from the answer, and counted', async () => {
      const thought = streamedChat(freshPrompt(), 60, {
        stream_options: { include_usage: true },
        ignore_eos: false,
        structured_outputs: { choice: ['<think>Two and two.</think>Four it is.'] },
        logit_bias: { 5: 60 },
      });
      const { record, answer } = await relay(bench(), thought);
      const usage = known(
        answer.events
          .map((event) => (event.data === '[DONE]' ? undefined : at(parseJson(event.data), 'usage')))
          .findLast((value) => value !== undefined),
        'usage',
      );
      expect(record.tokens.reasoning?.value).toBe(at(usage, 'completion_tokens_details', 'reasoning_tokens'));
      expect(record.tokens.output?.value).toBe(at(usage, 'completion_tokens'));
      expect(known(record.timeline.firstAnswer, 'first answer')).toBeGreaterThan(
        known(record.timeline.firstToken, 'first token'),
      );
    });

    it("R25 R28 the request's id stands in the engine's log, and queue and prefill stay joint", async () => {
      const { record } = await relay(bench(), streamedChat(freshPrompt(), 4));
      const { process: engine } = bench().engine;
      // Another process's log comes through a pipe: it may be behind.
      await until('the id in its log', () => engine.log().includes(`chatcmpl-${record.requestId}-`) || undefined);
      expect(record.figures.prefillKind).toBe('joint');
    });

    it('usage that the client asked for is not stripped', async () => {
      const { answer, exchange } = await relay(
        bench(),
        streamedChat(freshPrompt(), 4, { stream_options: { include_usage: true } }),
      );
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(exchange, true)));
      expect(answer.events.filter((event) => event.data.includes('"usage":')).length).toBe(1);
    });

    it('R27 requests that wait in the engine are stopped there too', async () => {
      const { engine, warmlane } = bench();
      await untilIdle(engine);
      const seen = abortsInLog(engine);
      const calls = Array.from({ length: 8 }, () => start(bench(), streamedChat(freshPrompt(), 600)));
      await until('four to wait in the engine', async () =>
        (await engine.counters()).waiting >= 4 ? true : undefined,
      );
      for (const { call } of calls.toReversed()) call.abort();
      await untilAborts(engine, seen + 8);
      await untilIdle(engine);
      for (const { requestId } of calls) expect((await warmlane.record(requestId)).outcome).toBe('client_abort');
    });
  });

  describe('connections', () => {
    it("R02 requests after about the server's idle limit of 5 s never fail", async () => {
      const { warmlane } = bench();
      for (const idleMs of [4_900, 4_990, 5_000, 5_010, 5_300]) {
        expect((await ask(warmlane.url, streamedChat('Say yes.', 1))).complete).toBe(true);
        await pause(idleMs);
      }
      expect((await ask(warmlane.url, streamedChat('Say yes.', 1))).complete).toBe(true);
    });
  });

  describe('errors', () => {
    it('R03 a busy engine is a true 503, never a 200 that turns out to be an error', async () => {
      const { warmlane, tap, engine } = bench();
      await untilIdle(engine);
      const calls = Array.from({ length: vllmQueueLimit * 3 }, () => start(bench(), streamedChat(freshPrompt(), 8)));
      const answers = await Promise.all(calls.map(({ call }) => call.done));
      let dressed = 0;
      for (const [index, answer] of answers.entries()) {
        const { requestId } = known(calls[index], 'call');
        const record = await warmlane.record(requestId);
        const engineStatus = only(tap.find(requestId)).response?.startLine;
        if (answer.status === 200) {
          expect(answer.events.at(-1)?.data).toBe('[DONE]');
          expect(answer.text).not.toContain('"error"');
          expect(record.outcome).toBe('ok');
          continue;
        }
        expect(answer.status).toBe(503);
        expect(record.outcome).toBe('rejected');
        if (engineStatus?.includes(' 200 ') !== true) continue;
        dressed += 1;
        expect(answer.headers.has('retry-after')).toBe(true);
      }
      expect(answers.filter(({ status }) => status === 503).length).toBeGreaterThan(0);
      expect(dressed).toBeGreaterThan(0);
    });

    it('R23 passes refusals of the server unchanged, whatever their shape', async () => {
      const { engine, warmlane } = bench();
      for (const request of [
        { path: '/v1/messages', body: '{"messages": [' },
        { path: '/v1/chat/completions', body: '{"messages": [' },
        { path: '/v1/chat/completions', body: { model: 'no-such-model', messages: [{ role: 'user', content: 'x' }] } },
        { path: '/v1/embeddings', body: { model: 'smollm2', input: 'x' } },
        { path: '/no/such/path' },
      ]) {
        const [direct, relayed] = [await ask(engine.url, request), await ask(warmlane.url, request)];
        expect(direct.status).toBeGreaterThanOrEqual(400);
        expect(relayed.status, request.path).toBe(direct.status);
        expect(relayed.text, request.path).toBe(direct.text);
      }
    });
  });

  describe('other routes', () => {
    it.each([
      { path: '/version' },
      { path: '/v1/models' },
      { path: '/tokenize', body: { model: 'smollm2', prompt: 'water under bridges' } },
      { path: '/detokenize', body: { model: 'smollm2', tokens: [1, 2, 3] } },
      { path: '/v1/messages/count_tokens', body: { model: 'smollm2', messages: [{ role: 'user', content: 'hello' }] } },
    ])('$path answers as the server does', async (request) => {
      const { engine, warmlane } = bench();
      const [direct, relayed] = [await ask(engine.url, request), await ask(warmlane.url, request)];
      expect(direct.status).toBe(200);
      expect(normalise(parseJson(relayed.text))).toEqual(normalise(parseJson(direct.text)));
    });
  });

  // Ends the engine: nothing may come after it.
  describe.runIf(installed('llama-server'))('draining', () => {
    it('R05 after SIGTERM running streams finish, and new requests are served elsewhere', async () => {
      const { engine, tap } = bench();
      await untilIdle(engine);
      const other = await startLlamaServer();
      const warmlane = await startWarmlane([tap.url, other.url]).catch(async (error: unknown) => {
        await other.stop();
        throw error;
      });
      try {
        const pair = [1, 2].map(() => start({ warmlane }, streamedChat(freshPrompt(), 150)));
        await Promise.all(pair.map(({ call }) => call.untilEvents(4)));
        engine.process.signal('SIGTERM');
        await pause(500);
        for (let turn = 0; turn < 6; turn += 1) {
          const requestId = newRequestId();
          const answer = await ask(warmlane.url, withId(streamedChat(freshPrompt(), 2), requestId));
          expect(answer).toMatchObject({ status: 200, complete: true });
          expect((await warmlane.record(requestId)).engine).toBe('llama-server');
        }
        const engines = new Set<string | undefined>();
        for (const { call, requestId } of pair) {
          expect((await call.done).events.at(-1)?.data).toBe('[DONE]');
          const record = await warmlane.record(requestId);
          expect(record.outcome).toBe('ok');
          engines.add(record.engine);
        }
        expect(engines).toEqual(new Set(['vllm', 'llama-server']));
        const vllmHealth = (await warmlane.backends()).find((backend) => backend.engine === 'vllm')?.health;
        expect(['draining', 'down']).toContain(vllmHealth);
      } finally {
        await warmlane.stop();
        await other.stop();
      }
    });
  });
});
