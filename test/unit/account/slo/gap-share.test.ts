import { describe, expect, it } from 'vitest';
import { gapShare } from '../../../../src/account/slo/gap-share.ts';
import { sampleRecord } from '../../../support/sample-record.ts';
import { streamOf } from '../../../support/slo-record.ts';

describe('the share of gaps', () => {
  it('counts those up to the limit, and what the others took beyond it', () => {
    const record = streamOf({ tokens: [0, 30, 60, 100, 200] });
    expect(gapShare(record, 30, undefined)).toEqual({ gaps: 4, within: 2, largestMs: 100, excessMs: 80 });
  });

  it('C039 never takes a gap across choices', () => {
    const stamps = { choice: Uint16Array.of(0, 1, 0, 1) };
    expect(gapShare(streamOf({ tokens: [0, 25, 30, 55], stamps }), 26, undefined)).toMatchObject({
      gaps: 2,
      within: 0,
    });
  });

  it('counts a last silence only once it is past the limit', () => {
    const record = streamOf({ tokens: [0, 30] });
    expect(gapShare(record, 30, 29)).toMatchObject({ gaps: 1, within: 1 });
    expect(gapShare(record, 30, 500)).toMatchObject({ gaps: 2, within: 1, largestMs: 500 });
  });

  it('is of no gap where no token came', () => {
    expect(gapShare(sampleRecord(), 33, undefined)).toMatchObject({ gaps: 0 });
  });
});
