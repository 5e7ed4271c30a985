/**
 * The same proof for both engines and all their dialects: warmlane changes no byte, counts as the engine counts, and
 * stamps each token when it came.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { untilIdle, type Bench } from './bench.ts';
import { moved } from './counters.ts';
import { dialectsOf, freshPrompt, streamedChat, type Dialect } from './dialects.ts';
import type { Engine } from './engine.ts';
import { ask } from './raw-client.ts';
import { expectedPayload, gaps, known, median, relay, sha256, sum, tokenArrivals } from './reading.ts';
import { carriesToken, comparable, isUsageOnly, normalise, parseJson, textOf } from './stream-events.ts';
import { toolCallAsk } from './tool-call.ts';
import type { WireRecord } from './warmlane.ts';

const answerTokens = 12;

/** Longer than a cache block of vLLM in every dialect, so that the second visit finds something there. */
const cacheableText =
  'Write about lakes and mountains, about the birds that live on them all the year, about the fish below, and about ' +
  'the people who came by boat, built their houses on the shore and stayed there until the winter.';

const modes = [{ stream: false }, { stream: true }];

export function relaySuite(kind: Engine['kind'], bench: () => Bench): void {
  const isVllm = kind === 'vllm';

  describe.each(dialectsOf(kind))('$name', (dialect) => {
    const asking = (stream: boolean, prompt: string) => ({
      path: dialect.path,
      body: { ...dialect.body(prompt, answerTokens), ...(stream ? { stream } : {}) },
    });

    it('gives the same answer as the engine itself, whole', async () => {
      const { engine, warmlane } = bench();
      const request = asking(false, freshPrompt());
      await ask(engine.url, request); // both that follow meet the same warm cache
      const direct = await ask(engine.url, request);
      const relayed = await ask(warmlane.url, request);
      expect(relayed.status).toBe(200);
      expect(textOf(relayed)).not.toBe('');
      expect(normalise(parseJson(relayed.text))).toEqual(normalise(parseJson(direct.text)));
    });

    it('gives the same events as the engine itself, streamed', async () => {
      const { engine, warmlane } = bench();
      const request = asking(true, freshPrompt());
      await ask(engine.url, request); // both that follow meet the same warm cache
      const direct = await ask(engine.url, withUsage(request, dialect, isVllm));
      const relayed = await ask(warmlane.url, request);
      expect(relayed.complete).toBe(true);
      expect(textOf(relayed)).not.toBe('');
      const wanted = isVllm ? direct.events.filter((event) => !isUsageOnly(event)) : direct.events;
      expect(comparable(relayed.events, isVllm)).toEqual(comparable(wanted, isVllm));
    });

    it.each(modes)('sends on the very bytes that the engine sent, stream $stream', async ({ stream }) => {
      const { answer, exchange } = await relay(bench(), asking(stream, freshPrompt()));
      expect(answer).toMatchObject({ status: 200, complete: true });
      expect(answer.payload.length).toBeGreaterThan(0);
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(exchange, false)));
      expect(answer.headers.get('content-type')).toBe(exchange.response?.headers.get('content-type'));
    });

    it.each(modes)(
      'counts the tokens that the engine counts, cold and from its cache, stream $stream',
      async ({ stream }) => {
        const prompt = freshPrompt(cacheableText);
        for (const visit of ['cold', 'cached']) {
          const before = await untilIdle(bench().engine);
          const { record } = await relay(bench(), asking(stream, prompt));
          const counted = moved(before, await untilIdle(bench().engine));
          expect(record.tokens.output?.value, visit).toBe(counted.generated);
          expect(record.tokens.prompt?.value, visit).toBe(counted.promptComputed + counted.promptCached);
          expect(record.tokens.cached?.value, visit).toBe(counted.promptCached);
          expect(record.marks, visit).not.toContain('estimated_tokens');
          if (visit === 'cached') expect(counted.promptCached).toBeGreaterThan(0);
          if (visit === 'cached') expect(record.warmth).toBe('prefix_hit');
        }
      },
    );

    it('stamps each token event when it came', async () => {
      const { answer, exchange, record } = await relay(bench(), asking(true, freshPrompt()));
      const tokens = answer.events.filter((event) => carriesToken(event, isVllm));
      expect(record.outcome).toBe('ok');
      expect(record.events).toBe(tokens.length);
      const stamps = known(record.stamps, 'stamps').atMs;
      expect(stamps.length).toBe(tokens.length);
      // The two clocks differ by a constant; the test of TTFT takes the distance from the sending.
      const distances = tokenArrivals(exchange, isVllm).map(
        (arrivalMs, index) => known(stamps[index], 'stamp') - arrivalMs,
      );
      const errors = distances.map((distance) => Math.abs(distance - median(distances)));
      expect(errors).toHaveLength(tokens.length);
      expect(median(errors)).toBeLessThan(5);
    });
  });

  describe('a tool call', () => {
    it('R15 passes with the very bytes, its tokens counted though most gave no event', async () => {
      const before = await untilIdle(bench().engine);
      const { answer, exchange, record } = await relay(bench(), {
        path: '/v1/chat/completions',
        body: { ...toolCallAsk(kind), stream: true },
      });
      const counted = moved(before, await untilIdle(bench().engine));
      expect(sha256(answer.payload)).toBe(sha256(expectedPayload(exchange, false)));
      expect(record.tokens.output?.value).toBe(counted.generated);
      expect(record.events).toBe(answer.events.filter((event) => carriesToken(event, isVllm)).length);
      expect(record.events).toBeLessThan(counted.generated);
      expect(record.marks).toContain('fewer_events_than_tokens');
      expect(record.figures.tpotWindow).toBe('role_to_finish');
      expect(record.finishReasons).toEqual(['tool_calls']);
    });
  });

  timingSuite(isVllm, bench);
}

function timingSuite(isVllm: boolean, bench: () => Bench): void {
  describe('timing over ten streams', () => {
    const answers = 24;
    const readings: { tapTtftMs: number; gapsMs: number[]; tapGapsMs: number[]; record: WireRecord }[] = [];

    beforeAll(async () => {
      for (let turn = 0; turn < 10; turn += 1) {
        const { record, exchange } = await relay(bench(), streamedChat(freshPrompt(), answers));
        const arrivals = tokenArrivals(exchange, isVllm);
        readings.push({
          record,
          tapTtftMs: known(arrivals[0], 'first token') - exchange.request.endAtMs,
          gapsMs: gaps(known(record.stamps, 'stamps').atMs),
          tapGapsMs: gaps(arrivals),
        });
      }
    }, 120_000);

    it('TTFT is what the direct reading says, within noise', () => {
      const errors = readings.map(({ record, tapTtftMs }) =>
        Math.abs(known(record.figures.upstreamTtftMs, 'TTFT') - tapTtftMs),
      );
      expect(errors).toHaveLength(10);
      expect(median(errors)).toBeLessThan(5);
    });

    it('ITL is what the direct reading says, gap by gap, within noise', () => {
      const errors = readings.flatMap(({ gapsMs, tapGapsMs }) => {
        expect(gapsMs).toHaveLength(tapGapsMs.length);
        return gapsMs.map((gap, index) => Math.abs(gap - known(tapGapsMs[index], 'gap')));
      });
      expect(errors.length).toBeGreaterThan(100);
      expect(median(errors)).toBeLessThan(2);
      const ratio =
        sum(readings.flatMap((reading) => reading.gapsMs)) / sum(readings.flatMap((reading) => reading.tapGapsMs));
      expect(Math.abs(ratio - 1)).toBeLessThan(0.03);
    });

    it('E2E is TTFT + TPOT × (n − 1) on every clean record', () => {
      // Clean: every token had its event, the first token came alone. A held-back half of a character is enough to spoil it.
      const clean = readings.filter(
        ({ record, gapsMs }) =>
          record.figures.tpotWindow === 'visible' && gapsMs.length === answers - 1 && gapsMs[0] !== 0,
      );
      expect(clean.length).toBeGreaterThanOrEqual(5);
      for (const { record } of clean) {
        const { ttftMs, tpotMs, e2eMs, decodeTokensPerSecond } = record.figures;
        const count = known(record.tokens.output, 'output tokens').value;
        expect(count).toBe(answers);
        // Figures are told to the microsecond: half of one may be missing for each token.
        const sumMs = known(ttftMs, 'TTFT') + known(tpotMs, 'TPOT') * (count - 1);
        expect(Math.abs(sumMs - known(e2eMs, 'E2E'))).toBeLessThan(0.0005 * (count + 1));
        expect((known(decodeTokensPerSecond, 'rate') * known(tpotMs, 'TPOT')) / 1000).toBeCloseTo(1, 2);
      }
    });
  });
}

/** What warmlane asks of vLLM: with usage, where the dialect has it as an option. */
function withUsage(
  request: { path: string; body: Record<string, unknown> },
  dialect: Dialect,
  isVllm: boolean,
): typeof request {
  return isVllm && ['chat', 'completions'].includes(dialect.name)
    ? { ...request, body: { ...request.body, stream_options: { include_usage: true } } }
    : request;
}
