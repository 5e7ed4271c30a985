/** The cases seen on the real engines, on their recordings. */
import { describe, expect, it } from 'vitest';
import { createPrefillLog } from '../../../src/measure/prefill-log.ts';
import { itlSamplesMs } from '../../../src/measure/itl.ts';
import { delta, done, finish, role, text, usage } from '../../support/events.ts';
import { observe, observeRecorded, startObserver } from '../../support/observe.ts';
import { loadRecorded } from '../../support/recorded.ts';

const llama = (name: string) => observeRecorded(loadRecorded('llama-server', name), 'as recorded');
const vllm = (name: string) => observeRecorded(loadRecorded('vllm', name), 'as recorded');

describe('R14 vLLM’s empty content', () => {
  it('every one of 32 tokens has its moment, half characters too', () => {
    const record = vllm('chat-unicode');
    expect(record.events).toBe(32);
    expect(record.tokens.output).toEqual({ value: 32, source: 'usage' });
    expect(record.figures.tpotWindow).toBe('visible');
    expect(record.marks).not.toContain('fewer_events_than_tokens');
  });

  it('the role chunk is none: TTFT is the first content event, empty or not', () => {
    const record = observe({ engine: 'vllm' }, [
      [10, role()],
      [50, text('')],
      [60, text('ab') + done],
    ]);
    expect(record.figures.ttftMs).toBe(50);
    expect(record.events).toBe(2);
  });
});

describe('R15 tokens without events', () => {
  it('chat-tool-call: 48.6 ms over role → finish, 11.2 nowhere', () => {
    const record = vllm('chat-tool-call');
    expect(record.tokens.output?.value).toBe(43);
    expect(record.events).toBeLessThan(43);
    expect(record.figures.tpotMs).toBeCloseTo(48.6, 1);
    expect(record.figures.tpotWindow).toBe('role_to_finish');
    expect(record.marks).toContain('fewer_events_than_tokens');
    expect(record.figures.ttftMs).toBeCloseTo(1399.07, 2);
    expect((record.timeline.role ?? 0) - (record.timeline.receivedLast ?? 0)).toBeCloseTo(350.78, 2);
  });

  it('chat-reasoning: 54.6 ms, and the reasoning counts', () => {
    const record = vllm('chat-reasoning');
    expect(record.figures.tpotMs).toBeCloseTo(54.6, 1);
    expect(record.figures.tpotWindow).toBe('role_to_finish');
    expect(record.tokens.reasoning?.value).toBe(19);
    expect(record.figures.ttftMs).toBeCloseTo(332.4, 1);
    expect(record.figures.ttfaMs).toBeCloseTo(1205.1, 1);
  });

  it('llama-server: 31 tokens in 9 deltas, 29 in 15, as its own timings say', () => {
    expect(llama('chat-tool-call').figures).toMatchObject({ tpotWindow: 'role_to_finish' });
    expect(llama('chat-tool-call').figures.tpotMs).toBeCloseTo(13.55, 1);
    expect(llama('chat-reasoning').figures.tpotMs).toBeCloseTo(25.4, 1);
  });

  it('without a role chunk there is no window that holds the tokens, so there is no TPOT', () => {
    const event = (type: string, more: object) => `data: ${JSON.stringify({ type, ...more })}\n\n`;
    const usageOf = { input_tokens: 10, output_tokens: 40 };
    const record = observe({ format: 'responses', engine: 'vllm' }, [
      [10, event('response.created', { response: { id: 'r' } })],
      [500, event('response.function_call_arguments.delta', { delta: '{' })],
      [600, event('response.function_call_arguments.delta', { delta: '}' })],
      [700, event('response.completed', { response: { status: 'completed', usage: usageOf } })],
    ]);
    expect(record.figures.tpotMs).toBeUndefined();
    expect(record.figures.tpotWindow).toBe('none_no_window');
  });

  it('a swallowed beginning is seen even where each event tells its tokens', () => {
    const call = (ids: number[]) => {
      const choice = { index: 0, delta: { tool_calls: [{ index: 0 }] }, finish_reason: null, token_ids: ids };
      return `data: ${JSON.stringify({ choices: [choice] })}\n\n`;
    };
    const twenty = Array.from({ length: 20 }, (_, i) => i);
    const record = observe({ engine: 'vllm' }, [
      [100, role()],
      [1100, call(twenty)],
      [1150, call([1])],
      [1200, finish('tool_calls') + usage(5, 21) + done],
    ]);
    expect(record.figures).toMatchObject({ tpotWindow: 'role_to_finish', tpotMs: 1100 / 20 });
  });

  it('an ordinary stop of llama-server, whose role chunk comes with the first token, is not marked', () => {
    const words = [1, 2, 3].map((i) => [100 + 10 * i, text('x')] as const);
    const record = observe({ engine: 'llama-server' }, [
      [100, role() + text('x')],
      ...words,
      [140, finish('stop') + usage(5, 5) + done],
    ]);
    expect(record.figures).toMatchObject({ tpotWindow: 'first_to_finish', tpotMs: 10 });
    expect(record.marks).toEqual([]);
  });

  it('an end token without an event is no reason to doubt the rest: first token → finish', () => {
    const words = [0, 1, 2, 3].map((i) => [100 + 10 * i, text('x')] as const);
    const record = observe({ engine: 'sglang' }, [[90, role()], ...words, [140, finish('stop') + usage(5, 5) + done]]);
    expect(record.figures).toMatchObject({ tpotWindow: 'first_to_finish', tpotMs: 10 });
    expect(record.marks).toEqual([]);
    const cut = observe({ engine: 'sglang' }, [[90, role()], ...words, [140, finish('length') + usage(5, 5) + done]]);
    expect(cut.figures).toMatchObject({ tpotWindow: 'visible', tpotMs: 30 / 4 });
    expect(cut.marks).toContain('several_tokens_per_event');
  });
});

describe('R16 several tokens in one event', () => {
  it('speculation: numbers per event from the ids, TPOT over the visible window', () => {
    const record = vllm('ngram-speculation');
    expect([...(record.stamps?.tokens ?? [])]).toEqual([1, 1, 1, 5, 3, 1]);
    expect(record.tokens.output?.value).toBe(12);
    expect(record.marks).toContain('several_tokens_per_event');
    expect(record.figures.tpotWindow).toBe('visible');
    expect(record.figures.tpotMs).toBeCloseTo((2326.467 - 1666.662) / 11, 3);
  });

  it('stream interval: 1, then fives', () => {
    const record = vllm('stream-interval-5');
    expect([...(record.stamps?.tokens ?? [])]).toEqual([1, 5, 5, 5, 5, 5, 5, 1]);
    expect(record.figures.tpotMs).toBeCloseTo((2091.609 - 103.368) / 31, 3);
  });

  it('where the wire doesn’t tell, only the total is known', () => {
    const record = observe({ engine: 'vllm' }, [
      [10, text('a')],
      [40, text('b c d')],
      [70, text('e f g') + finish('length') + usage(5, 7) + done],
    ]);
    expect(record.stamps?.tokens).toBeUndefined();
    expect(record.figures).toMatchObject({ tpotWindow: 'visible', tpotMs: 10 });
    expect(record.marks).toContain('several_tokens_per_event');
  });
});

describe('R17 many events in one read', () => {
  it('share its moment: role and first token of llama-server', () => {
    const { timeline, figures, marks } = llama('chat-plain');
    expect(timeline.firstToken).toBe(timeline.role);
    expect(figures.ttftMs).toBeCloseTo(607.242, 3);
    expect(marks).not.toContain('coalesced');
  });

  it('and are marked: one step’s events of two choices', () => {
    const record = vllm('chat-n2');
    expect(record.marks).toContain('coalesced');
    expect(record.stamps?.coalesced?.some((flag) => flag === 1)).toBe(true);
    expect(record.figures.ttftMs).toBeCloseTo(85.475, 3);
  });
});

describe('R18 R19 two choices', () => {
  it('R18 llama-server tells usage once per choice: outputs are summed, the prompt counts once', () => {
    const record = llama('chat-n2');
    expect(record.tokens).toMatchObject({ output: { value: 16 }, prompt: { value: 38 }, cached: { value: 24 } });
    expect(record.finishReasons).toEqual(['length', 'length']);
    expect(record.marks).not.toContain('no_end_marker');
  });

  it('R19 vLLM tells one sum: TPOT is per choice', () => {
    const record = vllm('chat-n2');
    expect(record.tokens.output?.value).toBe(16);
    expect(record.tokens.prompt?.value).toBe(33);
    expect(record.finishReasons).toEqual(['stop', 'length']);
    expect(record.figures.tpotMs).toBeCloseTo((516.709 - 85.475 + 577.243 - 164.982) / 14, 3);
  });

  it('R18 a list of prompts is summed, prompt by prompt', () => {
    const last = (index: number, prompt: number) =>
      `data: ${JSON.stringify({
        choices: [{ index, text: '', finish_reason: 'length' }],
        usage: { prompt_tokens: prompt, completion_tokens: 2 },
        timings: { cache_n: 0, prompt_n: prompt, predicted_n: 2 },
      })}\n\n`;
    const record = observe({ format: 'completions', engine: 'llama-server' }, [
      [10, last(0, 5)],
      [20, last(1, 7) + done],
    ]);
    expect(record.tokens).toMatchObject({ prompt: { value: 12 }, output: { value: 4 } });
  });
});

describe('R20 R21 stalls by another request’s prefill', () => {
  it('R20 llama-server: 2.9 s are told with their cause', () => {
    const prefills = createPrefillLog();
    const other = loadRecorded('llama-server', 'stall-prefill');
    // The recordings’ clocks are apart by what the two ends of the prefill show: the long prompt was sent at 0.96 s.
    observeRecorded(other, 'as recorded', { prefills, requestId: 'long', startMs: 1957.6 });
    const { stalls, figures } = observeRecorded(loadRecorded('llama-server', 'stall-stream'), 'as recorded', {
      prefills,
      requestId: 'stream',
      startMs: 1000,
    });
    expect(stalls).toHaveLength(1);
    expect(stalls?.[0]).toMatchObject({ requestId: 'long', promptTokens: 908 });
    expect(stalls?.[0]?.durationMs).toBeGreaterThan(2800);
    expect(stalls?.[0]?.durationMs).toBeLessThan(2900);
    expect(figures.maxItlMs).toBeCloseTo(2873.3, 1);
  });

  it('R21 vLLM: many stretched gaps are one stall; a slow token without a prefill is none', () => {
    const prefills = createPrefillLog();
    const quick = (fromMs: number, count: number, everyMs: number) =>
      Array.from({ length: count }, (_, i) => [fromMs + i * everyMs, text('x')] as const);
    const { observer, startMs } = startObserver({
      engine: 'vllm',
      prefills,
      requestId: 'long',
      startMs: 1500,
      sentMs: 2,
    });
    observer.beginRead(startMs + 1600);
    const token = Buffer.from(text('y').slice(6, -2));
    observer.event(token, 0, token.length, '');
    observer.endRead();
    const reads = [...quick(0, 50, 10), ...quick(600, 15, 100), ...quick(2300, 20, 10), [2600, text('x')] as const];
    const { stalls } = observe({ engine: 'vllm', prefills, requestId: 'stream' }, [...reads, [2610, done]]);
    expect(stalls).toHaveLength(1);
    expect(stalls?.[0]).toMatchObject({ requestId: 'long' });
    expect(stalls?.[0]?.promptTokens).toBeUndefined();
    expect(stalls?.[0]?.durationMs).toBeGreaterThan(1300);
    expect(stalls?.[0]?.durationMs).toBeLessThan(1600);
  });
});

describe('R22 one token, and lengths', () => {
  it('one token has no TPOT', () => {
    const { figures } = observe({ engine: 'llama-server' }, [
      [10, role() + text('a')],
      [11, finish('length') + usage(5, 1) + done],
    ]);
    expect(figures.tpotMs).toBeUndefined();
    expect(figures).toMatchObject({ tpotWindow: 'none_single_token', ttftMs: 10 });
    expect(figures.decodeTokensPerSecond).toBeUndefined();
  });

  it('llama-server’s response that the length cut says so, though it calls itself completed', () => {
    expect(llama('responses').finishReasons).toEqual(['max_output_tokens']);
    expect(vllm('responses-stream').finishReasons).toEqual(['max_output_tokens']);
    const recorded = loadRecorded('llama-server', 'responses');
    expect(observeRecorded(recorded, 'as recorded', { maxOutputTokens: 9 }).finishReasons).toEqual(['completed']);
  });
});

describe('R28 queue and prefill', () => {
  it('llama-server’s head comes when a slot starts: queue and prefill are apart', () => {
    const { figures } = llama('chat-queued');
    const head = loadRecorded('llama-server', 'chat-queued').headMicros / 1000;
    expect(figures).toMatchObject({ prefillKind: 'split', engineQueueMs: head });
    expect(figures.prefillMs).toBeLessThan(head);
    expect(llama('chat-plain').figures.prefillMs).toBeCloseTo(607.242 - 34.037, 3);
  });

  it('a swallowed beginning doesn’t make the prefill longer', () => {
    expect(llama('chat-tool-call').figures.prefillMs).toBeCloseTo(53.043 - 31.568, 3);
  });

  it('vLLM’s stays joint, and says so', () => {
    const { figures } = vllm('chat-usage');
    expect(figures.prefillKind).toBe('joint');
    expect(figures.prefillMs).toBe(figures.upstreamTtftMs);
    expect(figures.engineQueueMs).toBeUndefined();
  });

  it('unless it tells its own times', () => {
    const { figures } = vllm('queued-behind-full-batch');
    expect(figures.prefillKind).toBe('split');
    expect(figures.engineQueueMs).toBeGreaterThan(2000);
    expect(figures.prefillMs).toBeLessThan(200);
  });

  it('an answer that isn’t streamed has its prefill from llama-server’s timings', () => {
    expect(llama('chat-nonstream').figures).toMatchObject({ prefillMs: 318.442, prefillKind: 'split' });
    expect(vllm('chat-non-stream').figures.prefillMs).toBeUndefined();
  });
});

describe('other recordings', () => {
  it('R03 R06 R08 errors inside a 200', () => {
    expect(vllm('error-busy-in-stream')).toMatchObject({ events: 0, tokens: {} });
    for (const [record, count] of [
      [vllm('engine-died-mid-stream'), 20],
      [llama('error-in-stream'), 219],
    ] as const) {
      expect(record.tokens.output).toMatchObject({ source: 'events_estimate' });
      expect(record.tokens.output?.value).toBeGreaterThanOrEqual(count);
      expect(record.finishReasons).toEqual([]);
    }
  });

  it('an aborted prefill knows its prompt and its cache hits from the progress', () => {
    const record = llama('chat-aborted-prefill');
    expect(record.tokens).toEqual({ prompt: { value: 915, source: 'native' }, cached: { value: 3, source: 'native' } });
    expect(record.events).toBe(0);
  });

  it('warmth is what the cache gave', () => {
    expect(llama('chat-usage').warmth).toBe('prefix_hit');
    expect(llama('chat-progress-long-prompt').warmth).toBe('resident');
    expect(vllm('prefix-hit').warmth).toBe('prefix_hit');
    expect(vllm('prefix-cold').warmth).toBe('resident');
    expect(vllm('chat-plain').warmth).toBe('unknown');
  });

  it('gaps of a tool call are gaps of its events', () => {
    const record = vllm('chat-tool-call');
    expect(itlSamplesMs(record.stamps)).toHaveLength(record.events - 1);
  });

  it('reasoning that only a summary shows is hidden', () => {
    const event = (type: string, more: object) => `data: ${JSON.stringify({ type, ...more })}\n\n`;
    const details = { output_tokens_details: { reasoning_tokens: 90 } };
    const record = observe({ format: 'responses' }, [
      [100, event('response.reasoning_summary_text.delta', { delta: 'thinking about it' })],
      [500, event('response.output_text.delta', { delta: 'a' })],
      ...Array.from(
        { length: 9 },
        (_, i) => [510 + 10 * i, event('response.output_text.delta', { delta: 'b' })] as const,
      ),
      [600, event('response.completed', { response: { usage: { input_tokens: 5, output_tokens: 100, ...details } } })],
    ]);
    expect(record.figures).toMatchObject({ ttftMs: 100, ttfaMs: 500, tpotMs: 10, tpotWindow: 'visible' });
    expect(record.marks).toContain('hidden_reasoning');
  });

  it('a delta with reasoning and no text is not the answer yet', () => {
    const record = observe({ engine: 'vllm' }, [
      [10, delta({ reasoning: 'x' })],
      [20, text('y') + done],
    ]);
    expect(record.figures).toMatchObject({ ttftMs: 10, ttfaMs: 20 });
  });
});
