import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { nearest } from '../../../src/config/suggest.ts';

const keys = ['maxInFlight', 'apiKey', 'url', 'models', 'engine', 'heartbeatMs', 'headHoldMs'];

describe('nearest', () => {
  it.each([
    ['maxInFligth', 'maxInFlight'],
    ['max_in_flight', 'maxInFlight'],
    ['api-key', 'apiKey'],
    ['uri', 'url'],
    ['model', 'models'],
    ['heartbeatMS', 'heartbeatMs'],
  ])('finds what was meant by %s', (word, meant) => {
    expect(nearest(word, keys)).toBe(meant);
  });

  it.each(['', '-', 'temperature', 'xyz', 'x'.repeat(100_000)])('finds nothing near a foreign word', (word) => {
    expect(nearest(word, keys)).toBeUndefined();
  });

  it('finds a word with one letter left out, doubled or replaced', () => {
    const slip = fc.record({
      key: fc.constantFrom('maxInFlight', 'heartbeatMs', 'engine'),
      at: fc.nat(5),
      kind: fc.constantFrom('out', 'double', 'replace'),
    });
    fc.assert(
      fc.property(slip, ({ key, at, kind }) => {
        const letter = key[at] ?? '';
        const middle = { out: '', double: letter + letter, replace: 'q' }[kind] ?? '';
        expect(nearest(key.slice(0, at) + middle + key.slice(at + 1), keys)).toBe(key);
      }),
    );
  });
});
