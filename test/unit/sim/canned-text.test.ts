import { describe, expect, it } from 'vitest';
import { createCannedAnswer, type CannedAnswer } from '../../../src/sim/canned-text.ts';
import { encode } from '../../../src/sim/tokenizer.ts';

const length = { minSentences: 3, maxSentences: 9 };
const textOf = (answer: CannedAnswer, tokens: number) =>
  Array.from({ length: tokens }, (_, index) => answer.pieceAt(index)).join('');

describe('canned answers', () => {
  it('say that they are simulated, in whole sentences', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const answer = createCannedAnswer(seed, length);
      const text = textOf(answer, answer.naturalTokens);
      expect(text).toMatch(/^This answer is simulated\. .*\.$/);
      const sentences = text.split('. ').length;
      expect(sentences).toBeGreaterThanOrEqual(3);
      expect(sentences).toBeLessThanOrEqual(9);
    }
  });

  it('repeat for the same seed, differ for another, and go on for ever', () => {
    expect(textOf(createCannedAnswer(1, length), 500)).toBe(textOf(createCannedAnswer(1, length), 500));
    expect(textOf(createCannedAnswer(1, length), 500)).not.toBe(textOf(createCannedAnswer(2, length), 500));
    expect(textOf(createCannedAnswer(1, length), 5000).length).toBeGreaterThan(10_000);
  });

  it('have the very tokens that a client gets who sends them back', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const answer = createCannedAnswer(seed, length);
      const ids = Array.from({ length: 300 }, (_, index) => answer.idAt(index));
      expect([...encode(textOf(answer, 300))]).toEqual(ids);
    }
  });
});
