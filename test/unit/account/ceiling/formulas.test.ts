import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hardwareOf } from '../../../../src/account/ceiling/cards.ts';
import {
  bytesPerStep,
  decodeCeiling,
  flopsFor,
  kvBytes,
  kvBytesPerToken,
  peakFlops,
  prefillIntensity,
  ridge,
  trainingMfu,
  weightBytesPerStep,
} from '../../../../src/account/ceiling/formulas.ts';
import { shapeFromSettings } from '../../../../src/account/ceiling/hugging-face-shape.ts';
import { configuredShape, type ModelShape } from '../../../../src/account/ceiling/model-shape.ts';
import type { ShapeSettings } from '../../../../src/account/ceiling/settings.ts';
import { deepseekV3, gptOss120, llama3, llama70, mixtral } from './known-models.ts';

const l40s = hardwareOf({ gpu: 'l40s' });
const h100 = hardwareOf({ gpu: 'h100-sxm' });

function given(settings: Omit<ShapeSettings, 'model'>): ModelShape {
  return configuredShape({ model: 'm', ...settings });
}

function read(configJson: object): ModelShape {
  const { shape, problem } = shapeFromSettings({ model: 'm', configJson });
  if (problem !== undefined) throw new Error(problem);
  return shape;
}

/** Llama 3 8B as the literature rounds it: 16 GB. */
const eight = given({ params: 8e9, weightFormat: 'bf16', layers: 32, heads: 32, kvHeads: 8, headDim: 128 });
const alone = { sequences: 1, contextTokens: 0 };

describe('the decode ceiling', () => {
  it('of Llama 3 8B in BF16 on an L40S: 16 GB read in 18.5 ms, 54 tokens/s', () => {
    const ceiling = decodeCeiling(eight, l40s, alone);
    expect(ceiling?.bytes).toBe(16e9);
    expect((ceiling?.stepSeconds ?? 0) * 1000).toBeCloseTo(18.5, 1);
    expect(Math.round(ceiling?.tokensPerSecond ?? 0)).toBe(54);
    expect(ceiling?.limit).toBe('bandwidth');
    // Counted to the last parameter it is the same within a percent.
    expect(decodeCeiling(read(llama3), l40s, alone)?.tokensPerSecond).toBeCloseTo(53.8, 1);
  });

  it.each([
    [35, 1000, 28.6],
    [4.9, 307, 62.7],
  ])('of %d GB at %d GB/s is %d tokens/s', (gigabytes, bandwidthGBps, tokensPerSecond) => {
    const ceiling = decodeCeiling(given({ weightBytes: gigabytes * 1e9 }), hardwareOf({ bandwidthGBps }), alone);
    expect(ceiling?.tokensPerSecond).toBeCloseTo(tokensPerSecond, 1);
  });

  it('with 4K of context each: 19.1 ms for one user, 23.5 ms for eight, more than sixfold together', () => {
    const one = decodeCeiling(eight, l40s, { sequences: 1, contextTokens: 4096 });
    const all = decodeCeiling(eight, l40s, { sequences: 8, contextTokens: 4096 });
    expect((one?.stepSeconds ?? 0) * 1000).toBeCloseTo(19.1, 1);
    expect((all?.stepSeconds ?? 0) * 1000).toBeCloseTo(23.5, 1);
    expect((all?.tokensPerSecond ?? 0) / (one?.tokensPerSecond ?? 1)).toBeGreaterThan(6);
    expect((all?.tokensPerSecond ?? 0) / (one?.tokensPerSecond ?? 1)).toBeLessThan(7);
  });

  it('turns from bandwidth to arithmetic at the ridge', () => {
    const at = (sequences: number) =>
      decodeCeiling(given({ params: 8e9, weightFormat: 'bf16' }), h100, { sequences, contextTokens: 0 });
    // 2·N FLOPs for 2·N bytes a sequence: the batch that reaches the ridge has as many sequences.
    expect(at(294)?.limit).toBe('bandwidth');
    expect(at(297)?.limit).toBe('arithmetic');
  });

  it('is unknown without the weights’ size or the bandwidth, and not 0', () => {
    expect(decodeCeiling(given({ params: 8e9 }), l40s, alone)).toBeUndefined();
    expect(decodeCeiling(eight, hardwareOf({ peakTflops: 100 }), alone)).toBeUndefined();
  });
});

describe('the KV cache', () => {
  it('of Llama 3 8B takes 128 KiB a token, 0.54 GB for 4K tokens', () => {
    const { attention } = read(llama3);
    if (attention === undefined) throw new Error('no attention');
    expect(kvBytesPerToken(attention)).toBe(128 * 1024);
    expect(kvBytes(attention, 4096) / 1e9).toBeCloseTo(0.54, 2);
  });

  it('of latent attention is the compressed part once: 70 KB a token of DeepSeek-V3', () => {
    const { attention } = read(deepseekV3);
    expect(attention === undefined ? 0 : kvBytesPerToken(attention)).toBe(61 * (512 + 64) * 2);
    expect(given({ layers: 61, heads: 128, headDim: 128, kvLoraRank: 512, ropeHeadDim: 64 }).attention).toMatchObject({
      cachedPerLayer: 576,
    });
  });

  it('stops to grow in layers whose window is full', () => {
    const { attention } = read(gptOss120);
    if (attention === undefined) throw new Error('no attention');
    const perLayer = 2 * 8 * 64 * 2;
    expect(kvBytes(attention, 100)).toBe(36 * 100 * perLayer);
    expect(kvBytes(attention, 10_000)).toBe(18 * (10_000 + 128) * perLayer);
  });

  it('in 8 bits takes half', () => {
    expect(kvBytesPerToken({ ...attentionOf(eight), bytesPerNumber: 1 }) * 2).toBe(kvBytesPerToken(attentionOf(eight)));
    const eightBit = given({ layers: 32, heads: 32, kvHeads: 8, headDim: 128, kvFormat: 'fp8' });
    expect(kvBytesPerToken(attentionOf(eightBit))).toBe(64 * 1024);
  });
});

function attentionOf(shape: ModelShape) {
  if (shape.attention === undefined) throw new Error('no attention');
  return shape.attention;
}

describe('FLOPs', () => {
  it('of PaLM’s training come to the published 46.2 %', () => {
    const mfu = trainingMfu({
      params: 540.35e9,
      layers: 118,
      heads: 48,
      headDim: 256,
      sequenceTokens: 2048,
      tokensPerSecond: 238.3e3,
      peakFlops: 6144 * 275e12,
    });
    expect(mfu * 100).toBeCloseTo(46.2, 1);
  });

  it('of a token are 2·N, without an embedding that is only looked up, and 4·L·n·d for each token of context', () => {
    const shape = read(llama3);
    const none = flopsFor(shape, 1, 0) ?? 0;
    const more = flopsFor(shape, 1, 1000) ?? 0;
    expect(more - none).toBeCloseTo(4 * 32 * 32 * 128 * 1000, -3);
    expect(none).toBeCloseTo(2 * (8_030_261_248 - 128_256 * 4096) + 4 * 32 * 32 * 128 * 0.5, -3);
  });

  it('of 2 H100s at 20,480 tokens/s of a 32.8e9 model are 68 % of their peak', () => {
    const hardware = hardwareOf({ gpu: 'h100-sxm', count: 2 });
    const shape = given({ params: 32.8e9 });
    const flops = (flopsFor(shape, 1, 0) ?? 0) * 20_480;
    expect(Math.round((flops / (peakFlops(hardware, shape) ?? 1)) * 100)).toBe(68);
    expect((64e9 / 0.02 / (hardware.bandwidth ?? 1)) * 100).toBeCloseTo(48, 0);
  });

  it('of a mixture are those of its active experts', () => {
    expect((flopsFor(read(mixtral), 1, 0) ?? 0) / 2 / 1e9).toBeCloseTo(12.75, 1);
  });

  it('turn an H100 from memory to arithmetic near 295 FLOPs a byte, and a prompt of 1,024 tokens is far beyond', () => {
    expect(Math.round(ridge(h100.halfFlops ?? 0, h100.bandwidth ?? 1))).toBe(295);
    const shape = given({ params: 70e9, weightFormat: 'fp16' });
    for (const intensity of [prefillIntensity(shape, 1024, 0), prefillIntensity(read(llama70), 1024, 0)]) {
      expect(intensity).toBeGreaterThan(1010);
      expect(intensity).toBeLessThan(1030);
    }
  });

  it('choose the 8-bit peak only for a model that computes in 8 bits, on a card that has one', () => {
    expect(peakFlops(h100, read(deepseekV3))).toBe(1979e12);
    expect(peakFlops(h100, read(llama3))).toBe(989e12);
    expect(peakFlops(hardwareOf({ gpu: 'a10' }), read(deepseekV3))).toBe(125e12);
    expect(peakFlops(hardwareOf({ gpu: 'h100-sxm', peakTflops: 500 }), read(deepseekV3))).toBe(500e12);
  });
});

describe('weights read in a step', () => {
  it('of a mixture grow from the active experts to all of them', () => {
    const shape = read(mixtral);
    expect((weightBytesPerStep(shape, 1) ?? 0) / 1e9).toBeCloseTo(25.76, 1);
    expect((weightBytesPerStep(shape, 1000) ?? 0) / 1e9).toBeCloseTo(93.4, 1);
    // W_dense + W_expert·(1 − (1 − 2/8)^4)
    expect((weightBytesPerStep(shape, 4) ?? 0) / 1e9).toBeCloseTo(3.2 + 90.2 * (1 - 0.75 ** 4), 0);
  });

  it('of a mixture that only the config knows follow from its counts', () => {
    const shape = given({ params: 46.7e9, activeParams: 12.88e9, experts: 8, activeExperts: 2, weightFormat: 'bf16' });
    expect((weightBytesPerStep(shape, 1) ?? 0) / 1e9).toBeCloseTo(25.76, 1);
    expect((weightBytesPerStep(shape, 4) ?? 0) / (weightBytesPerStep(read(mixtral), 4) ?? 1)).toBeCloseTo(1, 2);
  });

  it('of a dense model are all of them, however many decode', () => {
    expect(weightBytesPerStep(eight, 100)).toBe(weightBytesPerStep(eight, 1));
  });
});

describe('for any shape and card', () => {
  const size = fc.integer({ min: 1, max: 200_000 });
  const shapes = fc.constantFrom(read(llama3), read(mixtral), read(deepseekV3), read(gptOss120), eight);

  it('more context, more tokens and more sequences never cost less', () => {
    fc.assert(
      fc.property(shapes, size, size, fc.integer({ min: 1, max: 500 }), (shape, tokens, context, sequences) => {
        const batch = { sequences, contextTokens: context };
        expect(flopsFor(shape, tokens, context + 1)).toBeGreaterThanOrEqual(flopsFor(shape, tokens, context) ?? 0);
        expect(flopsFor(shape, tokens + 1, context)).toBeGreaterThan(flopsFor(shape, tokens, context) ?? 0);
        expect(bytesPerStep(shape, { ...batch, contextTokens: context + 1 })).toBeGreaterThanOrEqual(
          bytesPerStep(shape, batch) ?? 0,
        );
        expect(bytesPerStep(shape, { ...batch, sequences: sequences + 1 })).toBeGreaterThan(
          bytesPerStep(shape, batch) ?? 0,
        );
      }),
    );
  });

  it('a prompt in two parts costs what it costs in one', () => {
    fc.assert(
      fc.property(shapes, size, size, size, (shape, first, second, before) => {
        const parts = (flopsFor(shape, first, before) ?? 0) + (flopsFor(shape, second, before + first) ?? 0);
        expect(parts / (flopsFor(shape, first + second, before) ?? 1)).toBeCloseTo(1, 9);
      }),
    );
  });

  it('twice the cards have half the step, and nothing is clamped', () => {
    fc.assert(
      fc.property(
        shapes,
        fc.integer({ min: 1, max: 64 }),
        fc.double({ min: 0.001, max: 1e5, noNaN: true }),
        (shape, count, bandwidthGBps) => {
          const one = decodeCeiling(shape, hardwareOf({ bandwidthGBps }), alone);
          const many = decodeCeiling(shape, hardwareOf({ bandwidthGBps, count }), alone);
          expect((one?.stepSeconds ?? 0) / (many?.stepSeconds ?? 1)).toBeCloseTo(count, 6);
          expect(one?.tokensPerSecond).toBeCloseTo((bandwidthGBps * 1e9) / (weightBytesPerStep(shape, 1) ?? 1), 6);
        },
      ),
    );
  });
});
