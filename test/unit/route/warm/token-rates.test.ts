import { describe, expect, test } from 'vitest';

import type { PrefixChain } from '../../../../src/domain/prefix.ts';
import { createTokenRates, type TokenRates } from '../../../../src/route/warm/token-rates.ts';
import { createSeededRandom, wholeBetween } from '../../../../src/sim/seeded-random.ts';

/** A prompt of `messages` messages, in chunks of up to 256 bytes. */
function prompt(messages: readonly number[], wideShare = 0): PrefixChain {
  const ends: number[] = [];
  const parts: number[] = [];
  let bytes = 0;
  messages.forEach((size, part) => {
    for (let left = size; left > 0; left -= 256) {
      bytes += Math.min(256, left);
      ends.push(bytes);
      parts.push(part);
    }
  });
  return {
    keys: new Float64Array(ends.length),
    ends: Float64Array.from(ends),
    parts: Int32Array.from(parts),
    bytes,
    wideBytes: Math.round(bytes * wideShare),
  };
}

const estimate = (rates: TokenRates, chain: PrefixChain, model = 'm') =>
  rates.estimate(chain, model, new Float64Array(chain.keys.length));

describe('tokens from bytes', () => {
  test('begins at 4 bytes a token, 1.5 for wide ones, and three tokens a message', () => {
    const rates = createTokenRates();
    expect(estimate(rates, prompt([4000]))).toBeCloseTo(1003);
    expect(estimate(rates, prompt([4000], 1))).toBeCloseTo(4000 / 1.5 + 3);
  });

  test('learns a model with a system prompt of its own and a template, from short prompts, to within 3 %', () => {
    const random = createSeededRandom(3);
    const rates = createTokenRates();
    const truth = (chain: PrefixChain, messages: number) => Math.round(chain.bytes / 4.7 + 5 * messages + 23);
    let off = 0;
    let total = 0;
    for (let count = 0; count < 80; count += 1) {
      const sizes = Array.from({ length: wholeBetween(random, 1, 9) }, () => wholeBetween(random, 40, 900));
      const chain = prompt(sizes);
      const tokens = truth(chain, sizes.length);
      if (count >= 40) {
        off += estimate(rates, chain) - tokens;
        total += tokens;
      }
      rates.learn(chain, 'm', tokens);
    }
    expect(Math.abs(off / total)).toBeLessThan(0.03);
    const short = prompt([120]);
    expect(estimate(rates, short)).toBeGreaterThan(truth(short, 1) * 0.85);
    expect(estimate(rates, short)).toBeLessThan(truth(short, 1) * 1.15);
  });

  test('keeps wide bytes and models apart', () => {
    const rates = createTokenRates();
    for (let count = 0; count < 60; count += 1) {
      const wide = count % 2 === 0 ? 1 : 0;
      const chain = prompt([1000 + count * 37], wide);
      rates.learn(chain, 'm', Math.round(wide ? chain.bytes / 2.4 : chain.bytes / 3.5));
    }
    expect(estimate(rates, prompt([6000]))).toBeCloseTo(6000 / 3.5, -2);
    expect(estimate(rates, prompt([6000], 1))).toBeCloseTo(6000 / 2.4, -2);
    expect(estimate(rates, prompt([4000]), 'other')).toBeCloseTo(1003);
  });

  test('is hardly moved by one prompt that is nothing like the others', () => {
    const rates = createTokenRates();
    for (let count = 0; count < 40; count += 1) {
      const chain = prompt([500 + count * 61]);
      rates.learn(chain, 'm', Math.round(chain.bytes / 4));
    }
    const before = estimate(rates, prompt([4000]));
    rates.learn(prompt([400]), 'm', 4000);
    expect(Math.abs(estimate(rates, prompt([4000])) / before - 1)).toBeLessThan(0.05);
  });

  test('counts never fall along a chain', () => {
    const rates = createTokenRates();
    for (let count = 0; count < 50; count += 1) rates.learn(prompt([300, 300, 300]), 'm', 10 + (count % 7) * 300);
    const chain = prompt([700, 20, 900]);
    const tokensAt = new Float64Array(chain.keys.length);
    const whole = rates.estimate(chain, 'm', tokensAt);
    expect([...tokensAt, whole]).toEqual([...tokensAt, whole].toSorted((left, right) => left - right));
  });
});

describe('answers that come back', () => {
  test('count as kept only once that was seen, and no more when it stops', () => {
    const rates = createTokenRates();
    expect(rates.answersKept('m')).toBe(false);
    rates.learnAnswerKept('m', true);
    expect(rates.answersKept('m')).toBe(true);
    expect(rates.answersKept('other')).toBe(false);
    for (let count = 0; count < 4; count += 1) rates.learnAnswerKept('m', false);
    expect(rates.answersKept('m')).toBe(false);
  });
});
