/** Opens a listener on Node's HTTP server for a Hono app, with the limits that a streaming server needs. */
import { getRequestListener } from '@hono/node-server';
import http, { type Server } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { noteExpectation } from './expectation.ts';
import { noteRefused } from './refused.ts';
import type { ListenSettings } from './settings.ts';
import { onUpgrade, type UpgradeListener } from './upgrade.ts';

export interface ListenerOptions {
  readonly listen: ListenSettings;
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly requestHeadMs: number;
  readonly requestMs: number;
  readonly halfClose: 'abort' | 'finish';
  readonly upgrade?: UpgradeListener;
  /** Takes a request before the app is asked, whatever its Host and target look like; false: it is the app's. */
  readonly take?: (incoming: http.IncomingMessage, outgoing: http.ServerResponse) => boolean;
}

/** A Hono app, whatever its bindings. */
export interface FetchApp {
  fetch(request: Request, env: never): Response | Promise<Response>;
}

export interface Listener {
  readonly host: string;
  readonly port: number;
  /** Stops accepting; resolves when every connection is closed. Idle ones are closed at once. */
  close(): Promise<void>;
  /** Closes the connections on which nothing is under way. */
  closeIdle(): void;
  /** Destroys every connection. */
  destroy(): void;
}

/** Longer than the 60 s after which usual load balancers drop idle connections, so that they close first. */
const keepAliveMs = 75_000;
const keepAliveProbeMs = 60_000;
const maxHeadBytes = 64 * 1024;

/** @throws the system's error when the address can't be had (EADDRINUSE, EACCES, …) */
export function openListener(app: FetchApp, options: ListenerOptions): Promise<Listener> {
  const handle = getRequestListener((request, env) => app.fetch(request, env as never), {
    hostname: 'localhost',
    overrideGlobalObjects: false,
    autoCleanupIncoming: false,
  });
  const limits = {
    headersTimeout: options.requestMs > 0 ? Math.min(options.requestHeadMs, options.requestMs) : options.requestHeadMs,
    requestTimeout: options.requestMs,
    keepAliveTimeout: keepAliveMs,
    connectionsCheckingInterval: 1000,
    maxHeaderSize: maxHeadBytes,
    noDelay: true,
    // A client whose host vanished while it waits says nothing: the kernel asks.
    keepAlive: true,
    keepAliveInitialDelay: keepAliveProbeMs,
  };
  const listener = (incoming: http.IncomingMessage, outgoing: http.ServerResponse) => {
    if (options.take?.(incoming, outgoing) !== true) void handle(incoming, outgoing);
  };
  const server =
    options.tls === undefined
      ? http.createServer(limits, listener)
      : https.createServer({ ...limits, cert: options.tls.cert, key: options.tls.key }, listener);
  if (options.halfClose === 'finish') Object.assign(server, { httpAllowHalfOpen: true });
  server.on('checkContinue', (incoming: http.IncomingMessage, outgoing: http.ServerResponse) => {
    noteExpectation(incoming);
    listener(incoming, outgoing);
  });
  server.on('clientError', refuseBadRequest);
  if (options.upgrade !== undefined) onUpgrade(server, options.upgrade);
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.listen.port, options.listen.host, () => {
      server.off('error', reject);
      const { address, port } = server.address() as AddressInfo;
      resolve({
        host: address,
        port,
        close: () => new Promise((closed) => server.close(() => closed())),
        closeIdle: () => (server as Server).closeIdleConnections(),
        destroy: () => (server as Server).closeAllConnections(),
      });
    });
  });
}

/** A client that doesn't close after its refusal is dropped after this: it may still be sending, and reading nothing. */
const refusedGraceMs = 1000;

/** What Node's parser refuses never reaches a route; it is answered here, in the usual error shape. */
function refuseBadRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  const outgoing = responseOn(socket);
  // An answer on its way: whatever is written now would be taken for a part of it.
  if (!socket.writable || error.code === 'ECONNRESET' || outgoing?.headersSent === true) {
    socket.destroy();
    return;
  }
  const [status, reason, message]: readonly [number, string, string] =
    error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
      ? [408, 'Request Timeout', 'The request did not arrive in time (deadlines.requestHeadMs, deadlines.requestMs).']
      : error.code === 'HPE_HEADER_OVERFLOW'
        ? [431, 'Request Header Fields Too Large', `The request head is larger than ${maxHeadBytes} bytes.`]
        : [400, 'Bad Request', 'The request is not valid HTTP.'];
  const body = JSON.stringify({
    error: { message, type: 'invalid_request_error', param: null, code: 'bad_http', source: 'warmlane' },
  });
  // A FIN in the middle of a request is its client's leaving, not its mistake.
  if (outgoing !== undefined && error.code !== 'HPE_INVALID_EOF_STATE') {
    noteRefused(outgoing, { status, reason: status === 408 ? 'request_timeout' : 'bad_http' });
  }
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  const grace = setTimeout(() => socket.destroy(), refusedGraceMs);
  grace.unref();
  socket.once('close', () => clearTimeout(grace));
}

/** The response that has this connection now; Node tells it nowhere else. */
function responseOn(
  socket: Socket & { readonly _httpMessage?: http.ServerResponse | null },
): http.ServerResponse | undefined {
  return socket._httpMessage ?? undefined;
}
