import { describe, expect, it } from 'vitest';
import { withOwnHeaders } from '../../../src/relay/own-headers.ts';

const all = { routing: true, serverTiming: true };
const route = { backend: 'b1', reason: 'prefix', predictedTokens: 3120 };

describe("warmlane's own headers", () => {
  it('stand behind those of the answer, which stay as they are', () => {
    const told = { route, times: { queueMs: 0, connectMs: 0.25, overheadMs: 0.123_456, upstreamMs: 12 } };
    expect(withOwnHeaders(['X-A', '1', 'Via', '1.1 warmlane'], all, told)).toEqual([
      'X-A',
      '1',
      'Via',
      '1.1 warmlane',
      'X-Warmlane-Backend',
      'b1',
      'X-Warmlane-Reason',
      'prefix',
      'X-Warmlane-Predicted-Cached-Tokens',
      '3120',
      'Server-Timing',
      'queue;dur=0, connect;dur=0.25, overhead;dur=0.123, upstream;dur=12',
    ]);
  });

  it('tell what a client has left of its limits, in place of what the backend says of its own', () => {
    const raw = ['X-A', '1', 'X-RateLimit-Limit-Tokens', '9', 'x-ratelimit-reset-project-tokens', '1s'];
    const limits = ['x-ratelimit-limit-tokens', '5'];
    const off = { routing: false, serverTiming: false };
    const told = { route: undefined, times: undefined };
    expect(withOwnHeaders(raw, off, { ...told, limits })).toEqual(['X-A', '1', ...limits]);
    expect(withOwnHeaders(raw, off, { ...told, limits: [] })).toEqual(raw);
    expect(withOwnHeaders(raw, off, told)).toEqual(raw);
  });

  it('say nothing of what is not known: no prediction, no time', () => {
    const told = { route: { backend: 'b1', reason: 'only_backend' }, times: {} };
    expect(withOwnHeaders([], all, told)).toEqual(['X-Warmlane-Backend', 'b1', 'X-Warmlane-Reason', 'only_backend']);
    expect(withOwnHeaders([], all, { route: undefined, times: { queueMs: 5 } })).toEqual([
      'Server-Timing',
      'queue;dur=5',
    ]);
    expect(withOwnHeaders(['X-A', '1'], all, { route: undefined, times: undefined })).toEqual(['X-A', '1']);
    expect(withOwnHeaders([], all, { route: { ...route, predictedTokens: 0 }, times: {} })).toContain('0');
  });

  it("keep a backend's Server-Timing, and give their own as another line of the same list", () => {
    const headers = withOwnHeaders(['server-timing', 'gpu;dur=3'], all, { route, times: { upstreamMs: 7 } });
    expect(headers.slice(0, 2)).toEqual(['server-timing', 'gpu;dur=3']);
    expect(headers.slice(-2)).toEqual(['Server-Timing', 'upstream;dur=7']);
  });

  it('replace what a backend that is a warmlane itself says of its own routing', () => {
    const theirs = ['x-warmlane-backend', 'inner', 'X-Warmlane-Reason', 'sticky', 'X-Warmlane-Other', '1'];
    expect(withOwnHeaders(theirs, { routing: true, serverTiming: false }, { route, times: {} })).toEqual([
      'X-Warmlane-Other',
      '1',
      'X-Warmlane-Backend',
      'b1',
      'X-Warmlane-Reason',
      'prefix',
      'X-Warmlane-Predicted-Cached-Tokens',
      '3120',
    ]);
  });

  it('are off one by one', () => {
    const told = { route, times: { upstreamMs: 7 } };
    const theirs = ['x-warmlane-backend', 'inner'];
    expect(withOwnHeaders(theirs, { routing: false, serverTiming: false }, told)).toEqual(theirs);
    expect(withOwnHeaders(theirs, { routing: false, serverTiming: true }, told)).toEqual([
      ...theirs,
      'Server-Timing',
      'upstream;dur=7',
    ]);
  });
});
