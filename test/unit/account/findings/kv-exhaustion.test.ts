import { describe, expect, it } from 'vitest';
import { findKvExhaustion } from '../../../../src/account/findings/kv-exhaustion.ts';
import { pointsUntil, sampleDigest, windowOf, type PointSketch } from '../../../support/engine-points.ts';

const full: PointSketch = { kvUsage: 0.97, waiting: 2, running: 4, deltas: { generatedTokens: 60 } };
const busy: PointSketch = { kvUsage: 0.6, waiting: 0, running: 4, deltas: { generatedTokens: 160 } };
const find = (sketches: readonly PointSketch[], more = {}) =>
  findKvExhaustion(windowOf({ points: pointsUntil(100_000, sketches), ...more }));

describe('KV exhaustion', () => {
  it('is a full cache that others wait for, in two readings, with what it costs', () => {
    const found = find([busy, busy, busy, busy, full, full, full, full, full]);
    expect(found?.evidence).toEqual({
      kvUsedPercent: 97,
      waiting: 2,
      preemptions: 0,
      tokensPerSecond: 30,
      tokensPerSecondBefore: 80,
    });
    expect(found?.says).toBe('the KV cache is full (97 %): 2 requests wait; 30 tokens/s instead of 80');
  });

  it('is not a full cache alone, a queue alone, or one reading of both', () => {
    expect(find([busy, { ...full, waiting: 0 }, { ...full, waiting: 0 }])).toBeUndefined();
    expect(find([busy, { ...full, kvUsage: 0.7 }, { ...full, kvUsage: 0.7 }])).toBeUndefined();
    expect(find([busy, busy, full])).toBeUndefined();
    expect(find([full, full, busy])).toBeUndefined();
  });

  it('is said by preemptions, whatever the gauge says at the moment of reading', () => {
    expect(find([busy, { ...busy, deltas: { preemptions: 2 } }])?.evidence).toMatchObject({ preemptions: 2 });
  });

  it('holds until the cache is emptier than when it was named', () => {
    const nearly = { ...full, kvUsage: 0.9 };
    expect(find([full, full, nearly], { was: true })).toBeDefined();
    expect(find([full, full, nearly], { was: false })).toBeUndefined();
    expect(find([full, full, { ...full, kvUsage: 0.8 }], { was: true })).toBeUndefined();
  });

  const facts = { engine: 'llama-server', slots: 2, contextTokens: 1000 };
  const deferred: PointSketch = { waiting: 1, own: { contextTokens: 1950 } };

  it('of llama-server, which has no gauge, is told by own contexts against slots × context, and deferred requests', () => {
    expect(find([deferred, deferred], { facts })?.evidence).toMatchObject({ kvUsedPercent: 97.5, waiting: 1 });
    expect(find([deferred, deferred], { facts: { engine: 'vllm' } })).toBeUndefined();
    expect(
      find(
        [
          { ...deferred, own: { contextTokens: 900 } },
          { ...deferred, own: { contextTokens: 900 } },
        ],
        { facts },
      ),
    ).toBeUndefined();
    // What still runs has told nothing of its context yet.
    expect(find([deferred, deferred], { facts, oldestOwnMs: 97_000 })).toBeUndefined();
  });

  it('R08 of a context shared by all slots is told by the answers that broke off in it', () => {
    const broken = (requestId: string) =>
      sampleDigest({ requestId, brokeOff: true, contextTokens: 480, fromMs: 0, endMs: 5000 });
    const found = findKvExhaustion(windowOf({ facts, digests: [broken('a'), broken('b')] }));
    expect(found?.evidence).toEqual({ brokenAnswers: 2, contextTokens: 960, contextLimitTokens: 1000 });
    expect(findKvExhaustion(windowOf({ facts, digests: [broken('a')] }))).toBeUndefined();
  });
});
