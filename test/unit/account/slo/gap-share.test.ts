import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { gapShare } from '../../../../src/account/slo/gap-share.ts';
import { Sketch } from '../../../../src/platform/sketch.ts';
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

  it('comes from the sketch where no stamps were kept', () => {
    const itl = new Sketch();
    for (const ms of [10, 20, 30, 40]) itl.add(ms / 1000);
    expect(gapShare(sampleRecord({ itl: itl.data() }), 33, undefined)).toEqual({ gaps: 4, within: 3, largestMs: 40 });
    expect(gapShare(sampleRecord(), 33, undefined)).toMatchObject({ gaps: 0 });
  });

  it('is the same from stamps and from the sketch, but for gaps as near to the limit as its buckets are wide', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 1, max: 100, noNaN: true }), { minLength: 1, maxLength: 80 }), (gaps) => {
        let at = 0;
        const tokens = [0, ...gaps.map((gap) => (at += gap))];
        const itl = new Sketch();
        for (const gap of gaps) itl.add(gap / 1000);
        const exact = gapShare(streamOf({ tokens }), 30, undefined);
        const near = gaps.filter((gap) => Math.abs(gap - 30) < 30 * 0.012).length;
        const rough = gapShare(sampleRecord({ itl: itl.data() }), 30, undefined);
        expect(rough.gaps).toBe(exact.gaps);
        expect(Math.abs(rough.within - exact.within)).toBeLessThanOrEqual(near);
      }),
    );
  });
});
