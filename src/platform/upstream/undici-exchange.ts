/**
 * One exchange on an undici connection: undici's dispatch handler on one side, the port's handler on the other.
 */
import { Readable } from 'node:stream';
import { ReusedBodyRead } from './body-read.ts';
import type {
  BodySink,
  Exchange,
  FaultKind,
  RequestBody,
  UpstreamHandler,
  UpstreamHead,
  UpstreamRequest,
  UpstreamTarget,
} from './port.ts';
import { codeOf, type SocketStage, socketErrorText, socketFaultKind } from './socket-errors.ts';
import type { UndiciLink } from './undici-link.ts';

export class UndiciExchange implements Exchange, BodySink {
  readonly request: UpstreamRequest;
  over = false;
  /** Not to be given a connection from the pool. */
  fresh: boolean;
  readonly #again: (exchange: UndiciExchange, target: UpstreamTarget) => void;
  readonly #target: UpstreamTarget;
  readonly #handler: UpstreamHandler;
  readonly #read = new ReusedBodyRead();
  #link: UndiciLink | undefined;
  #abortRequest: ((reason: Error) => void) | undefined;
  /** Lets undici's parser go on. */
  #goOn: (() => void) | undefined;
  #paused = false;
  /** The parser was told to stop. */
  #halted = false;
  #reused = false;
  #handedOver = false;
  #started = false;
  #head: UpstreamHead | undefined;
  #upload: Readable | undefined;
  #uploadWaits = false;
  #uploadBroke = false;

  /** @param again begins it anew, when its connection turned out to be dead before anything was sent */
  constructor(
    target: UpstreamTarget,
    request: UpstreamRequest,
    handler: UpstreamHandler,
    again: (exchange: UndiciExchange, target: UpstreamTarget) => void,
  ) {
    this.#target = target;
    this.request = request;
    this.fresh = request.fresh;
    this.#handler = handler;
    this.#again = again;
  }

  start(link: UndiciLink): void {
    this.#link = link;
    this.#reused = link.exchanges > 0;
    link.exchanges += 1;
    const { method, target, headers, body } = this.request;
    const length = body.kind === 'stream' && body.bytes !== undefined ? ['content-length', String(body.bytes)] : [];
    const upload = this.#body(body);
    link.client.dispatch(
      { path: target, method, headers: ['host', this.#target.authority, ...headers, ...length], body: upload },
      this,
    );
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    // undici goes on at once, which must not happen inside a call of the handler.
    if (this.#halted) process.nextTick(() => this.#unhalt());
  }

  abort(): void {
    if (this.over) return;
    this.over = true;
    this.#abortRequest?.(new Error('aborted'));
    this.#link?.discard();
  }

  onConnect(abort: (reason: Error) => void): void {
    this.#abortRequest = abort;
    if (this.over) {
      abort(new Error('aborted'));
      return;
    }
    this.#handler.connected({ reused: this.#reused, address: this.#link?.address ?? this.#target.authority });
    if (this.over) return;
    this.#handedOver = true;
    if (this.request.body.kind === 'stream') this.request.body.start(this);
  }

  /** Called by undici, not in its types. */
  onRequestSent(): void {
    if (!this.over) this.#handler.sent();
  }

  onResponseStarted(): void {
    this.#started = true;
  }

  onHeaders(status: number, rawHeaders: readonly (Buffer | string)[], goOn: () => void, reason: string): boolean {
    if (this.over || status < 200) return true;
    this.#goOn = goOn;
    this.#head = headOf(status, reason, texts(rawHeaders), this.request.method);
    this.#handler.head(this.#head);
    this.#halted = this.#paused;
    return !this.#halted;
  }

  onData(chunk: Buffer): boolean {
    if (this.over) return false;
    const read = this.#read;
    read.wire = chunk;
    read.wireEnd = chunk.length;
    read.count = 1;
    read.starts[0] = 0;
    read.ends[0] = chunk.length;
    read.payloadBytes = chunk.length;
    this.#handler.body(read);
    this.#halted = this.#paused;
    return !this.#halted;
  }

  onComplete(trailers: readonly (Buffer | string)[] | null): void {
    if (this.over) return;
    this.over = true;
    const stream = this.#head?.framing === 'chunked' || (this.#head?.status ?? 0) >= 400;
    if (stream && this.request.reuseAfterStream === false) this.#link?.discard();
    else this.#link?.release();
    this.#handler.end(texts(trailers ?? []));
    if (this.#uploadWaits && this.request.body.kind === 'stream') this.request.body.drained();
  }

  onError(error: Error): void {
    if (this.over) return;
    this.#link?.discard();
    if (this.#reused && !this.#handedOver) {
      this.fresh = true;
      process.nextTick(this.#again, this, this.#target);
      return;
    }
    this.over = true;
    const stage = this.#handedOver ? 'open' : connecting(error, this.#target.secure) ? 'connecting' : 'handshake';
    const kind = this.#uploadBroke ? 'aborted' : faultKind(error, stage);
    this.#handler.fault({
      kind,
      detail: `${this.#link?.address ?? this.#target.authority}: ${socketErrorText(error)}`,
      nothingSent: !this.#handedOver,
      reused: this.#reused,
      responseStarted: this.#started,
    });
  }

  write(chunk: Buffer): boolean {
    if (this.over || this.#upload === undefined || chunk.length === 0) return true;
    this.#uploadWaits = !this.#upload.push(chunk);
    return !this.#uploadWaits;
  }

  end(): void {
    if (!this.over) this.#upload?.push(null);
  }

  fail(): void {
    this.#uploadBroke = true;
    if (!this.over) this.#upload?.destroy(new Error('the request body broke off'));
  }

  #unhalt(): void {
    if (!this.#halted || this.#paused || this.over) return;
    this.#halted = false;
    this.#goOn?.();
  }

  #body(body: RequestBody): Buffer | Readable | null {
    if (body.kind === 'none' || body.bytes === 0) return null;
    if (body.kind === 'held') return Buffer.concat([...body.chunks], body.bytes);
    this.#upload = new Readable({
      read: () => {
        if (!this.#uploadWaits || this.over) return;
        this.#uploadWaits = false;
        body.drained();
      },
    });
    return this.#upload;
  }
}

function texts(raw: readonly (Buffer | string)[]): string[] {
  return raw.map((each) => (typeof each === 'string' ? each : each.toString('latin1')));
}

function headOf(status: number, reason: string, rawHeaders: string[], method: string): UpstreamHead {
  const valueOf = (name: string) => rawHeaders.find((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name);
  const length = valueOf('content-length');
  const base = { status, reason, rawHeaders, httpVersion: '1.1' } as const;
  if (method === 'HEAD' || status === 204 || status === 304) return { ...base, framing: 'none' };
  if (valueOf('transfer-encoding') !== undefined) return { ...base, framing: 'chunked' };
  return length === undefined
    ? { ...base, framing: 'close' }
    : { ...base, framing: 'length', contentLength: Number(length) };
}

function connecting(error: Error, secure: boolean): boolean {
  if (!secure || error instanceof AggregateError) return true;
  return 'syscall' in error && (error.syscall === 'connect' || error.syscall === 'getaddrinfo');
}

function faultKind(error: Error, stage: SocketStage): FaultKind {
  const code = codeOf(error);
  if (code === 'UND_ERR_CONNECT_TIMEOUT') return 'connect_timeout';
  if (code === 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH') return 'aborted';
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return 'eof';
  if (error.name === 'HTTPParserError') return /EOF/.test(error.message) ? 'eof' : 'bad_response';
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'bad_response';
  if (code === 'UND_ERR_SOCKET') return error.message.startsWith('bad ') ? 'bad_response' : 'eof';
  return socketFaultKind(error, stage);
}
