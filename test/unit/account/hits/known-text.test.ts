import { describe, expect, it } from 'vitest';
import { createKnownText } from '../../../../src/account/hits/known-text.ts';
import { placeOf } from '../../../../src/domain/prefix.ts';
import { chainOf } from '../../../support/prefix.ts';

const stable = Array.from({ length: 120 }, (_, i) => `Rule ${i}: answer in the language of rule ${i * 7}.`).join(' ');
const prompt = (system: string, ...more: readonly string[]) =>
  chainOf({ model: 'm', messages: [system, ...more].map((content) => ({ role: 'user', content })) });

describe('text that prompts had before', () => {
  it('is known wherever it stands behind what changed, so that the place of the change can be named', () => {
    const known = createKnownText();
    const first = prompt(`Now: 12:00:00. ${stable}`);
    expect(known.unstableAt(first, { cause: 'new' })).toBeUndefined();
    known.learn(first);
    const next = prompt(`Now: 12:00:01. ${stable}`);
    expect(known.unstableAt(next, { cause: 'new' })).toEqual({ part: 0, startBytes: 0, endBytes: 256 });
  });

  it('is found behind the place that the index names, too', () => {
    const known = createKnownText();
    known.learn(prompt('x'.repeat(300), 'request 1', stable));
    const next = prompt('x'.repeat(300), 'request 2', stable);
    const at = [...next.parts].indexOf(1);
    expect(known.unstableAt(next, { cause: 'diverged', divergence: placeOf(next, at) })).toMatchObject({ part: 1 });
  });

  it('is not taken from a prompt that goes on as others did, that is new, or whose model alone differs', () => {
    const known = createKnownText();
    const first = prompt(stable, 'a question');
    known.learn(first);
    expect(known.unstableAt(prompt(stable, 'another one'), {})).toBeUndefined();
    expect(known.unstableAt(prompt(stable, 'a question'), { cause: 'evicted' })).toBeUndefined();
    expect(known.unstableAt(prompt(stable, 'a question'), { cause: 'new' })).toBeUndefined();
    expect(known.unstableAt(prompt('something else'.repeat(400)), { cause: 'new' })).toBeUndefined();
    const foreign = { part: 7, startBytes: 0, endBytes: 256 };
    expect(known.unstableAt(first, { cause: 'diverged', divergence: foreign })).toBeUndefined();
  });

  it('says nothing of chains that carry no keys of single chunks', () => {
    const { loose: _none, ...bare } = prompt(stable);
    const known = createKnownText();
    known.learn(bare);
    expect(known.unstableAt(bare, { cause: 'new' })).toBeUndefined();
  });
});
