import { describe, expect, it } from 'vitest';
import { findPreemption, victimsOf } from '../../../../src/account/findings/preemption.ts';
import { pointsUntil, sampleDigest, windowOf } from '../../../support/engine-points.ts';

// Preempted between 96 and 98 s.
const points = pointsUntil(100_000, [{}, {}, { deltas: { preemptions: 1 }, kvUsage: 0.98 }, {}]).map((point) => ({
  ...point,
}));
const victim = sampleDigest({ requestId: 'victim', usualGapMs: 60, largestGap: { atMs: 97_500, gapMs: 7600 } });

describe('preemption', () => {
  it('is named by the engine’s counter, and its victim by the gap that began then', () => {
    const beside = sampleDigest({ requestId: 'beside', usualGapMs: 60, largestGap: { atMs: 97_000, gapMs: 180 } });
    const earlier = sampleDigest({ requestId: 'earlier', usualGapMs: 60, largestGap: { atMs: 60_000, gapMs: 9000 } });
    const window = windowOf({ points, digests: [beside, victim, earlier] });
    expect(victimsOf(window).map(({ requestId }) => requestId)).toEqual(['victim']);
    const found = findPreemption(window);
    expect(found?.evidence).toMatchObject({
      preemptions: 1,
      victims: 1,
      victim: 'victim',
      gapMs: 7600,
      kvUsedPercent: 98,
    });
    expect(found?.says).toContain('request victim stood still for 7600 ms by it');
  });

  it('has at most as many victims as there were preemptions: those with the longest gaps', () => {
    const second = sampleDigest({ requestId: 'second', usualGapMs: 60, largestGap: { atMs: 97_600, gapMs: 900 } });
    expect(victimsOf(windowOf({ points, digests: [second, victim] })).map(({ requestId }) => requestId)).toEqual([
      'victim',
    ]);
  });

  it('names each victim once: one that stands still over several readings leaves the later ones to others', () => {
    const two = pointsUntil(100_000, [{ deltas: { preemptions: 1 } }, {}, { deltas: { preemptions: 1 } }, {}]);
    const long = sampleDigest({ requestId: 'long', usualGapMs: 60, largestGap: { atMs: 93_000, gapMs: 20_000 } });
    const short = sampleDigest({ requestId: 'short', usualGapMs: 60, largestGap: { atMs: 97_000, gapMs: 2000 } });
    const found = victimsOf(windowOf({ points: two, digests: [short, long] }));
    expect(found.map(({ requestId }) => requestId)).toEqual(['long', 'short']);
  });

  it('is named without a victim of ours: it may have been somebody else’s', () => {
    expect(findPreemption(windowOf({ points }))?.evidence).toMatchObject({ preemptions: 1, victims: 0 });
  });

  it('holds while a request runs that may have been its victim, and half a minute besides', () => {
    expect(findPreemption(windowOf({ points, nowMs: 120_000 }))).toBeDefined();
    expect(findPreemption(windowOf({ points, nowMs: 140_000 }))).toBeUndefined();
    expect(findPreemption(windowOf({ points, nowMs: 140_000, oldestOwnMs: 90_000 }))).toBeDefined();
    expect(findPreemption(windowOf({ points, nowMs: 140_000, oldestOwnMs: 130_000 }))).toBeUndefined();
  });

  it('names a victim that stood still from long before its preemption was counted, or long after', () => {
    const slow = sampleDigest({ requestId: 'slow', usualGapMs: 60, largestGap: { atMs: 93_000, gapMs: 4000 } });
    expect(victimsOf(windowOf({ points, digests: [slow] })).map(({ requestId }) => requestId)).toEqual(['slow']);
    const over = sampleDigest({ requestId: 'over', usualGapMs: 60, largestGap: { atMs: 90_000, gapMs: 4000 } });
    expect(victimsOf(windowOf({ points, digests: [over] }))).toEqual([]);
  });

  it('holds for half a minute after its victim became known, however late that is', () => {
    const late = { ...victim, fromMs: 90_000, endMs: 170_000 };
    const window = (sinceMs: number) => windowOf({ points, nowMs: 172_000, digests: [late] }, sinceMs);
    expect(findPreemption(window(171_000))?.evidence).toMatchObject({ victim: 'victim' });
    expect(findPreemption(window(141_000))).toBeUndefined();
    const stranger = windowOf({ points, nowMs: 172_000, digests: [{ ...victim, fromMs: 120_000, endMs: 171_000 }] });
    expect(findPreemption(stranger)).toBeUndefined();
  });

  it('is not named where the counter stands still or is unknown', () => {
    expect(
      findPreemption(
        windowOf({ points: pointsUntil(100_000, [{ deltas: { preemptions: 0 } }, {}]), digests: [victim] }),
      ),
    ).toBeUndefined();
  });
});
