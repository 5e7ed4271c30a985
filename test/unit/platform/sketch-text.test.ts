import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { Sketch } from '../../../src/platform/sketch.ts';
import { parseSketchText, sketchText } from '../../../src/platform/sketch-text.ts';

function sketchOf(values: readonly number[]): Sketch {
  const sketch = new Sketch();
  for (const value of values) sketch.add(value);
  return sketch;
}

function throughText(sketch: Sketch): Sketch {
  const text = sketchText(sketch.data()) ?? '';
  expect(text).toMatch(/^[0-9a-z/()[\]-]+$/);
  const data = parseSketchText(text);
  if (data === undefined) throw new Error(`not read: ${text}`);
  return Sketch.of(data);
}

/** Of the logistic distribution, scaled to be near the normal one. */
function spreadQuantile(share: number): number {
  return Math.log(share / (1 - share)) * (Math.sqrt(3) / Math.PI);
}

describe('a sketch as a word', () => {
  it('comes back the same while it has few buckets', () => {
    const sketch = sketchOf([0, 0, 0.02, 0.02, 0.021, 0.5, 1.25]);
    const back = throughText(sketch);
    expect(back.data()).toEqual(sketch.data());
    expect(back.quantile(0.5)).toBe(sketch.quantile(0.5));
  });

  it('has no word for no values', () => {
    expect(sketchText(new Sketch().data())).toBeUndefined();
  });

  it('is short for a usual answer, and bounded for any', () => {
    const usual = Array.from({ length: 200 }, (_, i) => 0.02 * (1 + 0.05 * Math.sin(i)) + (i % 40 === 0 ? 0.03 : 0));
    expect(sketchText(sketchOf(usual).data())?.length).toBeLessThan(120);
    const wild = Array.from({ length: 20_000 }, (_, i) => 1e-6 * 1.001 ** i);
    expect(sketchText(sketchOf(wild).data())?.length).toBeLessThan(2600);
  });

  it('loses nothing of an answer of ten thousand tokens, however uneven', () => {
    // About log-normal: the median 25 ms, a tenth of them below 11 ms and a tenth above 58 ms.
    const gaps = Array.from({ length: 10_000 }, (_, i) => 0.025 * Math.exp(0.7 * spreadQuantile((i + 0.5) / 10_000)));
    const sketch = sketchOf(gaps);
    expect(throughText(sketch).data()).toMatchObject({ first: sketch.data().first, counts: sketch.data().counts });
    expect(sketchText(sketch.data())?.length).toBeLessThan(1200);
  });

  it('keeps all values, and their quantiles within its buckets, when neighbours had to be joined', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 1e-5, max: 100, noNaN: true }), { minLength: 1, maxLength: 2000 }),
        (values) => {
          const sketch = sketchOf(values);
          const back = throughText(sketch);
          expect(back.count).toBe(sketch.count);
          expect(back.sum).toBeCloseTo(sketch.sum, 6);
          const scale = Number.parseInt((sketchText(sketch.data()) ?? '').slice(0, 1), 36);
          const error = 2 ** (1 / 2 ** scale);
          for (const share of [0.01, 0.5, 0.9, 1]) {
            const [is, was] = [back.quantile(share) ?? 0, sketch.quantile(share) ?? 0];
            expect(is / was).toBeLessThanOrEqual(error);
            expect(was / is).toBeLessThanOrEqual(error);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it.each([
    '',
    '6',
    '6/0/0/0/0/0',
    '6/0/0/1/1/1/',
    '7/0/0/1/1/1/1',
    '6/0/0/1/1/1/1!',
    '6/0/0/1/1/1/0',
    '6/0/0/1/1/1/(1',
    '6/0/0/1/1/1/1/1',
    '6/zzzz/0/1/1/1/1',
  ])('is not read from %j', (text) => {
    expect(parseSketchText(text)).toBeUndefined();
  });

  it('doesn’t let a forged word take memory', () => {
    expect(parseSketchText('6/0/0/1/1/1/[zzzz]1')).toBeUndefined();
  });
});
