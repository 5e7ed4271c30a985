import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sketchScale, type SketchData } from '../../../src/domain/sketch.ts';
import { bucketOf, middleOf, Sketch, upperBound } from '../../../src/platform/sketch.ts';

/** From a nanosecond to beyond any token count: the range that has buckets of its own. */
const bucketed = fc.double({ min: 1e-9, max: 2 ** 34, noNaN: true });
const spread = fc.oneof(
  bucketed,
  fc.integer({ min: -25, max: 30 }).map((power) => 2 ** power),
  fc.double({ min: 0.001, max: 10, noNaN: true }),
  fc.integer({ min: 1, max: 1_000_000 }),
);
const values = fc.array(fc.oneof({ weight: 9, arbitrary: spread }, fc.constant(0)), { minLength: 1, maxLength: 300 });

function sketchOf(of: readonly number[]): Sketch {
  const sketch = new Sketch();
  for (const value of of) sketch.add(value);
  return sketch;
}

/** Nearest rank, the definition that the sketch stands in for. */
function exactQuantile(of: readonly number[], share: number): number {
  const sorted = of.toSorted((a, b) => a - b);
  return sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1] ?? Number.NaN;
}

/** Sums of floats differ in their last digits by the order of adding. */
function expectSame(one: SketchData, other: SketchData): void {
  expect({ ...one, sum: 0 }).toEqual({ ...other, sum: 0 });
  expect(one.sum).toBeCloseTo(other.sum, -Math.floor(Math.log10(Math.max(1, other.sum))) + 9);
}

describe('buckets', () => {
  it('hold each value between their bounds, the upper one included', () => {
    fc.assert(
      fc.property(spread, (value) => {
        const bucket = bucketOf(value);
        const slack = 1e-12;
        expect(value).toBeLessThanOrEqual(upperBound(bucket) * (1 + slack));
        expect(value).toBeGreaterThan(upperBound(bucket - 1) * (1 - slack));
      }),
    );
  });

  it('have a middle that is within 0.55 % of each value in them', () => {
    fc.assert(
      fc.property(spread, (value) => {
        expect(Math.abs(middleOf(bucketOf(value)) - value) / value).toBeLessThan(0.0055);
      }),
    );
  });

  it('take a power of two into the bucket that ends with it', () => {
    for (let power = -29; power <= 34; power += 1) expect(upperBound(bucketOf(2 ** power))).toBe(2 ** power);
  });
});

describe('quantile', () => {
  it('is within 1 % of the exact nearest rank, at every share', () => {
    fc.assert(
      fc.property(values, fc.double({ min: 0, max: 1, noNaN: true }), (of, share) => {
        const exact = exactQuantile(of, share);
        const told = sketchOf(of).quantile(share) ?? Number.NaN;
        expect(Math.abs(told - exact)).toBeLessThanOrEqual(exact * 0.01);
      }),
    );
  });

  it('rises with the share and never leaves what was seen', () => {
    fc.assert(
      fc.property(values, (of) => {
        const sketch = sketchOf(of);
        const told = [0, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1].map((share) => sketch.quantile(share) ?? Number.NaN);
        expect(told).toEqual(told.toSorted((a, b) => a - b));
        expect(told[0]).toBeGreaterThanOrEqual(Math.min(...of));
        expect(told.at(-1)).toBe(Math.max(...of));
      }),
    );
  });

  it('is absent of nothing', () => {
    expect(new Sketch().quantile(0.5)).toBeUndefined();
  });
});

describe('join', () => {
  it('is exact: as if every value had been added to one sketch', () => {
    fc.assert(
      fc.property(values, values, (some, others) => {
        const joined = sketchOf(some);
        joined.join(sketchOf(others));
        expectSame(joined.data(), sketchOf([...some, ...others]).data());
        const fromData = Sketch.of(sketchOf(some).data());
        fromData.join(sketchOf(others).data());
        expectSame(fromData.data(), joined.data());
      }),
    );
  });

  it('leaves the other one as it was', () => {
    const other = sketchOf([1, 2, 3]);
    const before = other.data();
    sketchOf([0.001, 1000]).join(other);
    expect(other.data()).toEqual(before);
  });

  it('of nothing changes nothing', () => {
    const sketch = sketchOf([1, 0]);
    const before = sketch.data();
    sketch.join(new Sketch());
    sketch.join(new Sketch().data());
    expect(sketch.data()).toEqual(before);
  });
});

describe('countsUpTo', () => {
  const bounds = fc
    .array(fc.oneof(spread, fc.constant(0)), { maxLength: 50 })
    .map((of) => of.toSorted((a, b) => a - b));

  it('rises with the bound, and ends with all', () => {
    fc.assert(
      fc.property(values, bounds, (of, rising) => {
        const counts = sketchOf(of).countsUpTo([...rising, Number.POSITIVE_INFINITY]);
        expect(counts).toEqual(counts.toSorted((a, b) => a - b));
        expect(counts.at(-1)).toBe(of.length);
      }),
    );
  });

  it('counts each value as on its side of a bound, unless it is within 1.1 % of it', () => {
    fc.assert(
      fc.property(values, spread, (of, bound) => {
        const count = sketchOf(of).countUpTo(bound);
        expect(count).toBeGreaterThanOrEqual(of.filter((value) => value <= bound * 0.989).length);
        expect(count).toBeLessThanOrEqual(of.filter((value) => value <= bound * 1.011).length);
      }),
    );
  });

  it('gives for each bound what countUpTo gives alone', () => {
    fc.assert(
      fc.property(values, bounds, (of, rising) => {
        const sketch = sketchOf(of);
        expect(sketch.countsUpTo(rising)).toEqual(rising.map((bound) => sketch.countUpTo(bound)));
      }),
    );
  });

  it('is exact at powers of two for whole numbers below 128', () => {
    const sketch = sketchOf(Array.from({ length: 127 }, (_, i) => i + 1));
    for (let power = 0; power < 7; power += 1) expect(sketch.countUpTo(2 ** power)).toBe(2 ** power);
  });

  it('counts nothing below zero', () => {
    expect(sketchOf([0, 1]).countsUpTo([-1, 0, 1])).toEqual([0, 1, 2]);
  });
});

describe('exponential', () => {
  it('keeps every observation in a bucket that holds it, in at most so many buckets', () => {
    fc.assert(
      fc.property(values, fc.integer({ min: 2, max: 320 }), (of, maxBuckets) => {
        const { scale, offset, counts } = sketchOf(of).exponential(maxBuckets);
        expect(counts.length).toBeLessThanOrEqual(maxBuckets);
        expect(scale).toBeLessThanOrEqual(sketchScale);
        const expected = counts.map(() => 0);
        for (const value of of) {
          if (value === 0) continue;
          const at = (bucketOf(value) >> (sketchScale - scale)) - offset;
          expected[at] = (expected[at] ?? 0) + 1;
        }
        expect(counts).toEqual(expected);
      }),
    );
  });

  it('leaves the scale alone where there is room', () => {
    expect(sketchOf([1, 2, 4]).exponential(160)).toMatchObject({ scale: sketchScale, offset: -1 });
  });

  it('of zeros alone has no buckets', () => {
    expect(sketchOf([0, 0]).exponential(160).counts).toEqual([]);
  });
});

describe('a sketch', () => {
  it('goes into data and back without loss', () => {
    fc.assert(
      fc.property(values, (of) => {
        const data = sketchOf(of).data();
        expect(Sketch.of(data).data()).toEqual(data);
        expect(data.counts.at(0)).not.toBe(0);
        expect(data.counts.at(-1)).not.toBe(0);
        expect(data.zeros + data.counts.reduce((sum, times) => sum + times, 0)).toBe(data.count);
      }),
    );
  });

  it('counts one value many times as so many values', () => {
    const sketch = new Sketch();
    sketch.add(0.25, 3);
    expect(sketch.data()).toEqual(sketchOf([0.25, 0.25, 0.25]).data());
  });

  it('does not count what is no number, negative, infinite or zero times', () => {
    const sketch = new Sketch();
    for (const value of [Number.NaN, -1, -1e-12, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) sketch.add(value);
    sketch.add(1, 0);
    sketch.add(1, Number.NaN);
    expect(sketch.data()).toEqual({ count: 0, sum: 0, zeros: 0, first: 0, counts: [] });
  });

  it('takes the smallest and the largest numbers', () => {
    const sketch = sketchOf([Number.MIN_VALUE, 1e-10, 1e-9, Number.MAX_VALUE]);
    expect(sketch.count).toBe(4);
    expect(sketch.data().zeros).toBe(2);
    expect(sketch.quantile(1)).toBe(Number.MAX_VALUE);
    expect(sketch.data().counts.length).toBeLessThan(4200);
  });

  it('that was cleared is as new', () => {
    const sketch = sketchOf([0, 0.001, 5]);
    sketch.clear();
    expect(sketch.data()).toEqual(new Sketch().data());
    sketch.add(3);
    expect(sketch.data()).toEqual(sketchOf([3]).data());
  });
});
