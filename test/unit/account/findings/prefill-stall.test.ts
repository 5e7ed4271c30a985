import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../../src/account/findings/digest.ts';
import { findPrefillStall } from '../../../../src/account/findings/prefill-stall.ts';
import { createPrefillLog } from '../../../../src/measure/prefill-log.ts';
import { pointsUntil, sampleDigest, windowOf } from '../../../support/engine-points.ts';
import { observeRecorded } from '../../../support/observe.ts';
import { loadRecorded } from '../../../support/recorded.ts';

const stall = (durationMs: number, more = {}) => ({
  atMs: 1000,
  durationMs,
  requestId: 'cause',
  promptTokens: 900,
  ...more,
});

describe('prefill stalls', () => {
  it('R20 of the recorded pair are named with who, by whom and how long', () => {
    const prefills = createPrefillLog();
    const cause = loadRecorded('llama-server', 'stall-prefill');
    // The recordings' clocks are 957.6 ms apart by what the two ends of the prefill show.
    const prefill = observeRecorded(cause, 'as recorded', { prefills, requestId: 'prefill', startMs: 1957.6 });
    const stream = observeRecorded(loadRecorded('llama-server', 'stall-stream'), 'as recorded', {
      prefills,
      requestId: 'stream',
      startMs: 1000,
    });
    const digests = [digestOf(prefill), digestOf(stream)].filter((digest) => digest !== undefined);
    const found = findPrefillStall(windowOf({ digests, facts: { engine: 'llama-server' } }));
    expect(found?.evidence).toMatchObject({
      worstStream: 'stream',
      worstCause: 'prefill',
      worstPromptTokens: 908,
      streams: 1,
    });
    expect(found?.evidence['worstMs']).toBeGreaterThan(2800);
    expect(found?.says).toMatch(
      /^request stream stood still for 28\d\d ms while the engine computed the prompt of request prefill \(908 /,
    );
  });

  it('are one finding however many there are, with the longest as its evidence', () => {
    const digests = [
      sampleDigest({ requestId: 'a', stalls: [stall(300)] }),
      sampleDigest({ requestId: 'b', stalls: [stall(700, { requestId: 'other' }), stall(260)] }),
    ];
    expect(findPrefillStall(windowOf({ digests }))?.evidence).toEqual({
      stalls: 3,
      streams: 2,
      stalledMs: 1260,
      decodePercent: 15.8,
      worstMs: 700,
      worstStream: 'b',
      worstCause: 'other',
      worstPromptTokens: 900,
    });
  });

  it('are not named for what no reader feels, unless it is much of all decoding time of several streams', () => {
    const short = (requestId: string, decodeMs: number) =>
      sampleDigest({ requestId, decodeMs, usualGapMs: 20, stalls: [stall(120)] });
    const few = ['a', 'b', 'c', 'd'].map((id) => short(id, 4000));
    expect(findPrefillStall(windowOf({ digests: few }))).toBeUndefined();
    const much = ['a', 'b', 'c', 'd'].map((id) => short(id, 1000));
    expect(findPrefillStall(windowOf({ digests: much }))?.evidence).toMatchObject({ streams: 4, decodePercent: 12 });
    expect(findPrefillStall(windowOf({ digests: much.slice(0, 2) }))).toBeUndefined();
    const slow = sampleDigest({ usualGapMs: 200, stalls: [stall(400)] });
    expect(findPrefillStall(windowOf({ digests: [slow] }))).toBeUndefined();
  });

  it('are not blamed on a short prompt that only waited in the engine’s queue', () => {
    const digests = [sampleDigest({ stalls: [stall(5000, { promptTokens: 12 })] })];
    expect(findPrefillStall(windowOf({ digests }))).toBeUndefined();
  });

  it('are not named while the engine preempted: gaps have that cause then', () => {
    const digests = [sampleDigest({ stalls: [stall(3000, { atMs: 95_000 })] })];
    const points = pointsUntil(100_000, [{}, { deltas: { preemptions: 1 } }, {}]);
    expect(findPrefillStall(windowOf({ digests, points }))).toBeUndefined();
    expect(findPrefillStall(windowOf({ digests, points: pointsUntil(100_000, [{}, {}]) }))).toBeDefined();
  });
});
