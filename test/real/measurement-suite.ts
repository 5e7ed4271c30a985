/**
 * warmlane's figures under load beside the engine's own: llama-server's `timings` of each request, vLLM's histograms of all.
 * The bounds are what the definitions and the network leave (deploy/measurements.md).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { expectNear, printTable } from './agreement.ts';
import { untilIdle, type Bench } from './bench.ts';
import { moved, readHistograms } from './counters.ts';
import { freshPrompt, longPrompt, streamedChat } from './dialects.ts';
import { gaps, known, median, start, sum } from './reading.ts';
import { at, parseJson, type StreamEvent } from './stream-events.ts';
import type { WireRecord } from './warmlane.ts';

const outputTokens = 40;
/** Of each request: more of them than the engines have slots or sequences, so that some wait. */
const promptTokens = [20, 300, 40, 250, 30, 400] as const;
/** vLLM's reasoning parser takes all text for reasoning otherwise. */
const plainText = { chat_template_kwargs: { enable_thinking: false } };

interface Served {
  readonly record: WireRecord;
  readonly events: readonly StreamEvent[];
}

/** Streams that begin 300 ms apart, so that prefills fall into running decodes. */
async function serveLoad(bench: Bench): Promise<readonly Served[]> {
  const calls = [];
  for (const tokens of promptTokens) {
    calls.push(start(bench, streamedChat(longPrompt(tokens), outputTokens, plainText)));
    await pause(300);
  }
  return Promise.all(
    calls.map(async ({ call, requestId }) => {
      const { events } = await call.done;
      return { events, record: await bench.warmlane.record(requestId) };
    }),
  );
}

interface Timings {
  readonly promptMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly predictedMs: number;
  readonly predictedTokens: number;
}

/** What llama-server says of a request in its last event. */
function timingsOf(events: readonly StreamEvent[]): Timings {
  const timings = events
    .filter(({ data }) => data !== '[DONE]')
    .map(({ data }) => at(parseJson(data), 'timings'))
    .findLast((value) => value !== undefined);
  const figure = (name: string) => Number(known(at(timings, name), name));
  return {
    promptMs: figure('prompt_ms'),
    promptTokens: figure('prompt_n'),
    cachedTokens: figure('cache_n'),
    predictedMs: figure('predicted_ms'),
    predictedTokens: figure('predicted_n'),
  };
}

export function llamaMeasurementSuite(bench: () => Bench): void {
  describe('measurements beside timings', () => {
    it('R22 R28 under load counts, prefill, TTFT and TPOT agree with the server’s own timings', async () => {
      await untilIdle(bench().engine);
      const served = await serveLoad(bench());
      const rows = served.map(({ record, events }) => besideTimings(record, timingsOf(events)));
      printTable(
        'llama-server, six streams on four slots',
        rows.map(({ row }) => row),
      );
      for (const { row, expectAgreement } of rows) expectAgreement(JSON.stringify(row));
    });

    it('R20 what the server books as decode while it works on another prompt is a stall here', async () => {
      await untilIdle(bench().engine);
      const victim = start(bench(), streamedChat(freshPrompt(), 150, plainText));
      await victim.call.untilEvents(30);
      const cause = start(bench(), streamedChat(longPrompt(1000), 2, plainText));
      const [{ events }] = await Promise.all([victim.call.done, cause.call.done]);
      const record = await bench().warmlane.record(victim.requestId);
      const { predictedMs, predictedTokens } = timingsOf(events);
      const theirTpotMs = predictedMs / (predictedTokens - 1);
      const tpotMs = known(record.figures.tpotMs, 'TPOT');
      const quietMs = median(gaps(known(record.stamps, 'stamps').atMs));
      const stalls = record.stalls ?? [];
      const stallMs = sum(stalls.map(({ durationMs }) => durationMs));
      const lostMs = predictedMs - quietMs * (predictedTokens - 1);
      printTable('llama-server, R20', [
        {
          'predicted_ms/(n−1)': theirTpotMs,
          TPOT: tpotMs,
          'median ITL': quietMs,
          'predicted_ms − median ITL × (n−1)': lostMs,
          stalls: stallMs,
        },
      ]);
      expectNear(tpotMs, theirTpotMs, 'TPOT', { share: 0.05, ms: 1 });
      expect(new Set(stalls.map(({ requestId }) => requestId))).toEqual(new Set([cause.requestId]));
      expect(stallMs).toBeGreaterThan(500);
      expectNear(stallMs, lostMs, 'stalls', { share: 0.25, ms: 100 });
    });
  });
}

function besideTimings(record: WireRecord, timings: Timings) {
  const { figures, tokens } = record;
  const ttftMs = known(figures.ttftMs, 'TTFT');
  const prefillMs = known(figures.prefillMs, 'prefill');
  const tpotMs = known(figures.tpotMs, 'TPOT');
  // All that lies before the server's slot began.
  const beforeMs = sum(
    [figures.queueMs, figures.engineQueueMs, figures.connectMs, figures.overheadMs].map((ms) => ms ?? 0),
  );
  const theirTpotMs = timings.predictedMs / (timings.predictedTokens - 1);
  const row = {
    'prompt, cached, output': `${timings.promptTokens + timings.cachedTokens}, ${timings.cachedTokens}, ${timings.predictedTokens}`,
    'here ': `${tokens.prompt?.value}, ${tokens.cached?.value}, ${tokens.output?.value}`,
    prompt_ms: timings.promptMs,
    prefill: prefillMs,
    TTFT: ttftMs,
    'before the slot': beforeMs,
    'predicted_ms/(n−1)': theirTpotMs,
    TPOT: tpotMs,
    stalls: sum((record.stalls ?? []).map(({ durationMs }) => durationMs)),
  };
  const expectAgreement = (words: string) => {
    expect(row['here '], words).toBe(row['prompt, cached, output']);
    expect(figures.prefillKind, words).toBe('split');
    expectNear(prefillMs, timings.promptMs, `prefill of ${words}`, { share: 0.05, ms: 50 });
    expectNear(ttftMs - beforeMs, timings.promptMs, `TTFT of ${words}`, { share: 0.05, ms: 50 });
    expectNear(tpotMs, theirTpotMs, `TPOT of ${words}`, { share: 0.05, ms: 1 });
  };
  return { row, expectAgreement };
}

const vllmHistograms = {
  ttft: 'vllm:time_to_first_token_seconds',
  itl: 'vllm:inter_token_latency_seconds',
  tpot: 'vllm:request_time_per_output_token_seconds',
  e2e: 'vllm:e2e_request_latency_seconds',
  queue: 'vllm:request_queue_time_seconds',
  prefill: 'vllm:request_prefill_time_seconds',
  decode: 'vllm:request_decode_time_seconds',
};

export function vllmMeasurementSuite(bench: () => Bench): void {
  describe('measurements beside /metrics', () => {
    it('under load counts, TTFT, ITL, TPOT and end to end agree with the engine’s own histograms', async () => {
      const { engine } = bench();
      const countersBefore = await untilIdle(engine);
      const before = await readHistograms(engine.url, vllmHistograms);
      const records = (await serveLoad(bench())).map(({ record }) => record);
      const counted = moved(countersBefore, await untilIdle(engine));
      const after = await readHistograms(engine.url, vllmHistograms);
      const there = (name: keyof typeof vllmHistograms) => (after[name].sum - before[name].sum) * 1000;
      const thereCount = (name: keyof typeof vllmHistograms) => after[name].count - before[name].count;
      const here = (figure: (record: WireRecord) => number | undefined) =>
        sum(records.map((record) => known(figure(record), 'a figure')));

      const gapCount = here(({ itlSeconds }) => itlSeconds?.count);
      const [ttftMs, gapsMs] = [
        here(({ figures }) => figures.upstreamTtftMs),
        here(({ itlSeconds }) => itlSeconds && itlSeconds.sum * 1000),
      ];
      const [tpotMs, e2eMs] = [here(({ figures }) => figures.tpotMs), here(({ figures }) => figures.durationMs)];
      printTable('vLLM, six streams, four at once; sums over all', [
        { figure: 'TTFT', 'in /metrics': there('ttft'), here: ttftMs },
        { figure: 'of it queue', 'in /metrics': there('queue') },
        { figure: 'of it prefill', 'in /metrics': there('prefill') },
        { figure: 'ITL', 'in /metrics': there('itl'), here: gapsMs },
        { figure: 'ITL: how many', 'in /metrics': thereCount('itl'), here: gapCount },
        { figure: 'TPOT', 'in /metrics': there('tpot'), here: tpotMs },
        { figure: 'end to end', 'in /metrics': there('e2e'), here: e2eMs },
        {
          figure: 'stalls named',
          here: sum(records.flatMap(({ stalls }) => stalls ?? []).map(({ durationMs }) => durationMs)),
        },
        {
          figure: 'prompt tokens',
          'in /metrics': counted.promptComputed + counted.promptCached,
          here: here(({ tokens }) => tokens.prompt?.value),
        },
        {
          figure: 'cached tokens',
          'in /metrics': counted.promptCached,
          here: here(({ tokens }) => tokens.cached?.value),
        },
        { figure: 'output tokens', 'in /metrics': counted.generated, here: here(({ tokens }) => tokens.output?.value) },
      ]);

      expect(here(({ tokens }) => tokens.output?.value)).toBe(counted.generated);
      expect(here(({ tokens }) => tokens.prompt?.value)).toBe(counted.promptComputed + counted.promptCached);
      expect(here(({ tokens }) => tokens.cached?.value)).toBe(counted.promptCached);
      for (const name of ['ttft', 'tpot', 'e2e'] as const) expect(thereCount(name)).toBe(records.length);
      // A frontend that was slow for a moment puts two steps' tokens into one event.
      expect(gapCount).toBeLessThanOrEqual(thereCount('itl'));
      expect(gapCount).toBeGreaterThan(thereCount('itl') * 0.9);
      // The engine sees neither its own HTTP side nor the network: what is seen here is later, never earlier.
      for (const [name, ms] of [
        ['ttft', ttftMs],
        ['e2e', e2eMs],
      ] as const) {
        expect(ms, name).toBeGreaterThan(there(name) - 5 * records.length);
        expect(ms, name).toBeLessThan(there(name) * 1.02 + 150 * records.length);
      }
      expectNear(gapsMs, there('decode'), 'ITL', { share: 0.05, ms: 50 });
      expectNear(tpotMs, there('tpot'), 'TPOT', { share: 0.05, ms: 5 });
    });
  });
}
