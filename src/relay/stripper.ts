/**
 * Takes the usage event out again that warmlane itself asked for (decision 3), and nothing else.
 * Bytes of an unfinished event are held back only after a first finish reason was seen, so no token ever waits.
 * Offsets are of the payload of the present read; a negative start reaches into what is held back.
 */

export interface Stripper {
  /** A read's payload, segment by segment in order, before its events are told. */
  segment(wire: Buffer, start: number, end: number): void;
  /** Offset in the present read's payload of a wire offset inside the segment told last. */
  offsetOf(wireOffset: number): number;
  /** The event in [start, end) goes; it is cut only as far as it was not passed on yet. */
  cut(start: number, end: number): void;
  /** The single byte at this offset still belongs to the event that was cut last. */
  cutStray(at: number): void;
  /** After a finish reason: unfinished events are held back from now on. */
  holdFromNow(): void;
  /**
   * The read is told. @param pendingBytes bytes at its end that belong to an unfinished event
   * @returns the payload to pass on, or undefined when the read may pass exactly as it came
   */
  finishRead(pendingBytes: number): readonly Buffer[] | undefined;
  /** The stream is over: what is still held back. */
  rest(): Buffer | undefined;
}

/** Numbers that a stream keeps room for between reads. */
const mostKept = 64;

export function createStripper(): Stripper {
  let held: Buffer | undefined;
  let holding = false;
  let payloadBytes = 0;
  let segmentAt = 0;
  let segmentStart = 0;
  let wireOfRead: Buffer | undefined;
  /**
   * Start and end of each segment in the wire: numbers, since the common read needs no slice at all. With room for one segment,
   * and written over: filling and emptying a list for each token costs more than all else here.
   */
  let borders = [0, 0];
  let borderCount = 0;
  const spans: number[] = [];

  return {
    segment(wire, start, end) {
      segmentAt = payloadBytes;
      segmentStart = start;
      payloadBytes += end - start;
      wireOfRead = wire;
      borders[borderCount] = start;
      borders[borderCount + 1] = end;
      borderCount += 2;
    },
    offsetOf: (wireOffset) => segmentAt + wireOffset - segmentStart,
    cut(start, end) {
      spans.push(Math.max(start, -(held?.length ?? 0)), end);
    },
    cutStray(at) {
      // Its event ended in the read before, so it stands before everything that was cut in this one.
      spans.unshift(at, at + 1);
    },
    holdFromNow() {
      holding = true;
    },
    finishRead(pendingBytes) {
      const hold = holding ? pendingBytes : 0;
      const untouched = held === undefined && spans.length === 0 && hold === 0;
      const out = untouched ? undefined : pass(hold);
      wireOfRead = undefined;
      borderCount = 0;
      if (borders.length > mostKept) borders = [0, 0];
      if (spans.length > 0) spans.length = 0;
      payloadBytes = 0;
      return out;
    },
    rest() {
      const last = held;
      held = undefined;
      return last;
    },
  };

  function pass(hold: number): readonly Buffer[] {
    const before = held?.length ?? 0;
    const pieces: Buffer[] = held === undefined ? [] : [held];
    for (let i = 0; i < borderCount; i += 2) {
      if (wireOfRead !== undefined) pieces.push(wireOfRead.subarray(borders[i], borders[i + 1]));
    }
    const all = Buffer.concat(pieces);
    const keep = Math.min(hold, all.length);
    const limit = all.length - keep;
    const out: Buffer[] = [];
    let at = 0;
    for (let i = 0; i + 1 < spans.length; i += 2) {
      const start = (spans[i] ?? 0) + before;
      if (start > at) out.push(all.subarray(at, Math.min(start, limit)));
      at = Math.max(at, (spans[i + 1] ?? 0) + before);
    }
    if (limit > at) out.push(all.subarray(at, limit));
    held = keep > 0 ? all.subarray(limit) : undefined;
    return out;
  }
}
