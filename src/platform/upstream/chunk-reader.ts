/**
 * Chunked coding (RFC 9112 section 7.1) up to and with the last chunk's size line; trailers are read elsewhere.
 * Resumable at every byte (C022), copies nothing.
 */
import type { ReusedBodyRead } from './body-read.ts';
import { ChunkExtension } from './chunk-extension.ts';
import { CR, LF } from './head-lines.ts';

const maxExtensionBytes = 4 * 1024;
const maxChunkBytes = 2 ** 48;
/** Digits of a chunk size, leading zeros counted. */
const maxSizeDigits = 16;
/** A size of so many digits is a small integer, which the fast path relies on. */
const fastSizeDigits = 7;
const SEMICOLON = 59;

const State = {
  /** Between two chunks, no byte of the next size seen. */
  border: 0,
  size: 1,
  extension: 2,
  sizeLf: 3,
  data: 4,
  dataCr: 5,
  dataLf: 6,
  /** The last chunk's size line is read. */
  last: 7,
  bad: 8,
} as const;
type State = (typeof State)[keyof typeof State];

/** Value of each hexadecimal digit, 255 for every other byte. */
const hexDigits = new Uint8Array(256).fill(255);
for (let i = 0; i < 16; i += 1) {
  hexDigits[i.toString(16).charCodeAt(0)] = i;
  hexDigits[i.toString(16).toUpperCase().charCodeAt(0)] = i;
}

export class ChunkReader {
  problem = '';
  #state: State = State.border;
  /** Bytes still to come of the chunk's data; while its size is read, what the digits say so far. */
  #remaining = 0;
  #digits = 0;
  #extension = new ChunkExtension();

  begin(): void {
    this.#state = State.border;
  }

  get last(): boolean {
    return this.#state === State.last;
  }

  get bad(): boolean {
    return this.#state === State.bad;
  }

  /**
   * Puts the segments of all chunks in `buffer[start, end)` into `read`, whose `count` is 0 when there is no payload.
   * @returns the index of the first byte not taken: less than `end` only behind the last chunk, or at a byte refused
   */
  feed(buffer: Buffer, start: number, end: number, read: ReusedBodyRead): number {
    const { starts, ends } = read;
    let at = start;
    let count = 0;
    let payloadBytes = 0;
    /** So far this read holds whole plain chunks only. */
    let plain = true;
    /** Where the chunk began that is being read, if it began in this read. */
    let border = start;
    let plainToBorder = false;
    while (at < end && this.#state < State.last) {
      if (this.#state === State.border) {
        let size = 0;
        let p = at;
        const digitsEnd = Math.min(end, at + fastSizeDigits);
        while (p < digitsEnd) {
          const digit = hexDigits[buffer[p] ?? 0] ?? 255;
          if (digit > 15) break;
          size = (size << 4) | digit;
          p += 1;
        }
        const from = p + 2;
        const to = from + size;
        if (size > 0 && to + 2 <= end && isCrlf(buffer, p) && isCrlf(buffer, to)) {
          starts[count] = from;
          ends[count] = to;
          count += 1;
          payloadBytes += size;
          at = to + 2;
          continue;
        }
        border = at;
        plainToBorder = plain;
        this.#state = State.size;
        this.#remaining = 0;
        this.#digits = 0;
      }
      plain = false;
      if (this.#state === State.data) {
        const to = Math.min(end, at + this.#remaining);
        starts[count] = at;
        ends[count] = to;
        count += 1;
        payloadBytes += to - at;
        this.#remaining -= to - at;
        if (this.#remaining === 0) this.#state = State.dataCr;
        at = to;
      } else if (this.#framingByte(buffer[at] ?? 0)) at += 1;
    }
    // Of a read that reaches the last chunk only what stands before that chunk is handed on as wire bytes.
    const { last } = this;
    read.wire = buffer;
    read.wireStart = start;
    read.wireEnd = last ? border : at;
    read.count = count;
    read.payloadBytes = payloadBytes;
    read.verbatim = last ? plainToBorder : plain;
    read.last = last;
    return at;
  }

  /** One byte that is not data. @returns false when it was refused */
  #framingByte(byte: number): boolean {
    const state = this.#state;
    if (state === State.size) return this.#sizeByte(byte);
    if (state === State.extension) return this.#extensionByte(byte);
    if (state === State.sizeLf) {
      if (byte !== LF) return this.#refuse('an invalid chunk size line');
      this.#state = this.#remaining > 0 ? State.data : State.last;
    } else if (state === State.dataCr) {
      if (byte !== CR) return this.#refuse('a chunk longer than its size');
      this.#state = State.dataLf;
    } else {
      if (byte !== LF) return this.#refuse('a chunk longer than its size');
      this.#state = State.border;
    }
    return true;
  }

  #sizeByte(byte: number): boolean {
    const digit = hexDigits[byte] ?? 255;
    if (digit <= 15) {
      this.#remaining = this.#remaining * 16 + digit;
      this.#digits += 1;
      const fits = this.#remaining <= maxChunkBytes && this.#digits <= maxSizeDigits;
      return fits || this.#refuse('a chunk size that is too large');
    }
    if (this.#digits === 0 || (byte !== CR && byte !== SEMICOLON)) return this.#refuse('an invalid chunk size line');
    if (byte === CR) this.#state = State.sizeLf;
    else {
      this.#state = State.extension;
      this.#extension.begin();
    }
    return true;
  }

  #extensionByte(byte: number): boolean {
    const extension = this.#extension;
    if (byte === CR && extension.mayEnd) {
      this.#state = State.sizeLf;
      return true;
    }
    const fits = extension.take(byte) && extension.bytes <= maxExtensionBytes;
    return fits || this.#refuse('an invalid chunk extension');
  }

  #refuse(problem: string): false {
    this.problem = problem;
    this.#state = State.bad;
    return false;
  }
}

function isCrlf(buffer: Buffer, at: number): boolean {
  return buffer[at] === CR && buffer[at + 1] === LF;
}
