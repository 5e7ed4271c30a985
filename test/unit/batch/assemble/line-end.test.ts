import { describe, expect, it } from 'vitest';
import { type Collected, lineEnd, type Told } from '../../../../src/batch/assemble/line-end.ts';

const answered: Collected = {
  status: 200,
  retryAfter: undefined,
  how: 'ended',
  text: '{"id":"x"}',
  assembled: undefined,
};
const ok: Told = { outcome: 'ok', spokenBy: 'backend', tokens: {} };

describe('what came of a line', () => {
  it('is its answer with the counts of the record', () => {
    const tokens = { prompt: { value: 7, source: 'usage' as const }, output: { value: 3, source: 'usage' as const } };
    expect(lineEnd(answered, { ...ok, tokens }, 0)).toEqual({
      kind: 'answered',
      status: 200,
      body: '{"id":"x"}',
      usage: { input: 7, cached: 0, output: 3, reasoning: 0 },
    });
    expect(lineEnd(answered, ok, 0)).not.toHaveProperty('usage');
  });

  it("is the backend's own error with its status and when to come again", () => {
    const told: Told = { outcome: 'rejected', reason: 'backend_busy', spokenBy: 'backend', tokens: {} };
    const busy = { ...answered, status: 429, text: '{"error":{"message":"slow"}}' };
    expect(lineEnd({ ...busy, retryAfter: '7' }, told, 0)).toMatchObject({ status: 429, retryAfterMs: 7000 });
    const date = new Date(60_000).toUTCString();
    expect(lineEnd({ ...busy, retryAfter: date }, told, 10_000)).toMatchObject({ retryAfterMs: 50_000 });
    expect(lineEnd({ ...busy, retryAfter: 'soon' }, told, 0)).not.toHaveProperty('retryAfterMs');
  });

  it('is a failure that passes where warmlane found nobody to ask', () => {
    for (const reason of ['queue_full', 'no_backend', 'backend_unreachable', 'head_timeout', 'bodies_memory_full']) {
      const told: Told = { outcome: 'rejected', reason, spokenBy: 'warmlane', tokens: {} };
      const end = lineEnd({ ...answered, status: 503, text: '{"error":{"message":"why"}}' }, told, 0);
      expect(end).toEqual({ kind: 'failed', code: reason, message: 'why', retryable: true });
    }
  });

  it('is a failure for good where two engines died of it', () => {
    const told: Told = { outcome: 'upstream_error', reason: 'prompt_killed_engine', spokenBy: 'backend', tokens: {} };
    expect(lineEnd({ ...answered, status: 502, text: '{"error":{"message":"m"}}' }, told, 0)).toMatchObject({
      kind: 'failed',
      retryable: false,
    });
  });

  it("is an answer of warmlane's own where the line itself is at fault", () => {
    const told: Told = { outcome: 'client_error', reason: 'model_not_found', spokenBy: 'warmlane', tokens: {} };
    const end = lineEnd({ ...answered, status: 404, text: '{"error":{"message":"no"}}' }, told, 0);
    expect(end).toMatchObject({ kind: 'answered', status: 404 });
  });

  it('is a failure that passes where an answer broke off, had no head, or is no JSON', () => {
    const broken: Told = { outcome: 'upstream_truncated', reason: 'reset', spokenBy: 'backend', tokens: {} };
    expect(lineEnd({ ...answered, how: 'cut' }, broken, 0)).toMatchObject({ code: 'answer_broken', retryable: true });
    const stalled: Told = { outcome: 'timeout', reason: 'content_stall', spokenBy: 'backend', tokens: {} };
    expect(lineEnd({ ...answered, how: 'cut' }, stalled, 0)).toMatchObject({ code: 'content_stall' });
    expect(lineEnd({ ...answered, status: undefined }, undefined, 0)).toMatchObject({ code: 'no_answer' });
    expect(lineEnd({ ...answered, text: '<html>' }, ok, 0)).toMatchObject({ code: 'backend_bad_response' });
    const told: Told = { outcome: 'upstream_error', reason: 'error_event', spokenBy: 'backend', tokens: {} };
    expect(lineEnd({ ...answered, text: '{"error":"x"}' }, told, 0)).toMatchObject({ code: 'backend_stream_error' });
  });

  it('wraps an error page, so that its client reads JSON', () => {
    const told: Told = { outcome: 'client_error', reason: 'status_413', spokenBy: 'backend', tokens: {} };
    const end = lineEnd({ ...answered, status: 413, text: '<html>too large' }, told, 0);
    expect(end.kind === 'answered' && JSON.parse(end.body)).toMatchObject({ error: { message: '<html>too large' } });
  });

  it('takes an error in a stream for an answer where the engine gave it a status', () => {
    const error = { kind: 'error' as const, status: 400, message: 'm', body: '{"error":{}}' };
    expect(lineEnd({ ...answered, assembled: error }, ok, 0)).toMatchObject({ kind: 'answered', status: 400 });
    const silent = { ...error, status: undefined };
    expect(lineEnd({ ...answered, assembled: silent }, ok, 0)).toMatchObject({ kind: 'failed', retryable: true });
  });

  it('is no fault of the line when warmlane shuts down', () => {
    const told: Told = { outcome: 'shutdown', reason: 'drain_deadline', spokenBy: 'warmlane', tokens: {} };
    expect(lineEnd({ ...answered, how: 'cut' }, told, 0)).toMatchObject({ code: 'shutting_down', retryable: true });
  });
});
