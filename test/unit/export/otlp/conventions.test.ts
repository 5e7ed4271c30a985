import { describe, expect, it } from 'vitest';

import { clientErrorType, serverErrorType } from '../../../../src/export/otlp/conventions.ts';

describe('error.type', () => {
  it.each([
    ['ok', 200, undefined],
    ['client_abort', 200, undefined],
    ['client_abort', 500, undefined],
    ['client_error', 404, undefined],
    ['rejected', 429, undefined],
    ['rejected', 503, 'rejected'],
    ['rejected', undefined, 'rejected'],
    ['upstream_error', 400, undefined],
    ['upstream_error', 500, 'upstream_error'],
    ['upstream_truncated', 200, 'upstream_truncated'],
    ['timeout', undefined, 'timeout'],
    ['proxy_error', 400, 'proxy_error'],
    ['ok', 502, '502'],
  ])('of a request that ended as %s with %s is %s', (outcome, status, type) => {
    expect(serverErrorType(outcome, status)).toBe(type);
  });

  it.each([
    ['ok', undefined],
    ['client_abort', undefined],
    ['client_error', 'client_error'],
    ['rejected', 'rejected'],
    ['upstream_error', 'upstream_error'],
  ])('of an attempt that ended as %s is %s', (outcome, type) => {
    expect(clientErrorType(outcome)).toBe(type);
  });
});
