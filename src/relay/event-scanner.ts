/**
 * What the two scanners (event streams, lines of JSON) have in common: where an event lies in the bytes of one push.
 * A scanner only reads; it never holds more than one event, and never decides what an event means.
 */

/**
 * One whole event.
 * `[dataStart, dataEnd)` of `data` is its value: several data lines are joined by LF, a JSON line comes without its line
 * end. `data` is the pushed buffer, or the scanner's own when the event came in pieces: valid during the call only.
 * @param name value of the `event:` line, or ''
 * @param rawStart where its bytes begin in the pushed buffer; the start of the push when it began earlier, and then
 *   `heldBefore` says how many of its bytes came in earlier pushes
 * @param rawEnd just after its terminator in the pushed buffer (see `trailingLf`)
 */
export type EventSink = (
  data: Buffer,
  dataStart: number,
  dataEnd: number,
  name: string,
  rawStart: number,
  rawEnd: number,
) => void;

export interface ScannerSettings {
  /** Largest event, terminator included, that is told; a larger one is passed over, and nothing of it is kept. */
  readonly maxEventBytes: number;
}

export interface EventScanner {
  /** The next bytes of the stream, `[start, end)` of `buffer`; cut anywhere. Events are told before this returns. */
  push(buffer: Buffer, start: number, end: number): void;
  /**
   * The stream is over: an event whose terminator never came is told (C015), with `heldBefore` bytes and an empty raw
   * extent (0, 0), since there is no push that it could lie in.
   */
  end(): void;
  /** The next byte begins a new event or comment: foreign bytes may stand here. */
  readonly atBoundary: boolean;
  /** Bytes of the unfinished event so far; 0 between events, in a comment, and in an event that was given up. */
  readonly pendingBytes: number;
  /** Valid during a call of the sink: bytes of this event that came in earlier pushes. */
  readonly heldBefore: number;
  /**
   * 1 when the first byte of the latest push is the LF of the CRLF that ended the event told last, just before: it belongs
   * to that event, so who cut the event out must cut this byte too. Never 1 for anything else.
   */
  readonly trailingLf: number;
}
