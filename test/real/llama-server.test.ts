/** Everything that is proven on one running llama-server with two slots. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { abortSuite } from './abort-suite.ts';
import { startBench, untilIdle, type Bench } from './bench.ts';
import { until } from './child-process.ts';
import { clientSuite } from './client-suite.ts';
import { moved } from './counters.ts';
import { freshPrompt, longPrompt, newRequestId, streamedChat, withId } from './dialects.ts';
import { findingsSuite } from './findings-suite.ts';
import { installed } from './installed.ts';
import { startLlamaServer } from './llama-server.ts';
import { ask, send } from './raw-client.ts';
import { expectedPayload, known, relay, sha256, start } from './reading.ts';
import { relaySuite } from './relay-suite.ts';
import { at, carriesToken, normalise, parseJson } from './stream-events.ts';
import type { TapExchange } from './tap.ts';

const slots = 2;

describe.runIf(installed('llama-server'))('llama-server', () => {
  let running: Bench | undefined;
  const bench = () => known(running, 'the bench');

  beforeAll(async () => {
    running = await startBench(() => startLlamaServer());
  });
  afterAll(() => running?.stop());

  it('is found for what it is: engine, model, slots, context', async () => {
    const [backend] = await bench().warmlane.backends();
    expect(backend).toMatchObject({
      engine: 'llama-server',
      engineKnown: true,
      health: 'up',
      slots,
      contextTokens: 2048,
    });
    expect(backend?.models).toEqual(['smollm2']);
  });

  relaySuite('llama-server', bench);
  abortSuite('llama-server', bench);
  clientSuite('llama-server', bench);
  findingsSuite('llama-server', bench);

  describe('connections', () => {
    it('R01 200 short and streamed requests in turn, none fails', async () => {
      const { warmlane } = bench();
      for (let turn = 0; turn < 100; turn += 1) {
        const short = await ask(warmlane.url, { path: '/tokenize', body: { content: `turn ${turn}` } });
        expect(short).toMatchObject({ status: 200, complete: true });
        const streamed = await ask(warmlane.url, streamedChat('Say yes.', 2));
        expect(streamed).toMatchObject({ status: 200, complete: true });
        expect(streamed.events.at(-1)?.data).toBe('[DONE]');
      }
    });

    it('R01 250 short requests in a row pass the hundredth answers, after which the server closes', async () => {
      const { warmlane } = bench();
      for (let turn = 0; turn < 250; turn += 1) {
        const answer = await ask(warmlane.url, { path: '/tokenize', body: { content: `turn ${turn}` } });
        expect(answer).toMatchObject({ status: 200, complete: true });
      }
    });
  });

  describe('slots', () => {
    it('R12 a burst of 20 never puts more on the server than its slots, and /health stays quick', async () => {
      const { warmlane, tap, engine } = bench();
      await untilIdle(engine);
      const ids = Array.from({ length: 20 }, newRequestId);
      const calls = ids.map((id) => send(warmlane.url, withId(streamedChat(freshPrompt(), 12), id)));
      let finished = false;
      const all = Promise.all(calls.map((call) => call.done)).finally(() => (finished = true));
      const healthMs: number[] = [];
      while (!finished) {
        const askedMs = performance.now();
        expect((await ask(engine.url, { path: '/health' })).status).toBe(200);
        healthMs.push(performance.now() - askedMs);
        await pause(100);
      }
      for (const answer of await all) expect(answer).toMatchObject({ status: 200, complete: true });
      expect(healthMs.length).toBeGreaterThan(5);
      expect(Math.max(...healthMs)).toBeLessThan(1_000);
      expect(mostAtOnce(ids.flatMap((id) => tap.find(id)))).toBe(slots);
      const queueMs = await Promise.all(ids.map(async (id) => (await warmlane.record(id)).figures.queueMs ?? 0));
      expect(queueMs.filter((waitMs) => waitMs > 100).length).toBeGreaterThanOrEqual(10);
    });

    it('R09 who leaves while queued is gone at once and never reaches the server', async () => {
      const { warmlane, tap, engine } = bench();
      await untilIdle(engine);
      const busy = [1, 2].map(() => start(bench(), streamedChat(freshPrompt(), 1_200)));
      await Promise.all(busy.map(({ call }) => call.untilEvents(2)));
      const queued = Array.from({ length: 20 }, () => start(bench(), streamedChat(freshPrompt(), 8)));
      await until('all to be queued', async () =>
        (await warmlane.running()).length === busy.length + queued.length ? true : undefined,
      );
      for (const { call } of queued) call.abort();
      for (const { requestId } of queued) {
        expect(await warmlane.record(requestId)).toMatchObject({ outcome: 'client_abort', phase: 'queued' });
      }
      expect(await warmlane.running()).toHaveLength(busy.length);
      for (const { call } of busy) call.abort();
      await untilIdle(engine);
      await pause(500);
      for (const { requestId } of queued) expect(tap.find(requestId)).toHaveLength(0);
    });

    it('R10 the slot of an abandoned prefill is not promised to the next request', async () => {
      const { engine, tap } = bench();
      await untilIdle(engine);
      const logged = (words: string) => engine.process.log().split(words).length - 1;
      const [launched, released] = [logged('launch_slot_: id'), logged('release: id')];
      const left = [1, 2].map(() => start(bench(), streamedChat(longPrompt(1_900), 8)));
      await until('both to have a slot', () => (logged('launch_slot_: id') >= launched + 2 ? true : undefined));
      for (const { call } of left) call.abort();
      const next = start(bench(), streamedChat(freshPrompt(), 4));
      await until('the next one to be sent', () => (tap.find(next.requestId).length > 0 ? true : undefined));
      expect(logged('release: id')).toBeGreaterThanOrEqual(released + 2);
      expect((await next.call.done).complete).toBe(true);
      expect((await bench().warmlane.record(next.requestId)).figures.queueMs).toBeGreaterThan(0);
    });

    it('R18 two choices take two slots and are both counted', async () => {
      const { engine, tap } = bench();
      await untilIdle(engine);
      const other = start(bench(), streamedChat(freshPrompt(), 60));
      await other.call.untilEvents(2);
      const before = (await engine.counters()).generated;
      const pair = start(bench(), streamedChat(freshPrompt(), 16, { n: 2, stream_options: { include_usage: true } }));
      const answer = await pair.call.done;
      const otherAnswer = await other.call.done;
      const after = (await untilIdle(engine)).generated;
      expect([answer.complete, otherAnswer.complete]).toEqual([true, true]);
      const record = await bench().warmlane.record(pair.requestId);
      expect(record.tokens.output?.value).toBe(32);
      expect(after - before).toBe(32 + 60);
      expect(record.finishReasons).toHaveLength(2);
      const [exchange] = tap.find(pair.requestId);
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(known(exchange, 'exchange'), true)));
      const [otherExchange] = tap.find(other.requestId);
      expect(known(exchange, 'exchange').request.headAtMs).toBeGreaterThanOrEqual(
        known(otherExchange?.response, 'response').endAtMs,
      );
    });
  });

  describe('errors', () => {
    it('R24 bad JSON gets the answer that the server itself gives, once, and harms no one', async () => {
      const { engine, warmlane, tap } = bench();
      const request = { path: '/v1/chat/completions', body: '{"messages": [' };
      const direct = await ask(engine.url, request);
      const requestId = newRequestId();
      const relayed = await ask(warmlane.url, withId(request, requestId));
      expect(relayed.status).toBe(direct.status);
      expect(relayed.text).toBe(direct.text);
      expect(tap.find(requestId)).toHaveLength(1);
      const [backend] = await warmlane.backends();
      expect(backend?.health).toBe('up');
      expect((await ask(warmlane.url, streamedChat('Say yes.', 2))).complete).toBe(true);
    });

    it('passes refusals of the server unchanged', async () => {
      const { engine, warmlane } = bench();
      for (const request of [
        { path: '/no/such/path' },
        { path: '/v1/chat/completions', body: { messages: [{ role: 'user', content: 'word '.repeat(3_000) }] } },
        { path: '/infill', body: { input_prefix: 'x' } },
        { path: '/v1/embeddings', body: { input: 'x' } },
      ]) {
        const [direct, relayed] = [await ask(engine.url, request), await ask(warmlane.url, request)];
        expect(relayed.status, request.path).toBe(direct.status);
        expect(relayed.text, request.path).toBe(direct.text);
      }
    });
  });

  describe('other routes', () => {
    it.each([
      { path: '/props' },
      { path: '/v1/models' },
      { path: '/models' },
      { path: '/lora-adapters' },
      { path: '/tokenize', body: { content: 'water under bridges', with_pieces: true } },
      { path: '/detokenize', body: { tokens: [1, 2, 3] } },
      { path: '/apply-template', body: { messages: [{ role: 'user', content: 'hello' }] } },
      { path: '/v1/messages/count_tokens', body: { messages: [{ role: 'user', content: 'hello' }] } },
    ])('$path answers as the server does', async (request) => {
      const { engine, warmlane } = bench();
      const [direct, relayed] = [await ask(engine.url, request), await ask(warmlane.url, request)];
      expect(direct.status).toBe(200);
      expect(relayed.status).toBe(200);
      expect(normalise(parseJson(relayed.text))).toEqual(normalise(parseJson(direct.text)));
    });

    it('/slots answers with its slots', async () => {
      const slotsJson = parseJson((await ask(bench().warmlane.url, { path: '/slots' })).text);
      expect(slotsJson).toHaveLength(slots);
    });

    it.each([
      { path: '/slots/0?action=erase', body: {} },
      { path: '/props', body: {} },
      { path: '/lora-adapters', body: '[]' },
    ])('POST $path is closed, and the answer names the key that opens it', async (request) => {
      const answer = await ask(bench().warmlane.url, request);
      expect(answer.status).toBe(403);
      expect(at(parseJson(answer.text), 'error', 'message')).toMatch(/open/i);
    });
  });

  describe('figures', () => {
    it('R22 one token gives no TPOT', async () => {
      const { record } = await relay(bench(), streamedChat(freshPrompt(), 1));
      expect(record.tokens.output?.value).toBe(1);
      expect(record.figures.tpotMs).toBeUndefined();
      expect(record.figures.tpotWindow).toBe('none_single_token');
    });

    it("R22 R28 TPOT and prefill agree with the server's own timings", async () => {
      const { record, answer } = await relay(bench(), streamedChat(longPrompt(500), 40));
      const timings = known(
        answer.events
          .filter((event) => event.data !== '[DONE]')
          .map((event) => at(parseJson(event.data), 'timings'))
          .findLast((value) => value !== undefined),
        'timings',
      );
      expect(record.figures.prefillKind).toBe('split');
      const tpotRatio = known(record.figures.tpotMs, 'TPOT') / Number(at(timings, 'predicted_per_token_ms'));
      const prefillRatio = known(record.figures.prefillMs, 'prefill') / Number(at(timings, 'prompt_ms'));
      for (const ratio of [tpotRatio, prefillRatio]) expect(Math.abs(ratio - 1)).toBeLessThan(0.1);
    });

    it('R07 pings during a long prefill pass untouched and are no token', async () => {
      const before = await untilIdle(bench().engine);
      const { answer, exchange, record } = await relay(
        bench(),
        streamedChat(longPrompt(1_900), 4, { sse_ping_interval: 1 }),
      );
      const counted = moved(before, await untilIdle(bench().engine));
      expect(answer.text).toMatch(/(^|\n):\n/);
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(exchange, false)));
      expect(record.events).toBe(answer.events.filter((event) => carriesToken(event, false)).length);
      expect(record.tokens.output?.value).toBe(counted.generated);
      expect(known(record.figures.ttftMs, 'TTFT')).toBeGreaterThan(1_000);
    });
  });
});

/** The largest number of exchanges that were open on the server at one moment. */
function mostAtOnce(exchanges: readonly TapExchange[]): number {
  const moments = exchanges.flatMap(({ request, response }) => [
    { atMs: request.headAtMs, change: 1 },
    { atMs: known(response, 'response').endAtMs, change: -1 },
  ]);
  let [open, most] = [0, 0];
  for (const { change } of moments.toSorted((left, right) => left.atMs - right.atMs || left.change - right.change)) {
    open += change;
    most = Math.max(most, open);
  }
  return most;
}
