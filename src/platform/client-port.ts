/**
 * The port to whoever asked: an HTTP client behind a socket, or later a batch line.
 * The relay writes through it and learns of its leaving; it never sees Node's request and response objects.
 */
import type { Readable } from 'node:stream';

/** How the answer's end is told to the client. */
export type ClientFraming =
  | { readonly kind: 'stream' }
  | { readonly kind: 'length'; readonly bytes: number }
  /** HEAD, 204, 304: no body */
  | { readonly kind: 'none' };

/** Why a client was sent away before its request was complete. */
export interface ClientRefused {
  readonly status: number;
  /** Short machine word. */
  readonly reason: string;
}

export interface ClientPort {
  /** HTTP/1.1 with chunked coding: whole plain chunks may be passed on as they are. False until `head` was called. */
  readonly takesChunks: boolean;
  /** True once the client left before its answer was complete. */
  readonly gone: boolean;
  /** Set when it is gone because its request broke HTTP or came too late, and was answered so. */
  readonly refusedWith?: ClientRefused | undefined;
  /** Bytes accepted by `write…` that the client's kernel buffer has not taken yet. */
  readonly bufferedBytes: number;
  /** Called once when the client leaves early. At once when it already has. */
  onGone(listener: () => void): void;
  /** Called each time that the buffer has emptied after a `write…` returned false. */
  onDrain(listener: () => void): void;
  /**
   * Sends status and headers (raw names and values in turn; no framing header among them).
   */
  head(status: number, reason: string, rawHeaders: readonly string[], framing: ClientFraming): void;
  /** Until `uncork`, `end` or `cut`, writes are gathered, so that a head and its first bytes leave together. Takes back an `uncork`. */
  cork(): void;
  uncork(): void;
  /**
   * Whole chunks, framing included, exactly as they came. Only while `takesChunks`.
   * @returns false when the client is slow: wait for `onDrain`
   */
  writeChunks(wire: Buffer): boolean;
  /** Payload bytes; framed as one chunk where the framing needs it. @returns false when the client is slow */
  write(payload: Buffer): boolean;
  /** The answer is complete. */
  end(): void;
  /** Ends without a proper end: what was written is flushed, then the connection closes, so that the client can tell. */
  cut(): void;
}

/** What was asked, as received. */
export interface ClientHead {
  readonly requestId: string;
  readonly method: string;
  /** Origin-form target, path with query, exactly as received. */
  readonly target: string;
  readonly httpVersion: string;
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  /** First value of a header by lower-case name. */
  header(name: string): string | undefined;
  readonly remoteAddress: string;
  /** The client came by TLS. */
  readonly secure: boolean;
  readonly receivedMs: number;
}

/** The request's body as it comes in. */
export interface ClientUpload {
  /** Node's request stream or any other readable; unread bytes are dropped when the answer is done. */
  readonly stream: Readable;
  /** From Content-Length; undefined under chunked coding. 0: no body. */
  readonly bytes: number | undefined;
  /** Tells an `Expect: 100-continue` client to go on; once, before the first read. */
  proceed(): void;
}
