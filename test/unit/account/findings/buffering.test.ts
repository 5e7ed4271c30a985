import { describe, expect, it } from 'vitest';
import { findBuffering } from '../../../../src/account/findings/buffering.ts';
import { sampleDigest, windowOf } from '../../../support/engine-points.ts';

const burst = sampleDigest({ arrival: 'burst', waitMs: 2000, decodeMs: 1.5, events: 20 });
const spread = sampleDigest({ arrival: 'spread' });
const short = sampleDigest({ events: 1 });

describe('buffering', () => {
  it('is named when three of the last five answers came in a burst', () => {
    const found = findBuffering(windowOf({ digests: [spread, burst, short, burst, burst, spread] }));
    expect(found?.evidence).toEqual({ buffered: 3, of: 5, worstRequest: 'r1', events: 20, waitMs: 2000, burstMs: 1.5 });
    expect(found?.says).toBe(
      '3 of the last 5 streamed answers came in one burst (20 events within 1.5 ms, after 2000 ms): something before warmlane buffers',
    );
  });

  it('is not named for one accident, nor for answers too short to tell', () => {
    expect(findBuffering(windowOf({ digests: [burst, burst] }))).toBeUndefined();
    expect(findBuffering(windowOf({ digests: [burst, burst, spread, spread, spread, spread, burst] }))).toBeUndefined();
    expect(findBuffering(windowOf({ digests: [short, short, short, short] }))).toBeUndefined();
  });

  it('ends when it has become rare among the last five', () => {
    expect(findBuffering(windowOf({ digests: [burst, burst, spread, spread, spread], was: true }))).toBeDefined();
    expect(
      findBuffering(windowOf({ digests: [burst, burst, spread, spread, spread, spread], was: true })),
    ).toBeUndefined();
  });

  it('tells lumps from one burst', () => {
    const lumps = sampleDigest({ arrival: 'lumps', decodeMs: 900, events: 80 });
    expect(findBuffering(windowOf({ digests: [lumps, lumps, lumps] }))?.says).toContain(
      'in few lumps (80 events within 900 ms)',
    );
  });
});
