/**
 * HTTP to one server for `warmlane batch`: whole JSON answers, uploads that stream from a file, downloads that stream to
 * one. What fails on the way is a value. Nothing is tried twice here: only who asks knows whether that is safe.
 */
import { request as plainRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import { request as secureRequest } from 'node:https';
import type { Readable } from 'node:stream';

import type { Address } from './batch-args.ts';

/** Nothing came back: `code` is Node's or the system's, for example ECONNREFUSED. */
export interface Unreachable {
  readonly kind: 'unreachable';
  readonly code: string;
  readonly message: string;
}

/** What was to be sent could not be read here. */
export interface Unread {
  readonly kind: 'unread';
  readonly message: string;
}

export interface Answered {
  readonly kind: 'answered';
  readonly status: number;
  /** undefined: no JSON */
  readonly json: unknown;
  readonly retryAfterMs?: number;
}

export interface Opened {
  readonly kind: 'opened';
  /** from Content-Length */
  readonly bytes?: number;
  readonly body: Readable;
}

export interface Upload {
  readonly type: string;
  readonly bytes: number;
  readonly chunks: AsyncIterable<Uint8Array>;
}

export interface Wire {
  /** `body`: sent as JSON. */
  ask(method: string, path: string, body?: object): Promise<Answered | Unreachable>;
  upload(path: string, upload: Upload): Promise<Answered | Unreachable | Unread>;
  /** GET whose 200 is read as it comes. */
  open(path: string): Promise<Opened | Answered | Unreachable>;
}

const idleMs = 60_000;
/** Of an answer that is held: a hundred batches with all their errors. */
const mostBytes = 64 * 1024 * 1024;

/** @param signal ends whatever is under way */
export function createWire({ url, key }: Address, signal: AbortSignal): Wire {
  const base = new URL(url);
  const open = base.protocol === 'https:' ? secureRequest : plainRequest;

  function start(method: string, path: string, headers: Readonly<Record<string, string>>): ClientRequest {
    const request = open(new URL(base.pathname.replace(/\/$/, '') + path, base), {
      method,
      signal,
      // One connection per question: minutes may lie between two of them.
      agent: false,
      headers: {
        accept: 'application/json',
        'user-agent': 'warmlane-batch',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...headers,
      },
    });
    request.setTimeout(idleMs, () => request.destroy(new SilentError()));
    return request;
  }

  return {
    async ask(method, path, body) {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const request = start(method, path, text === undefined ? {} : { 'content-type': 'application/json' });
      const answer = answerOf(request);
      request.end(text);
      const response = await answer;
      return 'kind' in response ? response : read(response);
    },
    async upload(path, { type, bytes, chunks }) {
      const request = start('POST', path, { 'content-type': type, 'content-length': String(bytes) });
      let answered = false;
      const answer = answerOf(request).finally(() => (answered = true));
      const sent = send(request, chunks, () => answered);
      const response = await answer;
      const result = 'kind' in response ? response : await read(response);
      const unread = await sent;
      request.destroy();
      // A file that can't be read ends its request; the reason is the file.
      return unread ?? result;
    },
    async open(path) {
      const request = start('GET', path, { accept: '*/*' });
      const answer = answerOf(request);
      request.end();
      const response = await answer;
      if ('kind' in response) return response;
      if (response.statusCode !== 200) return read(response);
      const bytes = Number(response.headers['content-length'] ?? Number.NaN);
      return { kind: 'opened', body: response, ...(Number.isFinite(bytes) ? { bytes } : {}) };
    },
  };
}

/** The server took no byte, or gave none, for too long. */
class SilentError extends Error {
  readonly code = 'ETIMEDOUT';
  constructor() {
    super(`no byte for ${idleMs / 1000} s`);
  }
}

function answerOf(request: ClientRequest): Promise<IncomingMessage | Unreachable> {
  return new Promise((resolve) => {
    // Errors behind the answer are its reader's; a listener must stay all the same.
    request.on('error', (error) => resolve(unreachable(error)));
    request.on('response', resolve);
  });
}

/** @returns why the chunks could not be had; what the server does with them shows in its answer */
async function send(
  request: ClientRequest,
  chunks: AsyncIterable<Uint8Array>,
  isOver: () => boolean,
): Promise<Unread | undefined> {
  try {
    for await (const chunk of chunks) {
      if (isOver()) return undefined;
      if (!request.write(chunk)) await drained(request);
    }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    request.destroy(new Error(message));
    return { kind: 'unread', message };
  }
  request.end();
  return undefined;
}

/** Also when it will take no more: answered early, or broken. */
function drained(request: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      for (const event of ['drain', 'close', 'response', 'error'] as const) request.off(event, go);
      resolve();
    };
    for (const event of ['drain', 'close', 'response', 'error'] as const) request.on(event, go);
    if (request.destroyed) go();
  });
}

async function read(response: IncomingMessage): Promise<Answered | Unreachable> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    // A response without encoding gives buffers.
    for await (const piece of response as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > mostBytes) return { kind: 'unreachable', code: 'EMSGSIZE', message: 'its answer is too long' };
      pieces.push(piece);
    }
  } catch (error) {
    return unreachable(error);
  }
  const seconds = Number(response.headers['retry-after'] ?? Number.NaN);
  return {
    kind: 'answered',
    status: response.statusCode ?? 0,
    json: parse(Buffer.concat(pieces).toString('utf8')),
    ...(Number.isFinite(seconds) && seconds >= 0 ? { retryAfterMs: seconds * 1000 } : {}),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Not JSON: what the caller shows instead is the status.
    return undefined;
  }
}

export function unreachable(error: unknown): Unreachable {
  // Of several addresses that refused, Node tells in a list.
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const code = typeof first === 'object' && first !== null && 'code' in first ? String(first.code) : 'UNKNOWN';
  return { kind: 'unreachable', code, message: first instanceof Error ? first.message : String(first) };
}
