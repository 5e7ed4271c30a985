import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createCannedAnswer } from '../../../src/sim/canned-text.ts';
import { planOutput, type OutputAsk } from '../../../src/sim/output-plan.ts';

const answer = createCannedAnswer(3, { minSentences: 3, maxSentences: 3 });
const natural = answer.naturalTokens;
const ask: OutputAsk = { maxTokens: 1000, ignoreEnd: false, stops: [], holdBack: 'always' };

describe('output plan', () => {
  it('ends by itself with an end token, or by length, or goes on when told to', () => {
    expect(planOutput(answer, ask)).toMatchObject({ outputTokens: natural + 1, endsBy: 'stop', endsByEndToken: true });
    expect(planOutput(answer, { ...ask, maxTokens: natural + 1 })).toMatchObject({
      outputTokens: natural + 1,
      endsBy: 'stop',
    });
    expect(planOutput(answer, { ...ask, maxTokens: natural })).toMatchObject({
      outputTokens: natural,
      endsBy: 'length',
      endsByEndToken: false,
    });
    expect(planOutput(answer, { ...ask, ignoreEnd: true, maxTokens: 500 })).toMatchObject({
      outputTokens: 500,
      endsBy: 'length',
    });
  });

  it('ends before a stop string, even one that spans tokens', () => {
    for (const holdBack of ['always', 'looks_like'] as const) {
      const plan = planOutput(answer, { ...ask, stops: ['zzz', 'is simulated'], holdBack });
      expect(plan).toMatchObject({
        text: 'This answer ',
        endsBy: 'stop',
        stopString: 'is simulated',
        endsByEndToken: false,
      });
      expect(plan.deltas.join('')).toBe(plan.text);
    }
  });

  it('shows all of its text in the end, and never more than may be shown, for any stop strings and limits', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom('e', ' the', 'simulated. N', 'x', 'question.', 'read the q', '. '), { maxLength: 3 }),
        fc.integer({ min: 1, max: 80 }),
        fc.constantFrom('always' as const, 'looks_like' as const),
        fc.boolean(),
        (stops, maxTokens, holdBack, ignoreEnd) => {
          const plan = planOutput(answer, { maxTokens, ignoreEnd, stops, holdBack });
          expect(plan.deltas.join('')).toBe(plan.text);
          expect(plan.deltas).toHaveLength(plan.outputTokens);
          expect(plan.outputTokens).toBeLessThanOrEqual(maxTokens);
          for (const stop of stops) expect(plan.text).not.toContain(stop);
          if (plan.endsBy === 'length') expect(plan.outputTokens).toBe(maxTokens);
        },
      ),
      { numRuns: 500 },
    );
  });
});
