import { describe, expect, it } from 'vitest';
import { durationText } from '../../../src/access/duration-text.ts';

describe('a duration as OpenAI writes it', () => {
  it.each([
    [0, '0s'],
    [-5, '0s'],
    [0.2, '1ms'],
    [12, '12ms'],
    [999.4, '1s'],
    [1000, '1s'],
    [8640, '8.64s'],
    [59_999.2, '1m0s'],
    [60_000, '1m0s'],
    [86_400, '1m27s'],
    [360_000, '6m0s'],
    [3_600_000, '1h0m0s'],
    [90_061_000, '25h1m1s'],
  ])('%d ms is %s', (ms, text) => {
    expect(durationText(ms)).toBe(text);
  });
});
