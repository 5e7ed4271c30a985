import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLineSplitter, type InputLine } from '../../../../src/batch/input/line-splitter.ts';

interface Seen extends Omit<InputLine, 'text'> {
  readonly text?: string;
}

/** @param cuts places between chunks */
function split(file: Buffer, cuts: readonly number[] = [], maxLineBytes = 1000): Seen[] {
  const splitter = createLineSplitter(maxLineBytes);
  const places = [...new Set([0, ...cuts.filter((cut) => cut < file.length), file.length])].toSorted((a, b) => a - b);
  const seen: Seen[] = [];
  const keep = (lines: Iterable<InputLine>) => {
    for (const { text, ...line } of lines) seen.push(text === undefined ? line : { ...line, text: text.toString() });
  };
  for (let i = 0; i + 1 < places.length; i += 1) {
    const chunk = Buffer.from(file.subarray(places[i], places[i + 1]));
    keep(splitter.push(chunk));
    // Readers of files use their buffers again.
    chunk.fill(0x58);
  }
  keep(splitter.end());
  expect(splitter.bytes).toBe(file.length);
  return seen;
}

const texts = (file: string, cuts: readonly number[] = []) => split(Buffer.from(file), cuts).map(({ text }) => text);
const everywhere = (length: number) => Array.from({ length }, (_, at) => at);

describe('createLineSplitter', () => {
  it('C169 a CR before LF goes with it, though a read ends between them; a CR elsewhere and U+2028 end no line', () => {
    const file = '{"a":"x\\r\\ny"}\r\n{"b":"\u2028"}\r\n{"c":\r1}\r\n';
    for (const cuts of [[], everywhere(Buffer.byteLength(file)), [file.indexOf('\r\n') + 1]])
      expect(texts(file, cuts)).toEqual(['{"a":"x\\r\\ny"}', '{"b":"\u2028"}', '{"c":\r1}']);
  });

  it('C170 blank lines are no lines but count, and the last one needs no end', () => {
    const seen = split(Buffer.from('line1\n\n  \nline2'));
    expect(seen).toEqual([
      { line: 1, at: 0, bytes: 5, text: 'line1' },
      { line: 4, at: 10, bytes: 5, text: 'line2' },
    ]);
    expect(texts('\n\n')).toEqual([]);
    expect(texts('')).toEqual([]);
    expect(texts('a\r')).toEqual(['a']);
  });

  it('leaves a byte-order mark out of the first line, and only there', () => {
    const file = Buffer.from('\ufeff{}\n\ufeff{}\n');
    for (const cuts of [[], everywhere(file.length)])
      expect(split(file, cuts)).toEqual([
        { line: 1, at: 3, bytes: 2, text: '{}' },
        { line: 2, at: 6, bytes: 5, text: '\ufeff{}' },
      ]);
  });

  it('tells bad UTF-8 by its line, and UTF-16 by its name', () => {
    const bad = Buffer.concat([Buffer.from('ok\n'), Buffer.from([0x22, 0xc3, 0x28, 0x22, 0x0a]), Buffer.from('ok')]);
    expect(split(bad).map(({ line, fault }) => [line, fault])).toEqual([
      [1, undefined],
      [2, 'not_utf8'],
      [3, undefined],
    ]);
    expect(split(Buffer.from('\ufeff{}', 'utf16le'))[0]).toMatchObject({ line: 1, fault: 'utf16' });
  });

  it('C180 tells the size of a line that is too long, and goes on behind it', () => {
    const file = Buffer.from(`short\n${'x'.repeat(5000)}\r\nshort\r\n`);
    for (const cuts of [[], everywhere(file.length), [6, 900, 2000, 5006, 5007]])
      expect(split(file, cuts)).toEqual([
        { line: 1, at: 0, bytes: 5, text: 'short' },
        { line: 2, at: 6, bytes: 5000, fault: 'too_long' },
        { line: 3, at: 5008, bytes: 5, text: 'short' },
      ]);
  });

  it('C180 leaves a mark out of a first line that is too long, too', () => {
    const file = Buffer.from(`\ufeff${'x'.repeat(3000)}\n`);
    for (const cuts of [[], everywhere(file.length), [1, 2, 1500]])
      expect(split(file, cuts)).toEqual([{ line: 1, at: 3, bytes: 3000, fault: 'too_long' }]);
  });

  it('takes a line of the very limit, with any end and any cut', () => {
    const exact = 'y'.repeat(1000);
    for (const end of ['', '\n', '\r\n']) {
      const file = Buffer.from(`\ufeff${exact}${end}`);
      for (const cuts of [[], [1003], [1004], everywhere(file.length)])
        expect(split(file, cuts)).toEqual([{ line: 1, at: 3, bytes: 1000, text: exact }]);
      const longer = Buffer.from(`${exact}y${end}`);
      for (const cuts of [[], [1001], everywhere(longer.length)])
        expect(split(longer, cuts)).toEqual([{ line: 1, at: 0, bytes: 1001, fault: 'too_long' }]);
    }
  });

  it('finds the same lines whatever the cuts, where they stand in the file', () => {
    const piece = fc.constantFrom('a', '{"x":1}', '\n', '\r\n', '\r', ' ', 'ü', '\u2028', '\ufeff', 'z'.repeat(15));
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 40 }),
        fc.array(fc.nat(300), { maxLength: 20 }),
        fc.boolean(),
        (pieces, cuts, bad) => {
          const text = Buffer.from(pieces.join(''));
          const file = bad ? Buffer.concat([text, Buffer.from([0xff])]) : text;
          const whole = split(file, [], 20);
          expect(split(file, cuts, 20)).toEqual(whole);
          expect(split(file, everywhere(file.length), 20)).toEqual(whole);
          for (const line of whole) {
            const inFile = file.subarray(line.at, line.at + line.bytes).toString();
            if (line.text !== undefined) expect(line.text).toBe(inFile);
          }
        },
      ),
      { numRuns: 1000 },
    );
  });
});
