/**
 * One connection to a model server and the exchange that it carries, if any: socket events in, handler calls out.
 * Owns the read buffer, the connect deadline, and the judgement whether the connection may serve again. Never half-closes.
 * A class with fields, since thousands live at once and `#bytes` runs once per token.
 */
import type { LookupFunction, Socket } from 'node:net';
import type { Clock, Timer } from '../clock.ts';
import type { ReusedBodyRead } from './body-read.ts';
import { dial } from './dial.ts';
import { ResponseReader, type ReaderSink } from './h1-reader.ts';
import type { Carrier, H1Exchange } from './h1-exchange.ts';
import type { Idle } from './idle-pool.ts';
import type { BodyRead, FaultKind, UpstreamHead, UpstreamTarget } from './port.ts';
import { sendRequest } from './request-sender.ts';
import { socketErrorText, socketFaultKind, type SocketStage } from './socket-errors.ts';
import { holdWriteErrors } from './write-errors.ts';

export interface ConnectionOwner {
  readonly clock: Clock;
  /** Shared by all connections: reads are handled one at a time. */
  readonly read: ReusedBodyRead;
  readonly lookup: LookupFunction | undefined;
  /** Life without use where the server announces none. */
  readonly idleMs: number;
  /** The exchange is over and the connection may serve another within `idleMs`. */
  released(connection: H1Connection, idleMs: number): void;
  /** The connection is destroyed. Called once. @param wasBusy it had not been released since it was given an exchange */
  gone(connection: H1Connection, wasBusy: boolean): void;
}

/** A token is some 250 bytes; a stream that waits should hold little. */
const smallBufferBytes = 2 * 1024;
/** A read that fills its buffer doubles it, up to this. */
const largeBufferBytes = 64 * 1024;
/** A connection that waits for use keeps at most this. */
const idleBufferBytes = 16 * 1024;
/** What remains of a buffer behind retained bytes is used on, if it isn't less than this. */
const usefulRestBytes = 512;
/** An idle connection is left so long before its server closes it (R02). */
const keepAliveMarginMs = 1000;
/** How long the answer may take that lay in the receive buffer when a write failed (C116). */
const writeGraceMs = 200;

export class H1Connection implements Carrier, ReaderSink, Idle {
  readonly key: string;
  readonly #target: UpstreamTarget;
  readonly #owner: ConnectionOwner;
  readonly #reader: ResponseReader;
  readonly #socket: Socket;
  #exchange: H1Exchange | undefined;
  #stage: SocketStage = 'connecting';
  #closed = false;
  /** It was given an exchange, and not released since. */
  #busy = false;
  #address = '';
  #exchanges = 0;
  #timer: Timer | undefined;
  #writeError: Error | undefined;
  #buffer: Buffer | undefined;
  /** Goes to the socket after the read at hand. */
  #nextBuffer: Buffer | undefined;
  #bufferBytes = smallBufferBytes;

  constructor(key: string, target: UpstreamTarget, owner: ConnectionOwner) {
    this.key = key;
    this.#target = target;
    this.#owner = owner;
    this.#reader = new ResponseReader(this, owner.read);
    this.#socket = dial(target, {
      lookup: owner.lookup,
      onread: {
        // Node keeps the buffer it has when it is given none, which its types don't say.
        buffer: () => this.#takeBuffer() as Buffer,
        callback: (bytes) => this.#fill(bytes),
      },
    });
    this.#listen(target.secure);
  }

  /** Carries one exchange: at once when open, else when connected. */
  serve(exchange: H1Exchange): void {
    this.#exchange = exchange;
    this.#busy = true;
    exchange.carrier = this;
    this.#reader.begin(exchange.method);
    if (exchange.paused) this.#socket.pause();
    if (this.#stage === 'open') {
      exchange.reused = true;
      this.#socket.ref();
      this.#send(exchange);
      return;
    }
    const { connectTimeoutMs } = exchange;
    if (connectTimeoutMs > 0) this.#expireAfter(connectTimeoutMs, () => this.#connectTimedOut());
  }

  pauseReading(): void {
    this.#socket.pause();
  }

  resumeReading(): void {
    this.#socket.resume();
  }

  brokenRequest(detail: string): void {
    this.#fail('aborted', detail);
  }

  discard(): void {
    this.destroy();
  }

  destroy(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#exchange = undefined;
    this.#timer?.cancel();
    this.#owner.gone(this, this.#busy);
    this.#socket.destroy();
  }

  head(head: UpstreamHead): void {
    this.#exchange?.handler.head(head);
  }

  body(read: BodyRead): void {
    this.#exchange?.handler.body(read);
  }

  #listen(secure: boolean): void {
    const socket = this.#socket;
    holdWriteErrors(socket, (error) => this.#writeFailed(error));
    socket.once('connect', () => (secure ? this.#stageReached('handshake') : this.#opened()));
    if (secure) {
      socket.once('secureConnect', () => this.#opened());
      socket.on('data', (bytes: Buffer) => this.#bytes(bytes, bytes.length));
    }
    socket.on('end', () => this.#finReceived());
    socket.on('error', (error) => this.#failed(error));
    socket.on('close', () => this.#failed(undefined));
    socket.on('drain', () => this.#exchange?.sender?.drained());
  }

  #stageReached(stage: SocketStage): void {
    this.#stage = stage;
  }

  #opened(): void {
    if (this.#closed) return;
    const { remoteAddress = this.#target.host, remotePort = this.#target.port } = this.#socket;
    this.#address = remoteAddress.includes(':') ? `[${remoteAddress}]:${remotePort}` : `${remoteAddress}:${remotePort}`;
    this.#stage = 'open';
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#exchange !== undefined) this.#send(this.#exchange);
  }

  #send(exchange: H1Exchange): void {
    this.#exchanges += 1;
    exchange.handler.connected({ reused: exchange.reused, address: this.#address });
    if (exchange.over) return;
    exchange.handedOver = true;
    const { head, body } = exchange.takeRequest();
    const sender = sendRequest(this.#socket, head, body, exchange);
    if (exchange.over) sender.stop(false);
    else exchange.sender = sender;
  }

  /** The buffer for the next read; undefined: the one in use stays. */
  #takeBuffer(): Buffer | undefined {
    if (this.#stage !== 'open') {
      // Each attempt at another address asks again.
      this.#buffer ??= Buffer.allocUnsafeSlow(this.#bufferBytes);
      return this.#buffer;
    }
    const next = this.#nextBuffer;
    if (next === undefined) return undefined;
    this.#nextBuffer = undefined;
    this.#buffer = next;
    return next;
  }

  #fill(bytes: number): boolean {
    const buffer = this.#buffer;
    if (buffer === undefined) return true;
    const { read } = this.#owner;
    read.retained = false;
    this.#bytes(buffer, bytes);
    if (this.#closed) return true;
    if (read.retained) {
      const rest = buffer.subarray(bytes);
      this.#nextBuffer = rest.length >= usefulRestBytes ? rest : Buffer.allocUnsafeSlow(this.#bufferBytes);
    } else if (bytes === buffer.length && this.#bufferBytes < largeBufferBytes && this.#exchange !== undefined) {
      this.#bufferBytes *= 2;
      this.#nextBuffer = Buffer.allocUnsafeSlow(this.#bufferBytes);
    } else if (this.#exchange === undefined && this.#bufferBytes > idleBufferBytes) {
      this.#bufferBytes = smallBufferBytes;
      this.#nextBuffer = Buffer.allocUnsafeSlow(smallBufferBytes);
    }
    return true;
  }

  #bytes(buffer: Buffer, end: number): void {
    if (this.#exchange === undefined) {
      this.destroy();
      return;
    }
    const reader = this.#reader;
    const taken = reader.feed(buffer, 0, end);
    if (this.#exchange === undefined || reader.outcome === 'more') return;
    if (reader.outcome === 'bad') this.#fail('bad_response', `${this.#address} sent ${reader.problem}`);
    else this.#ended(taken === end);
  }

  /** @param whole no byte came behind the response's end */
  #ended(whole: boolean): void {
    const exchange = this.#exchange;
    if (exchange === undefined) return;
    const idleMs = whole && this.#reusable(exchange) ? this.#idleMs() : 0;
    this.#exchange = undefined;
    if (idleMs > 0) {
      if (exchange.paused) this.#socket.resume();
      this.#socket.unref();
      this.#busy = false;
      this.#owner.released(this, idleMs);
    } else this.destroy();
    exchange.complete(this.#reader.trailers);
  }

  #reusable(exchange: H1Exchange): boolean {
    const reader = this.#reader;
    if (!reader.persistent || !exchange.allSent || this.#writeError !== undefined) return false;
    if (this.#socket.writableLength > 0 || this.#exchanges >= (reader.keepAliveMax ?? Infinity)) return false;
    return exchange.reuseAfterStream || (!reader.chunked && reader.status < 400);
  }

  #idleMs(): number {
    const { keepAliveMs } = this.#reader;
    return keepAliveMs === undefined ? this.#owner.idleMs : keepAliveMs - keepAliveMarginMs;
  }

  #finReceived(): void {
    if (this.#closed) return;
    if (this.#exchange === undefined) {
      this.destroy();
      return;
    }
    const missing = this.#stage === 'open' ? this.#reader.finish() : 'before it was open';
    if (missing === undefined) this.#ended(false);
    else this.#fail('eof', `${this.#address} closed the connection ${missing}`);
  }

  /** @param error undefined: closed with nothing said */
  #failed(error: Error | undefined): void {
    if (this.#closed) return;
    const place = this.#stage === 'open' ? this.#address : this.#target.authority;
    if (error === undefined) this.#fail('eof', `the connection to ${place} closed`);
    else this.#fail(socketFaultKind(error, this.#stage), `${place}: ${socketErrorText(error)}`);
  }

  /** What the backend said before it stopped reading may still lie in the receive buffer. */
  #writeFailed(error: Error): void {
    if (this.#closed || this.#exchange === undefined) {
      this.#socket.destroy();
      return;
    }
    this.#writeError = error;
    this.#exchange.sender?.stop(false);
    // A write that fails at once, on connecting, keeps Node from starting to read.
    if (!this.#exchange.paused) this.#socket.resume();
    this.#awaitLastWords(error);
  }

  #awaitLastWords(error: Error): void {
    this.#expireAfter(writeGraceMs, () => {
      if (this.#reader.responseStarted) return;
      if (this.#exchange?.paused === true) this.#awaitLastWords(error);
      else this.#failed(error);
    });
  }

  /** After a late event loop the timer comes first: what lies at the socket is looked at before it is judged. */
  #expireAfter(waitMs: number, expired: () => void): void {
    this.#timer = this.#owner.clock.timer(waitMs, () => {
      setImmediate(() => (this.#closed ? undefined : expired()));
    });
  }

  #connectTimedOut(): void {
    if (this.#stage === 'open') return;
    const tried = this.#socket.autoSelectFamilyAttemptedAddresses ?? [];
    const names = tried.length > 0 ? tried.join(', ') : this.#target.authority;
    const { connectTimeoutMs } = this.#exchange ?? {};
    this.#fail('connect_timeout', `no connection to ${names} within ${connectTimeoutMs} ms`);
  }

  #fail(kind: FaultKind, detail: string): void {
    const exchange = this.#exchange;
    const { responseStarted } = this.#reader;
    this.destroy();
    exchange?.fail(kind, detail, responseStarted);
  }
}
