import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createPieceBook, encode, pieceId, splitPieces } from '../../../src/sim/tokenizer.ts';

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.string({
    unit: fc.constantFrom(' ', 'a', 'Z', '7', '\n', '.', '<|', '|>', '<|im_end|>', '你', '😀', '\u0000', 'word'),
    maxLength: 120,
  }),
);

describe('toy tokeniser', () => {
  it('cuts any text into pieces that joined give the text, each with its own id', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const pieces = splitPieces(text);
        expect(pieces.join('')).toBe(text);
        expect(pieces.every((piece) => piece.length > 0)).toBe(true);
        expect([...encode(text)]).toEqual(pieces.map(pieceId));
      }),
      { numRuns: 1000 },
    );
  });

  it('gives equal beginnings of texts equal beginnings of tokens, but for the last one', () => {
    fc.assert(
      fc.property(anyText, anyText, (head, tail) => {
        const alone = encode(head);
        const together = encode(head + tail);
        const kept = Math.max(0, alone.length - 1);
        // A mark that was still open, or a blank that finds its word, may be read anew: at most the last few pieces.
        const open =
          head.lastIndexOf('<|') >= 0 && head.length - head.lastIndexOf('<|') < 32
            ? encode(head.slice(0, head.lastIndexOf('<|'))).length - 1
            : kept;
        const sure = Math.max(0, Math.min(kept, open));
        expect([...together.subarray(0, sure)]).toEqual([...alone.subarray(0, sure)]);
      }),
      { numRuns: 1000 },
    );
  });

  it('takes a special token as one, and about four bytes of prose a token', () => {
    expect(splitPieces('<|im_start|>user\nhi there <|im_end|>')).toEqual([
      '<|im_start|>',
      'user',
      '\n',
      'hi',
      ' there',
      ' ',
      '<|im_end|>',
    ]);
    const prose =
      'A proxy stands between a client and a model server. It reads each request, picks a server whose cache already holds the same beginning, and passes the answer on. ';
    expect(prose.length / encode(prose).length).toBeGreaterThan(3.5);
    expect(prose.length / encode(prose).length).toBeLessThan(6);
  });

  it('cuts long words, numbers and wide characters', () => {
    expect(splitPieces('internationalisation 1234567 你好😀')).toEqual([
      'internatio',
      'nalisation',
      ' 123',
      '456',
      '7',
      ' 你',
      '好',
      '😀',
    ]);
  });

  it('turns ids back into text while it remembers them', () => {
    const book = createPieceBook(3);
    const ids = [...book.remember('one two three')];
    expect(book.decode(ids)).toBe('one two three');
    book.remember(' four');
    expect(book.decode(ids)).toBe('\ufffd two three');
  });
});
