import { describe, expect, it } from 'vitest';
import { verdictOf, type AttemptEnd } from '../../../src/fleet/attempt-verdict.ts';

function verdict(outcome: AttemptEnd['outcome'], reason?: string, more: Partial<AttemptEnd> = {}) {
  return verdictOf({ outcome, reason, generates: true, errorText: '', ...more });
}

describe('the verdict on an attempt', () => {
  it('is good only where an engine slot did its work', () => {
    expect(verdict('ok')).toBe('good');
    expect(verdict('ok', undefined, { generates: false })).toBeUndefined();
  });

  it.each([
    ['upstream_error', 'status_500'],
    ['upstream_error', 'status_502'],
    ['upstream_error', 'backend_unreachable'],
    ['upstream_error', 'backend_closed_early'],
    ['upstream_error', 'empty_stream'],
    ['upstream_truncated', 'reset'],
    ['timeout', 'head_timeout'],
    ['timeout', 'first_token_timeout'],
    ['timeout', 'content_stall'],
    ['timeout', 'connect_timeout'],
  ] as const)('is bad for %s, %s', (outcome, reason) => {
    expect(verdict(outcome, reason)).toBe('bad');
  });

  it.each([
    ['C062', 'client_error', 'status_400'],
    ['C065', 'client_error', 'status_422'],
    ['a full queue', 'rejected', 'backend_busy'],
    ['a client that left', 'client_abort', 'client_left'],
    ['a shutdown', 'shutdown', 'drain_deadline'],
    ['our own bug', 'proxy_error', 'internal'],
    ['a stream longer than is allowed', 'timeout', 'total_timeout'],
    ['R08 an error in a stream that was told', 'upstream_error', 'error_event'],
    ['a route that is not there', 'upstream_error', 'status_501'],
  ] as const)('%s says nothing of the backend', (_, outcome, reason) => {
    expect(verdict(outcome, reason)).toBeUndefined();
  });

  it('R24 a 500 that blames the request says nothing of the backend; one that does not, does', () => {
    const text =
      '{"error":{"code":500,"message":"[json.exception.parse_error.101] parse error","type":"server_error"}}';
    expect(verdict('upstream_error', 'status_500', { errorText: text })).toBeUndefined();
    expect(verdict('upstream_error', 'status_500', { errorText: '{"error":{"message":"Compute error."}}' })).toBe(
      'bad',
    );
    expect(verdict('upstream_error', 'status_502', { errorText: text })).toBe('bad');
  });
});
