/**
 * One attempt to have one backend answer one job, byte for byte, towards one client.
 * Owns: the moment the head is committed, back-pressure, deadlines, what happens when either side goes away.
 * Must not choose backends, retry, or decide what a token is.
 */
import type { BackendView } from '../domain/fleet.ts';
import type { Job } from '../domain/job.ts';
import type { Engine, Outcome, Phase } from '../domain/names.ts';
import type { TimelineMark } from '../domain/record.ts';
import type { Refusal } from '../domain/refusal.ts';
import { EventFlag } from '../domain/tap.ts';
import type { ClientHead, ClientPort } from '../platform/client-port.ts';
import type { Clock, Timer } from '../platform/clock.ts';
import type {
  BodyRead,
  Exchange,
  RequestBody,
  UpstreamClient,
  UpstreamFault,
  UpstreamHandler,
  UpstreamHead,
  UpstreamTarget,
} from '../platform/upstream/port.ts';
import { createAnswerReader, type AnswerReader, type AnswerTap } from './answer-reader.ts';
import { silenceExpired, totalExpired, type Waiting } from './deadlines.ts';
import { errorEvent } from './error-shape.ts';
import { guard, guarded } from './guarded.ts';
import { faultRefusal, streamErrorRefusal, truncated } from './refusals.ts';
import { answerHeader, clientHeaders, mediumOf } from './response-head.ts';
import type { RelaySettings } from './settings.ts';
import type { Ticked, Ticker } from './ticker.ts';
import { type UploadWatch, watchUpload } from './upload-watch.ts';

/** What the relay sees of its backend, for those who keep the fleet's health. */
export interface BackendWitness {
  faulted(fault: UpstreamFault): void;
  /** A head, with the whole body where the status may mean something. @returns the backend takes no work now */
  answered(answer: { status: number; body: string; sentMs: number; generates: boolean }): boolean;
  /** An error event inside a stream. @returns the backend takes no work now */
  streamError(message: string): boolean;
  /** A stream has been silent for a second: is the port still there? Returns how to stop asking. */
  quiet(): () => void;
}

export interface RelayTap extends AnswerTap {
  mark(name: TimelineMark, atMs: number): void;
  responseBytes(bytes: number): void;
  /** warmlane's own time for one read, sampled */
  ownTime(micros: number): void;
}

export interface RelayRequest {
  readonly job: Job;
  readonly head: ClientHead;
  readonly backend: BackendView;
  readonly target: UpstreamTarget;
  /** Path prefix of the backend plus the request's target. */
  readonly path: string;
  readonly headers: readonly string[];
  readonly body: RequestBody;
  readonly fresh: boolean;
  readonly strip: boolean;
  /** Another backend may be asked if this one fails before the client got anything. */
  readonly elsewhere: boolean;
}

export interface RelayDeps {
  readonly clock: Clock;
  readonly ticker: Ticker;
  readonly upstream: UpstreamClient;
  readonly client: ClientPort;
  readonly tap: RelayTap;
  readonly settings: RelaySettings;
  readonly maxEventBytes: number;
  readonly witness: BackendWitness;
}

export type RelayEnd =
  /** The client has its answer, whole or cut. */
  | {
      readonly kind: 'answered';
      readonly outcome: Outcome;
      readonly reason?: string;
      readonly status: number;
      readonly phase: Phase;
      readonly spokenBy: 'warmlane' | 'backend';
    }
  | { readonly kind: 'client_gone'; readonly phase: Phase; readonly reason: string; readonly status?: number }
  /** The client has nothing yet. `again` says what may be tried with the same request. */
  | {
      readonly kind: 'failed';
      readonly refusal: Refusal;
      readonly phase: Phase;
      readonly again: 'same_fresh' | 'elsewhere' | 'elsewhere_once' | 'no';
    }
  /** A bug of ours: the exchange is over, the client has got who knows what. */
  | { readonly kind: 'broken'; readonly error: unknown; readonly phase: Phase };

/** A connection from the pool that dies sooner than this after the request was sent was stale (R01, R02). */
const staleWithinMs = 1000;
/** Error answers are read whole before they are passed on when they may mean something for the fleet; up to this size. */
const maxPeekBytes = 64 * 1024;
const peekMs = 1000;
const quietMs = 1000;
/** One read in so many is timed. */
const sampleEvery = 64;

const answersBeforeErrors: ReadonlySet<Engine> = new Set(['vllm', 'sglang', 'tgi']);

export class Relay implements UpstreamHandler, Ticked {
  readonly #request: RelayRequest;
  readonly #deps: RelayDeps;
  readonly #done: (end: RelayEnd) => void;
  /** This relay, as sockets and the ticker call it. */
  readonly #guarded: UpstreamHandler & Ticked;
  readonly #upload: UploadWatch;
  #exchange: Exchange | undefined;
  #phase: Phase = 'connecting';
  #over = false;
  #committed = false;
  /** The client was promised a length: nothing may be added. */
  #measuredOut = false;
  #head: UpstreamHead | undefined;
  #reader: AnswerReader | undefined;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #holdTimer: Timer | undefined;
  /** The head waits for the first event (R03), for a whole error body, or for nothing. */
  #waiting: 'first_event' | 'error_body' | undefined;
  #reused = false;
  /** Until the request is sent: when that began. */
  #sentMs = 0;
  #lastByteMs = 0;
  #lastContentMs = 0;
  #beatMs = 0;
  #noWork = false;
  /** When the backend's port was seen to refuse; undefined while it was not, or content came since. */
  #lostMs: number | undefined;
  #unwatch: (() => void) | undefined;
  #paused = false;
  #clientTookMs = 0;
  #clientBuffered = 0;
  #reads = 0;

  constructor(request: RelayRequest, deps: RelayDeps, done: (end: RelayEnd) => void) {
    this.#request = request;
    this.#deps = deps;
    this.#done = done;
    this.#guarded = guarded(this, this.#broke);
    this.#upload = watchUpload(request.body, () => deps.clock.nowMs());
  }

  get phase(): Phase {
    return this.#phase;
  }

  start(): void {
    const { job, target, path, headers, fresh, backend } = this.#request;
    const { settings, upstream, client } = this.#deps;
    client.onGone(guard(() => this.#clientGone('client_left'), this.#broke));
    if (this.#over) return;
    client.onDrain(guard(() => this.#drained(), this.#broke));
    this.#exchange = upstream.open(
      target,
      {
        method: job.method,
        target: path,
        headers,
        body: this.#upload.body,
        fresh,
        connectTimeoutMs: settings.deadlines.connectMs,
        reuseAfterStream: backend.engine !== 'llama-server',
      },
      this.#guarded,
    );
  }

  /** The backend's port refuses: silence is now judged sooner. */
  backendRefuses(): void {
    this.#lostMs ??= this.#deps.clock.nowMs();
  }

  /** The drain deadline is over: the answer ends now, visibly unfinished (decision 16). */
  shutdown(refusal: Refusal): void {
    if (this.#over) return;
    this.#exchange?.abort();
    if (this.#committed) this.#breakOff(refusal, 'drain_deadline');
    else this.#fail(refusal, 'no');
  }

  connected(info: { readonly reused: boolean }): void {
    this.#reused = info.reused;
    this.#phase = 'sending';
    const nowMs = this.#deps.clock.nowMs();
    this.#sentMs = nowMs;
    this.#deps.tap.mark('connected', nowMs);
    this.#deps.ticker.add(this.#guarded);
  }

  sent(): void {
    const nowMs = this.#deps.clock.nowMs();
    this.#sentMs = nowMs;
    this.#lastByteMs = nowMs;
    this.#lastContentMs = nowMs;
    if (this.#phase === 'sending') this.#phase = 'waiting_head';
    this.#deps.tap.mark('sent', nowMs);
  }

  head(head: UpstreamHead): void {
    const { clock, tap, settings, maxEventBytes } = this.#deps;
    const { job, backend, strip } = this.#request;
    const nowMs = clock.nowMs();
    this.#head = head;
    this.#lastByteMs = nowMs;
    tap.mark('head', nowMs);
    const medium = mediumOf(head);
    const encoded = !/^(identity)?$/i.test((answerHeader(head, 'content-encoding') ?? '').trim());
    const readable = job.measured && !encoded && head.status < 300;
    this.#reader = createAnswerReader({ medium, format: job.format, maxEventBytes, strip, measured: readable }, tap);
    const streams = medium === 'sse' || medium === 'ndjson' || (medium === 'untold' && job.stream);
    this.#phase = streams && readable ? 'waiting_first_token' : 'reading_answer';
    this.#lastContentMs = nowMs;
    if (head.status === 500 || head.status === 503) this.#hold('error_body', peekMs);
    else if (readable && streams && answersBeforeErrors.has(backend.engine) && settings.headHoldMs > 0) {
      this.#hold('first_event', settings.headHoldMs);
    } else this.#commit();
  }

  body(read: BodyRead): void {
    const { clock, tap, client } = this.#deps;
    const reader = this.#reader;
    if (reader === undefined || read.payloadBytes === 0) return;
    const nowMs = clock.nowMs();
    this.#lastByteMs = nowMs;
    tap.mark('firstByte', nowMs);
    tap.responseBytes(read.payloadBytes);
    this.#reads += 1;
    const output = reader.read(read, nowMs);
    if (reader.readFlags !== 0) this.#seen(reader.readFlags, nowMs);
    if (this.#over) return;
    if (this.#waiting !== undefined) {
      this.#keep(read, output);
      if (this.#waiting === 'first_event' && reader.events > 0) this.#firstEvent();
      else if (this.#heldBytes > maxPeekBytes) this.#commit();
    } else this.#pass(read, output);
    if (this.#reads % sampleEvery === 1) tap.ownTime((clock.nowMs() - nowMs) * 1000);
    if (!this.#paused && client.bufferedBytes > this.#deps.settings.maxBufferedBytes) this.#pause(nowMs);
  }

  end(): void {
    const { clock, tap } = this.#deps;
    const nowMs = clock.nowMs();
    const rest = this.#reader?.end(nowMs);
    if (this.#reader !== undefined && this.#reader.readFlags !== 0) this.#seen(this.#reader.readFlags, nowMs);
    if (this.#over) return;
    tap.mark('end', nowMs);
    if (this.#waiting === 'error_body' && this.#meansElsewhere()) return;
    if (this.#waiting === 'first_event' && (this.#reader?.flags ?? 0) & EventFlag.error && this.#firstEventError()) return;
    this.#commit();
    if (rest !== undefined) this.#deps.client.write(rest);
    const { outcome, reason } = this.#judge();
    if (outcome === 'upstream_truncated' && this.#head?.framing === 'close') {
      this.#breakOff(truncated(this.#request.backend.name), reason ?? 'no_finish');
      return;
    }
    this.#deps.client.end();
    this.#finish({ ...this.#answered(outcome, 'backend'), ...(reason === undefined ? {} : { reason }) });
  }

  fault(fault: UpstreamFault): void {
    const { clock, tap, witness, settings } = this.#deps;
    const nowMs = clock.nowMs();
    if (this.#over) return;
    const refusal = faultRefusal(fault, this.#request.backend.name);
    if (this.#committed) {
      tap.mark('end', nowMs);
      const rest = this.#reader?.end(nowMs);
      if (rest !== undefined) this.#deps.client.write(rest);
      const failed = ((this.#reader?.flags ?? 0) & EventFlag.error) !== 0;
      this.#breakOff({ ...refusal, outcome: failed ? 'upstream_error' : 'upstream_truncated' }, fault.kind);
      return;
    }
    if (fault.nothingSent) {
      witness.faulted(fault);
      this.#fail(refusal, 'elsewhere');
      return;
    }
    const stale = this.#reused && !fault.responseStarted && nowMs - this.#sentMs < staleWithinMs;
    if (stale && !this.#request.fresh && fault.kind !== 'bad_response') {
      this.#fail(refusal, 'same_fresh');
      return;
    }
    if (fault.kind === 'bad_response') {
      this.#fail(refusal, 'no');
      return;
    }
    witness.faulted(fault);
    this.#fail(refusal, settings.retryAfterCrash ? 'elsewhere_once' : 'no');
  }

  tick(nowMs: number): void {
    if (this.#over) return;
    const { client, settings } = this.#deps;
    const waiting = this.#waits();
    const expired =
      totalExpired(waiting, settings.deadlines, nowMs) ??
      // Nobody can be silent who isn't listened to (C126).
      (this.#paused ? undefined : silenceExpired(waiting, settings.deadlines, nowMs));
    if (expired !== undefined) {
      this.#exchange?.abort();
      if (this.#committed) this.#breakOff(expired, expired.code);
      else this.#fail(expired, 'no');
      return;
    }
    if (this.#paused) {
      this.#watchClient(nowMs, client.bufferedBytes);
      return;
    }
    if (nowMs - this.#lastByteMs >= quietMs && this.#phase !== 'sending') this.#unwatch ??= this.#deps.witness.quiet();
    this.#heartbeat(nowMs);
  }

  #waits(): Waiting {
    const { job, backend, body } = this.#request;
    return {
      backend: backend.name,
      phase: this.#phase,
      sentMs: this.#sentMs,
      uploadFullMs: body.kind === 'stream' ? this.#upload.fullMs : this.#sentMs,
      lastByteMs: this.#lastByteMs,
      lastContentMs: this.#lastContentMs,
      lostMs: this.#lostMs,
      bodyBytes: job.bodyBytes,
      stream: job.stream,
      measured: job.measured,
    };
  }

  #heartbeat(nowMs: number): void {
    const { settings, client } = this.#deps;
    if (settings.heartbeatMs === 0 || !this.#committed || this.#measuredOut || this.#reader?.medium !== 'sse') return;
    if (!this.#reader.atBoundary || nowMs - Math.max(this.#lastByteMs, this.#beatMs) < settings.heartbeatMs) return;
    this.#beatMs = nowMs;
    client.write(heartbeat);
  }

  /** A paused stream waits for its client: that alone must not look like a silent backend. */
  #watchClient(nowMs: number, bufferedBytes: number): void {
    if (bufferedBytes !== this.#clientBuffered) {
      this.#clientBuffered = bufferedBytes;
      this.#clientTookMs = nowMs;
    }
    const { clientStallMs } = this.#deps.settings.deadlines;
    if (clientStallMs === 0 || nowMs - this.#clientTookMs <= clientStallMs) return;
    this.#deps.client.cut();
    this.#clientGone('client_stalled');
  }

  #pause(nowMs: number): void {
    this.#paused = true;
    this.#clientTookMs = nowMs;
    this.#clientBuffered = this.#deps.client.bufferedBytes;
    this.#exchange?.pause();
  }

  #drained(): void {
    if (!this.#paused || this.#over) return;
    const nowMs = this.#deps.clock.nowMs();
    this.#paused = false;
    this.#lastByteMs = nowMs;
    this.#lastContentMs = nowMs;
    this.#exchange?.resume();
  }

  #seen(flags: number, nowMs: number): void {
    if ((flags & (EventFlag.token | EventFlag.finish | EventFlag.done | EventFlag.error)) === 0) return;
    this.#lastContentMs = nowMs;
    this.#lostMs = undefined;
    if (this.#unwatch !== undefined) this.#stopWatching();
    if ((flags & EventFlag.token) !== 0 && this.#phase === 'waiting_first_token') this.#phase = 'streaming';
    const error = this.#deps.tap.error;
    if ((flags & EventFlag.error) !== 0 && error !== undefined) this.#noWork = this.#deps.witness.streamError(error.message);
  }

  #pass(read: BodyRead, output: readonly Buffer[] | undefined): void {
    const { client } = this.#deps;
    if (output !== undefined) {
      for (const piece of output) client.write(piece);
      return;
    }
    if (read.verbatim && client.takesChunks) {
      client.writeChunks(read.wire.subarray(read.wireStart, read.wireEnd));
    } else if (read.count === 1) {
      client.write(read.wire.subarray(read.starts[0], read.ends[0]));
    } else {
      client.write(joinSegments(read));
    }
    if (client.bufferedBytes > 0) read.retain();
  }

  #hold(why: 'first_event' | 'error_body', holdMs: number): void {
    this.#waiting = why;
    this.#holdTimer = this.#deps.clock.timer(holdMs, guard(() => this.#commit(), this.#broke));
  }

  #keep(read: BodyRead, output: readonly Buffer[] | undefined): void {
    const pieces = output ?? [joinSegments(read)];
    for (const piece of pieces) {
      this.#held.push(piece);
      this.#heldBytes += piece.length;
    }
  }

  #firstEvent(): void {
    if (((this.#reader?.flags ?? 0) & EventFlag.error) !== 0 && this.#firstEventError()) return;
    this.#commit();
  }

  /** R03: an error with a status as the very first event becomes a true status. */
  #firstEventError(): boolean {
    const { tap } = this.#deps;
    const status = tap.error?.status;
    if (tap.error === undefined || status === undefined || status < 400 || status > 599) return false;
    if (((this.#reader?.flags ?? 0) & EventFlag.token) !== 0) return false;
    this.#exchange?.abort();
    const elsewhere = status === 503 || status === 429 || this.#noWork;
    this.#fail(streamErrorRefusal(status, tap.error.message), elsewhere ? 'elsewhere' : 'no');
    return true;
  }

  /** A whole error answer is here: does it say that another backend should be asked? */
  #meansElsewhere(): boolean {
    const { backend, elsewhere, job } = this.#request;
    const body = Buffer.concat(this.#held).toString('latin1');
    const status = this.#head?.status ?? 0;
    const noWork = this.#deps.witness.answered({ status, body, sentMs: this.#sentMs, generates: job.generates });
    if (!elsewhere || !(noWork || status === 503)) return false;
    this.#fail(streamErrorRefusal(status, `The backend ${backend.name} takes no new work.`), 'elsewhere');
    return true;
  }

  #commit(): void {
    const head = this.#head;
    if (this.#committed || head === undefined || this.#over) return;
    this.#committed = true;
    this.#waiting = undefined;
    this.#holdTimer?.cancel();
    const { client } = this.#deps;
    const { job, head: asked, strip } = this.#request;
    const medium = this.#reader?.medium;
    const stream = mediumOf(head) === 'sse' || mediumOf(head) === 'ndjson' || (job.stream && medium === 'sse');
    const headers = clientHeaders(head, stream, asked.requestId);
    client.cork();
    if (head.framing === 'none') client.head(head.status, head.reason, headers, { kind: 'none' });
    else if (head.framing === 'length' && head.contentLength !== undefined && !(strip && stream)) {
      this.#measuredOut = true;
      client.head(head.status, head.reason, headers, { kind: 'length', bytes: head.contentLength });
    } else client.head(head.status, head.reason, headers, { kind: 'stream' });
    for (const piece of this.#held) client.write(piece);
    client.uncork();
    this.#held = [];
    this.#heldBytes = 0;
    if (head.status < 500) {
      this.#deps.witness.answered({ status: head.status, body: '', sentMs: this.#sentMs, generates: job.generates });
    }
  }

  /** How an answer that ended as its framing says is booked. */
  #judge(): { outcome: Outcome; reason?: string } {
    const status = this.#head?.status ?? 0;
    const reader = this.#reader;
    if (status === 429 || status === 503) return { outcome: 'rejected', reason: 'backend_busy' };
    if (status >= 500) return { outcome: 'upstream_error', reason: `status_${status}` };
    if (status >= 400) return { outcome: 'client_error', reason: `status_${status}` };
    if (reader === undefined) return { outcome: 'ok' };
    if ((reader.flags & EventFlag.error) !== 0 || this.#deps.tap.error !== undefined) {
      return { outcome: 'upstream_error', reason: 'error_event' };
    }
    const read = reader.medium === 'sse' || reader.medium === 'ndjson';
    if (!read || this.#request.job.format === 'unknown') return { outcome: 'ok' };
    if ((reader.flags & (EventFlag.finish | EventFlag.done)) !== 0) return { outcome: 'ok' };
    if (reader.events === 0) return { outcome: 'upstream_error', reason: 'empty_stream' };
    return { outcome: 'upstream_truncated', reason: 'no_finish' };
  }

  /** Ends a committed answer so that its client can tell: an error event where one may stand, and an unclean end. */
  #breakOff(refusal: Refusal, reason: string): void {
    const { client } = this.#deps;
    const { format } = this.#request.job;
    if (this.#reader?.atBoundary === true && !this.#measuredOut) client.write(errorEvent(refusal, format));
    client.cut();
    this.#finish({ ...this.#answered(refusal.outcome, refusal.spokenBy), reason });
  }

  #answered(outcome: Outcome, spokenBy: 'warmlane' | 'backend') {
    return { kind: 'answered', outcome, status: this.#head?.status ?? 0, phase: this.#phase, spokenBy } as const;
  }

  #fail(refusal: Refusal, again: 'same_fresh' | 'elsewhere' | 'elsewhere_once' | 'no'): void {
    this.#finish({ kind: 'failed', refusal, again, phase: this.#phase });
  }

  #clientGone(reason: string): void {
    if (this.#over) return;
    this.#exchange?.abort();
    if (this.#saidAll()) {
      this.#finish({ ...this.#answered('ok', 'backend') });
      return;
    }
    const status = this.#committed && this.#head !== undefined ? { status: this.#head.status } : {};
    this.#finish({ kind: 'client_gone', phase: this.#phase, reason, ...status });
  }

  /** The end marker was passed on: many clients close their connection at it (C077). */
  #saidAll(): boolean {
    const { flags = 0 } = this.#reader ?? {};
    return this.#committed && (flags & EventFlag.done) !== 0 && (flags & EventFlag.error) === 0;
  }

  readonly #broke = (error: unknown): void => {
    if (this.#over) throw error;
    this.#exchange?.abort();
    this.#finish({ kind: 'broken', error, phase: this.#phase });
  };

  #finish(end: RelayEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.#holdTimer?.cancel();
    this.#deps.ticker.remove(this.#guarded);
    this.#stopWatching();
    this.#held = [];
    this.#done(end);
  }

  #stopWatching(): void {
    this.#unwatch?.();
    this.#unwatch = undefined;
  }
}

/** One comment line, one newline: an older client takes a blank line after an id for an event (C008). */
const heartbeat = Buffer.from(': warmlane\n');

function joinSegments(read: BodyRead): Buffer {
  const pieces: Buffer[] = [];
  for (let i = 0; i < read.count; i += 1) pieces.push(read.wire.subarray(read.starts[i], read.ends[i]));
  return Buffer.concat(pieces);
}
