/**
 * ClientPort on Node's ServerResponse. Node writes the head and keeps the connection's books; the body goes straight to
 * the socket, so that a chunk from the backend leaves in one write, framing and all.
 * Pipelined requests (no socket yet) and HTTP/1.0 clients take Node's own, slower path.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ClientFraming, ClientPort } from '../platform/client-port.ts';

const lastChunk = Buffer.from('0\r\n\r\n');
/** A client that doesn't take the last bytes of a cut answer is dropped after this. */
const cutGraceMs = 1000;

export class ClientResponse implements ClientPort {
  takesChunks = false;
  gone = false;
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  #socket: Socket | undefined;
  #chunked = false;
  #ended = false;
  #goneListener: (() => void) | undefined;
  #drainListener: (() => void) | undefined;

  readonly #stallMs: number;

  /** @param stallMs a client that takes none of an ended answer's last bytes for so long is dropped; 0: never */
  constructor(incoming: IncomingMessage, outgoing: ServerResponse, stallMs: number) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#stallMs = stallMs;
    outgoing.on('close', () => this.#closed());
    outgoing.on('error', () => this.leave());
  }

  get bufferedBytes(): number {
    return this.#socket === undefined ? this.#outgoing.writableLength : this.#socket.writableLength;
  }

  onGone(listener: () => void): void {
    this.#goneListener = listener;
    if (this.gone) listener();
  }

  onDrain(listener: () => void): void {
    this.#drainListener = listener;
  }

  head(status: number, reason: string, rawHeaders: readonly string[], framing: ClientFraming): void {
    const outgoing = this.#outgoing;
    if (this.gone || outgoing.headersSent) return;
    if (framing.kind === 'length') {
      outgoing.writeHead(status, reason, [...rawHeaders, 'content-length', String(framing.bytes)]);
    } else {
      outgoing.writeHead(status, reason, rawHeaders as string[]);
    }
    if (framing.kind === 'none') return;
    outgoing.flushHeaders();
    this.#chunked = framing.kind === 'stream' && outgoing.chunkedEncoding;
    const socket = outgoing.socket;
    if (socket !== null && socket !== undefined) {
      this.#socket = socket;
      // From here on the body's framing is ours: Node adds none and writes no last chunk.
      outgoing.chunkedEncoding = false;
      this.takesChunks = this.#chunked;
      socket.on('drain', this.#drained);
    } else {
      outgoing.on('drain', this.#drained);
    }
  }

  cork(): void {
    this.#outgoing.socket?.cork();
  }

  uncork(): void {
    this.#outgoing.socket?.uncork();
  }

  writeChunks(wire: Buffer): boolean {
    if (this.gone || this.#ended || this.#socket === undefined) return true;
    return this.#socket.write(wire);
  }

  write(payload: Buffer): boolean {
    if (this.gone || this.#ended || payload.length === 0) return true;
    if (this.#socket === undefined) return this.#outgoing.write(Buffer.from(payload));
    return this.#socket.write(this.#chunked ? frameChunk(payload) : payload);
  }

  end(): void {
    if (this.gone || this.#ended) return;
    this.#ended = true;
    if (this.#socket !== undefined) {
      this.#socket.off('drain', this.#drained);
      if (this.#chunked) this.#socket.write(lastChunk);
      if (this.#stallMs > 0 && this.#socket.writableLength > 0) this.#socket.setTimeout(this.#stallMs);
    }
    this.#outgoing.end();
  }

  cut(): void {
    if (this.gone || this.#ended) return;
    this.#ended = true;
    const socket = this.#outgoing.socket;
    if (socket === null || socket === undefined) {
      this.#outgoing.destroy();
      return;
    }
    socket.off('drain', this.#drained);
    socket.end();
    const grace = setTimeout(() => socket.destroy(), cutGraceMs);
    grace.unref();
    socket.once('close', () => clearTimeout(grace));
    // The rest of a body that is still coming in has no reader any more.
    this.#incoming.resume();
  }

  /** The client is known to have left: its FIN came, or its socket broke. */
  leave(): void {
    if (this.gone || this.#ended) return;
    this.gone = true;
    this.#socket?.off('drain', this.#drained);
    this.#outgoing.destroy();
    this.#goneListener?.();
  }

  /** True once nothing more is to be written. */
  get finished(): boolean {
    return this.#ended || this.gone;
  }

  #closed(): void {
    this.#socket?.off('drain', this.#drained);
    if (!this.#ended) this.leave();
  }

  readonly #drained = (): void => this.#drainListener?.();
}

/** One chunk of chunked coding (RFC 9112, 7.1). */
function frameChunk(payload: Buffer): Buffer {
  const size = payload.length.toString(16);
  const framed = Buffer.allocUnsafe(size.length + payload.length + 4);
  framed.write(size, 0, 'latin1');
  framed[size.length] = 13;
  framed[size.length + 1] = 10;
  payload.copy(framed, size.length + 2);
  framed[framed.length - 2] = 13;
  framed[framed.length - 1] = 10;
  return framed;
}
