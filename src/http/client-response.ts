/**
 * ClientPort on Node's ServerResponse. Node writes the head and keeps the connection's books; the body goes straight to
 * the socket, so that a chunk from the backend leaves in one write, framing and all.
 * Pipelined requests (no socket yet) and HTTP/1.0 clients take Node's own, slower path.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { ClientFraming, ClientPort, ClientRefused } from '../platform/client-port.ts';
import { onConnectionClosed } from './pipelined.ts';
import { refusedWith } from './refused.ts';

const lastChunk = Buffer.from('0\r\n\r\n');
/** A client that doesn't take the last bytes of a cut answer is dropped after this. */
const cutGraceMs = 1000;
/** A reset comes so long after the last bytes: one that overtakes the client's reading of them looks like a plain end. */
const resetAfterMs = 100;

export interface ClientResponseOptions {
  /** A client that takes none of an ended answer's last bytes for so long is dropped; 0: never. */
  readonly stallMs: number;
  /** Last change of every answer's headers (raw names and values in turn); absent: none. */
  readonly dress?: (rawHeaders: readonly string[]) => readonly string[];
}

export class ClientResponse implements ClientPort {
  takesChunks = false;
  gone = false;
  readonly #incoming: IncomingMessage;
  readonly #outgoing: ServerResponse;
  #socket: Socket | undefined;
  /** The socket, while writes to it are gathered. */
  #corked: Socket | undefined;
  /** What is gathered leaves with this turn's next tick, unless it is corked again before. */
  #leaves = false;
  #chunked = false;
  /** The client takes the connection's end for the answer's end. */
  #closeDelimited = false;
  #ended = false;
  #goneListener: (() => void) | undefined;
  #drainListener: (() => void) | undefined;

  readonly #options: ClientResponseOptions;

  constructor(incoming: IncomingMessage, outgoing: ServerResponse, options: ClientResponseOptions) {
    this.#incoming = incoming;
    this.#outgoing = outgoing;
    this.#options = options;
    outgoing.on('close', () => this.#closed());
    outgoing.on('error', () => this.leave());
    if (outgoing.socket === null) {
      const forget = onConnectionClosed(incoming.socket, () => this.#closed());
      outgoing.once('close', forget);
    }
  }

  get bufferedBytes(): number {
    if (this.#corked !== undefined) return 0;
    return this.#socket === undefined ? this.#outgoing.writableLength : this.#socket.writableLength;
  }

  get refusedWith(): ClientRefused | undefined {
    return refusedWith(this.#outgoing);
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
    const headers = this.#options.dress?.(rawHeaders) ?? rawHeaders;
    if (framing.kind === 'length') {
      outgoing.writeHead(status, reason, [...headers, 'content-length', String(framing.bytes)]);
    } else {
      outgoing.writeHead(status, reason, headers as string[]);
    }
    if (framing.kind === 'none') return;
    // As flushHeaders, but byte for byte: that one would turn characters above 127 into UTF-8.
    outgoing.write('', 'latin1');
    this.#chunked = framing.kind === 'stream' && outgoing.chunkedEncoding;
    this.#closeDelimited = framing.kind === 'stream' && !outgoing.chunkedEncoding;
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
    const { socket } = this.#outgoing;
    this.#leaves = false;
    if (socket === null || this.#corked !== undefined) return;
    this.#corked = socket;
    socket.cork();
  }

  /** At the end of this turn: what the backend's same read still brings leaves together with the head. */
  uncork(): void {
    if (this.#corked === undefined || this.#leaves) return;
    this.#leaves = true;
    process.nextTick(uncorkNow, this);
  }

  /** For `uncork` alone. */
  flush(): void {
    if (!this.#leaves) return;
    this.#leaves = false;
    this.#corked?.uncork();
    this.#corked = undefined;
  }

  writeChunks(wire: Buffer): boolean {
    if (this.gone || this.#ended || this.#socket === undefined) return true;
    // What is gathered outlives the read that it came in.
    return this.#socket.write(this.#corked === undefined ? wire : Buffer.from(wire));
  }

  write(payload: Buffer): boolean {
    if (this.gone || this.#ended || payload.length === 0) return true;
    if (this.#socket === undefined) return this.#outgoing.write(Buffer.from(payload));
    if (this.#chunked) return this.#socket.write(frameChunk(payload));
    return this.#socket.write(this.#corked === undefined ? payload : Buffer.from(payload));
  }

  end(): void {
    if (this.gone || this.#ended) return;
    this.#ended = true;
    this.#socket?.off('drain', this.#drained);
    if (this.#chunked) this.#socket?.write(lastChunk);
    this.#outgoing.end();
    // Node has ended the gathering too: what its client doesn't take now waits.
    this.#corked = undefined;
    if (this.bufferedBytes > 0) this.#dropStalled();
    // What is left of an upload that was answered early is taken and dropped, so that its client comes to read the answer.
    if (!this.#incoming.readableEnded) this.#incoming.resume();
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
    this.#corked?.uncork();
    this.#corked = undefined;
    if (this.#closeDelimited) socket.write('', () => breakLater(socket));
    else socket.end();
    const grace = setTimeout(() => socket.destroy(), cutGraceMs);
    grace.unref();
    socket.once('close', () => clearTimeout(grace));
    // The rest of a body that is still coming in has no reader any more.
    this.#incoming.resume();
  }

  /** Its last bytes are to be taken in time. Over before Node's own listener sets the time of an idle connection, or none. */
  #dropStalled(): void {
    const { stallMs } = this.#options;
    const socket = this.#socket;
    if (stallMs <= 0 || socket === undefined) return;
    socket.setTimeout(stallMs);
    this.#outgoing.prependOnceListener('finish', () => socket.setTimeout(0));
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

/** An end that can't be taken for a proper one: a reset, or TLS without its farewell. */
function breakLater(socket: Socket): void {
  setTimeout(() => {
    if (socket instanceof TLSSocket) socket.destroy();
    else socket.resetAndDestroy();
  }, resetAfterMs);
}

function uncorkNow(response: ClientResponse): void {
  response.flush();
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
