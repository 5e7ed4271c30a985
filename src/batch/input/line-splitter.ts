/**
 * Cuts the bytes of an input file into its lines as they come. A line ends with LF; a CR in front of it goes with it, one
 * elsewhere is the line's own (C169), and so are U+2028 and its like. Holds one line at most, and none that is too long (C180).
 * Knows nothing of JSON. Same lines whatever the cuts.
 */
import { isUtf8 } from 'node:buffer';

export type LineFault = 'too_long' | 'not_utf8' | 'utf16';

export interface InputLine {
  /** Physical line, from 1; blank ones count. */
  readonly line: number;
  /** First byte in the file, behind a byte-order mark. */
  readonly at: number;
  /** Without the line's end. */
  readonly bytes: number;
  /** Good only until the next line is asked for. Absent where there is a fault. */
  readonly text?: Buffer;
  readonly fault?: LineFault;
}

export interface LineSplitter {
  /** Lines that end in this chunk; those of blanks alone are left out. To be gone through before the next call. */
  push(chunk: Uint8Array): Iterable<InputLine>;
  /** What stands behind the last LF. */
  end(): Iterable<InputLine>;
  /** Of the whole file so far. */
  readonly bytes: number;
}

const LF = 0x0a;
const CR = 0x0d;
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

export function createLineSplitter(maxLineBytes: number): LineSplitter {
  return new Splitter(maxLineBytes);
}

class Splitter implements LineSplitter {
  bytes = 0;
  readonly #maxBytes: number;
  #line = 1;
  /** Where the line at hand begins. */
  #at = 0;
  /** Its pieces from earlier chunks, and their bytes; none are kept of one that is too long. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #tooLong = false;
  /** Of a line that isn't kept. */
  #markBytes = 0;
  /** Its last byte so far is a CR: of a line that isn't kept this can't be looked up. */
  #endsInCr = false;

  constructor(maxLineBytes: number) {
    this.#maxBytes = maxLineBytes;
  }

  *push(chunk: Uint8Array): Iterable<InputLine> {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let from = 0;
    for (;;) {
      const end = bytes.indexOf(LF, from);
      if (end < 0) break;
      const line = this.#close(bytes, from, end);
      this.#begin(end + 1);
      if (line !== undefined) yield line;
      from = end + 1;
    }
    if (from < bytes.length) this.#hold(bytes, from);
    this.bytes += bytes.length;
  }

  *end(): Iterable<InputLine> {
    if (this.bytes === this.#at) return;
    const line = this.#close(nothing, 0, 0);
    this.#begin(0);
    if (line !== undefined) yield line;
  }

  /** @param offset from this chunk's beginning */
  #begin(offset: number): void {
    this.#line += 1;
    this.#at = this.bytes + offset;
    this.#held = [];
    this.#heldBytes = 0;
    this.#tooLong = false;
    this.#endsInCr = false;
  }

  #hold(chunk: Buffer, from: number): void {
    this.#heldBytes += chunk.length - from;
    this.#endsInCr = chunk[chunk.length - 1] === CR;
    if (this.#tooLong) return;
    // A copy: whoever reads files may use its buffer again.
    this.#held.push(Buffer.from(chunk.subarray(from)));
    // A byte more may be of its end, three more a mark.
    if (this.#heldBytes <= this.#maxBytes + 1 + byteOrderMark.length) return;
    this.#tooLong = true;
    this.#markBytes = this.#markOf(Buffer.concat(this.#held));
    this.#held = [];
  }

  /** The first line may begin with a mark, which isn't the line's. */
  #markOf(text: Buffer): number {
    const isMarked = this.#line === 1 && text.subarray(0, byteOrderMark.length).equals(byteOrderMark);
    return isMarked ? byteOrderMark.length : 0;
  }

  #close(chunk: Buffer, from: number, end: number): InputLine | undefined {
    const line = this.#line;
    const endsInCr = end > from ? chunk[end - 1] === CR : this.#endsInCr;
    const length = this.#heldBytes + end - from - (endsInCr ? 1 : 0);
    const rest = chunk.subarray(from, end);
    const whole = this.#tooLong || this.#held.length === 0 ? rest : Buffer.concat([...this.#held, rest]);
    const mark = this.#tooLong ? this.#markBytes : this.#markOf(whole);
    const at = this.#at + mark;
    const bytes = length - mark;
    if (bytes > this.#maxBytes) return { line, at, bytes, fault: 'too_long' };
    const text = whole.subarray(mark, length);
    if (isBlank(text)) return undefined;
    if (!isUtf8(text)) return { line, at, bytes, fault: line === 1 && isUtf16(text) ? 'utf16' : 'not_utf8' };
    return { line, at, bytes, text };
  }
}

const nothing = Buffer.alloc(0);

/** JSON's blanks alone. */
function isBlank(text: Buffer): boolean {
  for (const byte of text) if (byte !== 0x20 && byte !== 0x09 && byte !== CR) return false;
  return true;
}

/** Windows' editors call this Unicode. */
function isUtf16(text: Buffer): boolean {
  const [first, second] = text;
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff);
}
