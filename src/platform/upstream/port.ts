/**
 * The port to a model server: one HTTP/1.1 exchange, its body handed over read by read as it arrives.
 * Implementations: `h1-client.ts` (own reader) and `undici-client.ts`; both must tell the same story on the same bytes.
 */

export type FaultKind =
  /** name did not resolve */
  | 'dns'
  /** nothing listens, host unreachable */
  | 'refused'
  | 'connect_timeout'
  | 'tls'
  /** the connection was reset */
  | 'reset'
  /** the connection ended before the response did (FIN before the last byte by its framing) */
  | 'eof'
  /** bytes that are not valid HTTP/1.1, or that would be ambiguous (smuggling defence) */
  | 'bad_response'
  /** aborted by us */
  | 'aborted';

export interface UpstreamFault {
  readonly kind: FaultKind;
  /** For logs and error messages; names addresses, never contents. */
  readonly detail: string;
  /** No byte of the request was handed to a connection that was known to be open: safe to send elsewhere. */
  readonly nothingSent: boolean;
  /** The connection came from the idle pool. */
  readonly reused: boolean;
  /** At least one response byte had arrived. */
  readonly responseStarted: boolean;
}

export interface UpstreamHead {
  readonly status: number;
  readonly reason: string;
  /** Names and values in turn, as received (no folding, duplicates kept, original case). */
  readonly rawHeaders: readonly string[];
  readonly httpVersion: '1.0' | '1.1';
  /** How the body's end is known. */
  readonly framing: 'chunked' | 'length' | 'close' | 'none';
  /** For `length`. */
  readonly contentLength?: number;
}

/**
 * One socket read's share of the body. The object and its arrays are reused: valid only during the call.
 * `wire.subarray(wireStart, wireEnd)` are the bytes as they came, chunk framing included;
 * segment i of the payload is `wire.subarray(starts[i], ends[i])`.
 */
export interface BodyRead {
  wire: Buffer;
  wireStart: number;
  wireEnd: number;
  /** Number of payload segments. */
  count: number;
  starts: number[];
  ends: number[];
  /** Sum of the segments' lengths. */
  payloadBytes: number;
  /**
   * The wire bytes are whole, plain chunks (begin and end at a chunk border, no extension, no last chunk among them):
   * they may be passed on verbatim to an HTTP/1.1 client under chunked coding. False for other framings.
   */
  verbatim: boolean;
  /** Nothing of the body comes behind these bytes: the end, or its trailers, will be told next, mostly of the same read. */
  last: boolean;
  /**
   * The memory of `wire` will be reused after the call unless `retain()` is called during it.
   * Call it when the bytes are still referenced after the call (a write that did not complete at once).
   */
  retain(): void;
}

export interface UpstreamHandler {
  /** A connection is there (fresh, or from the pool). Called once per exchange. */
  connected(info: { readonly reused: boolean; readonly address: string }): void;
  /** The whole request was handed to the socket. */
  sent(): void;
  /** 1xx responses other than 101 are swallowed. */
  head(head: UpstreamHead): void;
  body(read: BodyRead): void;
  /** The response ended as its framing says. `trailers` are raw names and values. */
  end(trailers: readonly string[]): void;
  /** Called instead of `end`, once, nothing follows it. Never called after `abort()` returned. */
  fault(fault: UpstreamFault): void;
}

/** Request body: whole and held (may be sent again), or a stream that can be sent once. */
export type RequestBody =
  | { readonly kind: 'none' }
  | { readonly kind: 'held'; readonly chunks: readonly Buffer[]; readonly bytes: number }
  | {
      readonly kind: 'stream';
      /** Known length; undefined: sent with chunked coding. */
      readonly bytes: number | undefined;
      /** Starts the flow; the source calls `write` for each piece (false: wait for `drained`), then `end`. */
      start(sink: BodySink): void;
      /** The sink is ready for more after `write` returned false. */
      drained(): void;
    };

export interface BodySink {
  /** Once the exchange is over it takes and drops everything; `drained` then comes at the latest with the response's end. */
  write(chunk: Buffer): boolean;
  end(): void;
  /** The client's upload broke: the exchange is aborted. */
  fail(): void;
}

export interface UpstreamRequest {
  readonly method: string;
  /** Origin-form target: path with query. */
  readonly target: string;
  /**
   * Names and values in turn. Must not hold Host, Connection, Content-Length, Transfer-Encoding or Expect:
   * the client writes Host from the target's authority and the framing from `body`.
   */
  readonly headers: readonly string[];
  readonly body: RequestBody;
  /** Use a new connection, not the pool (second try after a stale one). */
  readonly fresh: boolean;
  /** 0: no limit. */
  readonly connectTimeoutMs: number;
  /**
   * False: the server is known to close after a stream or an error answer whatever it announced (R01), so the connection
   * is not kept after a chunked response or a status from 400. Default true.
   */
  readonly reuseAfterStream?: boolean;
}

export interface Exchange {
  /** Stop reading from the backend (back-pressure). What the read at hand has brought is still handed over. */
  pause(): void;
  resume(): void;
  /** Destroys the connection at once (full close, never half); no handler call follows. Idempotent. */
  abort(): void;
}

export interface UpstreamTarget {
  /** `http` or `https`. */
  readonly secure: boolean;
  readonly host: string;
  readonly port: number;
  /** Value for the Host header: brackets for IPv6 literals, port unless default. */
  readonly authority: string;
  readonly tls?: { readonly ca?: string; readonly serverName?: string; readonly verify: boolean };
}

export interface UpstreamClient {
  /** Starts one exchange. Handler calls come asynchronously, never before this returns. */
  open(target: UpstreamTarget, request: UpstreamRequest, handler: UpstreamHandler): Exchange;
  /** Open connections, idle and busy, for the admin page and leak tests. */
  stats(): { readonly idle: number; readonly busy: number };
  /** Closes idle connections now and each busy one when its exchange ends. */
  close(): void;
}
