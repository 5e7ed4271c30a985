import fc from 'fast-check';
import { expect, it } from 'vitest';
import { forEachGap, itlSamplesMs, itlSketch } from '../../../src/measure/itl.ts';
import { StampLog } from '../../../src/measure/stamps.ts';
import { Sketch } from '../../../src/platform/sketch.ts';

it('no stamps give no samples', () => {
  expect(itlSamplesMs(undefined)).toEqual([]);
  expect(itlSamplesMs({ atMs: Float64Array.of(5) })).toEqual([]);
});

it('gaps never run across choices', () => {
  const stamps = { atMs: Float64Array.of(0, 5, 20, 25, 40), choice: Uint16Array.of(0, 1, 0, 1, 0) };
  expect(itlSamplesMs(stamps)).toEqual([20, 20, 20]);
});

it('says which events shared their read with the one before', () => {
  const stamps = { atMs: Float64Array.of(0, 10, 10, 30), coalesced: Uint8Array.of(0, 0, 1, 0) };
  const seen: [number, boolean][] = [];
  forEachGap(stamps, (gapMs, coalesced) => seen.push([gapMs, coalesced]));
  expect(seen).toEqual([
    [10, false],
    [0, true],
    [20, false],
  ]);
});

it('n events of a choice give n − 1 gaps that add up to its length', () => {
  const event = fc.tuple(fc.nat(3), fc.nat(100), fc.option(fc.nat(6), { nil: undefined }), fc.boolean());
  fc.assert(
    fc.property(fc.array(event, { maxLength: 300 }), (events) => {
      const log = new StampLog(1000);
      let atMs = 1;
      const byChoice = new Map<number, number[]>();
      for (const [choice, stepMs, tokens, coalesced] of events) {
        atMs += stepMs;
        log.add(atMs, { choice, tokens, coalesced });
        byChoice.set(choice, [...(byChoice.get(choice) ?? []), atMs]);
      }
      const stamps = log.take();
      const lengths = [...byChoice.values()].map((all) => (all.at(-1) ?? 0) - (all[0] ?? 0));
      const samples = itlSamplesMs(stamps);
      expect(samples).toHaveLength(events.length - byChoice.size);
      expect(samples.reduce((a, b) => a + b, 0)).toBe(lengths.reduce((a, b) => a + b, 0));
      if (stamps === undefined) return;
      const told = events.every(([, , tokens]) => tokens !== undefined);
      const ones = events.every(([, , tokens]) => tokens === 1);
      expect(stamps.tokens === undefined ? undefined : [...stamps.tokens]).toEqual(
        told && !ones ? events.map(([, , tokens]) => tokens) : undefined,
      );
      expect([...(stamps.coalesced ?? events.map(() => 0))]).toEqual(events.map(([, , , flag]) => (flag ? 1 : 0)));
      expect([...(stamps.choice ?? events.map(() => 0))]).toEqual(events.map(([choice]) => choice));
    }),
  );
});

it('keeps no more stamps than its bound', () => {
  const log = new StampLog(70);
  for (let i = 0; i < 100; i += 1) log.add(i, { choice: 0, tokens: undefined, coalesced: false });
  expect(log.take()?.atMs).toEqual(Float64Array.from({ length: 70 }, (_, i) => i));
  expect(log.capped).toBe(true);
});

it('the sketch of a record holds its gaps in seconds, and nothing of the record before', () => {
  const gap = fc.oneof(fc.constant(0), fc.double({ min: 0.001, max: 100_000, noNaN: true }));
  fc.assert(
    fc.property(fc.array(gap, { minLength: 1, maxLength: 100 }), (gapsMs) => {
      let atMs = 1;
      const stamps = { atMs: Float64Array.of(1, ...gapsMs.map((gapMs) => (atMs += gapMs))) };
      const expected = new Sketch();
      for (const gapMs of itlSamplesMs(stamps)) expected.add(gapMs / 1000);
      expect(itlSketch(stamps)).toEqual(expected.data());
    }),
  );
  expect(itlSketch({ atMs: Float64Array.of(5) })).toBeUndefined();
});

it('the sketch of 10,000 gaps takes well under a millisecond', () => {
  const stamps = { atMs: Float64Array.from({ length: 10_001 }, (_, i) => i * 20 + (i % 7)) };
  for (let i = 0; i < 20; i += 1) itlSketch(stamps);
  // The best of several: other processes may hold this one up.
  const tookMs = Array.from({ length: 20 }, () => {
    const fromMs = performance.now();
    itlSketch(stamps);
    return performance.now() - fromMs;
  });
  expect(Math.min(...tookMs)).toBeLessThan(1);
});
