/**
 * Routes of the data listener that warmlane answers by itself, as the folder behind them sees them: no Node request, no Hono.
 * `http/` makes one from what came and writes the reply.
 */
import type { Readable } from 'node:stream';

export interface RouteRequest {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly tenant: string;
  /** First value of a header by lower-case name. */
  header(name: string): string | undefined;
  /** As it comes; what is left unread is dropped. Errors with the client's leaving. */
  readonly body: Readable;
  /** Tells an `Expect: 100-continue` client to go on; before the first read of `body`. Without it, it need not send the body. */
  proceed(): void;
  /** From Content-Length; undefined under chunked coding. */
  readonly bytes: number | undefined;
  /** The client left. */
  readonly signal: AbortSignal;
  /** One of the requests that its tenant may have at one time, to be ended once; the answer where it has no more. */
  claim(): RouteClaim | RouteReply;
}

export interface RouteClaim {
  ended(): void;
}

export interface RouteReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A stream is destroyed when its client leaves. */
  readonly body: string | Readable;
}

export interface OwnRoutes {
  takes(method: string, path: string): boolean;
  answer(request: RouteRequest): Promise<RouteReply>;
}
