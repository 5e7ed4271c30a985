import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createPrefillLine } from '../../../../src/account/ceiling/prefill-rate.ts';
import { weightedMedian } from '../../../../src/account/ceiling/weighted-median.ts';
import { type DecodedStream, decodedRecord } from '../decoded-record.ts';

const minuteMs = 60_000;

function lineOf(streams: readonly DecodedStream[], nowMs = 0) {
  const line = createPrefillLine();
  for (const stream of streams) line.add(decodedRecord(stream), nowMs);
  return line;
}

/** 2,000 tokens/s on top of 30 ms. */
const clean = Array.from({ length: 40 }, (_, i) => ({
  prompt: 50 + i * 100,
  ttftMs: 30 + (50 + i * 100) / 2,
  cached: 0,
}));

describe('the prefill rate', () => {
  it('is the slope of the time over the computed tokens, with the fixed part beside it', () => {
    const view = lineOf(clean).view(0);
    expect(view.rate?.tokensPerSecond).toBeCloseTo(2000, 6);
    expect(view.rate?.fixedMs).toBeCloseTo(30, 6);
    expect(view.rSquared).toBeCloseTo(1, 9);
    expect(view).toMatchObject({ requests: 40, fromTokens: 50, toTokens: 3950, timing: 'joint' });
    expect(view.rate?.confidence).toBe('good');
  });

  it('says what an output token weighs: TPOT × rate, and by the engine’s shared time', () => {
    const view = lineOf(clean.map((one) => ({ ...one, stepMs: 25, concurrency: 5 }))).view(0);
    expect(view.rate?.inputTokensPerOutputToken).toBeCloseTo(50, 6);
    expect(view.rate?.inputTokensPerSharedOutputToken).toBeCloseTo(10, 6);
  });

  it('counts computed tokens only: what the cache held is not in it', () => {
    const view = lineOf(clean.map((one) => ({ ...one, prompt: one.prompt + 1000, cached: 1000 }))).view(0);
    expect(view.rate?.tokensPerSecond).toBeCloseTo(2000, 6);
  });

  it('is hardly moved by requests that waited', () => {
    const queued = clean.map((one, i) => (i % 4 === 3 ? { ...one, ttftMs: one.ttftMs + 700 * (i % 5) } : one));
    const view = lineOf(queued).view(0);
    expect((view.rate?.tokensPerSecond ?? 0) / 2000).toBeGreaterThan(0.93);
    expect((view.rate?.tokensPerSecond ?? 0) / 2000).toBeLessThan(1.07);
    expect(view.rate?.confidence).not.toBe('good');
  });

  it('follows what is true now: an hour-old rate is gone, an older one weighs less', () => {
    const line = lineOf(clean);
    const faster = clean.map((one) => ({ ...one, ttftMs: 30 + one.prompt / 8 }));
    for (const one of faster) line.add(decodedRecord(one), 40 * minuteMs);
    expect((line.view(40 * minuteMs).rate?.tokensPerSecond ?? 0) / 8000).toBeGreaterThan(0.9);
    expect(line.view(70 * minuteMs).rate?.tokensPerSecond).toBeCloseTo(8000, 3);
    expect(line.view(200 * minuteMs)).toEqual({ requests: 0, missing: 'too_few_requests' });
  });

  it.each([
    ['too_few_requests', clean.slice(0, 11)],
    ['prompts_too_alike', clean.map((one, i) => ({ ...one, prompt: 1000 + (i % 7) }))],
    ['no_rise', clean.map((one) => ({ ...one, ttftMs: 5000 - one.ttftMs }))],
  ] as const)('is absent, and says %s', (missing, streams) => {
    const view = lineOf(streams).view(0);
    expect(view.rate).toBeUndefined();
    expect(view.missing).toBe(missing);
  });

  it('is poor where the engine doesn’t tell what was cached', () => {
    const view = lineOf(clean.map(({ prompt, ttftMs }) => ({ prompt, ttftMs }))).view(0);
    expect(view).toMatchObject({ cachedUnknownShare: 1, rate: { confidence: 'poor' } });
  });

  it('takes no cold start, no replay and nothing that did not stream', () => {
    for (const over of [{ warmth: 'cold_start' }, { warmth: 'replayed' }, { streamed: false }] as const) {
      expect(lineOf(clean.map((one) => ({ ...one, over }))).view(0).requests).toBe(0);
    }
  });

  it('leaves the engine’s queue out where it is told apart', () => {
    const figures = (one: (typeof clean)[number]) => ({
      tpotWindow: 'visible' as const,
      durationMs: 1,
      prefillKind: 'split' as const,
      prefillMs: one.ttftMs,
      upstreamTtftMs: 9999,
    });
    const view = lineOf(clean.map((one) => ({ ...one, over: { figures: figures(one) } }))).view(0);
    expect(view.timing).toBe('split');
    expect(view.rate?.tokensPerSecond).toBeCloseTo(2000, 6);
    expect(view.rate).not.toHaveProperty('inputTokensPerOutputToken');
  });

  it('is that of any line without noise', () => {
    fc.assert(
      fc.property(fc.integer({ min: 10, max: 100_000 }), fc.integer({ min: 0, max: 5000 }), (rate, fixedMs) => {
        const view = lineOf(clean.map((one) => ({ ...one, ttftMs: fixedMs + (one.prompt * 1000) / rate }))).view(0);
        expect((view.rate?.tokensPerSecond ?? 0) / rate).toBeCloseTo(1, 6);
      }),
    );
  });
});

describe('a weighted median', () => {
  it('has half of the weight below it', () => {
    expect(weightedMedian([])).toBeUndefined();
    expect(weightedMedian([{ value: 3, weight: 0 }])).toBeUndefined();
    const values = [5, 1, 3].map((value) => ({ value, weight: 1 }));
    expect(weightedMedian(values)).toBe(3);
    expect(weightedMedian([...values, { value: 9, weight: 1 }])).toBe(4);
    expect(weightedMedian([...values, { value: 9, weight: 10 }])).toBe(9);
  });
});
