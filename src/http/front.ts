/**
 * From Node's request and response to the pipeline's ports. Keeps nothing, decides nothing.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TLSSocket } from 'node:tls';
import type { Pipeline } from '../pipeline.ts';
import type { ClientHead, ClientUpload } from '../platform/client-port.ts';
import type { Clock } from '../platform/clock.ts';
import { ClientResponse } from './client-response.ts';

export interface FrontDeps {
  readonly pipeline: Pipeline;
  readonly clock: Clock;
  readonly makeId: () => string;
  readonly clientStallMs: number;
}

/** Requests whose client waits for `100 Continue` before it sends the body. */
const expectsContinue = new WeakSet<IncomingMessage>();

export function noteExpectation(incoming: IncomingMessage): void {
  expectsContinue.add(incoming);
}

export function createFront(deps: FrontDeps): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    const head = clientHead(incoming, deps);
    const client = new ClientResponse(incoming, outgoing, deps.clientStallMs);
    deps.pipeline.serve(head, clientUpload(incoming, outgoing), client);
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
      const value = headers[name];
      return Array.isArray(value) ? value.join(', ') : value;
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
      if (expectsContinue.delete(incoming)) outgoing.writeContinue();
    },
  };
}
