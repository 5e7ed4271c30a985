/**
 * One request and its response as the caller holds it: which handler is called, what is known when it fails.
 * The connection drives it; once over, it touches neither connection nor handler again.
 */
import type { Exchange, FaultKind, RequestBody, UpstreamHandler, UpstreamRequest, UpstreamTarget } from './port.ts';
import type { RequestSender, SendEvents } from './request-sender.ts';

/** What an exchange asks of the connection that carries it. */
export interface Carrier {
  pauseReading(): void;
  resumeReading(): void;
  /** The request can't be sent to its end: the exchange fails. */
  brokenRequest(detail: string): void;
  destroy(): void;
}

interface UnsentRequest {
  /** Head of the request as it goes over the wire. */
  readonly head: string;
  readonly body: RequestBody;
}

export class H1Exchange implements Exchange, SendEvents {
  readonly target: UpstreamTarget;
  readonly handler: UpstreamHandler;
  readonly method: string;
  readonly fresh: boolean;
  readonly connectTimeoutMs: number;
  readonly reuseAfterStream: boolean;
  carrier: Carrier | undefined;
  sender: RequestSender | undefined;
  /** End, fault or abort: nothing follows. */
  over = false;
  paused = false;
  reused = false;
  /** Bytes of the request were given to an open socket. */
  handedOver = false;
  allSent = false;
  /** Let go of once sent: a stream that runs for minutes should not hold its prompt. */
  #unsent: UnsentRequest | undefined;

  constructor(target: UpstreamTarget, request: UpstreamRequest, handler: UpstreamHandler, head: string) {
    this.target = target;
    this.handler = handler;
    this.method = request.method;
    this.fresh = request.fresh;
    this.connectTimeoutMs = request.connectTimeoutMs;
    this.reuseAfterStream = request.reuseAfterStream ?? true;
    this.#unsent = { head, body: request.body };
  }

  /** The request, once. */
  takeRequest(): UnsentRequest {
    const unsent = this.#unsent;
    if (unsent === undefined) throw new Error('the request of one exchange was taken twice');
    this.#unsent = undefined;
    return unsent;
  }

  pause(): void {
    if (this.over || this.paused) return;
    this.paused = true;
    this.carrier?.pauseReading();
  }

  resume(): void {
    if (this.over || !this.paused) return;
    this.paused = false;
    this.carrier?.resumeReading();
  }

  abort(): void {
    if (this.over) return;
    const { carrier } = this;
    this.#close(false);
    carrier?.destroy();
  }

  sent(): void {
    if (this.over) return;
    this.allSent = true;
    this.handler.sent();
  }

  broken(detail: string): void {
    if (!this.over) this.carrier?.brokenRequest(detail);
  }

  /** The response ended as its framing says. */
  complete(trailers: readonly string[]): void {
    if (this.over) return;
    this.over = true;
    this.handler.end(trailers);
    this.#close(true);
  }

  fail(kind: FaultKind, detail: string, responseStarted: boolean): void {
    if (this.over) return;
    this.#close(false);
    this.handler.fault({ kind, detail, nothingSent: !this.handedOver, reused: this.reused, responseStarted });
  }

  #close(release: boolean): void {
    this.over = true;
    this.carrier = undefined;
    this.sender?.stop(release);
    this.sender = undefined;
  }
}
