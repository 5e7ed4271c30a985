import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRetries } from '../../../src/account/retries.ts';
import type { UselessReason } from '../../../src/domain/assessment.ts';
import type { Outcome } from '../../../src/domain/names.ts';
import { sampleRecord } from '../../support/sample-record.ts';

const create = (maxRemembered = 100) => createRetries({ withinMs: 10_000, maxRemembered });

function ended(outcome: Outcome, fromMs: number, toMs: number, useless?: readonly UselessReason[]) {
  return sampleRecord({
    outcome,
    timeline: { received: fromMs },
    figures: { durationMs: toMs - fromMs, tpotWindow: 'none_no_answer' },
    ...(useless === undefined ? {} : { assessment: { useless } }),
  });
}

describe('a repetition', () => {
  it('is the same request, soon after one that failed or was left', () => {
    for (const outcome of ['timeout', 'client_abort', 'upstream_error', 'rejected', 'upstream_truncated'] as const) {
      const retries = create();
      expect(retries.add('a', ended(outcome, 1000, 3000))).toBe(false);
      expect(retries.add('b', ended('ok', 4000, 5000))).toBe(false);
      expect(retries.add('a', ended('ok', 4000, 60_000))).toBe(true);
    }
  });

  it('is none after an answer that came whole, nor after the client’s own error', () => {
    const retries = create();
    retries.add('a', ended('ok', 1000, 2000));
    expect(retries.add('a', ended('ok', 3000, 4000))).toBe(false);
    retries.add('b', ended('client_error', 1000, 2000));
    expect(retries.add('b', ended('ok', 3000, 4000))).toBe(false);
  });

  it('comes after an answer that was of no use, too', () => {
    const retries = create();
    retries.add('a', ended('ok', 1000, 2000, ['tool_arguments']));
    expect(retries.add('a', ended('ok', 3000, 4000, []))).toBe(true);
    expect(retries.add('a', ended('ok', 5000, 6000))).toBe(false);
  });

  it('comes in time, counted to its arrival, however long it then takes', () => {
    const retries = create();
    retries.add('a', ended('timeout', 1000, 2000));
    expect(retries.add('a', ended('timeout', 12_000, 90_000))).toBe(true);
    expect(retries.add('a', ended('ok', 100_001, 100_002))).toBe(false);
  });

  it('may arrive before the end of the first was noticed, but not beside it', () => {
    const retries = create();
    retries.add('a', ended('client_abort', 1000, 6000));
    expect(retries.add('a', ended('ok', 5000, 8000))).toBe(true);
    retries.add('b', ended('client_abort', 1000, 6000));
    expect(retries.add('b', ended('ok', 1001, 8000))).toBe(false);
    expect(retries.add('b', ended('ok', 900, 9000))).toBe(false);
  });

  it('is found along a chain of failures', () => {
    const retries = create();
    expect(retries.add('a', ended('timeout', 0, 1000))).toBe(false);
    expect(retries.add('a', ended('timeout', 2000, 3000))).toBe(true);
    expect(retries.add('a', ended('ok', 4000, 5000))).toBe(true);
  });

  it('is looked for among no more failures than are allowed, the latest', () => {
    const retries = create(2);
    for (const id of ['a', 'b', 'c']) retries.add(id, ended('timeout', 0, 1000));
    expect([retries.size, retries.forgotten]).toEqual([2, 1]);
    expect(retries.add('a', ended('ok', 2000, 3000))).toBe(false);
    expect(retries.add('c', ended('ok', 2000, 3000))).toBe(true);
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(30), fc.boolean())), (list) => {
        const few = create(5);
        for (const [id, ok] of list) few.add(String(id), ended(ok ? 'ok' : 'timeout', 0, 1));
        expect(few.size).toBeLessThanOrEqual(5);
      }),
    );
  });
});
