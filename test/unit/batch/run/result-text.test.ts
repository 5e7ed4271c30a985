import { describe, expect, it } from 'vitest';
import { isExpired, resultOf, unfinished } from '../../../../src/batch/run/result-text.ts';

const line = { line: 3, customId: 'a "b"' };
const of = { batchId: 'batch_x', line, requestId: 'r', ok: true };

describe('a line of a result file', () => {
  it("holds the backend's answer as it stood, on one line", () => {
    const body = '{"a":1.0,\r\n"b":"\\n"}';
    const { text, ok } = resultOf({ kind: 'answered', status: 200, body }, of);
    expect(ok).toBe(true);
    expect(text).not.toMatch(/[\r\n]/);
    expect(text).toContain('"body":{"a":1.0, "b":"\\n"}');
    expect(JSON.parse(text)).toEqual({
      id: 'batch_req_x_3',
      custom_id: 'a "b"',
      response: { status_code: 200, request_id: 'r', body: { a: 1, b: '\n' } },
      error: null,
    });
  });

  it('has the same id whatever becomes of it, and counts its tokens', () => {
    const usage = { input: 4, cached: 3, output: 2, reasoning: 1 };
    const result = resultOf({ kind: 'answered', status: 200, body: '{}', usage }, of);
    expect(result.usage).toEqual({ inputTokens: 4, cachedTokens: 3, outputTokens: 2, reasoningTokens: 1 });
    const failure = resultOf({ kind: 'failed', code: 'c', message: 'm', retryable: false }, { ...of, ok: false });
    expect(JSON.parse(failure.text)).toEqual({
      id: 'batch_req_x_3',
      custom_id: 'a "b"',
      response: null,
      error: { code: 'c', message: 'm' },
    });
  });

  it('is known as expired by its own words alone', () => {
    const expired = unfinished('batch_x', line, 'batch_expired');
    expect(JSON.parse(expired.text)).toMatchObject({ error: { code: 'batch_expired' } });
    expect(isExpired(expired)).toBe(true);
    expect(isExpired(unfinished('batch_x', line, 'batch_cancelled'))).toBe(false);
    const quoting = { kind: 'answered', status: 400, body: expired.text } as const;
    expect(isExpired(resultOf(quoting, { ...of, ok: false }))).toBe(false);
  });
});
