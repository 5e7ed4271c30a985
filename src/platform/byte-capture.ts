/**
 * Copies one span of a byte stream that arrives in chunks, up to a bound: the little that must be read of a body
 * which otherwise is never copied. Knows nothing of what the bytes mean.
 */

export interface ByteCapture {
  /** Starts a span at index `at` of the current chunk. @param maxBytes a longer span is not kept; 0 keeps nothing */
  begin(at: number, maxBytes: number): void;
  /** The current chunk is over, the next one begins at index 0. */
  carry(chunk: Buffer): void;
  /** Ends the span before index `at` of the current chunk. Undefined: longer than its bound. */
  end(chunk: Buffer, at: number): Buffer | undefined;
}

export function createByteCapture(): ByteCapture {
  return new Capture();
}

/** Shared: an array of its own, even an empty one, is dear to the garbage collector. */
const nothing = Buffer.alloc(0);

/** A class: one is made for each body, and its calls cost no closures. */
class Capture implements ByteCapture {
  #active = false;
  #from = 0;
  #maxBytes = 0;
  #fits = true;
  #kept: Buffer = nothing;
  #keptBytes = 0;

  begin(at: number, maxBytes: number): void {
    this.#active = maxBytes > 0;
    this.#from = at;
    this.#maxBytes = maxBytes;
    this.#fits = maxBytes > 0;
    this.#keptBytes = 0;
  }

  carry(chunk: Buffer): void {
    if (!this.#active) return;
    if (this.#from < chunk.length) this.#keep(chunk, this.#from, chunk.length);
    this.#from = 0;
  }

  end(chunk: Buffer, at: number): Buffer | undefined {
    if (!this.#active) return undefined;
    this.#active = false;
    if (this.#keptBytes === 0 && this.#fits)
      return at - this.#from <= this.#maxBytes ? copied(chunk, this.#from, at) : undefined;
    this.#keep(chunk, this.#from, at);
    return this.#fits ? copied(this.#kept, 0, this.#keptBytes) : undefined;
  }

  #keep(chunk: Buffer, from: number, to: number): void {
    const bytes = this.#keptBytes + to - from;
    if (!this.#fits || bytes > this.#maxBytes) {
      this.#fits = false;
      return;
    }
    if (bytes > this.#kept.length) {
      const wider = Buffer.allocUnsafe(Math.min(this.#maxBytes, Math.max(64, 2 * bytes)));
      this.#kept.copy(wider, 0, 0, this.#keptBytes);
      this.#kept = wider;
    }
    chunk.copy(this.#kept, this.#keptBytes, from, to);
    this.#keptBytes = bytes;
  }
}

function copied(bytes: Buffer, from: number, to: number): Buffer {
  const copy = Buffer.allocUnsafe(to - from);
  bytes.copy(copy, 0, from, to);
  return copy;
}
