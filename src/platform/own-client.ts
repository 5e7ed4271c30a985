/**
 * The client's side of a request that warmlane makes itself: a head, a body and an ear that throws the answer away. What came
 * of it is in the request's record.
 */
import { Readable } from 'node:stream';
import type { ClientHead, ClientPort, ClientUpload } from './client-port.ts';

export interface OwnClient extends ClientPort {
  /** Nobody waits for the answer any more. Idempotent. */
  leave(): void;
}

export function createOwnClient(): OwnClient {
  return new DeafClient();
}

export function ownHead(asked: {
  readonly requestId: string;
  /** path with query */
  readonly target: string;
  readonly receivedMs: number;
  /** `User-Agent`, where it isn't warmlane's own question */
  readonly agent?: string;
}): ClientHead {
  const { agent = 'warmlane', ...known } = asked;
  const headers: Readonly<Record<string, string>> = {
    'content-type': 'application/json',
    accept: 'application/json',
    'user-agent': agent,
  };
  return {
    ...known,
    method: 'POST',
    httpVersion: '1.1',
    rawHeaders: Object.entries(headers).flat(),
    header: (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined),
    remoteAddress: '127.0.0.1',
    secure: false,
  };
}

export function ownUpload(body: Buffer): ClientUpload {
  return { stream: Readable.from([body], { objectMode: false }), bytes: body.length, proceed() {} };
}

class DeafClient implements OwnClient {
  readonly takesChunks = false;
  readonly bufferedBytes = 0;
  gone = false;
  #isOver = false;
  #leaving: (() => void) | undefined;

  onGone(listener: () => void): void {
    this.#leaving = listener;
    if (this.gone) listener();
  }

  onDrain(): void {}
  head(): void {}
  cork(): void {}
  uncork(): void {}

  writeChunks(): boolean {
    return true;
  }

  write(): boolean {
    return true;
  }

  end(): void {
    this.#isOver = true;
  }

  cut(): void {
    this.#isOver = true;
  }

  leave(): void {
    if (this.gone || this.#isOver) return;
    this.gone = true;
    this.#leaving?.();
  }
}
