/**
 * Small pieces on their way to a shelf, put together in one buffer that is used again and again: a large upload leaves no copies of
 * itself to the collector (C179). Knows nothing of where they go.
 */
export interface Gathering {
  /** Resolves when `chunk` may be used again: what was full is put by then. One call at a time. @throws what `put` throws */
  add(chunk: Uint8Array): Promise<void>;
  /** Puts what is left, if anything. */
  flush(): Promise<void>;
}

/**
 * @param size of what is put, or a multiple of it; the last one may be smaller
 * @param put may read its piece until it resolves, no longer
 */
export function createGathering(size: number, put: (piece: Buffer) => Promise<void>): Gathering {
  let buffer: Buffer | undefined;
  let used = 0;

  async function flush(): Promise<void> {
    if (buffer === undefined || used === 0) return;
    const piece = buffer.subarray(0, used);
    used = 0;
    await put(piece);
  }

  return {
    async add(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
      for (let at = 0; at < bytes.length;) {
        const left = bytes.length - at;
        if (used === 0 && left >= size) {
          const whole = left - (left % size);
          await put(bytes.subarray(at, at + whole));
          at += whole;
          continue;
        }
        buffer ??= Buffer.allocUnsafeSlow(size);
        const copied = bytes.copy(buffer, used, at, at + size - used);
        used += copied;
        at += copied;
        if (used === size) await flush();
      }
    },
    flush,
  };
}
