/**
 * Writes one request to an open socket: head and held body in one write, or a streamed body piece by piece with
 * back-pressure. Owns the outgoing framing. Must not read, retry, or destroy the socket.
 */
import type { Socket } from 'node:net';
import type { BodySink, RequestBody } from './port.ts';

/** Up to here head and body are copied into one buffer; a longer body goes out by reference, in the same writev. */
const maxCopiedBytes = 16 * 1024;

export interface SendEvents {
  /** The last byte was handed to the kernel. */
  sent(): void;
  /** The source broke off, or gave another length than it had announced. Never called during `sendRequest`. */
  broken(detail: string): void;
}

export interface RequestSender {
  /** The socket's buffer is empty again. */
  drained(): void;
  /** Nothing more is written; what the source still gives is dropped. `release` lets a waiting source run on. */
  stop(release: boolean): void;
}

const nothingToStop: RequestSender = { drained() {}, stop() {} };

export function sendRequest(socket: Socket, head: string, body: RequestBody, events: SendEvents): RequestSender {
  if (body.kind === 'stream') {
    socket.write(head, 'latin1');
    const sender = new StreamSender(socket, body, events);
    if (body.bytes === 0) events.sent();
    body.start(sender);
    return sender;
  }
  if (body.kind === 'none' || body.bytes === 0) {
    socket.write(head, 'latin1');
    events.sent();
  } else if (head.length + body.bytes <= maxCopiedBytes) {
    socket.write(joined(head, body.chunks, body.bytes));
    events.sent();
  } else {
    sendHeld(socket, head, body.chunks, events);
  }
  return nothingToStop;
}

function joined(head: string, chunks: readonly Buffer[], bodyBytes: number): Buffer {
  const message = Buffer.allocUnsafe(head.length + bodyBytes);
  let at = message.write(head, 0, 'latin1');
  for (const chunk of chunks) at += chunk.copy(message, at);
  return message;
}

function sendHeld(socket: Socket, head: string, chunks: readonly Buffer[], events: SendEvents): void {
  socket.cork();
  socket.write(Buffer.from(head, 'latin1'));
  chunks.forEach((chunk, index) => {
    if (index < chunks.length - 1) socket.write(chunk);
    else socket.write(chunk, (error) => (error ? undefined : events.sent()));
  });
  socket.uncork();
}

class StreamSender implements BodySink, RequestSender {
  readonly #socket: Socket;
  readonly #body: RequestBody & { kind: 'stream' };
  readonly #events: SendEvents;
  #state: 'open' | 'ended' | 'stopped' = 'open';
  #written = 0;
  #waiting = false;

  constructor(socket: Socket, body: RequestBody & { kind: 'stream' }, events: SendEvents) {
    this.#socket = socket;
    this.#body = body;
    this.#events = events;
  }

  /** After a stop everything is taken and dropped, so that the client's upload is drained (C117). */
  write(chunk: Buffer): boolean {
    if (this.#state === 'stopped') return true;
    if (chunk.length === 0) return !this.#waiting;
    if (this.#state === 'ended') return this.#broken('the request body went on after its end');
    const announced = this.#body.bytes;
    this.#written += chunk.length;
    if (announced === undefined) this.#writeChunked(chunk);
    else if (this.#written > announced) return this.#broken(`the request body is longer than its ${announced} bytes`);
    else if (this.#written === announced) this.#socket.write(chunk, this.#flushed);
    else this.#socket.write(chunk);
    this.#waiting = this.#socket.writableLength > 0 && this.#socket.writableNeedDrain;
    return !this.#waiting;
  }

  end(): void {
    if (this.#state !== 'open') return;
    const announced = this.#body.bytes;
    if (announced !== undefined && this.#written < announced) {
      this.#broken(`the request body is shorter than its ${announced} bytes`);
      return;
    }
    this.#state = 'ended';
    if (announced === undefined) this.#socket.write('0\r\n\r\n', 'latin1', this.#flushed);
  }

  fail(): void {
    if (this.#state === 'open') this.#broken('the request body broke off');
  }

  drained(): void {
    if (!this.#waiting || this.#state === 'stopped') return;
    this.#waiting = false;
    this.#body.drained();
  }

  stop(release: boolean): void {
    this.#state = 'stopped';
    if (!release || !this.#waiting) return;
    this.#waiting = false;
    this.#body.drained();
  }

  #writeChunked(chunk: Buffer): void {
    this.#socket.cork();
    this.#socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1');
    this.#socket.write(chunk);
    this.#socket.write('\r\n', 'latin1');
    this.#socket.uncork();
  }

  readonly #flushed = (error?: Error | null): void => {
    if (!error && this.#state !== 'stopped') this.#events.sent();
  };

  /** Reported a tick later, so that the source is not called back from inside its own call. */
  #broken(detail: string): true {
    this.#state = 'stopped';
    process.nextTick(() => this.#events.broken(detail));
    return true;
  }
}
