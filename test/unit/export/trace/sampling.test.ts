import { describe, expect, it } from 'vitest';

import { isSampled, keptBecause } from '../../../../src/export/trace/sampling.ts';
import { randomTraceId } from '../../../../src/platform/trace-context.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const ids = Array.from({ length: 4000 }, randomTraceId);
const shareOf = (ratio: number) =>
  ids.filter((id) => isSampled({ parentBased: true, ratio }, id, undefined)).length / ids.length;

describe('the head decision', () => {
  it('follows the caller where it is parent-based, whatever the ratio', () => {
    for (const ratio of [0, 0.5, 1]) {
      expect(isSampled({ parentBased: true, ratio }, ids[0] ?? '', true)).toBe(true);
      expect(isSampled({ parentBased: true, ratio }, ids[0] ?? '', false)).toBe(false);
    }
  });

  it('asks nobody where it is not', () => {
    expect(isSampled({ parentBased: false, ratio: 1 }, ids[0] ?? '', false)).toBe(true);
    expect(isSampled({ parentBased: false, ratio: 0 }, ids[0] ?? '', true)).toBe(false);
  });

  it('takes the share that it is told to, and all or none at the ends', () => {
    expect(shareOf(1)).toBe(1);
    expect(shareOf(0)).toBe(0);
    // Four standard deviations at 4,000 draws.
    expect(Math.abs(shareOf(0.25) - 0.25)).toBeLessThan(0.028);
  });

  it('keeps with a higher ratio whatever a lower one keeps', () => {
    const kept = (ratio: number) => ids.filter((id) => isSampled({ parentBased: true, ratio }, id, undefined));
    const more = new Set(kept(0.3));
    expect(kept(0.1).every((id) => more.has(id))).toBe(true);
  });

  it('is the same for the same trace id, by its last 56 bits', () => {
    const choice = { parentBased: true, ratio: 0.5 };
    expect(isSampled(choice, `${'f'.repeat(18)}${'0'.repeat(14)}`, undefined)).toBe(false);
    expect(isSampled(choice, `${'0'.repeat(18)}${'f'.repeat(14)}`, undefined)).toBe(true);
  });
});

describe('the second look at a request’s end', () => {
  const all = ['slow', 'failed', 'aborted'] as const;
  const trace = { traceId: 't', spanId: 's', sampled: false };
  const slow = { slo: { profile: 'chat', met: false, breaches: [] } };

  it('leaves alone what was sampled, and what was well', () => {
    expect(keptBecause(sampleRecord({ trace: { ...trace, sampled: true } }), [])).toBe('head');
    expect(keptBecause(sampleRecord({ trace }), all)).toBeUndefined();
    const met = { slo: { profile: 'chat', met: true, breaches: [] } };
    expect(keptBecause(sampleRecord({ trace, assessment: met }), all)).toBeUndefined();
  });

  it.each([
    ['slow', 'ok', slow],
    ['aborted', 'client_abort', {}],
    ['failed', 'upstream_error', {}],
    ['failed', 'upstream_truncated', {}],
    ['failed', 'timeout', {}],
    ['failed', 'rejected', slow],
    ['failed', 'shutdown', {}],
    ['failed', 'proxy_error', {}],
  ] as const)('keeps what was %s (%s), and not where that is not wanted', (reason, outcome, assessment) => {
    const record = sampleRecord({ trace, outcome, assessment });
    expect(keptBecause(record, all)).toBe(reason);
    expect(keptBecause(record, [reason])).toBe(reason);
    expect(keptBecause(record, [])).toBeUndefined();
  });

  it('does not keep a client’s own mistake', () => {
    expect(keptBecause(sampleRecord({ trace, outcome: 'client_error', status: 404 }), all)).toBeUndefined();
  });
});
