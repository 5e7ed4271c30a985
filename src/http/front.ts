/**
 * From Node's request and response to the pipeline's ports. Keeps nothing, decides nothing.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { Pipeline } from '../pipeline.ts';
import type { ClientHead, ClientUpload } from '../platform/client-port.ts';
import type { Clock } from '../platform/clock.ts';
import { ClientResponse, type ClientResponseOptions } from './client-response.ts';
import { type CorsSettings, isPreflight, preflightHeaders, withOwnCors } from './cors.ts';
import { isOwnPath } from './data-app.ts';
import { meetExpectation } from './expectation.ts';
import type { OwnServer } from './own-server.ts';

export interface FrontDeps {
  readonly pipeline: Pick<Pipeline, 'serve'>;
  readonly clock: Clock;
  readonly makeId: () => string;
  readonly clientStallMs: number;
  readonly cors: CorsSettings;
  /** Routes that warmlane answers itself, beside its health answers; absent: they are the backends'. */
  readonly own?: OwnServer | undefined;
}

/** @returns takes a request: into the pipeline, or answers it as a preflight; false: its path is warmlane's own */
export function createFront(deps: FrontDeps): (incoming: IncomingMessage, outgoing: ServerResponse) => boolean {
  const { cors } = deps;
  const plain: ClientResponseOptions = { stallMs: deps.clientStallMs };
  const dressed = (head: ClientHead): ClientResponseOptions => ({
    stallMs: deps.clientStallMs,
    dress: (rawHeaders) => withOwnCors(rawHeaders, cors, head.header('origin')),
  });
  return (incoming, outgoing) => {
    const head = clientHead(incoming, deps);
    if (cors.origins.length > 0 && isPreflight(head)) {
      outgoing.writeHead(204, preflightHeaders(cors, head)).end();
      incoming.resume();
      return true;
    }
    if (isOwnPath(head)) return false;
    if (deps.own?.takes(head) === true) {
      deps.own.serve(head, incoming, outgoing);
      return true;
    }
    const client = new ClientResponse(incoming, outgoing, cors.origins.length > 0 ? dressed(head) : plain);
    deps.pipeline.serve(head, clientUpload(incoming, outgoing), client);
    return true;
  };
}

export function clientHead(incoming: IncomingMessage, deps: Pick<FrontDeps, 'clock' | 'makeId'>): ClientHead {
  const { headers, socket } = incoming;
  const address = socket.remoteAddress ?? 'unknown';
  return {
    requestId: requestId(headers['x-request-id'], deps.makeId),
    method: incoming.method ?? 'GET',
    target: originForm(incoming.url ?? '/'),
    httpVersion: incoming.httpVersion,
    rawHeaders: incoming.rawHeaders,
    header(name) {
      // Names come from the configuration too: what an object has of itself is no header.
      const value: unknown = headers[name];
      if (Array.isArray(value)) return value.join(', ');
      return typeof value === 'string' ? value : undefined;
    },
    remoteAddress: address.startsWith('::ffff:') ? address.slice(7) : address,
    secure: (socket as Partial<TLSSocket>).encrypted === true,
    receivedMs: deps.clock.nowMs(),
  };
}

/** A client's own id is kept if it can stand in a header and a log line; else a new one is made. */
function requestId(given: string | string[] | undefined, makeId: () => string): string {
  return typeof given === 'string' && /^[\u0021-\u007e]{1,128}$/.test(given) ? given : makeId();
}

/** Absolute-form targets (a client that takes us for a forward proxy) lose scheme and authority. */
function originForm(url: string): string {
  const absolute = /^https?:\/\/[^/?#]*/i.exec(url);
  if (absolute === null) return url;
  const rest = url.slice(absolute[0].length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

function clientUpload(incoming: IncomingMessage, outgoing: ServerResponse): ClientUpload {
  const length = incoming.headers['content-length'];
  const chunked = incoming.headers['transfer-encoding'] !== undefined;
  return {
    stream: incoming,
    bytes: chunked ? undefined : Number(length ?? 0),
    proceed() {
      meetExpectation(incoming, outgoing);
    },
  };
}
