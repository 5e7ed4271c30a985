/** One request from its events to its record: streams that end badly, attempts, bounds, marks. */
import { describe, expect, it } from 'vitest';
import { done, role, sse, text, usage } from '../../support/events.ts';
import { createObserver } from '../../../src/measure/observer.ts';
import { measureSettings, observe, observeAnswer, playReads, startObserver, type Read } from '../../support/observe.ts';

const tokens = (count: number, fromMs: number, everyMs: number): Read[] =>
  Array.from({ length: count }, (_, i) => [fromMs + i * everyMs, text('t')]);

describe('streams that end badly', () => {
  it('C015 finish and usage in a last event without its blank line are read', () => {
    const last = {
      choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1 },
    };
    const record = observe({}, [
      [10, text('a')],
      [20, `data: ${JSON.stringify(last)}`],
    ]);
    expect(record).toMatchObject({ finishReasons: ['stop'], tokens: { output: { value: 1 } } });
    expect(record.marks).toContain('no_end_marker');
  });

  it('C010 C020 pings and empty data are neither tokens nor malformed', () => {
    const reads: Read[] = [
      [10, ':\n\n:\n\n:\n\n'],
      [100, 'event: ping\ndata: ""\n\ndata:\n\n'],
      [110, role() + text('x') + done],
    ];
    const record = observe({}, reads);
    expect(record.figures.ttftMs).toBe(110);
    expect(record.events).toBe(1);
    expect(record.marks).toEqual(['estimated_tokens']);
  });

  it('C014 two tool-call deltas in one event are two token events', () => {
    const call = JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0 }] } }] });
    const record = observe({}, [
      [10, `data: ${call}\ndata: ${call}\n\n`],
      [20, usage(4, 2) + done],
    ]);
    expect(record.events).toBe(2);
    expect(record.tokens.output?.value).toBe(2);
  });

  it('C019 an event past the bound is passed over, marked, and the rest is read', () => {
    const record = observe({ settings: { maxEventBytes: 400 } }, [
      [10, text('a')],
      [20, `data: ${'x'.repeat(500)}\n\n`],
      [30, text('b') + usage(3, 7) + done],
    ]);
    expect(record.events).toBe(2);
    expect(record.tokens.output?.value).toBe(7);
    expect(record.marks).toContain('event_too_large');
  });

  it('C048 an error inside a 200 is seen, with its status', () => {
    const { observer, startMs } = startObserver({});
    const body = { error: { message: 'queue full', type: 'overloaded', code: 503 } };
    playReads(observer, {}, startMs, [[10, sse(body) + done]]);
    expect(observer.error).toMatchObject({ message: 'queue full', type: 'overloaded', status: 503 });
    const record = observer.finish({ outcome: 'upstream_error', spokenBy: 'backend', atMs: startMs + 10 });
    expect(record).toMatchObject({ events: 0, tokens: {}, finishReasons: [] });
  });

  it('C052 C053 a cut stream keeps what came, and its broken event is marked', () => {
    const record = observe({ outcome: 'upstream_truncated' }, [
      [10, role() + text('a')],
      [30, text('b')],
      [40, 'data: {"choices":[{"index":0,"del'],
    ]);
    expect(record.figures).toMatchObject({ ttftMs: 10, tpotMs: 20, e2eMs: 30, durationMs: 40 });
    expect(record.tokens.output).toEqual({ value: 2, source: 'events_estimate' });
    expect(record.marks).toContain('malformed_event');
    expect(record.finishReasons).toEqual([]);
  });

  it('C056 a stream without any event is a stream all the same', () => {
    expect(observe({ outcome: 'upstream_error' }, [])).toMatchObject({ streamed: true, events: 0, tokens: {} });
  });

  it('C060 a JSON answer to a streamed request is read, without token latency', () => {
    const body = '{"id":"x","choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}';
    const record = observeAnswer({}, 30, body);
    expect(record).toMatchObject({ streamed: false, tokens: { output: { value: 1 } }, marks: [] });
    expect(record.stamps).toBeUndefined();
  });
});

describe('the record', () => {
  it('an attempt that failed leaves nothing behind but its time', () => {
    const { observer, startMs } = startObserver({ engine: 'vllm' });
    observer.mark('connected', startMs + 1);
    playReads(observer, {}, startMs, [[20, sse({ error: { message: 'busy', code: 503 } })]]);
    expect(observer.error?.status).toBe(503);
    observer.attempt({ backend: 'b2', engine: 'llama-server', atMs: startMs + 25 });
    expect(observer.error).toBeUndefined();
    observer.mark('connected', startMs + 27);
    observer.mark('sent', startMs + 28);
    observer.mark('head', startMs + 40);
    playReads(observer, {}, startMs, [
      [60, text('a')],
      [70, text('b') + done],
    ]);
    observer.mark('end', startMs + 70);
    const record = observer.finish({ outcome: 'ok', spokenBy: 'backend', status: 200, atMs: startMs + 71 });
    expect(record).toMatchObject({ backend: 'b2', engine: 'llama-server', attempts: 2, events: 2 });
    expect(record.figures).toMatchObject({ connectMs: 2, overheadMs: 1, ttftMs: 60, upstreamTtftMs: 32 });
    expect(record.figures).toMatchObject({ engineQueueMs: 12, prefillMs: 20, prefillKind: 'split' });
  });

  it('the first moment counts, of the end the last; finishing twice gives the same record', () => {
    const { observer, startMs } = startObserver({});
    observer.mark('queued', startMs + 1);
    observer.mark('queued', startMs + 2);
    observer.mark('admitted', startMs + 5);
    observer.mark('admitted', startMs + 9);
    observer.mark('end', startMs + 10);
    observer.mark('end', startMs + 20);
    const record = observer.finish({
      outcome: 'client_abort',
      phase: 'queued',
      spokenBy: 'warmlane',
      atMs: startMs + 20,
    });
    expect(record.figures).toMatchObject({ queueMs: 4, durationMs: 20, tpotWindow: 'none_no_answer' });
    expect(record).toMatchObject({ phase: 'queued', path: '/v1/chat/completions', tokens: {}, warmth: 'unknown' });
    expect(observer.finish({ outcome: 'ok', spokenBy: 'backend', atMs: 99 })).toBe(record);
  });

  it('of a request without an answer says what was asked for; of an early answer, how it came', () => {
    const { observer, startMs } = startObserver({});
    observer.mark('head', startMs + 5);
    const left = { outcome: 'client_abort', spokenBy: 'warmlane', atMs: startMs + 9 } as const;
    const record = observer.finish({ ...left, phase: 'waiting_first_token' });
    expect(record).toMatchObject({ streamed: true, figures: { tpotWindow: 'none_no_answer' } });
    const other = startObserver({}).observer.finish({ ...left, phase: 'connecting' });
    expect(other).toMatchObject({ streamed: true, figures: { tpotWindow: 'none_no_answer' } });
  });

  it('of an upload that streamed counts from its last byte: the wait for it is no overhead of warmlane', () => {
    const head = { requestId: 'r', method: 'POST', target: '/v1/audio/transcriptions', receivedMs: 100 };
    const observer = createObserver(measureSettings, { head, wallMs: 1 });
    observer.mark('queued', 101);
    observer.mark('admitted', 103);
    observer.attempt({ backend: 'b', engine: 'vllm', atMs: 103 });
    observer.mark('connected', 104);
    observer.mark('receivedLast', 1100);
    observer.mark('sent', 1100.5);
    observer.mark('end', 1200);
    const { figures } = observer.finish({ outcome: 'ok', spokenBy: 'backend', status: 200, atMs: 1200 });
    expect(figures).toMatchObject({ overheadMs: 0.5, e2eMs: 100, durationMs: 100, queueMs: 2, connectMs: 1 });
  });

  it('knows the length of a request only when it was told, and bounds its path', () => {
    const head = { requestId: 'r', method: 'POST', target: `/${'é'.repeat(60_000)}?x`, receivedMs: 1 };
    const endpoint = { kind: 'chat', format: 'chat' } as const;
    const make = () => createObserver(measureSettings, { head, wallMs: 1, endpoint });
    const ending = { outcome: 'client_error', spokenBy: 'warmlane', status: 413, atMs: 2 } as const;
    const record = make().finish(ending);
    expect(record).toMatchObject({ endpoint: 'chat', format: 'chat' });
    expect(record.requestBytes).toBeUndefined();
    expect(record.path).toBe(`/${'é'.repeat(1022)}…`);
    const told = make();
    told.requestBytes(0);
    told.responseBytes(70);
    told.ownAnswer(120);
    expect(told.finish(ending)).toMatchObject({ requestBytes: 0, responseBytes: 120 });
  });

  it('token stamps are bounded, counts are not', () => {
    const record = observe({ settings: { maxStamps: 10 } }, [...tokens(25, 10, 10), [300, done]]);
    expect(record.stamps?.atMs).toHaveLength(10);
    expect(record.events).toBe(25);
    expect(record.marks).toContain('stamps_capped');
    expect(record.figures.tpotMs).toBeCloseTo(10, 6);
  });

  it('marks a record made while the event loop lagged', () => {
    const lag = { laggedSince: (sinceMs: number) => sinceMs < 1000 };
    expect(observe({ lag }, [[10, text('a') + done]]).marks).toContain('loop_lag');
    expect(observe({ lag, startMs: 2000 }, [[10, text('a') + done]]).marks).not.toContain('loop_lag');
  });

  it('own time is a mean per event', () => {
    const { observer, startMs } = startObserver({});
    playReads(observer, {}, startMs, []);
    observer.ownTime(50);
    observer.beginRead(startMs + 1);
    const bytes = Buffer.from('{"choices":[]}');
    observer.event(bytes, 0, bytes.length, '');
    observer.event(bytes, 0, bytes.length, '');
    observer.endRead();
    observer.ownTime(30);
    const record = observer.finish({ outcome: 'ok', spokenBy: 'backend', atMs: startMs + 2 });
    expect(record.figures.overheadPerEventMicros).toBe(15);
  });

  it('says when reading failed by our own fault, and keeps the reason', () => {
    const { observer, startMs } = startObserver({});
    const bug = new Error('bug');
    observer.failed(bug);
    expect(observer.failure).toBe(bug);
    expect(observer.finish({ outcome: 'ok', spokenBy: 'backend', atMs: startMs }).marks).toContain('reading_failed');
  });
});
