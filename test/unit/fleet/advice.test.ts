import { describe, expect, it } from 'vitest';
import { adviceFor, type AdviceEvidence } from '../../../src/fleet/advice.ts';
import type { BackendFacts } from '../../../src/fleet/facts.ts';

const facts: BackendFacts = {
  engine: 'llama-server',
  engineKnown: true,
  models: [],
  slots: 4,
  router: false,
  slotsReadable: true,
  advice: [],
};
const nothing: AdviceEvidence = { cachedMissing: false, threadsFull: false };

function advise(changes: { facts?: Partial<BackendFacts>; maxInFlight?: number; evidence?: Partial<AdviceEvidence> }) {
  const { maxInFlight } = changes;
  const settings = { name: 'a', url: 'http://a', ...(maxInFlight === undefined ? {} : { maxInFlight }) };
  return adviceFor({ ...facts, ...changes.facts }, settings, { ...nothing, ...changes.evidence });
}

describe('R12 --threads-http', () => {
  it('is not advised for slots alone: by default llama-server has more threads than slots', () => {
    expect(advise({})).toEqual([]);
    expect(advise({ facts: { slots: 64 } })).toEqual([]);
    expect(advise({ maxInFlight: 3 })).toEqual([]);
  });

  it('is advised when more may be in flight than slots and one probe', () => {
    expect(advise({ maxInFlight: 5 })).toEqual([expect.stringContaining('lower its maxInFlight')]);
    expect(advise({ maxInFlight: 6 })[1]).toContain('--threads-http 14');
  });

  it('is advised when a health check went unanswered while requests ran', () => {
    expect(advise({ evidence: { threadsFull: true } })).toEqual([
      expect.stringMatching(/unanswered.*--threads-http 12$/),
    ]);
    const { slots, ...unknown } = facts;
    expect(slots).toBe(4);
    const advice = adviceFor(unknown, { name: 'a', url: 'http://a' }, { ...nothing, threadsFull: true });
    expect(advice, 'no number is made up where none is known').toEqual([expect.stringMatching(/--threads-http$/)]);
  });

  it('is advised to a router, whose threads do not grow with the slots of its models', () => {
    expect(advise({ facts: { router: true } })).toEqual([expect.stringContaining('--threads-http')]);
  });
});

it('advice about cached tokens and threads goes to the engine that it fits', () => {
  const evidence = { cachedMissing: true, threadsFull: true };
  expect(advise({ facts: { engine: 'vllm' }, evidence })).toEqual([
    expect.stringContaining('--enable-prompt-tokens-details'),
  ]);
  expect(advise({ facts: { engine: 'openai' }, maxInFlight: 99, evidence })).toEqual([]);
});

it('what the engine’s own answers showed comes first', () => {
  expect(advise({ facts: { advice: ['first'] }, maxInFlight: 5 })[0]).toBe('first');
});
