import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createDecodeWatch } from '../../../src/account/concurrency.ts';

describe('the concurrency of decoding', () => {
  it('of a stream alone is 1', () => {
    const watch = createDecodeWatch(0);
    const stream = watch.began('b', 1, 100);
    expect(stream.concurrency).toBeUndefined();
    stream.end(400);
    expect(stream.concurrency).toBe(1);
    expect(watch.running('b')).toBe(0);
  });

  it('is the mean over the stream’s own time', () => {
    const watch = createDecodeWatch(0);
    const long = watch.began('b', 1, 0);
    const other = watch.began('b', 1, 100);
    other.end(200);
    long.end(400);
    expect(other.concurrency).toBe(2);
    expect(long.concurrency).toBe(1.25);
  });

  it('counts each choice, and only streams of the same backend', () => {
    const watch = createDecodeWatch(0);
    const two = watch.began('b', 2, 0);
    const elsewhere = watch.began('c', 1, 0);
    const one = watch.began('b', 1, 0);
    for (const stream of [two, one, elsewhere]) stream.end(100);
    expect([two.concurrency, one.concurrency, elsewhere.concurrency]).toEqual([3, 3, 1]);
  });

  it('of a stream of one token is what ran then; a second end changes nothing', () => {
    const watch = createDecodeWatch(0);
    watch.began('b', 1, 0);
    const short = watch.began('b', 1, 50);
    short.end(50);
    expect(short.concurrency).toBe(2);
    short.end(70);
    expect(watch.running('b')).toBe(1);
  });

  it('gives the windows the time in which was decoded, also of streams that still run', () => {
    const watch = createDecodeWatch(0);
    expect(watch.times('b', 1000, 60_000)).toBeUndefined();
    const stream = watch.began('b', 1, 20_000);
    watch.began('b', 1, 30_000);
    stream.end(40_000);
    expect(watch.times('b', 50_000, 60_000)).toEqual({
      busySeconds: 30,
      sequenceSeconds: 40,
      firstTokens: 2,
      coveredSeconds: 50,
    });
    expect(watch.times('b', 59_999.9, 10_000)?.busySeconds).toBeCloseTo(10, 3);
    expect(watch.times('b', 9_999_999, 60_000)?.busySeconds).toBeCloseTo(60, 2);
    expect(watch.times('b', 9_999_999, 60_000)?.firstTokens).toBe(0);
  });

  it('agrees with what the streams’ own times say, whatever they are', () => {
    const spans = fc.array(fc.tuple(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 1, max: 500 })), {
      minLength: 1,
      maxLength: 12,
    });
    fc.assert(
      fc.property(spans, (pairs) => {
        const streams = pairs.map(([fromMs, lengthMs]) => ({ fromMs, toMs: fromMs + lengthMs }));
        const watch = createDecodeWatch(0);
        const moments = streams
          .flatMap((stream) => [
            { ms: stream.fromMs, stream, begins: true },
            { ms: stream.toMs, stream, begins: false },
          ])
          .toSorted((a, b) => a.ms - b.ms || Number(a.begins) - Number(b.begins));
        const decoding = new Map<(typeof streams)[number], ReturnType<typeof watch.began>>();
        for (const { ms, stream, begins } of moments) {
          if (begins) decoding.set(stream, watch.began('b', 1, ms));
          else decoding.get(stream)?.end(ms);
        }
        for (const stream of streams) {
          const beside = streams.reduce(
            (sum, other) =>
              sum + Math.max(0, Math.min(stream.toMs, other.toMs) - Math.max(stream.fromMs, other.fromMs)),
            0,
          );
          expect(decoding.get(stream)?.concurrency).toBeCloseTo(beside / (stream.toMs - stream.fromMs), 2);
        }
        expect(watch.running('b')).toBe(0);
      }),
    );
  });
});
