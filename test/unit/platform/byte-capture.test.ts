import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createByteCapture } from '../../../src/platform/byte-capture.ts';

describe('a captured span', () => {
  it('is the same bytes over any cut, or nothing when it is longer than its bound', () => {
    const span = fc.record({
      bytes: fc.uint8Array({ maxLength: 300 }),
      cuts: fc.array(fc.nat(300), { maxLength: 12 }),
      from: fc.nat(300),
      length: fc.nat(300),
      maxBytes: fc.nat(300),
    });
    fc.assert(
      fc.property(span, ({ bytes, cuts, from, length, maxBytes }) => {
        const begin = Math.min(from, bytes.length);
        const end = Math.min(begin + length, bytes.length);
        const capture = createByteCapture();
        const borders = [...new Set([...cuts.filter((cut) => cut < bytes.length), bytes.length])].toSorted(
          (a, b) => a - b,
        );
        let base = 0;
        let result: Buffer | undefined;
        for (const border of borders) {
          const chunk = Buffer.from(bytes.slice(base, border));
          // A span begins and ends in the first chunk that reaches so far, as a scanner sees it.
          if (begin >= base && begin <= border && (begin < border || begin === bytes.length))
            capture.begin(begin - base, maxBytes);
          if (end >= base && end <= border && end - begin >= 0 && (end < border || end === bytes.length)) {
            result = capture.end(chunk, end - base);
          }
          capture.carry(chunk);
          chunk.fill(0);
          base = border;
        }
        const expected = Buffer.from(bytes.slice(begin, end));
        if (maxBytes === 0 || expected.length > maxBytes) expect(result).toBeUndefined();
        else expect(result).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  it('can follow another, and keeps nothing of it', () => {
    const capture = createByteCapture();
    capture.begin(0, 10);
    capture.carry(Buffer.from('abc'));
    expect(capture.end(Buffer.from('de'), 2)?.toString()).toBe('abcde');
    capture.begin(1, 2);
    expect(capture.end(Buffer.from('xyz'), 3)?.toString()).toBe('yz');
    expect(capture.end(Buffer.from('xyz'), 3)).toBeUndefined();
  });
});
