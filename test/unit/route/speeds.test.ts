import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DecodeModel } from '../../../src/route/decode-model.ts';
import { PrefillRate, prefillSample } from '../../../src/route/prefill-rate.ts';
import { createSpeeds, type SentState, speedDefaults } from '../../../src/route/speeds.ts';
import { sampleBackend } from '../../support/sample.ts';

const sent: SentState = { promptTokens: 1000, uncachedTokens: 1000, pendingTokens: 0, streams: 1, contextTokens: 1000 };
const [a, b, other] = [sampleBackend('a'), sampleBackend('b'), sampleBackend('c', { engine: 'llama-server' })];

describe('the rate of prefill', () => {
  const told = { uncachedTokens: 1000, pendingTokens: 0, ttftMs: 520, fixedMs: 20 };

  it('is what was not cached over the time to the first token, less what is no prefill', () => {
    expect(prefillSample(told)).toEqual({ tokensPerSecond: 2000, weight: 1 });
    expect(prefillSample({ ...told, fixedMs: 5000 })?.tokensPerSecond).toBeCloseTo(1000 / 0.26, 6);
  });

  it('is not told by a prompt that waited for others, or that was too short to tell', () => {
    expect(prefillSample({ ...told, pendingTokens: 1 })).toBeUndefined();
    expect(prefillSample({ ...told, uncachedTokens: 20 })).toBeUndefined();
    expect(prefillSample({ ...told, uncachedTokens: 200, ttftMs: 100 })).toBeUndefined();
    expect(prefillSample({ ...told, uncachedTokens: 256, ttftMs: 1000 })).toMatchObject({ weight: 0.5 });
  });

  it("takes the engine's own figure, whoever else was there", () => {
    const own = { ...told, uncachedTokens: 64, pendingTokens: 9000, tokensPerSecond: 123 };
    expect(prefillSample(own)).toEqual({ tokensPerSecond: 123, weight: 0.125 });
    expect(prefillSample({ ...own, tokensPerSecond: Infinity })).toBeUndefined();
  });

  it('is the weighted median of the last 32', () => {
    const rate = new PrefillRate();
    for (let i = 0; i < 40; i += 1) rate.learn({ tokensPerSecond: 1, weight: 1 });
    for (let i = 0; i < 32; i += 1) rate.learn({ tokensPerSecond: 100 + i, weight: i < 20 ? 0.1 : 1 });
    expect(rate.tokensPerSecond).toBe(124);
  });
});

describe('the model of decoding', () => {
  it('learns what a step, a stream and a token of context take', () => {
    const model = new DecodeModel([15, 0.02, 0.000_06, 0.125]);
    let seed = 7;
    const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
    for (let i = 0; i < 400; i += 1) {
      const streams = 1 + Math.floor(random() * 30);
      const contextTokens = streams * (500 + Math.floor(random() * 8000));
      const tpotMs = (12 + 0.4 * streams + 0.000_1 * contextTokens) * (0.97 + 0.06 * random());
      model.learn({ tpotMs, streams, contextTokens });
    }
    const [base, perStream, perToken] = model.terms;
    const at = (streams: number, tokens: number) => base + perStream * streams + perToken * tokens;
    expect(at(20, 80_000)).toBeGreaterThan(28 * 0.93);
    expect(at(20, 80_000)).toBeLessThan(28 * 1.07);
    expect(perStream).toBeGreaterThan(0.2);
    expect(perStream).toBeLessThan(0.6);
  });

  it("puts down to others' prompts what they took, and not to streams or context", () => {
    const model = new DecodeModel([15, 0.02, 0.000_06, 0.125]);
    let seed = 7;
    const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
    for (let i = 0; i < 400; i += 1) {
      const streams = 1 + Math.floor(random() * 60);
      const contextTokens = streams * (900 + Math.floor(random() * 600));
      // The more streams, the more prompts come beside them.
      const prefillTokens = streams * 10 * (0.5 + random());
      const tpotMs = 15 + 0.02 * streams + 0.000_06 * contextTokens + 0.05 * prefillTokens;
      model.learn({ tpotMs, streams, contextTokens, prefillTokens });
    }
    const decoding = model.expectedMs({ streams: 60, contextTokens: 72_000 });
    expect(decoding).toBeGreaterThan(0.9 * 20.5);
    expect(decoding).toBeLessThan(1.1 * 20.5);
    expect(model.terms[3]).toBeGreaterThan(0.045);
    expect(model.terms[3]).toBeLessThan(0.055);
  });

  it('stays finite, and no term below nothing, whatever it is told', () => {
    const sample = fc.record({
      tpotMs: fc.oneof(fc.double(), fc.double({ min: 0, max: 1000, noNaN: true })),
      streams: fc.oneof(fc.constant(1), fc.nat(500)),
      contextTokens: fc.oneof(fc.constant(0), fc.nat(10_000_000)),
      prefillTokens: fc.oneof(fc.constant(0), fc.nat(100_000), fc.double()),
    });
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 300 }), (samples) => {
        const model = new DecodeModel([15, 0.02, 0.000_06, 0.125]);
        for (const one of samples) model.learn(one);
        for (const term of model.terms) {
          expect(Number.isFinite(term)).toBe(true);
          expect(term).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });

  it('leaves to streams what is theirs where prompts come in step with them, once it is known what prefill takes', () => {
    const learnt = (perPrefillTokenMs: number | undefined) => {
      const model = new DecodeModel([15, 0.02, 0.000_06, 0.125]);
      if (perPrefillTokenMs !== undefined) model.expectPrefill(perPrefillTokenMs);
      for (let i = 0; i < 400; i += 1) {
        const streams = 1 + (i % 30);
        const contextTokens = streams * (500 + 100 * (i % 41));
        const prefillTokens = 10 * streams;
        const tpotMs = 12 + 0.4 * streams + 0.000_1 * contextTokens + 0.05 * prefillTokens;
        model.learn({ tpotMs, streams, contextTokens, prefillTokens });
      }
      return model.terms;
    };
    expect(learnt(undefined)[1]).toBe(0);
    expect(learnt(0.05)[1]).toBeGreaterThan(0.3);
    expect(learnt(0.05)[1]).toBeLessThan(0.45);
    expect(learnt(Infinity)).toEqual(learnt(undefined));
    // The same, told by answers.
    const speeds = createSpeeds();
    for (let i = 0; i < 400; i += 1) {
      const streams = 1 + (i % 30);
      const told = { computed: true, outputTokens: 101, tpotMs: 12 + 0.9 * streams, prefillTokensPerSecond: 20_000 };
      speeds.learn(a, 'm', { sent: { ...sent, streams, contextTokens: 0, prefillTokens: 1000 * streams }, told });
    }
    expect(speeds.of(a).decodePerStreamMs).toBeGreaterThan(0.3);
    expect(speeds.of(a).decodePerStreamMs).toBeLessThan(0.45);
  });

  it('learns the same whoever else learns at the same time', () => {
    const sampleAt = (i: number) => ({
      tpotMs: 9 + (i % 7),
      streams: 1 + (i % 5),
      contextTokens: 800 * (1 + (i % 11)),
    });
    const [alone, between, besides] = [0, 0, 0].map(() => new DecodeModel([15, 0.02, 0.000_06, 0.125]));
    for (let i = 0; i < 100; i += 1) {
      alone?.learn(sampleAt(i));
      besides?.learn({ tpotMs: 2 * (i % 13), streams: i % 40, contextTokens: 100, prefillTokens: 300 * (i % 3) });
      between?.learn(sampleAt(i));
    }
    expect(between?.terms).toEqual(alone?.terms);
    expect(besides?.terms).not.toEqual(alone?.terms);
  });

  it('holds for the load that it saw though one stream alone can tell no terms apart, and does not run off with time', () => {
    const model = new DecodeModel([15, 0.02, 0.000_06, 0.125]);
    for (let i = 0; i < 20_000; i += 1) model.learn({ tpotMs: 30, streams: 1, contextTokens: 1000 });
    const [base, perStream, perToken] = model.terms;
    expect(base + perStream + 1000 * perToken).toBeCloseTo(30, 1);
    model.learn({ tpotMs: 33, streams: 2, contextTokens: 2000 });
    expect(model.terms[1]).toBeLessThan(5);
  });
});

describe('the pace of backends', () => {
  it('begins with a large card, then with what its mates showed', () => {
    const speeds = createSpeeds();
    expect(speeds.of(a)).toMatchObject({ prefillTokensPerSecond: 8000, decodeBaseMs: 15 });
    speeds.learn(a, 'm', { sent, told: { computed: true, upstreamTtftMs: 1015 } });
    expect(speeds.of(a).prefillTokensPerSecond).toBe(1000);
    expect(speeds.of(b).prefillTokensPerSecond).toBe(1000);
    expect(speeds.of(other).prefillTokensPerSecond).toBe(speedDefaults.prefillTokensPerSecond);
  });

  it('takes backends that differ by no more than noise for equal, others for what they are', () => {
    const speeds = createSpeeds();
    const learn = (backend: typeof a, tokensPerSecond: number) =>
      speeds.learn(backend, 'm', {
        sent,
        told: { computed: true, cachedTokens: 0, prefillTokensPerSecond: tokensPerSecond },
      });
    learn(a, 1000);
    learn(b, 1200);
    expect(speeds.of(a).prefillTokensPerSecond).toBe(speeds.of(b).prefillTokensPerSecond);
    for (let i = 0; i < 32; i += 1) learn(b, 3000);
    expect(speeds.of(b).prefillTokensPerSecond).toBe(3000);
    expect(speeds.of(a).prefillTokensPerSecond).toBe(1000);
  });

  it('counts what the engine said was cached, not what was believed', () => {
    const speeds = createSpeeds();
    const told = { computed: true, promptTokens: 2000, cachedTokens: 1000, upstreamTtftMs: 515 };
    speeds.learn(a, 'm', { sent: { ...sent, uncachedTokens: 1 }, told });
    expect(speeds.of(a).prefillTokensPerSecond).toBe(2000);
  });

  it('expects answers as long as the model gave them', () => {
    const speeds = createSpeeds();
    expect(speeds.outputTokens('m')).toBe(300);
    for (let i = 0; i < 100; i += 1) speeds.learn(a, 'm', { sent, told: { computed: true, outputTokens: 40 } });
    expect(speeds.outputTokens('m')).toBeLessThan(45);
    expect(speeds.outputTokens('other')).toBe(300);
  });

  it('counts the tokens of each choice, since they come side by side', () => {
    const crowd = { ...sent, streams: 4, prefillTokens: 40_000 };
    const learnt = (asked: number, told?: number) => {
      const speeds = createSpeeds();
      const choices = told === undefined ? {} : { choices: told };
      for (let i = 0; i < 60; i += 1) {
        const one = { computed: true, outputTokens: 101, tpotMs: 65 };
        // In a hundred steps 40,000 tokens of prompts: 400 in each, which take 50 ms.
        speeds.learn(a, 'm', { sent: crowd, told: one });
        speeds.learn(a, 'm', { sent: { ...crowd, choices: asked }, told: { ...one, outputTokens: 404, ...choices } });
        speeds.learn(a, 'm', { sent: { ...sent, streams: 4 }, told: { ...one, tpotMs: 15 } });
      }
      const { decodeBaseMs, decodePerStreamMs } = speeds.of(a);
      return { stepMs: decodeBaseMs + 4 * decodePerStreamMs, outputTokens: speeds.outputTokens('m') };
    };
    const four = learnt(4);
    expect(four.outputTokens).toBeLessThan(110);
    expect(four.stepMs).toBeGreaterThan(14.5);
    expect(four.stepMs).toBeLessThan(15.5);
    expect(learnt(1, 4)).toEqual(four);
    // An engine that gives a single one, whatever it is asked for, made 404 steps.
    expect(learnt(4, 1)).toEqual(learnt(1));
    expect(learnt(1).stepMs).toBeGreaterThan(15.8);
    expect(Number.isFinite(learnt(Number.MAX_SAFE_INTEGER).stepMs)).toBe(true);
  });

  it('the way to a backend is what new connections took, and one slow connection is no way', () => {
    const speeds = createSpeeds();
    speeds.learn(a, 'm', { sent, told: { computed: true, connectMs: 40 } });
    expect(speeds.networkSeconds('a')).toBeLessThan(0.01);
    for (let i = 0; i < 100; i += 1) speeds.learn(a, 'm', { sent, told: { computed: true, connectMs: 40 } });
    for (let i = 0; i < 50; i += 1) speeds.learn(a, 'm', { sent, told: { computed: true, connectMs: 0.01 } });
    expect(speeds.networkSeconds('a')).toBeCloseTo(0.04, 5);
    expect(speeds.networkSeconds('b')).toBe(0);
  });

  it('forgets a backend that left, and keeps what one showed while its models were not known yet', () => {
    const speeds = createSpeeds();
    speeds.learn(a, 'm', { sent, told: { computed: true, upstreamTtftMs: 1015 } });
    const known = { ...a, models: ['m'] };
    expect(speeds.of(known).prefillTokensPerSecond).toBe(1000);
    speeds.forget('a');
    expect(speeds.of(known).prefillTokensPerSecond).toBe(speedDefaults.prefillTokensPerSecond);
  });

  it('is the same object until something new is learnt: asking costs nothing', () => {
    const speeds = createSpeeds();
    expect(speeds.of(a)).toBe(speeds.of(a));
  });
});
