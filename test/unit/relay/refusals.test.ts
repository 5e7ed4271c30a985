import { describe, expect, it } from 'vitest';
import type { FaultKind, UpstreamFault } from '../../../src/platform/upstream/port.ts';
import {
  deadlineRefusal,
  faultRefusal,
  killerRefusal,
  lostRefusal,
  streamErrorRefusal,
  truncated,
} from '../../../src/relay/refusals.ts';

function fault(kind: FaultKind, over: Partial<UpstreamFault> = {}): UpstreamFault {
  return {
    kind,
    detail: '127.0.0.1:9: ECONNREFUSED',
    nothingSent: false,
    reused: false,
    responseStarted: false,
    ...over,
  };
}

describe('a backend’s fault', () => {
  it.each([
    ['refused', 502, 'backend_unreachable', 'upstream_error'],
    ['dns', 502, 'backend_unreachable', 'upstream_error'],
    ['tls', 502, 'backend_unreachable', 'upstream_error'],
    ['connect_timeout', 504, 'connect_timeout', 'timeout'],
    ['bad_response', 502, 'backend_bad_response', 'upstream_error'],
    ['reset', 502, 'backend_closed_early', 'upstream_error'],
    ['eof', 502, 'backend_closed_early', 'upstream_error'],
  ] as const)('%s is %i %s, and the backend is the cause', (kind, status, code, outcome) => {
    const refusal = faultRefusal(fault(kind), 'b1');
    expect(refusal).toMatchObject({ refused: true, status, code, outcome, type: 'api_error', spokenBy: 'backend' });
    expect(refusal.message).toContain('b1');
  });

  it('that names addresses passes them on; a lost connection has none to name', () => {
    for (const kind of ['refused', 'dns', 'tls', 'connect_timeout', 'bad_response'] as const) {
      expect(faultRefusal(fault(kind), 'b1').message).toContain('127.0.0.1:9');
    }
  });

  it('after the answer’s first byte cut it; before, there was none', () => {
    expect(faultRefusal(fault('eof', { responseStarted: true }), 'b1')).toMatchObject({
      outcome: 'upstream_truncated',
      message: expect.stringContaining('in the middle') as string,
    });
    expect(faultRefusal(fault('eof'), 'b1').message).toContain('before');
  });

  it('that may pass soon says when to try again', () => {
    expect(faultRefusal(fault('refused'), 'b1').retryAfterSeconds).toBe(1);
    expect(faultRefusal(fault('eof'), 'b1').retryAfterSeconds).toBeUndefined();
  });
});

describe('an error that was hidden in a stream', () => {
  it.each([
    [503, 'backend_busy', 'rejected', 'api_error', 1],
    [429, 'backend_busy', 'rejected', 'invalid_request_error', 1],
    [400, 'backend_stream_error', 'client_error', 'invalid_request_error', undefined],
    [499, 'backend_stream_error', 'client_error', 'invalid_request_error', undefined],
    [500, 'backend_stream_error', 'upstream_error', 'api_error', undefined],
    [504, 'backend_stream_error', 'upstream_error', 'api_error', undefined],
  ] as const)('R03 of code %i is %s, booked as %s', (status, code, outcome, type, retryAfterSeconds) => {
    const refusal = streamErrorRefusal(status, 'its own words');
    expect(refusal).toMatchObject({ status, code, outcome, type, message: 'its own words', spokenBy: 'backend' });
    expect(refusal.retryAfterSeconds).toBe(retryAfterSeconds);
  });
});

describe('a limit', () => {
  it.each([
    ['headMs', 'head_timeout'],
    ['firstTokenMs', 'first_token_timeout'],
    ['contentStallMs', 'content_stall'],
    ['totalMs', 'total_timeout'],
  ] as const)('deadlines.%s is named with its value, as %s', (deadline, code) => {
    const refusal = deadlineRefusal(deadline, 1234.56, 'b1');
    expect(refusal).toMatchObject({ status: 504, code, outcome: 'timeout', spokenBy: 'backend' });
    expect(refusal.message).toMatch(new RegExp(`b1.*deadlines\\.${deadline} \\(1235 ms`));
  });

  it('R04 R07 and a backend that is gone are different things', () => {
    expect(lostRefusal('b1')).toMatchObject({ status: 502, code: 'backend_lost', outcome: 'upstream_error' });
    expect(truncated('b1')).toMatchObject({ status: 502, code: 'backend_closed_early', outcome: 'upstream_truncated' });
  });

  it('decision 11: what broke two backends is told by name', () => {
    expect(killerRefusal('b2')).toMatchObject({ status: 502, code: 'prompt_killed_engine', outcome: 'upstream_error' });
    expect(killerRefusal('b2').message).toContain('b2');
  });
});
