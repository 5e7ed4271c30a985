import { describe, expect, it } from 'vitest';

import type { PrefixChain } from '../../../src/domain/prefix.ts';
import { createWarmed } from '../../../src/route/warmed.ts';

function chain(...keys: number[]): PrefixChain {
  return {
    keys: Float64Array.from(keys),
    ends: Float64Array.from(keys.map((_, at) => (at + 1) * 1024)),
    parts: Int32Array.from(keys.map(() => 0)),
    bytes: keys.length * 1024,
    wideBytes: 0,
  };
}

const prompt = { chunk: 1, key: 2, fromTokens: 0, toTokens: 500, tokensPerSecond: 1000 };

describe('time saved by a warm-up', () => {
  it('is the cached tokens of the first request that begins with it, at the pace of the warm-up', () => {
    const warmed = createWarmed(4);
    warmed.add('a', prompt);
    expect(warmed.used('a', chain(1, 2, 3), 400)).toBe(0.4);
    expect(warmed.used('a', chain(1, 2, 3), 400)).toBeUndefined();
  });

  it('goes no further than what was warmed, and counts nothing that was there before', () => {
    const warmed = createWarmed(4);
    warmed.add('a', { ...prompt, fromTokens: 200 });
    expect(warmed.used('a', chain(1, 2, 3), 900)).toBe(0.3);
    warmed.add('a', { ...prompt, fromTokens: 200 });
    expect(warmed.used('a', chain(1, 2, 3), 100)).toBe(0);
  });

  it('is none for another prompt, another backend, or after a restart', () => {
    const warmed = createWarmed(4);
    warmed.add('a', prompt);
    expect(warmed.used('a', chain(1, 9, 3), 400)).toBeUndefined();
    expect(warmed.used('a', chain(1), 400)).toBeUndefined();
    expect(warmed.used('b', chain(1, 2), 400)).toBeUndefined();
    warmed.forget('a');
    expect(warmed.used('a', chain(1, 2), 400)).toBeUndefined();
  });

  it('is nothing when the first request found nothing or its engine does not tell: the matter is closed', () => {
    const warmed = createWarmed(4);
    warmed.add('a', prompt);
    expect(warmed.used('a', chain(1, 2), undefined)).toBe(0);
    expect(warmed.used('a', chain(1, 2), 400)).toBeUndefined();
  });

  it('counts once where one warmed beginning lies within another', () => {
    const warmed = createWarmed(4);
    warmed.add('a', prompt);
    warmed.add('a', { ...prompt, chunk: 2, key: 3, toTokens: 800 });
    expect(warmed.used('a', chain(1, 2, 3, 4), 800)).toBe(0.8);
    expect(warmed.used('a', chain(1, 2, 7), 500)).toBeUndefined();
  });

  it('keeps no more than its bound: the oldest goes', () => {
    const warmed = createWarmed(2);
    for (const key of [1, 2, 3]) warmed.add('a', { ...prompt, chunk: 0, key });
    expect(warmed.used('a', chain(1), 400)).toBeUndefined();
    expect(warmed.used('a', chain(2), 400)).toBe(0.4);
  });
});
