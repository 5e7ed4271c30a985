/**
 * Takes whole lines off a byte stream that may be cut anywhere: the lines of a head, or of trailers. Bounded, strict on CRLF.
 * Copies only a line of which a part came earlier. Must not know what the lines say.
 */
import { CR, LF } from './head-lines.ts';

export interface LineSink {
  /** One line without its CRLF. @returns false when no further line is wanted */
  line(bytes: Buffer, start: number, end: number): boolean;
}

export class LineReader {
  /** Set once the lines are to be refused; final until `begin`. */
  problem: 'too_long' | 'no_crlf' | undefined;
  #maxBytes = 0;
  /** Bytes of the whole lines so far. */
  #bytes = 0;
  /** A line of which only a part has come. */
  #stash: Buffer | undefined;
  #stashBytes = 0;

  /** @param maxBytes of all lines together, line ends included */
  begin(maxBytes: number): void {
    this.problem = undefined;
    this.#maxBytes = maxBytes;
    this.#bytes = 0;
    this.#stash = undefined;
    this.#stashBytes = 0;
  }

  /** The line of which only a part has come. */
  get partial(): Buffer | undefined {
    return this.#stash?.subarray(0, this.#stashBytes);
  }

  /** @returns the index behind the last line or part of a line that was taken */
  feed(buffer: Buffer, start: number, end: number, sink: LineSink): number {
    let at = start;
    let wanted = true;
    while (at < end && wanted && this.problem === undefined) {
      const lf = buffer.indexOf(LF, at);
      const whole = lf !== -1 && lf < end;
      const to = whole ? lf + 1 : end;
      if (this.#bytes + this.#stashBytes + to - at > this.#maxBytes) {
        this.problem = 'too_long';
      } else if (!whole) {
        this.#keep(buffer, at, end);
        at = end;
      } else {
        wanted = this.#stashBytes === 0 ? this.#take(buffer, at, lf, sink) : this.#takeStashed(buffer, at, lf, sink);
        at = to;
      }
    }
    if (!wanted) this.#stash = undefined;
    return at;
  }

  #take(bytes: Buffer, start: number, lf: number, sink: LineSink): boolean {
    this.#bytes += lf + 1 - start;
    if (lf > start && bytes[lf - 1] === CR) return sink.line(bytes, start, lf - 1);
    this.problem = 'no_crlf';
    return false;
  }

  #takeStashed(buffer: Buffer, start: number, lf: number, sink: LineSink): boolean {
    const stash = this.#keep(buffer, start, lf + 1);
    const bytes = this.#stashBytes;
    this.#stashBytes = 0;
    return this.#take(stash, 0, bytes - 1, sink);
  }

  #keep(buffer: Buffer, start: number, end: number): Buffer {
    const bytes = this.#stashBytes + (end - start);
    let stash = this.#stash;
    if (stash === undefined || stash.length < bytes) {
      const grown = Buffer.allocUnsafeSlow(Math.max(256, bytes * 2));
      stash?.copy(grown, 0, 0, this.#stashBytes);
      stash = grown;
      this.#stash = grown;
    }
    buffer.copy(stash, this.#stashBytes, start, end);
    this.#stashBytes = bytes;
    return stash;
  }
}
