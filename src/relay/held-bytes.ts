/**
 * The bytes of one event that came in pieces, in one growing buffer with a bound. Knows nothing of events.
 */

const firstBytes = 1024;
/** A larger buffer is given back once its event is told. */
const keepBytes = 16 * 1024;
const nothing = Buffer.alloc(0);

export class HeldBytes {
  /** Holds `length` bytes; more may be allocated, never more than the bound. */
  buffer: Buffer = nothing;
  length = 0;
  readonly #maxBytes: number;

  /** @param maxBytes most that is ever held */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The caller has checked the bound. */
  append(from: Buffer, start: number, end: number): void {
    const needed = this.length + end - start;
    if (needed > this.#maxBytes) throw new RangeError(`${needed} bytes held, ${this.#maxBytes} allowed`);
    if (needed > this.buffer.length) {
      const size = Math.max(firstBytes, this.buffer.length * 2, needed);
      const larger = Buffer.allocUnsafeSlow(Math.min(this.#maxBytes, size));
      this.buffer.copy(larger, 0, 0, this.length);
      this.buffer = larger;
    }
    from.copy(this.buffer, this.length, start, end);
    this.length = needed;
  }

  clear(): void {
    this.length = 0;
    if (this.buffer.length > keepBytes) this.buffer = nothing;
  }
}
