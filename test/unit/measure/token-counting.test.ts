/** One request from its events to its record: first tokens, gaps and counts. */
import { describe, expect, it } from 'vitest';
import { itlSamplesMs } from '../../../src/measure/itl.ts';
import { delta, done, finish, role, sse, text, usage } from '../../support/events.ts';
import { observe, observeAnswer, type Read } from '../../support/observe.ts';

const tokens = (count: number, fromMs: number, everyMs: number, make = (i: number) => text(`t${i}`)): Read[] =>
  Array.from({ length: count }, (_, i) => [fromMs + i * everyMs, make(i)]);

describe('first token and gaps', () => {
  it('C023 the role chunk is no first token', () => {
    const {
      figures,
      tokens: counts,
      stamps,
      timeline,
    } = observe({ engine: 'vllm' }, [[300, role()], ...tokens(10, 700, 20), [880, usage(5000, 10) + done]]);
    expect(figures.ttftMs).toBe(700);
    expect(figures.firstEventMs).toBe(300);
    expect((timeline.role ?? 0) - (timeline.receivedLast ?? 0)).toBe(300);
    expect(itlSamplesMs(stamps)).toEqual(Array.from({ length: 9 }, () => 20));
    expect(counts.output).toEqual({ value: 10, source: 'usage' });
  });

  it('C025 a stream without content leaves a record, without TTFT', () => {
    const record = observe({ engine: 'vllm' }, [[10, role() + finish('stop') + usage(9, 1) + done]]);
    expect(record).toMatchObject({ outcome: 'ok', events: 0, finishReasons: ['stop'] });
    expect(record.tokens.output?.value).toBe(1);
    expect(record.figures.ttftMs).toBeUndefined();
    expect(record.figures.tpotWindow).toBe('none_single_token');
    expect(record.stamps).toBeUndefined();
    for (const value of Object.values(record.figures)) expect(value).not.toBeNaN();
  });

  it('C027 the first token is no gap', () => {
    const { stamps, figures } = observe({}, [
      [400, text('a')],
      [410, text('b') + done],
    ]);
    expect(itlSamplesMs(stamps)).toEqual([10]);
    expect(figures.ttftMs).toBe(400);
  });

  it('C030 a stall among even gaps stays visible', () => {
    const reads = [...tokens(50, 10, 10), ...tokens(50, 1500, 10)];
    const { stamps, figures } = observe({}, [...reads, [2000, done]]);
    const gaps = itlSamplesMs(stamps);
    expect(gaps).toHaveLength(99);
    expect(gaps.filter((gapMs) => gapMs === 10)).toHaveLength(98);
    expect(figures.maxItlMs).toBe(1000);
    expect(figures.tpotMs).toBeCloseTo((98 * 10 + 1000) / 99, 6);
  });

  it.each(['reasoning_content', 'reasoning'])(
    'C037 %s is a first token, and the answer’s first stands beside it',
    (key) => {
      const thinking = tokens(20, 200, 20, () => delta({ [key]: 't' }));
      const { figures, stamps } = observe({}, [...thinking, [800, text('A') + done]]);
      expect(figures.ttftMs).toBe(200);
      expect(figures.ttfaMs).toBe(800);
      expect(itlSamplesMs(stamps)).toHaveLength(20);
      expect(observe({}, [...thinking, [800, done]]).figures.ttfaMs).toBeUndefined();
    },
  );

  it('C040 a tool call’s name is its first token', () => {
    const call = (i: number) =>
      delta({ tool_calls: [{ index: 0, function: i === 0 ? { name: 'f' } : { arguments: 'a' } }] });
    const record = observe({ engine: 'vllm' }, [
      [50, role()],
      ...tokens(9, 300, 25, call),
      [520, finish('tool_calls') + usage(50, 12) + done],
    ]);
    expect(record.figures.ttftMs).toBe(300);
    expect(itlSamplesMs(record.stamps)).toHaveLength(8);
    expect(record.tokens.output?.value).toBe(12);
    expect(record.finishReasons).toEqual(['tool_calls']);
  });

  it('C042 the last text beside the finish reason counts', () => {
    const last = sse({ choices: [{ index: 0, delta: { content: 'b' }, finish_reason: 'length' }] });
    const record = observe({}, [
      [10, text('a')],
      [20, last + done],
    ]);
    expect(record).toMatchObject({ events: 2, finishReasons: ['length'] });
  });

  it('C046 lumps are told as lumps, and have the TPOT of the same tokens one by one', () => {
    const single = observe({}, [...tokens(80, 20, 20), [1600, done]]);
    const lumps = observe({}, [
      ...Array.from({ length: 10 }, (_, i): Read => [160 * (i + 1), text('x').repeat(8)]),
      [1600, done],
    ]);
    expect(single.marks).not.toContain('coalesced');
    expect(lumps.marks).toContain('coalesced');
    expect(itlSamplesMs(lumps.stamps).filter((gapMs) => gapMs === 0)).toHaveLength(70);
    expect(itlSamplesMs(lumps.stamps).filter((gapMs) => gapMs === 160)).toHaveLength(9);
    expect([...(lumps.stamps?.coalesced ?? [])].filter((flag) => flag === 1)).toHaveLength(70);
    expect(lumps.figures.tpotMs).toBeCloseTo(single.figures.tpotMs ?? Number.NaN, 6);
    expect(single.figures.tpotMs).toBeCloseTo(20, 6);
  });

  it('C047 only the monotonic clock is measured with: the wall clock may say anything', () => {
    const { figures, startedAtEpochMs } = observe({}, [[100, text('a') + done]]);
    expect(figures.ttftMs).toBe(100);
    expect(startedAtEpochMs).toBe(1_800_000_000_000);
  });
});

describe('counts', () => {
  it('C033 usage beside choices is taken, and is no token', () => {
    const last = {
      choices: [{ index: 0, delta: {} }],
      usage: { prompt_tokens: 40, completion_tokens: 120, prompt_tokens_details: { cached_tokens: 32 } },
    };
    const record = observe({}, [...tokens(3, 10, 10), [40, sse(last) + done]]);
    expect(record.tokens).toEqual({
      prompt: { value: 40, source: 'usage' },
      output: { value: 120, source: 'usage' },
      cached: { value: 32, source: 'usage' },
    });
    expect(record.events).toBe(3);
    expect(itlSamplesMs(record.stamps)).toHaveLength(2);
  });

  it.each(['vllm', 'openai'] as const)('C035 running totals replace each other (%s)', (engine) => {
    const each = (i: number) =>
      sse({
        choices: [{ index: 0, delta: { content: 'x' } }],
        usage: { prompt_tokens: 10, completion_tokens: i + 1 },
      });
    const record = observe({ engine }, [...tokens(5, 10, 10, each), [60, usage(10, 5) + done]]);
    expect(record.tokens.prompt?.value).toBe(10);
    expect(record.tokens.output?.value).toBe(5);
    expect(record.stamps?.tokens).toBeUndefined();
  });

  it('continuous usage tells the tokens of each event', () => {
    const each = (output: number) =>
      sse({
        choices: [{ index: 0, delta: { content: 'x' } }],
        usage: { prompt_tokens: 10, completion_tokens: output },
      });
    const record = observe({ engine: 'vllm' }, [
      [10, each(1)],
      [20, each(4)],
      [30, each(5) + done],
    ]);
    expect([...(record.stamps?.tokens ?? [])]).toEqual([1, 3, 1]);
    expect(record.tokens.output).toEqual({ value: 5, source: 'usage' });
    expect(record.marks).toContain('several_tokens_per_event');
  });

  it('C038 hidden reasoning: visible tokens over the visible window', () => {
    const details = { completion_tokens_details: { reasoning_tokens: 300 } };
    const record = observe({}, [...tokens(20, 5000, 20), [5380, usage(50, 320, details) + done]]);
    expect(record.figures.tpotMs).toBeCloseTo(20, 6);
    expect(record.figures.tpotWindow).toBe('visible');
    expect(record.tokens.reasoning?.value).toBe(300);
    expect(record.marks).toContain('hidden_reasoning');
    const nothingVisible = observe({}, [
      [5000, text('A')],
      [5380, usage(50, 301, details) + done],
    ]);
    expect(nothingVisible.figures).toMatchObject({ tpotWindow: 'none_hidden_reasoning' });
    expect(nothingVisible.figures.tpotMs).toBeUndefined();
  });

  it('C039 R19 two choices: the prompt once, gaps and TPOT per choice', () => {
    const reads = Array.from({ length: 5 }, (_, i): Read[] => [
      [100 + 20 * i, text('a', 0)],
      [105 + 20 * i, text('b', 1)],
    ]).flat();
    const record = observe({ engine: 'vllm', choices: 2 }, [...reads, [200, usage(100, 10) + done]]);
    expect(record.tokens.prompt?.value).toBe(100);
    expect(record.tokens.output?.value).toBe(10);
    expect(record.figures.ttftMs).toBe(100);
    expect(itlSamplesMs(record.stamps)).toEqual(Array.from({ length: 8 }, () => 20));
    expect(record.figures.tpotMs).toBeCloseTo(20, 6);
    expect(record.figures.maxItlMs).toBe(20);
  });

  it('C043 usage and timings are not added', () => {
    const timings = { cache_n: 11_000, prompt_n: 1000, predicted_n: 300, prompt_ms: 500, predicted_ms: 6000 };
    const last = {
      choices: [],
      usage: { prompt_tokens: 12_000, completion_tokens: 300, total_tokens: 12_300 },
      timings,
    };
    const record = observe({ engine: 'llama-server' }, [
      [10, text('a')],
      [20, finish('stop') + sse(last) + done],
    ]);
    expect(record.tokens).toEqual({
      prompt: { value: 12_000, source: 'usage' },
      output: { value: 300, source: 'usage' },
      cached: { value: 11_000, source: 'timings' },
    });
  });

  it('C044 the decode rate knows nothing of the prompt', () => {
    const { figures } = observe({}, [...tokens(41, 4000, 25), [5000, usage(8000, 41) + done]]);
    expect(figures.decodeTokensPerSecond).toBeCloseTo(40, 6);
    expect(figures.overallTokensPerSecond).toBeCloseTo(41 / 5, 6);
  });

  it('C045 an answer that isn’t streamed has counts and E2E, but no token latency', () => {
    const body = { id: 'x', choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }] };
    const counted = { ...body, usage: { prompt_tokens: 5, completion_tokens: 2 } };
    const record = observeAnswer({}, 1000, JSON.stringify(counted));
    expect(record).toMatchObject({ streamed: false, events: 0, finishReasons: ['stop'] });
    expect(record.figures).toEqual({
      tpotWindow: 'none_not_streamed',
      e2eMs: 1000,
      durationMs: 1000,
      overallTokensPerSecond: 2,
      overheadMs: 0,
    });
    expect(record.tokens.output?.value).toBe(2);
    const middle = observe({}, [
      [100, text('a') + usage(5, 1)],
      [200, text('b') + usage(5, 2) + done],
    ]);
    expect(middle.figures.ttftMs).toBe(100);
    expect(middle.figures.tpotMs).toBe(100);
  });

  it('a count that nobody told is an estimate, and says so', () => {
    const record = observe({ engine: 'vllm' }, [...tokens(4, 10, 10), [50, done]]);
    expect(record.tokens).toEqual({ output: { value: 4, source: 'events_estimate' } });
    expect(record.marks).toContain('estimated_tokens');
    expect(record.warmth).toBe('unknown');
  });

  it.each(['1e308', '1e400', '1.5', '-1', '9007199254740993', '"7"'])(
    'a number that can be no count is none, so that it spoils no sum: %s',
    (number) => {
      const told = `data: {"choices":[],"usage":{"prompt_tokens":${number},"completion_tokens":${number}}}\n\n`;
      const record = observe({}, [[10, text('a') + finish('stop') + told + done]]);
      expect(record.tokens).toEqual({ output: { value: 1, source: 'events_estimate' } });
    },
  );

  it('C157 more cached tokens than the prompt has are taken for the whole prompt, and it is noted', () => {
    const told = (cached: number) => usage(100, 1, { prompt_tokens_details: { cached_tokens: cached } });
    const record = observe({ engine: 'sglang' }, [[10, text('a') + finish('stop') + told(384) + done]]);
    expect(record.tokens).toMatchObject({ prompt: { value: 100 }, cached: { value: 100, source: 'usage' } });
    expect(record.marks).toContain('cached_clamped');
    expect(record.warmth).toBe('prefix_hit');
    const all = observe({ engine: 'sglang' }, [[10, text('a') + finish('stop') + told(100) + done]]);
    expect(all.marks).not.toContain('cached_clamped');
  });

  it('zeros that Ollama fills in are no counts', () => {
    const zero = { usage: { prompt_tokens: 0, completion_tokens: 0 } };
    const each = () => sse({ choices: [{ index: 0, text: 'x' }], ...zero });
    const record = observe(
      { format: 'completions', engine: 'ollama', outcome: 'client_abort' },
      tokens(3, 10, 10, each),
    );
    expect(record.tokens).toEqual({ output: { value: 3, source: 'events_estimate' } });
  });

  it('Anthropic counts what the cache gave apart; the record’s prompt is the whole one', () => {
    const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
    const record = observe({ format: 'messages', engine: 'vllm' }, [
      [10, event('message_start', { message: { id: 'm', model: 'x', usage: { input_tokens: 40, output_tokens: 0 } } })],
      [10, event('content_block_delta', { delta: { type: 'text_delta', text: 'a' } })],
      [
        20,
        event('message_delta', {
          delta: { stop_reason: 'end_turn' },
          usage: { input_tokens: 8, output_tokens: 12, cache_creation_input_tokens: 0, cache_read_input_tokens: 32 },
        }),
      ],
      [20, event('message_stop', {})],
    ]);
    expect(record.tokens).toEqual({
      prompt: { value: 40, source: 'usage' },
      output: { value: 12, source: 'usage' },
      cached: { value: 32, source: 'usage' },
    });
    expect(record).toMatchObject({ finishReasons: ['end_turn'], responseModel: 'x', warmth: 'prefix_hit' });
    expect(record.marks).not.toContain('no_end_marker');
  });

  it('Ollama’s own counters are the engine’s', () => {
    const record = observe({ format: 'ollama_chat', engine: 'ollama' }, [
      [10, '{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n'],
      [30, '{"model":"m","message":{"content":"b"},"done":false}\n'],
      [50, '{"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":40,"eval_count":2}\n'],
    ]);
    expect(record.tokens).toEqual({
      prompt: { value: 40, source: 'native' },
      output: { value: 2, source: 'native' },
    });
    expect(record.figures).toMatchObject({ tpotMs: 20, tpotWindow: 'visible' });
  });
});
