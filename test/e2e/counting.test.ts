/** How many tokens, over real sockets: the engine's own counts, read once, from wherever it tells them. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { itlSamplesMs } from '../../src/measure/itl.ts';
import { send } from '../../src/sim/fault-steps.ts';
import {
  chunk,
  delta,
  DONE,
  FIN,
  lastChunk,
  ROLE,
  sseEvent,
  sseHead,
  T,
  USE,
  wholeAnswer,
} from '../../src/sim/sse-script.ts';
import { marksOf, paced, pass } from '../support/exchange.ts';
import { chatBody, postBytes, R0, R1 } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

/** A chat chunk with more members than the usual ones. */
function event(choices: readonly object[], more: object = {}): string {
  return sseEvent({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...more });
}

const twoChoices = postBytes('/v1/chat/completions', { ...chatBody, n: 2, stream_options: { include_usage: true } });

describe('usage', () => {
  it('C033 counts beside choices that aren’t empty; its event is no token', async () => {
    const usage = {
      prompt_tokens: 40,
      completion_tokens: 120,
      total_tokens: 160,
      prompt_tokens_details: { cached_tokens: 32 },
    };
    const events = [T('a'), T('b'), T('c'), event([{ index: 0, delta: {} }], { usage }), DONE];
    const { record, answer } = await pass(stage, () => paced(15, ...events), { request: R1 });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record).toMatchObject({ outcome: 'ok', events: 3, warmth: 'prefix_hit' });
    expect(record.tokens).toMatchObject({
      prompt: { value: 40 },
      output: { value: 120, source: 'usage' },
      cached: { value: 32 },
    });
    expect(itlSamplesMs(record.stamps)).toHaveLength(2);
  });

  it.each(['openai', 'vllm', 'llama-server', 'sglang'] as const)(
    'C035 that comes with every event is a running total, not a summand (%s)',
    async (engine) => {
      const running = [1, 2, 3, 4, 5].map((completion) => {
        const usage = { prompt_tokens: 10, completion_tokens: completion, total_tokens: 10 + completion };
        return event([{ index: 0, delta: { content: 'x' }, finish_reason: null }], { usage });
      });
      const { record } = await pass(stage, () => paced(5, ROLE, ...running, FIN('length'), USE(10, 5), DONE), {
        request: R1,
        engine,
      });
      expect(record.tokens).toEqual({ prompt: { value: 10, source: 'usage' }, output: { value: 5, source: 'usage' } });
      expect(record.events).toBe(5);
      expect(marksOf(record)).toEqual([]);
    },
  );

  it('C039 R19 of two choices is one sum: the prompt counts once', async () => {
    const events = [
      ROLE,
      T('a', 0),
      T('b', 1),
      T('c', 0),
      T('d', 1),
      FIN('stop', 0),
      FIN('length', 1),
      USE(33, 4),
      DONE,
    ];
    const { record, answer } = await pass(stage, () => paced(5, ...events), { request: twoChoices, engine: 'vllm' });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record.tokens).toMatchObject({ prompt: { value: 33 }, output: { value: 4 } });
    expect(record).toMatchObject({ events: 4, finishReasons: ['stop', 'length'] });
  });

  it('R18 is told once for each choice by llama-server: summed, and the stream goes on after the first', async () => {
    const usageOf = (completion: number) =>
      event([], { usage: { prompt_tokens: 38, completion_tokens: completion, total_tokens: 38 + completion } });
    const events = [
      ROLE,
      T('a', 0),
      T('b', 1),
      FIN('stop', 0),
      usageOf(3),
      T('c', 1),
      T('d', 1),
      FIN('length', 1),
      usageOf(5),
      DONE,
    ];
    const { record, answer } = await pass(stage, () => paced(10, ...events), {
      request: twoChoices,
      engine: 'llama-server',
    });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record.tokens).toMatchObject({ prompt: { value: 38 }, output: { value: 8, source: 'usage' } });
    expect(record).toMatchObject({ outcome: 'ok', events: 4, finishReasons: ['stop', 'length'] });
    expect(marksOf(record)).not.toContain('no_end_marker');
  });

  it('C043 and llama-server’s timings tell the same numbers: neither is added to the other', async () => {
    const usage = { prompt_tokens: 12_000, completion_tokens: 300, total_tokens: 12_300 };
    const timings = { cache_n: 11_000, prompt_n: 1000, predicted_n: 300, prompt_ms: 500, predicted_ms: 6000 };
    const last = event([{ index: 0, delta: {}, finish_reason: 'stop' }], { usage, timings });
    const { record } = await pass(stage, () => paced(10, ROLE, T('a'), T('b'), last, DONE), {
      request: R1,
      engine: 'llama-server',
    });
    expect(record.tokens).toMatchObject({
      prompt: { value: 12_000 },
      output: { value: 300 },
      cached: { value: 11_000 },
    });
    expect(record.warmth).toBe('prefix_hit');
  });

  it('C045 C043 in an answer that isn’t streamed is read from whatever pieces it comes in', async () => {
    const usage = {
      completion_tokens: 7,
      prompt_tokens: 21,
      total_tokens: 28,
      prompt_tokens_details: { cached_tokens: 0 },
    };
    const timings = { cache_n: 0, prompt_n: 21, prompt_ms: 81.5, predicted_n: 7 };
    const body = JSON.stringify({
      choices: [
        {
          finish_reason: 'stop',
          index: 0,
          message: { role: 'assistant', content: '{"usage":{"completion_tokens":99}}' },
        },
      ],
      usage,
      timings,
    });
    const bytes = wholeAnswer(200, body, { 'Content-Type': 'application/json' });
    const { record, answer } = await pass(
      stage,
      () => [send(bytes.subarray(0, 60)), ...[...bytes.subarray(60)].flatMap((byte) => [send(Buffer.from([byte]))])],
      {
        request: R0.replace('"stream":true', '"stream":null'),
        engine: 'llama-server',
      },
    );
    expect(answer.body.toString()).toBe(body);
    expect(record).toMatchObject({ outcome: 'ok', streamed: false, warmth: 'resident', finishReasons: ['stop'] });
    expect(record.tokens).toMatchObject({ prompt: { value: 21 }, output: { value: 7 }, cached: { value: 0 } });
    expect(record.figures).toMatchObject({ prefillMs: 81.5, prefillKind: 'split' });
  });
});

describe('an end', () => {
  it('C042 that carries the last text too is both token and finish', async () => {
    const events = [T('a'), delta({ content: 'b' }, 0, 'length'), DONE];
    const { record, answer } = await pass(stage, () => paced(15, ...events));
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record).toMatchObject({ outcome: 'ok', events: 2, finishReasons: ['length'] });
    expect(record.timeline.finish).toBe(record.timeline.lastToken);
  });

  it('R22 that llama-server calls completed is an end by length where the allowance was used up', async () => {
    const response = (output: number) => ({
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      model: 'm',
      usage: { input_tokens: 9, output_tokens: output, total_tokens: 9 + output },
    });
    const events = (output: number) => [
      sseEvent({ type: 'response.created', response: { id: 'resp_1', status: 'in_progress' } }, 'response.created'),
      ...Array.from({ length: output }, () =>
        sseEvent({ type: 'response.output_text.delta', delta: 'x' }, 'response.output_text.delta'),
      ),
      sseEvent({ type: 'response.completed', response: response(output) }, 'response.completed'),
    ];
    const request = postBytes('/v1/responses', { model: 'm', stream: true, input: 'hi', max_output_tokens: 4 });
    const cut = await pass(stage, () => paced(2, ...events(4)), { request, engine: 'llama-server' });
    expect(cut.record).toMatchObject({
      outcome: 'ok',
      finishReasons: ['max_output_tokens'],
      tokens: { output: { value: 4 } },
    });
    const whole = await pass(stage, () => paced(2, ...events(3)), { request, engine: 'llama-server' });
    expect(whole.record.finishReasons).toEqual(['completed']);
    for (const { answer } of [cut, whole]) expect(answer.body.toString()).toContain('"status":"completed"');
  });
});

describe('tokens in events', () => {
  it('R14 vLLM’s empty text after the role chunk is one; elsewhere it is none', async () => {
    const events = [ROLE, T(''), T('ü'), T(''), T(''), T('😀'), FIN('stop'), USE(12, 5), DONE];
    const vllm = await pass(stage, () => paced(10, ...events), { request: R1, engine: 'vllm' });
    expect(vllm.record).toMatchObject({ events: 5, tokens: { output: { value: 5, source: 'usage' } } });
    expect(vllm.record.timeline.firstToken).toBeGreaterThan(vllm.record.timeline.role ?? Number.NaN);
    expect(marksOf(vllm.record)).toEqual([]);
    const other = await pass(stage, () => paced(10, ...events), { request: R1 });
    expect(other.record).toMatchObject({ events: 2, tokens: { output: { value: 5 } } });
    expect(marksOf(other.record)).not.toEqual([]);
  });

  it('R16 are known one by one where each tells its token ids', async () => {
    const ids = [1, 1, 1, 5, 3, 1];
    const events = ids.map((count) =>
      event([
        {
          index: 0,
          delta: { content: 'w' },
          token_ids: Array.from({ length: count }, (_, i) => 100 + i),
          finish_reason: null,
        },
      ]),
    );
    const { record } = await pass(stage, () => paced(10, ROLE, ...events, FIN('stop'), DONE), { engine: 'vllm' });
    expect(record.tokens.output).toEqual({ value: 12, source: 'events_ids' });
    expect(record.stamps?.tokens).toEqual(ids);
    expect(record.marks).toContain('several_tokens_per_event');
    expect(record.events).toBe(6);
  });

  it('R16 or where usage runs along: what it grew by is what the event carried', async () => {
    const totals = [1, 6, 11, 12];
    const events = totals.map((completion) =>
      event([{ index: 0, delta: { content: 'w' }, finish_reason: null }], {
        usage: { prompt_tokens: 4, completion_tokens: completion, total_tokens: 4 + completion },
      }),
    );
    const { record } = await pass(stage, () => paced(10, ROLE, ...events, FIN('stop'), USE(4, 12), DONE), {
      request: R1,
      engine: 'vllm',
    });
    expect(record.stamps?.tokens).toEqual([1, 5, 5, 1]);
    expect(record.marks).toContain('several_tokens_per_event');
    expect(record.tokens.output).toEqual({ value: 12, source: 'usage' });
  });

  it('R16 are known in sum alone where the wire doesn’t tell, and said to be several', async () => {
    const { record } = await pass(
      stage,
      () => paced(10, ROLE, T('a'), T('b c d'), T('e f g'), FIN('length'), USE(4, 7), DONE),
      { request: R1, engine: 'vllm' },
    );
    expect(record.stamps?.tokens).toBeUndefined();
    expect(record.tokens.output?.value).toBe(7);
    expect(record.marks).toContain('several_tokens_per_event');
    expect(record.figures.tpotWindow).toBe('visible');
  });

  it('R16 are estimated, and marked so, where no engine says anything', async () => {
    const { record } = await pass(stage, () => paced(10, ROLE, T('a'), T('b'), FIN('stop'), DONE));
    expect(record.tokens).toEqual({ output: { value: 2, source: 'events_estimate' } });
    expect(record.marks).toContain('estimated_tokens');
    expect(record.warmth).toBe('unknown');
  });

  it('R17 of one step of two choices share their read’s moment, and are marked', async () => {
    const step = chunk(T('a', 0), T('b', 1));
    const { record } = await pass(
      stage,
      () => [
        send(sseHead()),
        20,
        send(step),
        20,
        send(step),
        20,
        send(chunk(FIN('stop', 0), FIN('stop', 1), USE(9, 4), DONE)),
        send(lastChunk),
      ],
      { request: twoChoices, engine: 'vllm' },
    );
    const atMs = record.stamps?.atMs ?? [];
    expect(atMs[0]).toBe(atMs[1]);
    expect(atMs[2]).toBe(atMs[3]);
    expect(atMs[2]).toBeGreaterThan(atMs[1] ?? Number.NaN);
    expect(record.stamps).toMatchObject({ choice: [0, 1, 0, 1], coalesced: [0, 1, 0, 1] });
    expect(record.marks).toContain('coalesced');
  });
});
