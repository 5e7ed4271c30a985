/**
 * One attempt to have one backend answer one job, byte for byte, towards one client.
 * Owns: the moment the head is committed, back-pressure, deadlines, what happens when either side goes away.
 * Must not choose backends, retry, or decide what a token is.
 */
import type { Outcome, Phase } from '../domain/names.ts';
import type { RecordMark } from '../domain/record.ts';
import type { Refusal } from '../domain/refusal.ts';
import { EventFlag } from '../domain/tap.ts';
import type { Place } from '../platform/bag.ts';
import type { BodyRead, Exchange, UpstreamFault, UpstreamHandler, UpstreamHead } from '../platform/upstream/port.ts';
import { createAnswerReader, type AnswerReader } from './answer-reader.ts';
import type { Again, RelayDeps, RelayEnd, RelayEndKind, RelayRequest } from './attempt.ts';
import { bareHead, committedHead } from './client-head.ts';
import { silenceExpired, totalExpired, type Waiting } from './deadlines.ts';
import { errorEvent, heartbeat } from './error-shape.ts';
import { guard, guarded } from './guarded.ts';
import { answersBeforeErrors, HeadHold, type HoldReason, peekMs } from './head-hold.ts';
import { againAt, isSaid, judgeAnswer, judgeFault } from './judge.ts';
import { passRead } from './pass-read.ts';
import { faultRefusal, reclaimedRefusal, streamErrorRefusal, truncated } from './refusals.ts';
import { answerHeader, mediumOf } from './response-head.ts';
import { SlowClient } from './slow-client.ts';
import type { Ticked } from './ticker.ts';
import { type UploadWatch, watchUpload } from './upload-watch.ts';

const quietMs = 1000;
/** One read in so many is timed. */
const sampleEvery = 64;

export class Relay implements UpstreamHandler, Ticked {
  readonly #request: RelayRequest;
  readonly #deps: RelayDeps;
  readonly #done: (end: RelayEnd) => void;
  /** This relay, as sockets and the ticker call it. */
  readonly #guarded: UpstreamHandler & Ticked;
  readonly #upload: UploadWatch;
  #exchange: Exchange | undefined;
  /** We ended the exchange before the backend had said all. */
  #aborted = false;
  /** The backend has said all, and its end waits to be passed on together with others. */
  #isWhole = false;
  #phase: Phase = 'connecting';
  #over = false;
  #committed = false;
  #ticking: Place | undefined;
  #isSent = false;
  /** The client was promised a length: nothing may be added. */
  #measuredOut = false;
  #head: UpstreamHead | undefined;
  #reader: AnswerReader | undefined;
  readonly #hold = new HeadHold();
  #reused = false;
  /** Until the request is sent: when that began. */
  #sentMs = 0;
  #lastByteMs = 0;
  #lastContentMs = 0;
  #beatMs = 0;
  #engineDied = false;
  #errorText = '';
  /** The witness has heard of the held error. */
  #isTold = false;
  /** The answer came in a content coding, so it passed unread. */
  #unread = false;
  /** When the backend's port was seen to refuse; undefined while it was not, or content came since. */
  #lostMs: number | undefined;
  #unwatch: (() => void) | undefined;
  /** Set while nothing is read, until the client has taken what waits. */
  #slow: SlowClient | undefined;
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

  /** The client has a head: nothing else can be answered any more. */
  get committed(): boolean {
    return this.#committed;
  }

  /** What the backend answered with; undefined before its head. */
  get backendStatus(): number | undefined {
    return this.#head?.status;
  }

  /** What a backend said with a status from 500 on, as far as it was held; else ''. */
  get errorText(): string {
    return this.#errorText;
  }

  /** The answer ends with its connection: from outside its end and a break look alike. */
  get endsByClose(): boolean {
    return this.#head?.framing === 'close';
  }

  start(): void {
    // Taken back or ended before its turn came: whoever ended it listens to the client now.
    if (this.#over) return;
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
    this.#request.headers = [];
  }

  /** The backend's port refuses: silence is now judged sooner. */
  backendRefuses(): void {
    this.#lostMs ??= this.#deps.clock.nowMs();
  }

  /** The drain deadline is over: the answer ends now, visibly unfinished (decision 16). */
  shutdown(refusal: Refusal): void {
    if (this.#over || this.#isWhole) return;
    this.#abort();
    if (this.#committed) this.#breakOff(refusal, refusal.reason ?? 'drain_deadline');
    else this.#fail(refusal, 'no');
  }

  /** Its place is wanted for online work: it leaves its backend, and its client hears nothing of it. Only before a head. */
  takeBack(): void {
    if (this.#over || this.#committed) return;
    this.#abort();
    this.#fail(reclaimedRefusal(), 'reclaimed');
  }

  connected(info: { readonly reused: boolean }): void {
    this.#reused = info.reused;
    this.#phase = 'sending';
    const nowMs = this.#deps.clock.nowMs();
    this.#sentMs = nowMs;
    this.#deps.tap.mark('connected', nowMs);
    this.#ticking = this.#deps.ticker.add(this.#guarded);
  }

  sent(): void {
    const nowMs = this.#deps.clock.nowMs();
    this.#sentMs = nowMs;
    this.#lastByteMs = nowMs;
    this.#lastContentMs = nowMs;
    if (this.#phase === 'sending') this.#phase = 'waiting_head';
    this.#deps.tap.mark('sent', nowMs);
    this.#isSent = true;
    if (this.#committed) this.#deps.bodyDone();
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
    this.#unread = job.measured && encoded;
    const readable = job.measured && !encoded && head.status < 300;
    this.#reader = createAnswerReader({ medium, format: job.format, maxEventBytes, strip, measured: readable }, tap);
    const streams = medium === 'sse' || medium === 'ndjson' || (medium === 'untold' && job.stream);
    this.#phase = streams && readable ? 'waiting_first_token' : 'reading_answer';
    this.#lastContentMs = nowMs;
    if (head.status === 500 || head.status === 503) this.#holdBack('error_body', peekMs);
    else if (readable && streams && answersBeforeErrors.has(backend.engine) && settings.headHoldMs > 0) {
      this.#holdBack('first_event', settings.headHoldMs);
    } else this.#commit();
  }

  body(read: BodyRead): void {
    const { clock, tap, client } = this.#deps;
    const reader = this.#reader;
    if (reader === undefined || read.payloadBytes === 0) return;
    const nowMs = clock.nowMs();
    this.#lastByteMs = nowMs;
    if (this.#reads === 0) tap.mark('firstByte', nowMs);
    tap.responseBytes(read.payloadBytes);
    this.#reads += 1;
    const output = reader.read(read, nowMs);
    if (reader.readFlags !== 0) this.#seen(reader.readFlags, nowMs);
    if (this.#over) return;
    const { waitsFor } = this.#hold;
    if (waitsFor !== undefined) {
      this.#hold.keep(read, output);
      const hasEvent = waitsFor === 'first_event' && reader.events > 0;
      if (hasEvent && this.#firstEventError()) return;
      if (hasEvent || this.#hold.full) this.#commit();
    } else passRead(client, read, output);
    // Not the first read: it would mostly tell how cold the code was.
    if (this.#reads % sampleEvery === sampleEvery / 2) tap.ownTime((clock.nowMs() - nowMs) * 1000);
    if (this.#slow === undefined && client.bufferedBytes > this.#deps.settings.maxBufferedBytes) this.#pause(nowMs);
  }

  /**
   * Answers that aren't streamed are ended together, after what the turn had to read: a client that sleeps is woken once for
   * many of them, which costs more than all else. What a stream says last leaves at once.
   */
  end(): void {
    const nowMs = this.#deps.clock.nowMs();
    const waits = this.#committed && !this.#over && this.#reader?.streams === false && this.#head?.framing !== 'close';
    if (!waits) return this.#saidAll(nowMs);
    this.#isWhole = true;
    this.#deps.client.cork();
    this.#deps.ends.take(guard(() => (this.#over ? undefined : this.#saidAll(this.#deps.clock.nowMs())), this.#broke));
  }

  #saidAll(nowMs: number): void {
    const { client, tap } = this.#deps;
    if (this.#isWhole) client.end();
    const whole = this.#reader?.atBoundary === true;
    const rest = this.#reader?.end(nowMs);
    if (this.#reader !== undefined && this.#reader.readFlags !== 0) this.#seen(this.#reader.readFlags, nowMs);
    if (this.#over) return;
    tap.mark('end', nowMs);
    if (this.#hold.waitsFor === 'error_body' && this.#meansElsewhere()) return;
    if (this.#hold.waitsFor === 'first_event' && this.#firstEventError()) return;
    this.#commit();
    if (rest !== undefined) client.write(rest);
    const { outcome, reason } = judgeAnswer({
      status: this.#head?.status ?? 0,
      reader: this.#reader,
      format: this.#request.job.format,
      toldError: tap.error !== undefined,
    });
    if (outcome === 'upstream_truncated' && this.#head?.framing === 'close') {
      this.#breakOff(truncated(this.#request.backend.name), reason ?? 'no_finish', whole);
      return;
    }
    if (!this.#isWhole) client.end();
    const end = this.#answered(outcome, 'backend');
    this.#finish(reason === undefined ? end : { ...end, reason });
  }

  fault(fault: UpstreamFault): void {
    const { clock, tap, witness } = this.#deps;
    const nowMs = clock.nowMs();
    if (this.#over) return;
    const refusal = faultRefusal(fault, this.#request.backend.name);
    if (this.#committed) {
      tap.mark('end', nowMs);
      const whole = this.#reader?.atBoundary === true;
      const rest = this.#reader?.end(nowMs);
      if (rest !== undefined) this.#deps.client.write(rest);
      const failed = ((this.#reader?.flags ?? 0) & EventFlag.error) !== 0;
      this.#breakOff({ ...refusal, outcome: failed ? 'upstream_error' : 'upstream_truncated' }, fault.kind, whole);
      return;
    }
    const verdict = judgeFault(fault, {
      request: this.#request,
      refusal,
      isReused: this.#reused,
      sinceSentMs: nowMs - this.#sentMs,
      afterCrash: this.#afterCrash(),
    });
    if (verdict.isBackends) witness.faulted(fault);
    this.#fail(verdict.refusal, verdict.again);
  }

  tick(nowMs: number): void {
    if (this.#over || this.#isWhole) return;
    const { client, settings } = this.#deps;
    const waiting = this.#waits();
    const expired =
      totalExpired(waiting, settings.deadlines, nowMs) ??
      // Nobody can be silent who isn't listened to (C126).
      (this.#slow !== undefined ? undefined : silenceExpired(waiting, settings.deadlines, nowMs));
    if (expired !== undefined) {
      this.#abort();
      if (this.#committed) this.#breakOff(expired, expired.code);
      else this.#fail(expired, 'no');
      return;
    }
    if (this.#slow !== undefined) {
      // No drain is told of what stayed below the socket's own high-water mark.
      if (client.bufferedBytes <= settings.maxBufferedBytes / 2) this.#drained();
      else this.#watchClient(this.#slow.stalledMs(nowMs, client.bufferedBytes));
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
  #watchClient(stalledMs: number): void {
    const { clientStallMs } = this.#deps.settings.deadlines;
    if (clientStallMs === 0 || stalledMs <= clientStallMs) return;
    this.#deps.client.cut();
    this.#clientGone('client_stalled');
  }

  #pause(nowMs: number): void {
    this.#slow = new SlowClient(nowMs, this.#deps.client.bufferedBytes);
    this.#exchange?.pause();
  }

  #drained(): void {
    if (this.#slow === undefined || this.#over) return;
    const nowMs = this.#deps.clock.nowMs();
    this.#slow = undefined;
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
    if ((flags & EventFlag.error) !== 0 && error !== undefined)
      this.#engineDied = this.#deps.witness.streamError(error.message);
  }

  #holdBack(reason: HoldReason, holdMs: number): void {
    const commit = guard(() => this.#commit(), this.#broke);
    this.#hold.begin(reason, this.#deps.clock.timer(holdMs, commit));
  }

  /** R03: an error with a status as the very first event becomes a true status. */
  #firstEventError(): boolean {
    const { status, message = '', body } = this.#deps.tap.error ?? {};
    if (status === undefined || status < 400 || status > 599) return false;
    if (((this.#reader?.flags ?? 0) & EventFlag.token) !== 0) return false;
    this.#abort();
    this.#fail(streamErrorRefusal(status, message, body), this.#engineDied ? this.#afterCrash() : againAt(status));
    return true;
  }

  /** Decision 11: what may have killed an engine visits another one only if that is wanted, and once. */
  #afterCrash(): 'elsewhere_once' | 'no' {
    return this.#deps.settings.retryAfterCrash ? 'elsewhere_once' : 'no';
  }

  /** A whole error answer is here: does it say that another backend should be asked? */
  #meansElsewhere(): boolean {
    const { backend, elsewhere } = this.#request;
    const status = this.#head?.status ?? 0;
    const noWork = this.#tellAnswer(status, this.#hold.text());
    this.#isTold = true;
    if (!elsewhere || !(noWork || status === 503)) return false;
    this.#fail(streamErrorRefusal(status, `The backend ${backend.name} takes no new work.`), 'elsewhere');
    return true;
  }

  #tellAnswer(status: number, body: string): boolean {
    if (status >= 500) this.#errorText = body;
    const { generates } = this.#request.job;
    return this.#deps.witness.answered({ status, body, sentMs: this.#sentMs, generates });
  }

  #commit(): void {
    const head = this.#head;
    if (this.#committed || head === undefined || this.#over) return;
    this.#committed = true;
    if (this.#isSent) this.#deps.bodyDone();
    // An error that came too slowly, or was too long, is judged by what is here.
    const errorSoFar = this.#hold.waitsFor === 'error_body' && !this.#isTold ? this.#hold.text() : undefined;
    const held = this.#hold.release();
    const { client, settings, tap } = this.#deps;
    const { headers, framing } = committedHead(head, this.#request, { settings, times: tap.headTimes() });
    // As for the request's: from now on only the status and the framing matter.
    this.#head = bareHead(head);
    client.cork();
    this.#measuredOut = framing.kind === 'length';
    client.head(head.status, head.reason, headers, framing);
    for (const piece of held) client.write(piece);
    client.uncork();
    if (head.status < 500) this.#tellAnswer(head.status, '');
    else if (errorSoFar !== undefined) this.#tellAnswer(head.status, errorSoFar);
  }

  /**
   * Ends a committed answer so that its client can tell: an error event where one may stand, and an unclean end.
   * @param whole no event is left unfinished; to be asked before the reader is told of the end
   */
  #breakOff(refusal: Refusal, reason: string, whole = this.#reader?.atBoundary === true): void {
    const { client } = this.#deps;
    if (whole && !this.#measuredOut) client.write(errorEvent(refusal, this.#request.job.format));
    client.cut();
    this.#finish({ ...this.#answered(refusal.outcome, refusal.spokenBy), reason });
  }

  #answered(outcome: Outcome, spokenBy: 'warmlane' | 'backend') {
    const marks: readonly RecordMark[] = this.#unread ? ['encoded_answer'] : [];
    return { kind: 'answered', outcome, status: this.#head?.status ?? 0, phase: this.#phase, spokenBy, marks } as const;
  }

  #fail(refusal: Refusal, again: Again): void {
    this.#finish({ kind: 'failed', refusal, again, phase: this.#phase });
  }

  #clientGone(reason: string): void {
    if (this.#over) return;
    if (this.#isWhole) this.#reader?.end(this.#deps.clock.nowMs());
    this.#abort();
    // The end marker was passed on and taken: many clients close their connection at it (C077).
    const tookAll = this.#committed && this.#slow === undefined && isSaid(this.#reader);
    if (reason === 'client_left' && tookAll) return this.#finish(this.#answered('ok', 'backend'));
    const status = this.#committed && this.#head !== undefined ? { status: this.#head.status } : {};
    this.#finish({ kind: 'client_gone', phase: this.#phase, reason, ...status });
  }

  readonly #broke = (error: unknown): void => {
    if (this.#over) throw error;
    this.#abort();
    this.#finish({ kind: 'broken', error, phase: this.#phase });
  };

  #abort(): void {
    this.#aborted = !this.#isWhole && ((this.#reader?.flags ?? 0) & (EventFlag.done | EventFlag.error)) === 0;
    this.#exchange?.abort();
  }

  #finish(end: RelayEndKind): void {
    if (this.#over) return;
    this.#over = true;
    this.#hold.release();
    if (this.#ticking !== undefined) this.#deps.ticker.remove(this.#ticking);
    this.#stopWatching();
    // The spread comes last: V8 gives an object that begins with one a shape of its own each time.
    this.#done({ aborted: this.#aborted, ...end });
  }

  #stopWatching(): void {
    this.#unwatch?.();
    this.#unwatch = undefined;
  }
}
