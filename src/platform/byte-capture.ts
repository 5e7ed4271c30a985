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
  let active = false;
  let from = 0;
  let maxBytes = 0;
  let fits = true;
  let kept = Buffer.alloc(0);
  let keptBytes = 0;

  function keep(piece: Buffer): void {
    if (!fits || keptBytes + piece.length > maxBytes) {
      fits = false;
      return;
    }
    if (keptBytes + piece.length > kept.length) {
      const wider = Buffer.allocUnsafe(Math.min(maxBytes, Math.max(64, 2 * (keptBytes + piece.length))));
      kept.copy(wider, 0, 0, keptBytes);
      kept = wider;
    }
    piece.copy(kept, keptBytes);
    keptBytes += piece.length;
  }

  return {
    begin(at, bound) {
      active = bound > 0;
      from = at;
      maxBytes = bound;
      fits = bound > 0;
      keptBytes = 0;
    },
    carry(chunk) {
      if (!active) return;
      if (from < chunk.length) keep(chunk.subarray(from));
      from = 0;
    },
    end(chunk, at) {
      if (!active) return undefined;
      active = false;
      if (keptBytes === 0 && fits) return at - from <= maxBytes ? Buffer.from(chunk.subarray(from, at)) : undefined;
      keep(chunk.subarray(from, at));
      return fits ? Buffer.from(kept.subarray(0, keptBytes)) : undefined;
    },
  };
}
