/**
 * The seam between relay and measurement: the relay finds where events begin and end, the tap says what an event means.
 * Neither imports the other. A tap only reads: it must not keep the buffer past the call.
 */

/** Bits returned by `StreamTap.event`. */
export const EventFlag = {
  /** carries at least one token: text, reasoning, a tool-call delta, token ids, or vLLM's empty content after the role chunk */
  token: 1,
  /** carries a finish reason, or is the format's last content-bearing event */
  finish: 2,
  /** carries nothing but usage (`choices: []` with usage): strippable when warmlane asked for it */
  usageOnly: 4,
  /** the engine reports an error */
  error: 8,
  /** the format's end marker: `[DONE]`, `message_stop`, `response.completed`, `stop: true`, `done: true` */
  done: 16,
  /** role chunk, progress, created, ping: an event that says the engine is alive but is no token */
  sign: 32,
} as const;

export interface StreamError {
  readonly message: string;
  readonly type?: string;
  /** Numeric status if the engine gave one (vLLM, llama-server, SGLang). */
  readonly status?: number;
  /** The engine's own error object, whole, as JSON text of at most 16 KiB; for its client alone, never for a record or the log. */
  readonly body?: string;
}

export interface StreamTap {
  /** One socket read begins: every event in it shares `atMs` (monotonic). */
  beginRead(atMs: number): void;
  /**
   * One whole event. `[start, end)` is the value of its data lines (joined by LF when there were several; NDJSON: the line).
   * @param name value of the `event:` line, or '' (always '' in NDJSON)
   * @returns bits of `EventFlag`
   */
  event(data: Buffer, start: number, end: number, name: string): number;
  /** The read is over; coalesced events can be marked. */
  endRead(): void;
  /** The scanner met an event past its bound and passed it over unread; what follows is read again. Called once. */
  gaveUp(reason: 'event_too_large'): void;
  /** Set once an event carried `EventFlag.error`. */
  readonly error: StreamError | undefined;
}
