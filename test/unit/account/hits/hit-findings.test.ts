import { describe, expect, it } from 'vitest';
import { createHitAccount } from '../../../../src/account/hits/hit-account.ts';
import type { Observation } from '../../../../src/account/findings/finding.ts';
import type { Job } from '../../../../src/domain/job.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import type { RouteNote } from '../../../../src/domain/routing.ts';
import { chainOf } from '../../../support/prefix.ts';
import { sampleBackend, sampleJob } from '../../../support/sample.ts';
import { sampleNote } from '../../../support/sample-routing.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

const { divergence: _none, ...undiverged } = sampleNote();

function world() {
  let nowMs = 1;
  const hits = createHitAccount({
    startMs: 1,
    modelLabel: (model) => model ?? 'none',
    backends: () => [sampleBackend('b1', { blockTokens: 784 })],
    engine: () => undefined,
  });
  return {
    pass: (ms: number) => (nowMs += ms),
    answer(
      tokens: { prompt: number; cached?: number },
      note: Partial<RouteNote>,
      of: { record?: Partial<RequestRecord>; job?: Job } = {},
    ) {
      const { prompt, cached } = tokens;
      const { record: over = {}, job } = of;
      const record = sampleRecord({
        backend: 'b1',
        model: 'm',
        routing: { ...undiverged, promptTokens: prompt, ...note },
        tokens: {
          prompt: { value: prompt, source: 'usage' },
          ...(cached === undefined ? {} : { cached: { value: cached, source: 'usage' } }),
        },
        ...over,
      });
      const assessment = hits.assess(record, job);
      hits.add(assessment === undefined ? record : { ...record, assessment }, nowMs);
    },
    found: (held: readonly string[] = []): readonly Observation[] =>
      hits.find(nowMs, (finding) => held.includes(finding)),
    names: (): readonly string[] => hits.find(nowMs, () => false).map(({ finding }) => finding),
  };
}

const stable = Array.from({ length: 120 }, (_, i) => `Rule ${i}: answer in the language of rule ${i * 7}.`).join(' ');

interface Message {
  readonly role: string;
  readonly content: string;
}

/** A conversation's n-th request: its history grows by a turn each time. */
function turn(system: string, n: number, tools: readonly object[] = []): Job {
  const history = Array.from({ length: n }, (_, i): Message[] => [
    { role: 'user', content: `Question ${i}: ${'what about this? '.repeat(20)}` },
    { role: 'assistant', content: `Answer ${i}: ${'that is as it is. '.repeat(20)}` },
  ]).flat();
  const messages = [{ role: 'system', content: system }, ...history, { role: 'user', content: `And ${n}?` }];
  return sampleJob({ prefix: chainOf({ model: 'm', ...(tools.length === 0 ? {} : { tools }), messages }) });
}

/** As the index says it of a prompt that nobody began like. */
const unlike = { reusableTokens: 0, predictedTokens: 0, cause: 'new' } as const;

describe('an unstable prompt start', () => {
  it('C149 is named after five turns whose system prompt begins with the time, with the place and what to do', () => {
    const { answer, found, names, pass } = world();
    const ask = (n: number) =>
      answer({ prompt: 1500 + 80 * n, cached: 0 }, unlike, {
        record: { requestId: `turn-${n}` },
        job: turn(`Now: 12:00:0${n}. ${stable}`, n),
      });
    for (let n = 0; n < 4; n += 1) {
      ask(n);
      pass(20_000);
    }
    expect(names()).toEqual([]);
    ask(4);
    const [one] = found();
    expect(one).toMatchObject({ finding: 'unstable_prompt_start', backend: 'all' });
    expect(one?.sighting.says).toBe(
      'the last 4 long prompts for m changed near their start before text that was seen already, and 100 % of them can come ' +
        'from no cache; message 0 (mostly the system prompt), bytes 0–256 differ each time: move a timestamp, id or reordered ' +
        'tools behind the stable text',
    );
    expect(one?.sighting.evidence).toEqual({
      model: 'm',
      place: 'message 0, bytes 0–256',
      prompts: 4,
      promptTokens: 6800,
      lostTokens: 6800,
      lostPercent: 100,
      places: 1,
      examples: 'turn-2 turn-3 turn-4',
    });
    pass(601_000);
    expect(names()).toEqual([]);
  });

  it('names reordered tools as such', () => {
    const { answer, found } = world();
    const tool = (i: number) => ({
      type: 'function',
      function: { name: `tool_${i}`, description: stable.slice(i * 40, i * 40 + 400) },
    });
    for (let n = 0; n < 5; n += 1) {
      const tools = [n, 5, 6].map(tool);
      answer({ prompt: 4000, cached: 0 }, unlike, { job: turn(stable, n, tools) });
    }
    expect(found()[0]?.sighting.says).toContain('tools are sent in another order or changed');
  });

  it('is not named for prompts that have nothing in common, nor for another model, adapter or salt', () => {
    const { answer, names } = world();
    for (let n = 0; n < 10; n += 1) {
      const own = Array.from({ length: 100 }, (_, i) => `Line ${i} of text ${n}, unlike ${i * n}.`).join(' ');
      answer({ prompt: 4000, cached: 0 }, unlike, {
        job: sampleJob({ prefix: chainOf({ model: 'm', messages: [{ role: 'user', content: own }] }) }),
      });
      const messages = [{ role: 'user', content: stable }];
      const salted = sampleJob({ prefix: chainOf({ model: 'm', cache_salt: `tenant-${n}`, messages }) });
      answer({ prompt: 4000, cached: 0 }, unlike, { job: salted });
    }
    expect(names()).toEqual([]);
  });

  it('is not named for short prompts, for conversations that go on, nor for what was evicted', () => {
    const { answer, names } = world();
    for (let n = 0; n < 10; n += 1) {
      answer({ prompt: 900, cached: 0 }, unlike, { job: turn(`Now: ${n}. ${stable}`, 1) });
      const heldMost = { ...unlike, reusableTokens: 3000, predictedTokens: 3000, cause: 'diverged' } as const;
      answer({ prompt: 4000, cached: 3000 }, heldMost, { job: turn(stable, n) });
      answer({ prompt: 4000, cached: 0 }, { ...unlike, cause: 'evicted' }, { job: turn(stable, n) });
    }
    expect(names()).toEqual([]);
  });
});

describe('a prefix too short for a block', () => {
  it('C152 is named where equal prompts have no hit for want of a whole block', () => {
    const { answer, found } = world();
    const note = { reusableTokens: 0, predictedTokens: 0, cause: 'unaligned' } as const;
    for (let i = 0; i < 10; i += 1) answer({ prompt: 240, cached: 0 }, note);
    expect(found()).toEqual([
      {
        finding: 'prefix_too_short_for_block',
        backend: 'b1',
        sighting: {
          weight: 2400,
          says: '10 answers had no hit though their prompts began like earlier ones: what they share is shorter than one block of its cache (784 tokens)',
          evidence: { answers: 10, promptTokens: 2400, blockTokens: 784 },
        },
      },
    ]);
  });

  it('is not named for new prompts, nor where long prompts are nearly all of the tokens', () => {
    const { answer, names } = world();
    for (let i = 0; i < 10; i += 1)
      answer({ prompt: 240, cached: 0 }, { reusableTokens: 0, predictedTokens: 0, cause: 'new' });
    expect(names()).toEqual([]);
    for (let i = 0; i < 5; i += 1)
      answer({ prompt: 240, cached: 0 }, { reusableTokens: 0, predictedTokens: 0, cause: 'unaligned' });
    answer({ prompt: 9000, cached: 8000 }, { reusableTokens: 8000, predictedTokens: 8000 });
    expect(names()).toEqual([]);
  });
});

describe('an engine that does not tell its cached tokens', () => {
  it('C153 is named, until one answer tells', () => {
    const { answer, names, found } = world();
    for (let i = 0; i < 19; i += 1) answer({ prompt: 100 }, {});
    expect(names()).toEqual([]);
    answer({ prompt: 100 }, {});
    expect(names()).toEqual(['cached_tokens_untold']);
    expect(found()[0]?.sighting.says).toContain('--enable-prompt-tokens-details');
    answer({ prompt: 100, cached: 0 }, { predictedTokens: 0, reusableTokens: 0 });
    expect(names()).toEqual([]);
  });
});

describe('a drifting prediction', () => {
  const drift = (predicted: number, delivered: number, minutes: number) => {
    const made = world();
    for (let i = 0; i < 6 * minutes; i += 1) {
      made.answer({ prompt: 1000, cached: delivered }, { predictedTokens: predicted, reusableTokens: predicted });
      made.pass(10_000);
    }
    return made;
  };

  it('is named once the bias was beyond ten points for five minutes, whichever way', () => {
    expect(drift(700, 500, 4).names()).toEqual([]);
    expect(drift(700, 500, 6).found()[0]).toMatchObject({
      finding: 'prediction_drift',
      backend: 'b1',
      sighting: { evidence: { biasPoints: 20, errorPoints: 20 } },
    });
    const other = drift(300, 500, 6).found()[0];
    expect(other?.sighting.evidence['biasPoints']).toBe(-20);
    expect(other?.sighting.says).toContain('delivers more than is predicted');
  });

  it('is not named within ten points, and holds until it is within seven', () => {
    expect(drift(590, 500, 6).names()).toEqual([]);
    expect(drift(590, 500, 6).found(['prediction_drift'])).toHaveLength(1);
    expect(drift(560, 500, 6).found(['prediction_drift'])).toHaveLength(0);
  });
});
