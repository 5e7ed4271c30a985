import { createHash, timingSafeEqual } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createKeyring } from '../../../src/access/keyring.ts';

const hashOf = (key: string): string => createHash('sha256').update(key).digest('hex');

describe('a keyring', () => {
  it('finds each of many keys by its hash, and no other text', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.stringMatching(/^[\x21-\x7e]{1,40}$/), { minLength: 1, maxLength: 300 }),
        fc.string({ maxLength: 40 }),
        (keys, other) => {
          const ring = createKeyring(keys.map((key) => ({ sha256: hashOf(key), name: key })));
          for (const key of keys) expect(ring.find(key)?.name).toBe(key);
          if (!keys.includes(other)) expect(ring.find(other)).toBeUndefined();
        },
      ),
      { numRuns: 50 },
    );
  });

  it('knows a key by the hash that sha256sum gives, which is no key itself', () => {
    // FIPS 180-2, B.1: the SHA-256 of "abc".
    const sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
    const ring = createKeyring([{ sha256 }]);
    expect(ring.find('abc')).toBeDefined();
    // The hash itself opens nothing.
    expect(ring.find(sha256)).toBeUndefined();
  });

  it('compares a few of very many keys, and at least one where none is right', () => {
    const keys = Array.from({ length: 40_000 }, (_, index) => ({ sha256: hashOf(`key-${index}`), index }));
    let compared = 0;
    let most = 0;
    const ring = createKeyring(keys, (one, other) => {
      compared += 1;
      return timingSafeEqual(one, other);
    });
    for (const { index } of keys.slice(0, 2000)) {
      compared = 0;
      expect(ring.find(`key-${index}`)?.index).toBe(index);
      most = Math.max(most, compared);
    }
    // 65,536 slots: some have several.
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThan(12);
    for (let index = 0; index < 200; index += 1) {
      compared = 0;
      expect(ring.find(`nobody-${index}`)).toBeUndefined();
      expect(compared).toBeGreaterThan(0);
    }
  });

  it('goes on comparing behind the key that it has found', () => {
    // Equal hashes share a slot.
    const twice = [
      { sha256: hashOf('one'), name: 'first' },
      { sha256: hashOf('one'), name: 'second' },
    ];
    let compared = 0;
    const ring = createKeyring(twice, (one, other) => {
      compared += 1;
      return timingSafeEqual(one, other);
    });
    ring.find('one');
    expect(compared).toBe(2);
  });
});
