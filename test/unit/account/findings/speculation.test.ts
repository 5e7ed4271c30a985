import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../../src/account/findings/digest.ts';
import { findSeveralTokensPerEvent, findSpeculation } from '../../../../src/account/findings/speculation.ts';
import { pointsUntil, sampleDigest, windowOf } from '../../../support/engine-points.ts';
import { observeRecorded } from '../../../support/observe.ts';
import { counterMoved, loadRecorded } from '../../../support/recorded.ts';

const drafted = { deltas: { drafts: 10, draftTokens: 40, acceptedTokens: 20, generatedTokens: 30 } };
const plain = { deltas: { drafts: 0, draftTokens: 0, acceptedTokens: 0, generatedTokens: 40 } };

describe('speculation', () => {
  it('R16 of the recorded vLLM is told by its counters: acceptance and tokens per step', () => {
    const recorded = loadRecorded('vllm', 'ngram-speculation');
    const moved = (name: string) => counterMoved(recorded, `vllm:spec_decode_num_${name}_total`) ?? NaN;
    const deltas = {
      drafts: moved('drafts'),
      draftTokens: moved('draft_tokens'),
      acceptedTokens: moved('accepted_tokens'),
    };
    expect(findSpeculation(windowOf({ points: pointsUntil(100_000, [{ deltas }]) }))?.evidence).toEqual({
      source: 'engine',
      drafts: 3,
      draftTokens: 12,
      acceptedTokens: 8,
      acceptedPercent: 66.7,
      tokensPerStep: 3.67,
    });
  });

  it('holds while nothing is made, and ends when tokens come without a draft', () => {
    const idle = { deltas: { drafts: 0, generatedTokens: 0 } };
    expect(findSpeculation(windowOf({ points: pointsUntil(100_000, [drafted, idle, idle]) }))).toBeDefined();
    expect(findSpeculation(windowOf({ points: pointsUntil(100_000, [drafted, plain]) }))).toBeDefined();
    expect(findSpeculation(windowOf({ points: pointsUntil(100_000, [drafted, plain, plain]) }))).toBeUndefined();
  });

  it('is not named where the engine counts none, as llama-server without a draft model', () => {
    expect(findSpeculation(windowOf({ points: pointsUntil(100_000, [plain, plain]) }))).toBeUndefined();
  });

  it('that only counts its steps (SGLang) has no acceptance', () => {
    const found = findSpeculation(windowOf({ points: pointsUntil(100_000, [{ deltas: { drafts: 5 } }]) }));
    expect(found?.evidence).toEqual({ source: 'engine', drafts: 5, tokensPerStep: 1 });
  });
});

describe('several tokens per event', () => {
  const five = (requestId: string) => sampleDigest({ requestId, events: 40, eventTokens: 100, severalEvents: 20 });

  it('R16 is what a stream shows, and it says only what was seen', () => {
    const recorded = digestOf(observeRecorded(loadRecorded('vllm', 'stream-interval-5'), 'as recorded'));
    if (recorded === undefined) throw new Error('no digest');
    const many = Array.from({ length: Math.ceil(64 / recorded.events) }, () => recorded);
    const found = findSeveralTokensPerEvent(windowOf({ digests: many }));
    expect(found?.evidence['tokensPerEvent']).toBeGreaterThan(3);
    expect(found?.says).toContain('--stream-interval');
    expect(found?.says).not.toContain('speculative decoding is on');
  });

  it('needs 64 events, 1.15 tokens each, and a tenth of them with several', () => {
    expect(findSeveralTokensPerEvent(windowOf({ digests: [five('a')] }))).toBeUndefined();
    expect(findSeveralTokensPerEvent(windowOf({ digests: [five('a'), five('b')] }))).toBeDefined();
    const one = sampleDigest({ events: 100, eventTokens: 114, severalEvents: 14 });
    expect(findSeveralTokensPerEvent(windowOf({ digests: [one] }))).toBeUndefined();
    const lump = sampleDigest({ events: 100, eventTokens: 150, severalEvents: 5 });
    expect(findSeveralTokensPerEvent(windowOf({ digests: [lump] }))).toBeUndefined();
    expect(findSeveralTokensPerEvent(windowOf({ digests: [sampleDigest({ events: 100 })] }))).toBeUndefined();
  });

  it('gives way to speculation where the engine’s counters show that, and says so where they show none', () => {
    const digests = [five('a'), five('b')];
    expect(findSeveralTokensPerEvent(windowOf({ digests, points: pointsUntil(100_000, [drafted]) }))).toBeUndefined();
    expect(findSeveralTokensPerEvent(windowOf({ digests, points: pointsUntil(100_000, [plain]) }))?.says).toContain(
      'counters show no speculation',
    );
  });
});
