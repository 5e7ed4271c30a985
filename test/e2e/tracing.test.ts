/** What one request leaves in a trace, read back from the bytes that a collector gets, and what its backend was told. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { pause, reset, run, send, waitForClose } from '../../src/sim/fault-steps.ts';
import {
  chunk,
  DONE,
  FIN,
  responseHead,
  ROLE,
  sseHead,
  T,
  USE,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import { pass, paced } from '../support/exchange.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { startProxy } from '../support/proxy.ts';
import { R0, rawClient } from '../support/raw-http.ts';
import { createStage, eventually, type Stage } from '../support/stage.ts';
import { createUpgradeBackend, handshakeBytes, switching } from '../support/upgrade-backend.ts';
import { closeReceivers, headersNamed, misplaced, spanNamed, tracedProxy, tracedRequest } from '../support/traced.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(async () => {
  await stage.close();
  await closeReceivers();
});

const server = 'POST /v1/chat/completions';
const events = [
  ROLE,
  T('a'),
  T('b'),
  T('c'),
  FIN('stop'),
  USE(12, 3, { prompt_tokens_details: { cached_tokens: 8 } }),
  DONE,
];
const traceId = '0af7651916cd43dd8448eb211c80319c';
const callersSpan = 'aaaaaaaaaaaaaaaa';
const traceparent = `00-${traceId}-${callersSpan}-01`;

describe('the spans of one streamed answer', () => {
  it('nest: queue and attempt below the request, prefill and decode below the attempt, all in one trace', async () => {
    const { send: ask, receiver, asked } = await tracedProxy(stage, () => paced(10, ...events));
    const { record } = await ask();
    await receiver.got(5);
    const { spans } = receiver;
    expect(spans.map(({ name }) => name).toSorted()).toEqual(['POST', server, 'decode', 'prefill', 'queue']);
    const [root, attempt] = [spanNamed(spans, server), spanNamed(spans, 'POST')];
    expect(misplaced(spans)).toEqual([]);
    expect(root).toMatchObject({ kind: 2, parentSpanId: '', status: 0 });
    expect(attempt).toMatchObject({ kind: 3, parentSpanId: root.spanId, status: 0 });
    expect(spanNamed(spans, 'queue')).toMatchObject({ kind: 1, parentSpanId: root.spanId });
    expect(spanNamed(spans, 'prefill')).toMatchObject({ kind: 1, parentSpanId: attempt.spanId });
    expect(spanNamed(spans, 'decode')).toMatchObject({ kind: 1, parentSpanId: attempt.spanId });
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([record.trace?.traceId]));
    expect(headersNamed(asked()[0], 'traceparent')).toEqual([`00-${root.traceId}-${attempt.spanId}-01`]);
  });

  it('say what the record says, by the names of the conventions', async () => {
    const {
      send: ask,
      receiver,
      proxy,
      backends,
    } = await tracedProxy(stage, () => paced(10, ...events), { engine: 'vllm' });
    const { record } = await ask();
    await receiver.got(5);
    const root = spanNamed(receiver.spans, server);
    expect(root.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.route': '/v1/chat/completions',
      'url.path': '/v1/chat/completions',
      'url.scheme': 'http',
      'http.response.status_code': 200,
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'vllm',
      'gen_ai.request.model': 'm',
      'gen_ai.request.stream': true,
      'gen_ai.response.id': 'chatcmpl-scripted',
      'server.address': 'test',
      'server.port': 80,
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': 12,
      'gen_ai.usage.output_tokens': 3,
      'gen_ai.usage.cache_read.input_tokens': 8,
      'warmlane.outcome': 'ok',
      'warmlane.lane': 'online',
      'warmlane.warmth': 'prefix_hit',
      'warmlane.backend': `b${backends[0]?.port}`,
      'warmlane.route.reason': record.routeReason,
      'warmlane.attempts': 1,
      'warmlane.request_id': record.requestId,
      'warmlane.trace.kept': 'head',
    });
    const { figures } = record;
    expect(root.attributes['warmlane.ttft']).toBeCloseTo((figures.ttftMs ?? 0) / 1000, 5);
    expect(root.attributes['gen_ai.response.time_to_first_chunk']).toBeCloseTo((figures.firstEventMs ?? 0) / 1000, 5);
    expect(root.attributes['warmlane.overhead']).toBeCloseTo((figures.overheadMs ?? 0) / 1000, 5);
    expect(root.resource).toMatchObject({ 'service.name': 'warmlane', 'telemetry.sdk.name': 'opentelemetry' });
    const attempt = spanNamed(receiver.spans, 'POST');
    expect(attempt.attributes).toMatchObject({
      'url.full': `${backends[0]?.url}/v1/chat/completions`,
      'server.address': '127.0.0.1',
      'server.port': backends[0]?.port,
      'http.response.status_code': 200,
    });
    // Only one span speaks of tokens, lest somebody adds them up twice.
    expect(receiver.spans.filter(({ attributes }) => 'gen_ai.usage.output_tokens' in attributes)).toEqual([root]);
    expect(proxy.logged.some(({ msg }) => msg === 'traces are on')).toBe(true);
  });

  it('have wall-clock times: first token as Langfuse reads it, and ends at the last byte', async () => {
    const { send: ask, receiver } = await tracedProxy(stage, () => paced(15, ...events));
    const beforeMs = Date.now();
    const { record } = await ask();
    await receiver.got(5);
    const [root, prefill, decode] = [server, 'prefill', 'decode'].map((name) => spanNamed(receiver.spans, name));
    const startMs = Number((root?.startNs ?? 0n) / 1_000_000n);
    expect(startMs).toBeGreaterThanOrEqual(beforeMs - 5);
    expect(startMs).toBeLessThanOrEqual(Date.now());
    const { received, end = 0, firstToken = 0 } = record.timeline;
    expect(Number((root?.endNs ?? 0n) - (root?.startNs ?? 0n)) / 1e6).toBeCloseTo(end - received, 2);
    expect(prefill?.endNs).toBe(decode?.startNs);
    const told = JSON.parse(String(root?.attributes['langfuse.observation.completion_start_time'])) as string;
    expect(Math.abs(Date.parse(told) - (record.startedAtEpochMs + firstToken - received))).toBeLessThanOrEqual(1);
  });

  it('hold every token’s moment, each within the rounding of the record’s own', async () => {
    const { send: ask, receiver } = await tracedProxy(stage, () => paced(7, ...events));
    const { record } = await ask();
    const [decode] = await receiver.got(1, 'decode');
    const deltas = decode?.attributes['warmlane.token.deltas_us'] as number[];
    const atMs = Object.values(record.stamps?.atMs ?? {});
    expect(deltas).toHaveLength(3);
    let sum = 0;
    for (const [index, delta] of deltas.entries()) {
      sum += delta;
      // The admin listener gives its moments to the microsecond too.
      expect(Math.abs(sum - ((atMs[index] ?? 0) - (atMs[0] ?? 0)) * 1000)).toBeLessThan(1.5);
    }
    expect(Object.keys(decode?.attributes ?? {})).not.toContain('warmlane.token.counts');
    expect(Object.keys(decode?.attributes ?? {})).not.toContain('warmlane.token.choices');
  });
});

describe('the caller’s trace', () => {
  it('C193 goes on: the backend gets its trace id with the attempt’s own span id, tracestate and flag kept', async () => {
    const { send: ask, receiver, asked } = await tracedProxy(stage, () => [wholeStream(...events)]);
    await ask(tracedRequest({ traceparent, tracestate: 'v=1' }));
    await receiver.got(5);
    const [root, attempt] = [spanNamed(receiver.spans, server), spanNamed(receiver.spans, 'POST')];
    expect(root).toMatchObject({ traceId, parentSpanId: callersSpan, traceState: 'v=1' });
    // OTLP: bit 8 says that it is known whether the parent is remote, bit 9 that it is.
    expect(root.flags & 0x300).toBe(0x300);
    expect(headersNamed(asked()[0], 'traceparent')).toEqual([`00-${traceId}-${attempt.spanId}-01`]);
    expect(headersNamed(asked()[0], 'tracestate')).toEqual(['v=1']);
  });

  it.each([
    ['a: none', {}],
    ['b: an all-zero trace id', { traceparent: `00-${'0'.repeat(32)}-${callersSpan}-01` }],
    ['c: garbage', { traceparent: 'garbage', tracestate: 'v=1' }],
    ['d: two of them', { traceparent, Traceparent: traceparent }],
  ])('C194 begins here where it is not valid, one for warmlane and backend (%s)', async (_, headers) => {
    const { send: ask, receiver, asked } = await tracedProxy(stage, () => [wholeStream(...events)]);
    await ask(tracedRequest(headers));
    await receiver.got(5);
    const [root, attempt] = [spanNamed(receiver.spans, server), spanNamed(receiver.spans, 'POST')];
    expect(root.traceId).not.toBe(traceId);
    expect(root.parentSpanId).toBe('');
    expect(headersNamed(asked()[0], 'traceparent')).toEqual([`00-${root.traceId}-${attempt.spanId}-01`]);
    expect(headersNamed(asked()[0], 'tracestate')).toEqual([]);
  });

  it.each([
    ['unset', {}],
    ['disabled', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_SDK_DISABLED: 'true' }],
    ['without an exporter', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_TRACES_EXPORTER: 'none' }],
  ])('C194 e: passes unchanged while tracing is off (%s)', async (_, env) => {
    const backend = await stage.backend({ onRequest: () => [wholeStream(...events)] });
    const proxy = await stage.proxy(backend, { env });
    const client = await stage.client(proxy);
    client.send(tracedRequest({ TraceParent: traceparent, tracestate: 'v=1' }));
    await client.answer();
    const asked = backend.requests.findLast(({ target }) => target === '/v1/chat/completions');
    expect(headersNamed(asked, 'traceparent')).toEqual([traceparent]);
    expect(headersNamed(asked, 'tracestate')).toEqual(['v=1']);
    const [record] = await proxy.records(1);
    expect(record).not.toHaveProperty('trace');
    expect(record).not.toHaveProperty('attemptLog');
    expect(record?.routeReason).toBeTypeOf('string');
  });
});

describe('the head decision', () => {
  it('goes upstream as the flag, and what it refused is not exported', async () => {
    const { send: ask, receiver, asked } = await tracedProxy(stage, () => [wholeStream(...events)]);
    await ask(tracedRequest({ traceparent: `00-${traceId}-${callersSpan}-00` }));
    await ask(tracedRequest({ traceparent }));
    await receiver.got(5);
    expect(asked().map((request) => headersNamed(request, 'traceparent')[0]?.slice(-2))).toEqual(['00', '01']);
    expect(receiver.spans.filter(({ name }) => name === server)).toHaveLength(1);
  });

  it('is the sampler’s that the environment names', async () => {
    const env = { OTEL_TRACES_SAMPLER: 'always_off' };
    const { send: ask, receiver, asked } = await tracedProxy(stage, () => [wholeStream(...events)], { env });
    await ask(tracedRequest({ traceparent }));
    expect(headersNamed(asked()[0], 'traceparent')[0]).toMatch(/-00$/);
    expect(receiver.spans).toEqual([]);
  });

  it('is overruled at the end for what failed, and for what was left', async () => {
    const env = { OTEL_TRACES_SAMPLER: 'always_off' };
    let nth = 0;
    const { proxy, receiver } = await tracedProxy(
      stage,
      () =>
        (nth += 1) === 1
          ? [send(sseHead()), send(chunk(ROLE, T('a'))), pause(20), reset()]
          : [...paced(5, ROLE, T('a')).slice(0, -1), waitForClose()],
      { env },
    );
    const first = await stage.client(proxy);
    first.send(R0);
    await first.answer();
    const second = await stage.client(proxy);
    second.send(R0);
    await second.until(() => second.received.includes('"a"'));
    second.leave();
    const roots = await receiver.got(2, server);
    expect(roots.map(({ attributes }) => attributes['warmlane.trace.kept'])).toEqual(['failed', 'aborted']);
    expect(roots.map(({ status }) => status)).toEqual([2, 0]);
  });
});

describe('an answer over its objective', () => {
  it('is exported though the head said no, and a quick one is not', async () => {
    const slow = { name: 'quick', ttftMs: 60, itlShare: 1, percent: 99 };
    const checks = { usable: false, maxTextBytes: 0, retries: false, retryWithinMs: 0 };
    let nth = 0;
    const {
      send: ask,
      receiver,
      asked,
    } = await tracedProxy(
      stage,
      () => ((nth += 1) === 2 ? [pause(120), wholeStream(...events)] : [wholeStream(...events)]),
      {
        env: { OTEL_TRACES_SAMPLER: 'always_off' },
        change: { slo: { profiles: [slow], fallback: 'quick', routes: {}, models: {}, checks } },
      },
    );
    await ask();
    await ask();
    await ask();
    const [root] = await receiver.got(1, server);
    expect(root?.attributes).toMatchObject({
      'warmlane.trace.kept': 'slow',
      'warmlane.slo.profile': 'quick',
      'warmlane.slo.met': false,
      'warmlane.slo.broken': ['ttft'],
      'warmlane.slo.limits': [0.06],
    });
    // The engine was told that it isn't sampled: it has no spans of its own.
    expect(asked().every((request) => headersNamed(request, 'traceparent')[0]?.endsWith('-00') === true)).toBe(true);
    expect(receiver.spans.filter(({ name }) => name === server)).toHaveLength(1);
  });
});

describe('C200 exactly one SERVER span', () => {
  it('for a stream, a cut one, one that its client left, and a whole answer', async () => {
    let nth = 0;
    let left = () => {};
    const isLeft = new Promise<void>((resolve) => (left = resolve));
    const { proxy, receiver } = await tracedProxy(stage, () => {
      nth += 1;
      if (nth === 1) return paced(3, ...events);
      if (nth === 2) return [...paced(3, ROLE, T('a')).slice(0, -1), pause(30), reset()];
      if (nth === 3) return [...paced(3, ROLE, T('a')).slice(0, -1), waitForClose(), run(left)];
      return [
        wholeAnswer(200, {
          model: 'm',
          choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }],
          usage: { prompt_tokens: 2, completion_tokens: 1 },
        }),
      ];
    });
    for (let round = 1; round <= 4; round += 1) {
      const client = await stage.client(proxy);
      client.send(R0);
      if (round === 3) {
        await client.until(() => client.received.includes('"a"'));
        client.leave();
        await isLeft;
      } else await client.answer();
      await proxy.records(round);
    }
    const roots = await receiver.got(4, server);
    await eventually(() => receiver.spans.length === 5 + 5 + 5 + 3, 'all spans');
    expect(roots).toHaveLength(4);
    expect(new Set(roots.map((span) => span.traceId)).size).toBe(4);
    expect(roots.map(({ attributes }) => attributes['warmlane.outcome'])).toEqual([
      'ok',
      'upstream_truncated',
      'client_abort',
      'ok',
    ]);
    expect(roots.map(({ status }) => status)).toEqual([0, 2, 0, 0]);
    expect(roots[1]?.attributes).toMatchObject({ 'error.type': 'upstream_truncated', 'warmlane.reason': 'reset' });
    expect(roots[1]?.attributes['gen_ai.response.finish_reasons']).toEqual(['error']);
    expect(roots[3]?.attributes).toMatchObject({ 'gen_ai.usage.output_tokens': 1, 'gen_ai.request.stream': false });
    const records = await proxy.records(4);
    for (const [index, { timeline }] of records.entries()) {
      const spanMs = Number((roots[index]?.endNs ?? 0n) - (roots[index]?.startNs ?? 0n)) / 1e6;
      const lastMs = (timeline.end ?? timeline.lastToken ?? 0) - timeline.received;
      expect(spanMs).toBeGreaterThanOrEqual(lastMs - 0.01);
    }
    expect(misplaced(receiver.spans)).toEqual([]);
  });
});

describe('attempts', () => {
  it('each have their own span and their own traceparent, the failed one with its error', async () => {
    let nth = 0;
    const {
      send: ask,
      receiver,
      asked,
    } = await tracedProxy(
      stage,
      () => ((nth += 1) === 1 ? [responseHead(503, { 'Content-Length': '0' })] : [wholeStream(...events)]),
      { backends: 2 },
    );
    const { answer, record } = await ask();
    expect(answer.status).toBe(200);
    const attempts = await receiver.got(2, 'POST');
    expect(
      attempts.map(({ status, attributes }) => [
        status,
        attributes['http.response.status_code'],
        attributes['http.request.resend_count'],
        attributes['error.type'],
      ]),
    ).toEqual([
      [2, 503, undefined, 'rejected'],
      [0, 200, 1, undefined],
    ]);
    expect(asked().flatMap((request) => headersNamed(request, 'traceparent'))).toEqual(
      attempts.map(({ traceId: trace, spanId }) => `00-${trace}-${spanId}-01`),
    );
    expect(record.attemptLog?.map(({ spanId }) => spanId)).toEqual(attempts.map(({ spanId }) => spanId));
    const decode = spanNamed(receiver.spans, 'decode');
    expect(decode.parentSpanId).toBe(attempts[1]?.spanId);
    expect(misplaced(receiver.spans)).toEqual([]);
  });

  it('that find nobody leave an attempt without a status, and a SERVER span with 5xx', async () => {
    const { send: ask, receiver, backends } = await tracedProxy(stage, () => [wholeStream(...events)]);
    await backends[0]?.close();
    const { answer } = await ask();
    expect(answer.status).toBeGreaterThanOrEqual(502);
    const root = (await receiver.got(1, server))[0];
    expect(root).toMatchObject({ status: 2, attributes: { 'http.response.status_code': answer.status } });
  });

  it('routes with ids in them have bounded names', async () => {
    const { send: ask, receiver } = await tracedProxy(stage, () => [wholeAnswer(200, { id: 'resp_1' })]);
    await ask('GET /v1/responses/resp_123 HTTP/1.1\r\nHost: t\r\n\r\n');
    await ask('GET /whatever/42 HTTP/1.1\r\nHost: t\r\n\r\n');
    const names = (await receiver.got(6)).filter(({ kind }) => kind === 2).map(({ name }) => name);
    expect(names).toEqual(['GET /v1/responses/{id}', 'GET']);
  });
});

it('a WebSocket is a trace too: its handshake carries the attempt’s context, its span ends with the tunnel', async () => {
  const receiver = await startOtlpReceiver();
  const backend = await createUpgradeBackend({ onHandshake: ({ socket }) => void socket.write(switching) });
  const proxy = await startProxy(
    [backend.url],
    {},
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: receiver.tracesUrl, OTEL_BSP_SCHEDULE_DELAY: '20' },
  );
  const client = await rawClient(proxy.port);
  client.send(handshakeBytes('/v1/realtime?model=m', { traceparent }));
  await client.until(() => client.received.toString('latin1') === switching);
  client.leave();
  const [root] = await receiver.got(1, 'GET');
  const attempt = spanNamed(
    (await receiver.got(3)).filter(({ kind }) => kind === 3),
    'GET',
  );
  expect(root).toMatchObject({
    traceId,
    parentSpanId: callersSpan,
    kind: 2,
    attributes: { 'http.response.status_code': 101 },
  });
  expect(attempt.parentSpanId).toBe(root?.spanId);
  expect(attempt).toMatchObject({ status: 0, attributes: { 'http.response.status_code': 101 } });
  expect(backend.handshakes[0]?.header('traceparent')).toBe(`00-${traceId}-${attempt.spanId}-01`);
  for (const each of [proxy, backend, receiver]) await each.close();
});

it('an untraced warmlane records why a backend was chosen all the same', async () => {
  const { record } = await pass(stage, () => [wholeStream(...events)]);
  expect(record.routeReason).toBeTypeOf('string');
});
