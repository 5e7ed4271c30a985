import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { tokensPerSpan } from '../../../../src/export/trace/attempt-spans.ts';
import { sizeOf } from '../../../../src/export/trace/request-spans.ts';
import type { RequestRecord, TokenStamps } from '../../../../src/domain/record.ts';
import type { AttemptRecord } from '../../../../src/domain/trace.ts';
import { exported } from '../../../support/encoded-spans.ts';
import { sampleNote } from '../../../support/sample-routing.ts';
import { sampleRecord } from '../../../support/sample-record.ts';
import { misplaced, spanNamed } from '../../../support/traced.ts';

const trace = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', sampled: true };
const attempt: AttemptRecord = {
  backend: 'b1',
  engine: 'vllm',
  spanId: 'aaaaaaaaaaaaaaa1',
  startMs: 1003,
  connectedMs: 1003.5,
  sentMs: 1004,
  headMs: 1010,
  endMs: 1500,
  status: 200,
};

function answered(stamps: TokenStamps, over: Partial<RequestRecord> = {}): RequestRecord {
  const last = stamps.atMs.at(-1) ?? 1020;
  return sampleRecord({
    trace,
    attemptLog: [{ ...attempt, endMs: last + 5 }],
    events: stamps.atMs.length,
    status: 200,
    engine: 'vllm',
    backend: 'b1',
    model: 'm',
    timeline: {
      received: 1000,
      receivedLast: 1001,
      queued: 1002,
      admitted: 1002.5,
      connected: 1003.5,
      sent: 1004,
      head: 1010,
      firstToken: stamps.atMs[0] ?? 1020,
      lastToken: last,
      end: last + 5,
    },
    figures: { tpotWindow: 'visible', durationMs: last + 5 - 1001 },
    stamps,
    ...over,
  });
}

/** One token each `gapMs`, from 1020 on. */
const evenly = (count: number, gapMs: number): TokenStamps => ({
  atMs: Float64Array.from({ length: count }, (_, index) => 1020 + index * gapMs),
});

/** Nanoseconds since the epoch of a moment on the monotonic clock. */
const nanosOf = (record: RequestRecord, atMs: number): bigint =>
  BigInt(record.startedAtEpochMs) * 1_000_000n + BigInt(Math.round((atMs - record.timeline.received) * 1e6));

describe('every token’s moment', () => {
  it.each([
    ['one a read', {}],
    [
      'with counts, coalesced marks and choices',
      {
        tokens: Uint16Array.from({ length: 10_000 }, (_, index) => 1 + (index % 3)),
        coalesced: Uint8Array.from({ length: 10_000 }, (_, index) => (index % 7 === 0 ? 1 : 0)),
        choice: Uint16Array.from({ length: 10_000 }, (_, index) => index % 2),
      },
    ],
  ])('of 10,000 is there in arrays, to half a microsecond, and sums up without drift (%s)', (_, side) => {
    const stamps = { ...evenly(10_000, 17.123_456_7), ...side };
    const decode = spanNamed(exported(answered(stamps)).spans, 'decode');
    const deltas = decode.attributes['warmlane.token.deltas_us'] as number[];
    expect(deltas).toHaveLength(10_000);
    let sum = 0;
    for (const [index, delta] of deltas.entries()) {
      expect(Number.isInteger(delta)).toBe(true);
      sum += delta;
      expect(Math.abs(sum - ((stamps.atMs[index] ?? 0) - 1020) * 1000)).toBeLessThanOrEqual(0.500_001);
    }
    expect(decode.attributes['warmlane.token.counts']).toEqual(stamps.tokens && [...stamps.tokens]);
    expect(decode.attributes['warmlane.token.choices']).toEqual(stamps.choice && [...stamps.choice]);
    const marked = stamps.coalesced && [...stamps.coalesced].flatMap((mark, index) => (mark === 1 ? [index] : []));
    expect(decode.attributes['warmlane.token.coalesced']).toEqual(marked);
  });

  it('of 10,000 is there as an event each, to the nanosecond, none dropped, the first one included', () => {
    const stamps = { ...evenly(10_000, 17.123_456_7), coalesced: new Uint8Array(10_000).fill(1, 5, 6) };
    const record = answered(stamps);
    const decode = spanNamed(exported(record, 'events').spans, 'decode');
    expect(decode.events.map(({ timeNs }) => timeNs)).toEqual([...stamps.atMs].map((atMs) => nanosOf(record, atMs)));
    expect(decode.droppedEvents).toBe(0);
    expect(decode.attributes).not.toHaveProperty('warmlane.token.deltas_us');
    expect(decode.events.filter(({ attributes }) => Object.keys(attributes).length > 0)).toEqual([
      { ...decode.events[5], attributes: { 'warmlane.token.coalesced': true } },
    ]);
  });

  it('of a very long answer goes on in spans below `decode`, each sent by itself', () => {
    const stamps = evenly(40_000, 5);
    const record = answered(stamps);
    const { spans, partBytes } = exported(record, 'events');
    const decode = spanNamed(spans, 'decode');
    const further = spans.filter(({ name }) => name === 'tokens');
    expect(further.map(({ attributes }) => attributes['warmlane.token.from'])).toEqual([
      tokensPerSpan,
      2 * tokensPerSpan,
    ]);
    expect(further.every(({ parentSpanId }) => parentSpanId === decode.spanId)).toBe(true);
    const times = [decode, ...further].flatMap(({ events }) => events.map(({ timeNs }) => timeNs));
    expect(times).toEqual([...stamps.atMs].map((atMs) => nanosOf(record, atMs)));
    expect(partBytes).toHaveLength(3);
    expect(misplaced(spans)).toEqual([]);
  });

  it('is left out where that is wanted, and said to be missing where it was not kept', () => {
    const off = spanNamed(exported(answered(evenly(10, 5)), 'off').spans, 'decode');
    expect(off.events).toEqual([]);
    expect(Object.keys(off.attributes).filter((key) => key.startsWith('warmlane.token.'))).toEqual([]);
    const capped = answered(evenly(10, 5), { events: 25, marks: ['stamps_capped'] });
    expect(spanNamed(exported(capped).spans, 'decode').attributes['warmlane.token.unstamped']).toBe(15);
  });

  it('property: any gaps, from nothing to minutes, sum up to each token’s rounded distance from the first', () => {
    const gaps = fc.array(fc.double({ min: 0, max: 120_000, noNaN: true }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(gaps, (list) => {
        let at = 1020;
        const atMs = Float64Array.from(list, (gap) => (at += gap));
        const decode = spanNamed(exported(answered({ atMs })).spans, 'decode');
        const deltas = decode.attributes['warmlane.token.deltas_us'] as number[];
        let sum = 0;
        const sums = deltas.map((delta) => (sum += delta));
        expect(sums).toEqual(Array.from(atMs, (moment) => Math.round((moment - (atMs[0] ?? 0)) * 1000)));
      }),
    );
  });
});

describe('times', () => {
  it('are wall-clock ones to the nanosecond, each within its parent', () => {
    const record = answered(evenly(3, 5));
    const { spans } = exported(record);
    expect(misplaced(spans)).toEqual([]);
    const times = (name: string) => [spanNamed(spans, name).startNs, spanNamed(spans, name).endNs];
    expect(times('queue')).toEqual([nanosOf(record, 1002), nanosOf(record, 1002.5)]);
    expect(times('prefill')).toEqual([nanosOf(record, 1004), nanosOf(record, 1020)]);
    expect(times('decode')).toEqual([nanosOf(record, 1020), nanosOf(record, 1030)]);
    expect(times('POST')).toEqual([nanosOf(record, 1003), nanosOf(record, 1035)]);
    expect(times('POST /v1/chat/completions')).toEqual([nanosOf(record, 1000), nanosOf(record, 1035)]);
  });

  it('of an answer that was not streamed have no prefill and no decode', () => {
    const { stamps: _, ...whole } = answered(evenly(1, 5), { streamed: false });
    expect(exported(whole).spans.map(({ name }) => name)).toEqual(['POST /v1/chat/completions', 'queue', 'POST']);
  });

  it('of a request that reached no backend have the queue until its end', () => {
    const refused = sampleRecord({
      trace,
      attemptLog: [],
      outcome: 'rejected',
      reason: 'queue_timeout',
      status: 503,
      timeline: { received: 1000, receivedLast: 1000, queued: 1001 },
      figures: { tpotWindow: 'none_no_answer', durationMs: 500 },
    });
    const { spans } = exported(refused);
    const queue = spanNamed(spans, 'queue');
    expect(queue).toMatchObject({ endNs: nanosOf(refused, 1500), status: 2 });
    expect(spans[0]).toMatchObject({ status: 2, attributes: { 'error.type': 'rejected' } });
  });
});

describe('status', () => {
  const one = evenly(1, 5);
  it.each([
    ['well', { outcome: 'ok', status: 200 }, 0, undefined],
    ['the client’s 4xx', { outcome: 'client_error', status: 404, reason: 'status_404' }, 0, undefined],
    ['a full queue', { outcome: 'rejected', status: 429, reason: 'queue_full' }, 0, undefined],
    ['no place', { outcome: 'rejected', status: 503, reason: 'queue_timeout' }, 2, 'rejected'],
    ['the backend’s 500', { outcome: 'upstream_error', status: 500, reason: 'status_500' }, 2, 'upstream_error'],
    ['an error event with a 4xx of its own', { outcome: 'upstream_error', status: 400, reason: 'x' }, 0, undefined],
    ['a cut stream', { outcome: 'upstream_truncated', status: 200, reason: 'reset' }, 2, 'upstream_truncated'],
    ['an error event', { outcome: 'upstream_error', status: 200, reason: 'error_event' }, 2, 'upstream_error'],
    ['a stall', { outcome: 'timeout', status: 200, reason: 'content_stall' }, 2, 'timeout'],
    ['the client left', { outcome: 'client_abort', status: 200, reason: 'client_left' }, 0, undefined],
    ['our bug', { outcome: 'proxy_error', status: 500, reason: 'internal' }, 2, 'proxy_error'],
    ['our bug in the middle', { outcome: 'proxy_error', reason: 'internal' }, 2, 'proxy_error'],
    ['shutdown', { outcome: 'shutdown', status: 200, reason: 'drain_deadline' }, 2, 'shutdown'],
  ] as const)('of the SERVER span: %s', (_, over, status, errorType) => {
    const root = exported(answered(one, over)).spans[0];
    expect([root?.status, root?.attributes['error.type']]).toEqual([status, errorType]);
  });

  it.each([
    ['well', {}, {}, undefined],
    ['4xx', { status: 404, reason: 'status_404' }, { outcome: 'client_error', status: 404 }, 'client_error'],
    ['unreachable', { reason: 'backend_unreachable' }, { outcome: 'upstream_error', status: 502 }, 'upstream_error'],
    ['the caller went away', { reason: 'client_left' }, { outcome: 'client_abort' }, undefined],
    ['cut', { reason: 'reset' }, { outcome: 'upstream_truncated', status: 200 }, 'upstream_truncated'],
  ] as const)('of a CLIENT span: %s', (_, attemptOver, over, errorType) => {
    const { status: usual, ...bare } = attempt;
    const log = [
      { ...bare, ...('reason' in attemptOver && !('status' in attemptOver) ? {} : { status: usual }), ...attemptOver },
    ];
    const client = exported(answered(one, { ...over, attemptLog: log })).spans.find(({ kind }) => kind === 3);
    expect([client?.status, client?.attributes['error.type']]).toEqual([errorType === undefined ? 0 : 2, errorType]);
  });
});

describe('what is said', () => {
  it('of stalls stands where they happened', () => {
    const stalls = [{ atMs: 1025, durationMs: 40, requestId: 'other', promptTokens: 900 }];
    const record = answered(evenly(3, 5), { stalls });
    const { spans } = exported(record);
    expect(spanNamed(spans, 'decode').events).toEqual([
      {
        name: 'prefill_stall',
        timeNs: nanosOf(record, 1025),
        attributes: {
          'warmlane.stall.duration': 0.04,
          'warmlane.stall.request_id': 'other',
          'warmlane.stall.prompt_tokens': 900,
        },
      },
    ]);
    expect(spans[0]?.attributes).toMatchObject({ 'warmlane.stalled': 0.04, 'warmlane.stalled_by': 'other' });
  });

  it.each([
    ['llm.internal:8080', 'llm.internal', 8080],
    ['LLM', 'llm', 80],
    ['[::1]:9', '::1', 9],
    ['a b', undefined, undefined],
    ['u:p@h', undefined, undefined],
    ['', undefined, undefined],
  ])('of the server is the name by which the client asked: %s', (host, address, port) => {
    const root = exported(answered(evenly(1, 1), { host })).spans[0];
    expect([root?.attributes['server.address'], root?.attributes['server.port']]).toEqual([address, port]);
  });

  it('of a method that HTTP does not know is _OTHER', () => {
    const root = exported(answered(evenly(1, 1), { method: 'BREW' })).spans[0];
    expect(root?.name).toBe('HTTP /v1/chat/completions');
    expect(root?.attributes).toMatchObject({ 'http.request.method': '_OTHER', 'http.request.method_original': 'BREW' });
  });

  it('C192 of tokens and TTFT is what the record says', () => {
    const record = answered(evenly(5, 5), {
      tokens: {
        prompt: { value: 100, source: 'usage' },
        output: { value: 5, source: 'usage' },
        cached: { value: 0, source: 'usage' },
        reasoning: { value: 2, source: 'usage' },
      },
      figures: { tpotWindow: 'visible', durationMs: 40, ttftMs: 19.25, firstEventMs: 18 },
    });
    expect(exported(record).spans[0]?.attributes).toMatchObject({
      'gen_ai.usage.input_tokens': 100,
      'gen_ai.usage.output_tokens': 5,
      'gen_ai.usage.cache_read.input_tokens': 0,
      'gen_ai.usage.reasoning.output_tokens': 2,
      'gen_ai.response.time_to_first_chunk': 0.018,
      'warmlane.ttft': 0.019_25,
    });
  });

  it('of a request that calls no model has no gen_ai attribute', () => {
    const root = exported(answered(evenly(1, 1), { endpoint: 'tokenize', format: 'unknown' })).spans[0];
    expect(Object.keys(root?.attributes ?? {}).filter((key) => key.startsWith('gen_ai'))).toEqual([]);
  });
});

describe('the estimate of a trace’s size', () => {
  it('counts the buckets of gaps that a waiting record holds, though no span has them', () => {
    const record = sampleRecord({ streamed: true });
    const itl = { count: 2, sum: 1, zeros: 0, first: -900, counts: Array.from({ length: 1000 }, () => 0) };
    const more = sizeOf({ ...record, itl }, 'arrays').bytes - sizeOf(record, 'arrays').bytes;
    expect(more).toBe(8000);
  });

  const full = {
    tokens: new Uint16Array(10_000).fill(2),
    coalesced: new Uint8Array(10_000).fill(1),
    choice: new Uint16Array(10_000).fill(1),
  };
  it.each([
    ['a short one, arrays', answered(evenly(5, 5)), 'arrays'],
    [
      'a routed one',
      answered(evenly(5, 5), { routing: sampleNote(), assessment: { missed: [{ cause: 'diverged', tokens: 976 }] } }),
      'arrays',
    ],
    ['10,000 tokens, arrays', answered(evenly(10_000, 20.3)), 'arrays'],
    ['10,000 tokens, events', answered(evenly(10_000, 20.3)), 'events'],
    ['40,000 tokens, events', answered(evenly(40_000, 20.3)), 'events'],
    ['all of it, arrays', answered({ ...evenly(10_000, 20.3), ...full }), 'arrays'],
    ['all of it, events', answered({ ...evenly(10_000, 20.3), ...full }), 'events'],
    [
      'long names',
      answered(evenly(5, 5), { model: 'é'.repeat(512), responseModel: 'm'.repeat(512), path: `/${'p'.repeat(1000)}` }),
      'arrays',
    ],
  ] as const)('is not below what is sent, nor three times as much: %s', (_, record, form) => {
    const { spans, partBytes } = exported(record, form);
    const sent = partBytes.reduce((sum, bytes) => sum + bytes, 0);
    const { bytes, spans: count } = sizeOf(record, form);
    expect(count).toBe(spans.length);
    expect(bytes).toBeGreaterThanOrEqual(sent * 0.95);
    expect(bytes).toBeLessThan(Math.max(sent * 3, 8000));
  });
});
