/**
 * Serves the data listener's routes that warmlane answers by itself (`platform/own-route.ts`) on Node's request and response:
 * whose request it is, bodies as streams both ways, cross-origin headers, one line in the log. Knows nothing of the routes.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream';
import { isRefusal, type Refusal } from '../domain/refusal.ts';
import type { ClientHead } from '../platform/client-port.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import type { OwnRoutes, RouteClaim, RouteReply, RouteRequest } from '../platform/own-route.ts';
import { type CorsSettings, withOwnCors } from './cors.ts';
import { meetExpectation } from './expectation.ts';
import { onConnectionClosed } from './pipelined.ts';

export interface OwnServerDeps {
  readonly routes: OwnRoutes;
  /** Whose request it is; a refusal is its answer. */
  readonly caller: (head: ClientHead) => { readonly tenant: string } | Refusal;
  /** One of a tenant's requests at one time; a refusal is its answer. */
  readonly claim: (tenant: string) => RouteClaim | Refusal;
  /** Requests that begin from now on are refused with it; undefined: none are. */
  readonly closing: () => Refusal | undefined;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly log: Log;
  readonly cors: CorsSettings;
  /** A client that neither sends nor takes anything for so long is dropped; 0: never. */
  readonly stallMs: () => number;
}

export interface OwnServer {
  takes(head: ClientHead): boolean;
  serve(head: ClientHead, incoming: IncomingMessage, outgoing: ServerResponse): void;
  /** Resolves when none of its requests is under way. */
  idle(): Promise<void>;
  /** Ends what is under way: its clients see their connections break. */
  endAll(): void;
}

/** One request under way. */
interface Serving {
  readonly head: ClientHead;
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
  readonly path: string;
  tenant: string | undefined;
}

export function createOwnServer(deps: OwnServerDeps): OwnServer {
  const { routes, clock, log } = deps;
  const underWay = new Set<Serving>();
  const idlers: (() => void)[] = [];

  async function run(serving: Serving): Promise<void> {
    const { head, incoming, outgoing } = serving;
    const leaving = watchLeaving(incoming, outgoing);
    const stallMs = deps.stallMs();
    if (stallMs > 0) dropStalled(incoming.socket, outgoing, stallMs);
    const refusal = deps.closing();
    const caller = refusal ?? deps.caller(head);
    let reply: RouteReply;
    if (isRefusal(caller)) reply = refused(caller);
    else {
      serving.tenant = caller.tenant;
      try {
        reply = await routes.answer(
          routeRequest(serving, { tenant: caller.tenant, signal: leaving, claim: deps.claim }),
        );
      } catch (error) {
        if (leaving.aborted) return;
        log.error('internal error', { requestId: head.requestId, error: errorText(error) });
        reply = internalError;
      }
    }
    await write(serving, reply);
  }

  async function write({ head, incoming, outgoing }: Serving, reply: RouteReply): Promise<void> {
    const { body } = reply;
    if (outgoing.destroyed) {
      if (typeof body !== 'string') body.destroy();
      return;
    }
    outgoing.writeHead(reply.status, rawHeaders(reply, head, deps.cors));
    if (typeof body === 'string' || head.method === 'HEAD') {
      if (typeof body !== 'string') body.destroy();
      outgoing.end(typeof body === 'string' && head.method !== 'HEAD' ? body : undefined);
    } else await streamed(body, outgoing, head);
    // What is left of an upload that was answered early is taken and dropped, so that its client comes to read the answer.
    if (!incoming.readableEnded) incoming.resume();
  }

  /** A source that breaks, and a client that leaves, end the connection before the announced length. */
  function streamed(body: Readable, outgoing: ServerResponse, head: ClientHead): Promise<void> {
    return new Promise((resolve) => {
      pipeline(body, outgoing, (error) => {
        if (error !== undefined && error !== null && error.code !== 'ERR_STREAM_PREMATURE_CLOSE')
          log.warn('a download broke off', { requestId: head.requestId, error: error.message });
        resolve();
      });
    });
  }

  function note(serving: Serving, beganMs: number): void {
    const { head, outgoing, path, tenant } = serving;
    const status = outgoing.headersSent ? outgoing.statusCode : undefined;
    const fields = {
      requestId: head.requestId,
      tenant,
      method: head.method,
      path: path.slice(0, shownPathChars),
      status,
      complete: outgoing.writableFinished || outgoing.writableEnded,
      durationMs: Math.round((clock.nowMs() - beganMs) * 10) / 10,
    };
    // Whoever follows a batch asks every few seconds.
    const isRead = head.method === 'GET' || head.method === 'HEAD';
    if (isRead && status !== undefined && status < 400) log.debug('own route', fields);
    else log.info('own route', fields);
  }

  return {
    takes: (head) => routes.takes(head.method, pathOf(head.target)),
    serve(head, incoming, outgoing) {
      const beganMs = clock.nowMs();
      const serving: Serving = { head, incoming, outgoing, path: pathOf(head.target), tenant: undefined };
      underWay.add(serving);
      const over = () => {
        underWay.delete(serving);
        note(serving, beganMs);
        if (underWay.size === 0) for (const idler of idlers.splice(0)) idler();
      };
      run(serving).then(over, (error: unknown) => {
        log.error('internal error', { requestId: head.requestId, error: errorText(error) });
        outgoing.destroy();
        over();
      });
    },
    idle: () => (underWay.size === 0 ? Promise.resolve() : new Promise((resolve) => idlers.push(resolve))),
    endAll() {
      for (const { incoming } of underWay) incoming.socket.destroy();
    },
  };
}

const shownPathChars = 128;

/** Any byte in either direction begins the time anew. */
function dropStalled(socket: Socket, outgoing: ServerResponse, stallMs: number): void {
  socket.setTimeout(stallMs);
  // Before Node's own listener: that one sets the time of an idle connection, but none where a pipelined request follows.
  outgoing.prependOnceListener('finish', () => socket.setTimeout(0));
}

function routeRequest(
  { head, incoming, outgoing, path }: Serving,
  { tenant, signal, claim }: Pick<RouteRequest, 'tenant' | 'signal'> & Pick<OwnServerDeps, 'claim'>,
): RouteRequest {
  const length = incoming.headers['content-length'];
  const chunked = incoming.headers['transfer-encoding'] !== undefined;
  return {
    requestId: head.requestId,
    method: head.method,
    path,
    query: new URLSearchParams(head.target.slice(path.length + 1)),
    tenant,
    header: (name) => head.header(name),
    body: incoming,
    bytes: chunked ? undefined : Number(length ?? 0),
    signal,
    proceed: () => meetExpectation(incoming, outgoing),
    claim() {
      const claimed = claim(tenant);
      return isRefusal(claimed) ? refused(claimed) : claimed;
    },
  };
}

/** Aborted when the connection ends before the answer does. */
function watchLeaving(incoming: IncomingMessage, outgoing: ServerResponse): AbortSignal {
  const leaving = new AbortController();
  const closed = () => {
    if (!outgoing.writableFinished) leaving.abort();
  };
  outgoing.once('close', closed);
  outgoing.on('error', closed);
  // An upload that breaks off is told to whoever reads it; nobody may be reading.
  incoming.on('error', closed);
  if (outgoing.socket === null) outgoing.once('close', onConnectionClosed(incoming.socket, closed));
  return leaving.signal;
}

function rawHeaders({ headers, body }: RouteReply, head: ClientHead, cors: CorsSettings): string[] {
  const raw: string[] = [];
  for (const [name, value] of Object.entries(headers)) raw.push(name, value);
  raw.push('X-Request-Id', head.requestId);
  const hasLength = Object.keys(headers).some((name) => name.toLowerCase() === 'content-length');
  if (typeof body === 'string' && !hasLength) raw.push('Content-Length', String(Buffer.byteLength(body)));
  return cors.origins.length === 0 ? raw : withOwnCors(raw, cors, head.header('origin'));
}

function refused(refusal: Refusal): RouteReply {
  const { status, message, type, param, code, spokenBy, retryAfterSeconds } = refusal;
  const headers: Record<string, string> = { 'Content-Type': json };
  if (retryAfterSeconds !== undefined) headers['Retry-After'] = String(retryAfterSeconds);
  const more = refusal.headers ?? [];
  for (let i = 0; i + 1 < more.length; i += 2) headers[more[i] ?? ''] = more[i + 1] ?? '';
  if (code === 'shutting_down') headers['Connection'] = 'close';
  return {
    status,
    headers,
    body: JSON.stringify({ error: { message, type, param: param ?? null, code, source: spokenBy } }),
  };
}

const json = 'application/json; charset=utf-8';

const internalError: RouteReply = {
  status: 500,
  headers: { 'Content-Type': json },
  body: JSON.stringify({
    error: {
      message: 'warmlane failed on this request. Its log tells why, under this request id.',
      type: 'api_error',
      param: null,
      code: 'internal',
      source: 'warmlane',
    },
  }),
};

function errorText(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function pathOf(target: string): string {
  const end = target.indexOf('?');
  return end < 0 ? target : target.slice(0, end);
}
