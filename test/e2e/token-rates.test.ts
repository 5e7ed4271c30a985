/** Time per token, rates, and the split of queue and prefill, over real sockets; the backend's own writes are the truth. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { itlSamplesMs } from '../../src/measure/itl.ts';
import { send } from '../../src/sim/fault-steps.ts';
import { chunk, delta, DONE, FIN, lastChunk, ROLE, sseHead, T, USE, wholeAnswer } from '../../src/sim/sse-script.ts';
import { gapsOf, marksOf, pass } from '../support/exchange.ts';
import { expectGaps, expectNear, mean, script, times, slackMs, watchLoop } from '../support/moments.ts';
import { postBytes, R1, chatBody } from '../support/raw-http.ts';
import { createStage, type Stage } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
  watchLoop();
});
afterEach(() => stage.close());

describe('time per token and rates', () => {
  it('C038 count what was visible, not the thoughts that nobody saw', async () => {
    const { record, writesMs } = await pass(
      stage,
      () =>
        script(
          [800, T('a')],
          ...times(19, 20, T('b')),
          [0, FIN('stop')],
          [0, USE(40, 320, { completion_tokens_details: { reasoning_tokens: 300 } })],
          [0, DONE],
        ),
      { request: R1 },
    );
    expectNear(record.figures.tpotMs, mean(gapsOf(writesMs.slice(1, 21))), slackMs() / 19);
    expect(record.figures.tpotMs).toBeGreaterThan(15);
    expect(record.tokens).toMatchObject({ output: { value: 320 }, reasoning: { value: 300 } });
    expect(record.marks).toContain('hidden_reasoning');
  });

  it('C044 are of the decoding: neither the prompt’s tokens nor its time are in it', async () => {
    const { record, writesMs } = await pass(
      stage,
      () => script([1000, T('a')], ...times(40, 25, T('b')), [0, FIN('stop')], [0, USE(8000, 41)], [0, DONE]),
      { request: R1 },
    );
    const tpotMs = mean(gapsOf(writesMs.slice(1, 42)));
    const { decodeTokensPerSecond = Number.NaN, overallTokensPerSecond = Number.NaN } = record.figures;
    expectNear(record.figures.tpotMs, tpotMs, slackMs() / 40);
    expect(decodeTokensPerSecond).toBeCloseTo(1000 / (record.figures.tpotMs ?? Number.NaN), 2);
    expect(overallTokensPerSecond).toBeLessThan(decodeTokensPerSecond * 0.75);
  });

  it('C045 there are none for an answer that isn’t streamed; its tokens count all the same', async () => {
    const usage = { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 };
    const answer = {
      id: 'x',
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'a b c' }, finish_reason: 'stop' }],
      usage,
    };
    const bytes = wholeAnswer(200, answer);
    const { record, writesMs } = await pass(
      stage,
      () => [400, send(bytes.subarray(0, 150)), 50, send(bytes.subarray(150))],
      {
        request: postBytes('/v1/chat/completions', { ...chatBody, stream: false }),
      },
    );
    expect(record).toMatchObject({ outcome: 'ok', streamed: false, events: 0, finishReasons: ['stop'] });
    expect(record.tokens).toMatchObject({ prompt: { value: 12 }, output: { value: 5, source: 'usage' } });
    expect(record.stamps).toBeUndefined();
    expect(record.figures).toMatchObject({ tpotWindow: 'none_not_streamed' });
    expect([record.figures.ttftMs, record.figures.tpotMs, record.figures.maxItlMs]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(record.figures.e2eMs).toBeGreaterThan(440);
    expectNear(record.timeline.end, writesMs[1]);
  });

  it('C045 are taken once from a stream, however often it tells its usage', async () => {
    const steps = script(
      [30, T('a')],
      [10, USE(12, 1)],
      [10, T('b')],
      [10, USE(12, 2)],
      [10, T('c')],
      [0, FIN('stop')],
      [0, USE(12, 3)],
      [0, DONE],
    );
    const { record, writesMs, proxy } = await pass(stage, () => steps, { request: R1 });
    expect(record.tokens).toMatchObject({ prompt: { value: 12 }, output: { value: 3 } });
    expect(itlSamplesMs(record.stamps)).toHaveLength(2);
    const first = writesMs[1] ?? Number.NaN;
    const last = writesMs[5] ?? Number.NaN;
    expectNear(record.figures.tpotMs, (last - first) / 2, slackMs() / 2);
    expect(await proxy.records(1)).toHaveLength(1);
  });

  it('decision 5: end-to-end is TTFT + TPOT × (n − 1) on a clean record, and ends before the answer does', async () => {
    const { record, writesMs } = await pass(
      stage,
      () =>
        script([100, ROLE], [50, T('a')], ...times(9, 20, T('b')), [150, FIN('length')], [0, USE(5, 10)], [0, DONE]),
      { request: R1 },
    );
    const {
      ttftMs = Number.NaN,
      tpotMs = Number.NaN,
      e2eMs = Number.NaN,
      durationMs,
      upstreamTtftMs = Number.NaN,
    } = record.figures;
    expect(marksOf(record)).toEqual([]);
    expect(ttftMs + tpotMs * 9).toBeCloseTo(e2eMs, 1);
    expect(durationMs - e2eMs).toBeGreaterThan(140);
    expect(upstreamTtftMs).toBeLessThan(ttftMs);
    expectNear(record.timeline.lastToken, writesMs[11]);
    expectNear(record.timeline.finish, writesMs[12]);
    const {
      received,
      receivedLast,
      classified,
      queued,
      admitted,
      connected,
      sent,
      head,
      firstByte,
      firstEvent,
      role,
      firstToken,
      firstAnswer,
      lastToken,
      finish,
      end,
    } = record.timeline;
    const inOrder = [
      received,
      receivedLast,
      classified,
      queued,
      admitted,
      connected,
      sent,
      head,
      firstByte,
      firstEvent,
      role,
      firstToken,
      firstAnswer,
      lastToken,
      finish,
      end,
    ];
    expect(inOrder).toEqual(inOrder.toSorted((a, b) => (a ?? Number.NaN) - (b ?? Number.NaN)));
    expect(inOrder).not.toContain(undefined);
  });

  it('R15 tokens without events are timed over the window that holds them: role chunk → finish chunk', async () => {
    const call = (text: string) => delta({ tool_calls: [{ index: 0, function: { arguments: text } }] });
    const { record, writesMs } = await pass(
      stage,
      () =>
        script(
          [100, ROLE],
          [500, delta({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f' } }] })],
          ...times(9, 15, call('x')),
          [15, FIN('tool_calls')],
          [0, USE(200, 43)],
          [0, DONE],
        ),
      { request: R1, engine: 'vllm' },
    );
    const [roleMs, finishMs] = [writesMs[1] ?? Number.NaN, writesMs[12] ?? Number.NaN];
    expect(record).toMatchObject({
      events: 10,
      figures: { tpotWindow: 'role_to_finish' },
      tokens: { output: { value: 43 } },
    });
    expect(record.marks).toContain('fewer_events_than_tokens');
    expectNear(record.figures.tpotMs, (finishMs - roleMs) / 42, slackMs() / 42);
    expectNear(record.timeline.role, roleMs);
    expectNear(record.timeline.firstToken, writesMs[2]);
    expectGaps(itlSamplesMs(record.stamps), writesMs.slice(2, 12));
  });

  it('R22 are absent after one token, not zero', async () => {
    const timings = {
      cache_n: 0,
      prompt_n: 9,
      prompt_ms: 50,
      predicted_n: 1,
      predicted_ms: 0,
      predicted_per_token_ms: 0,
    };
    const last = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'length' }], timings })}\n\n`;
    const { record } = await pass(stage, () => script([50, ROLE + T('a')], [10, last], [0, DONE]), {
      engine: 'llama-server',
    });
    expect(record.tokens).toMatchObject({
      prompt: { value: 9, source: 'timings' },
      output: { value: 1, source: 'timings' },
    });
    expect(record.figures).toMatchObject({ tpotWindow: 'none_single_token' });
    expect([record.figures.tpotMs, record.figures.decodeTokensPerSecond]).toEqual([undefined, undefined]);
    expect(record.figures.ttftMs).toBeGreaterThan(45);
  });

  it('R22 agree with llama-server’s own, though it counts the first token’s time to the prompt', async () => {
    let told = Number.NaN;
    async function* steps() {
      yield send(sseHead());
      yield 50;
      yield send(chunk(ROLE, T('a')));
      const beganMs = performance.now();
      for (let i = 0; i < 10; i += 1) {
        yield 20;
        yield send(chunk(T('b')));
      }
      const predictedMs = performance.now() - beganMs;
      told = predictedMs / 10;
      const timings = {
        cache_n: 0,
        prompt_n: 9,
        prompt_ms: 50,
        predicted_n: 11,
        predicted_ms: predictedMs,
        predicted_per_token_ms: told,
      };
      yield send(
        chunk(
          `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'length' }], timings })}\n\n`,
          DONE,
        ),
      );
      yield send(lastChunk);
    }
    const { record } = await pass(stage, steps, { engine: 'llama-server' });
    expectNear(record.figures.tpotMs, told, slackMs() / 10);
    expect(record.tokens.output).toEqual({ value: 11, source: 'timings' });
  });
});

describe('R28 queue and prefill', () => {
  it('R28 are apart on llama-server, whose head comes when a slot starts', async () => {
    const { record, writesMs } = await pass(
      stage,
      () => [
        300,
        send(sseHead()),
        200,
        send(chunk(ROLE, T('a'))),
        20,
        send(chunk(T('b'), FIN('stop'), DONE)),
        send(lastChunk),
      ],
      { engine: 'llama-server' },
    );
    expect(record.figures.prefillKind).toBe('split');
    expectNear(record.timeline.head, writesMs[0]);
    expectNear(record.figures.engineQueueMs, (writesMs[0] ?? Number.NaN) - (record.timeline.sent ?? Number.NaN));
    expect(record.figures.engineQueueMs).toBeGreaterThan(290);
    expectNear(record.figures.prefillMs, gapsOf(writesMs)[0]);
  });

  it('R28 are one figure on vLLM, whose head comes at once, and the record says so', async () => {
    const { record } = await pass(
      stage,
      () => [
        send(sseHead()),
        300,
        send(chunk(ROLE)),
        send(chunk(T('a'))),
        20,
        send(chunk(T('b'), FIN('stop'), DONE)),
        send(lastChunk),
      ],
      { engine: 'vllm' },
    );
    expect(record.figures.prefillKind).toBe('joint');
    expect(record.figures.engineQueueMs).toBeUndefined();
    expect(record.figures.prefillMs).toBe(record.figures.upstreamTtftMs);
    expect(record.figures.prefillMs).toBeGreaterThan(290);
  });
});
