import { describe, expect, it } from 'vitest';

import { createObserver } from '../../../src/measure/observer.ts';
import { measureSettings } from '../../support/observe.ts';

const head = { requestId: 'r', method: 'POST', target: '/v1/chat/completions', receivedMs: 1000 };
const trace = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', sampled: true, state: 'v=1' };

describe('the attempts of a traced request', () => {
  it('are kept in order, each with its own moments, its own span id and what ended it', () => {
    const observer = createObserver(measureSettings, { head, wallMs: 1, trace });
    const first = observer.attempt({ backend: 'a', engine: 'vllm', reason: 'least_load', atMs: 1001 });
    observer.mark('connected', 1002);
    observer.attemptEnd({ atMs: 1003, outcome: 'upstream_error', reason: 'backend_closed_early' });
    const second = observer.attempt({ backend: 'b', engine: 'vllm', reason: 'last_resort', atMs: 1004 });
    observer.mark('connected', 1005);
    observer.mark('sent', 1006);
    observer.mark('head', 1007);
    observer.mark('end', 1009);
    observer.attemptEnd({ atMs: 1010, status: 200, outcome: 'ok' });
    const record = observer.finish({ outcome: 'ok', spokenBy: 'backend', status: 200, atMs: 1011 });
    const [a, b] = record.attemptLog ?? [];
    expect(record.attemptLog).toHaveLength(2);
    expect(a).toEqual({
      backend: 'a',
      engine: 'vllm',
      routeReason: 'least_load',
      spanId: a?.spanId,
      startMs: 1001,
      connectedMs: 1002,
      endMs: 1003,
      outcome: 'upstream_error',
      reason: 'backend_closed_early',
    });
    expect(b).toEqual({
      backend: 'b',
      engine: 'vllm',
      routeReason: 'last_resort',
      spanId: b?.spanId,
      startMs: 1004,
      connectedMs: 1005,
      sentMs: 1006,
      headMs: 1007,
      endMs: 1009,
      status: 200,
      outcome: 'ok',
    });
    expect([first, second]).toEqual([
      { traceparent: `00-${trace.traceId}-${a?.spanId}-01`, tracestate: 'v=1' },
      { traceparent: `00-${trace.traceId}-${b?.spanId}-01`, tracestate: 'v=1' },
    ]);
    expect(a?.spanId).not.toBe(b?.spanId);
    expect(record).toMatchObject({ trace, routeReason: 'last_resort' });
  });

  it('end with the next one, or with the request, where nobody said so', () => {
    const observer = createObserver(measureSettings, { head, wallMs: 1, trace: { ...trace, sampled: false } });
    observer.attempt({ backend: 'a', engine: 'vllm', atMs: 1001 });
    const second = observer.attempt({ backend: 'b', engine: 'vllm', atMs: 1004 });
    const record = observer.finish({ outcome: 'shutdown', spokenBy: 'warmlane', reason: 'drain_deadline', atMs: 1009 });
    expect(record.attemptLog?.map(({ endMs, reason }) => [endMs, reason])).toEqual([
      [1004, undefined],
      [1009, 'drain_deadline'],
    ]);
    expect(second?.traceparent).toMatch(/-00$/);
  });

  it('are not kept while tracing is off; why the backend was chosen is', () => {
    const observer = createObserver(measureSettings, { head, wallMs: 1 });
    expect(observer.attempt({ backend: 'a', engine: 'vllm', reason: 'least_load', atMs: 1001 })).toBeUndefined();
    observer.attemptEnd({ atMs: 1002, reason: 'x' });
    const record = observer.finish({ outcome: 'ok', spokenBy: 'backend', atMs: 1003 });
    expect(record).not.toHaveProperty('attemptLog');
    expect(record).not.toHaveProperty('trace');
    expect(record.routeReason).toBe('least_load');
  });
});

describe('the failed attempts of a request, traced or not', () => {
  const failed = { outcome: 'upstream_error', reason: 'backend_unreachable' } as const;
  const observe = (headers: Readonly<Record<string, string>> = {}) =>
    createObserver(measureSettings, { head: { ...head, header: (name) => headers[name] }, wallMs: 1 });

  it('are kept with their backend and what ended them; the one that answered is not among them', () => {
    const observer = observe();
    observer.attempt({ backend: 'a', engine: 'vllm', atMs: 1001 });
    observer.attemptEnd({ atMs: 1002, ...failed });
    observer.attempt({ backend: 'b', engine: 'vllm', atMs: 1003 });
    // Nobody says how this one ended; that another follows says enough.
    observer.attempt({ backend: 'c', engine: 'vllm', atMs: 1004 });
    observer.attemptEnd({ atMs: 1005, status: 200, outcome: 'ok' });
    const record = observer.finish({ outcome: 'ok', spokenBy: 'backend', status: 200, atMs: 1006 });
    expect(record).toMatchObject({ backend: 'c', attempts: 3 });
    expect(record.failedAttempts).toEqual([
      { backend: 'a', ...failed },
      { backend: 'b', outcome: 'upstream_error' },
    ]);
    expect(record).not.toHaveProperty('attemptLog');
    expect(record).not.toHaveProperty('host');
  });

  it('are all there where the request waited for another place in vain', () => {
    const observer = observe();
    observer.attempt({ backend: 'a', engine: 'vllm', atMs: 1001 });
    observer.attemptEnd({ atMs: 1002, ...failed });
    const record = observer.finish({ outcome: 'rejected', spokenBy: 'warmlane', reason: 'queue_timeout', atMs: 1009 });
    expect(record.failedAttempts).toEqual([{ backend: 'a', ...failed }]);
  });

  it.each([
    ['answered', { outcome: 'ok' }],
    ['failed, as the request did', failed],
    ['ended by its client', { outcome: 'client_abort', reason: 'client_left' }],
  ] as const)('are none where the only one was %s: the record says it all', (_, end) => {
    const observer = observe();
    observer.attempt({ backend: 'a', engine: 'vllm', atMs: 1001 });
    observer.attemptEnd({ atMs: 1002, ...end });
    const record = observer.finish({ spokenBy: 'backend', atMs: 1009, ...end });
    expect(record).not.toHaveProperty('failedAttempts');
  });
});
