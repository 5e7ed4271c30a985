import { expect, it } from 'vitest';
import { warmthOf } from '../../../src/measure/warmth.ts';

const how = { coldStart: false, prefixHitShare: 0.5 };
const of = (value: number) => ({ value, source: 'usage' as const });

it('half of the prompt from the cache is a hit, less is none, and nothing told is unknown', () => {
  expect(warmthOf({ prompt: of(100), cached: of(50) }, how)).toBe('prefix_hit');
  expect(warmthOf({ prompt: of(100), cached: of(49) }, how)).toBe('resident');
  expect(warmthOf({ prompt: of(100), cached: of(0) }, how)).toBe('resident');
  expect(warmthOf({ prompt: of(100) }, how)).toBe('unknown');
  expect(warmthOf({ cached: of(10) }, how)).toBe('unknown');
  expect(warmthOf({ prompt: of(0), cached: of(0) }, how)).toBe('unknown');
});

it('a backend that had just started is cold whatever it cached', () => {
  expect(warmthOf({ prompt: of(100), cached: of(100) }, { ...how, coldStart: true })).toBe('cold_start');
});
