import { describe, expect, it } from 'vitest';
import { judgeTry, type TriedEnd } from '../../../../src/batch/run/retry.ts';

const never = { attempts: 0, failures: 0, crashes: 0 };
const rules = { maxAttempts: 3, random: () => 1 };
const status = (code: number): TriedEnd => ({ kind: 'answered', status: code, body: '{}' });
const failed = (code: string, retryable = true): TriedEnd => ({ kind: 'failed', code, message: 'm', retryable });

describe('one try of a line', () => {
  it('is its result where it has an answer, good or final', () => {
    expect(judgeTry(status(200), never, rules)).toEqual({ kind: 'result', ok: true });
    for (const code of [300, 400, 401, 404, 413, 422, 501])
      expect(judgeTry(status(code), never, rules), String(code)).toEqual({ kind: 'result', ok: false });
    expect(judgeTry(failed('answer_too_large', false), never, rules)).toEqual({ kind: 'result', ok: false });
  });

  it('is repeated where another one may go better, up to its attempts', () => {
    for (const code of [408, 409, 500, 502, 504])
      expect(judgeTry(status(code), never, rules), String(code)).toMatchObject({ kind: 'again', counted: true });
    expect(judgeTry(status(500), { ...never, attempts: 2 }, rules)).toEqual({ kind: 'result', ok: false });
  });

  it('costs nothing where nobody worked on it', () => {
    const spent = { attempts: 99, failures: 99, crashes: 0 };
    for (const end of [status(429), status(503), failed('no_backend'), failed('queue_full'), failed('shutting_down')])
      expect(judgeTry(end, spent, rules)).toMatchObject({ kind: 'again', counted: false });
  });

  it('waits twice as long each time, up to a minute, and never less than half of that', () => {
    const delays = [0, 1, 2, 5, 6, 50].map((failures) => {
      const verdict = judgeTry(status(503), { ...never, failures }, rules);
      return verdict.kind === 'again' ? verdict.delayMs : -1;
    });
    expect(delays).toEqual([1000, 2000, 4000, 32_000, 60_000, 60_000]);
    expect(judgeTry(status(503), never, { ...rules, random: () => 0 })).toMatchObject({ delayMs: 500 });
  });

  it('waits as long as it is told, within reason', () => {
    const told = (retryAfterMs: number): TriedEnd => ({ kind: 'answered', status: 429, body: '{}', retryAfterMs });
    expect(judgeTry(told(30_000), never, rules)).toMatchObject({ delayMs: 30_000 });
    expect(judgeTry(told(10), never, rules)).toMatchObject({ delayMs: 1000 });
    expect(judgeTry(told(86_400_000), never, rules)).toMatchObject({ delayMs: 600_000 });
  });

  it('that may have killed an engine is repeated once', () => {
    expect(judgeTry(failed('backend_closed_early'), never, rules)).toMatchObject({ kind: 'again', crashed: true });
    expect(judgeTry(failed('backend_lost'), { ...never, crashes: 1 }, { ...rules, maxAttempts: 9 })).toEqual({
      kind: 'result',
      ok: false,
    });
  });
});
