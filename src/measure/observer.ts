/**
 * The observer of one request: takes moments from the pipeline and the relay, events and bytes from the answer, and turns
 * them into one record, once. Measuring only: it never changes, delays or keeps a byte, and forgets all text.
 * Where it stands: given to the relay as its tap. `attempt.ts` books events, `build-record.ts` does the sums at the end.
 */
import type { Job } from '../domain/job.ts';
import type { Decoding, DecodeStarts } from '../domain/decoding.ts';
import { type EndpointKind, type Engine, failedOutcomes, type StreamFormat } from '../domain/names.ts';
import type { FailedAttempt, RequestRecord, Timeline, TimelineMark } from '../domain/record.ts';
import type { RouteNote } from '../domain/routing.ts';
import type { StreamTap } from '../domain/tap.ts';
import type { TraceHeaders, TraceIds } from '../domain/trace.ts';
import { Attempt, type AnswerProgress } from './attempt.ts';
import { type AttemptEnd, AttemptLog, type AttemptStart } from './attempt-log.ts';
import { buildRecord, type Ending } from './build-record.ts';
import { type HeadTimes, headTimesOf } from './figures.ts';
import type { ColdStarts } from './cold-starts.ts';
import type { LoopLag } from './loop-lag.ts';
import type { PrefillLog } from './prefill-log.ts';
import type { MeasureSettings } from './settings.ts';
import { createUsableText, noteUsable } from './usable.ts';
import type { UsableText } from './usable-text.ts';

export interface ObserverStart {
  readonly head: {
    readonly requestId: string;
    readonly method: string;
    /** Path with query; the record keeps the path. */
    readonly target: string;
    readonly receivedMs: number;
    /** First value of a header by lower-case name. */
    header?(name: string): string | undefined;
  };
  /** Wall clock at the start, ms since the epoch. */
  readonly wallMs: number;
  readonly lag?: Pick<LoopLag, 'laggedSince'>;
  readonly prefills?: PrefillLog;
  /** Hears when the answer begins to decode, and when it ends. */
  readonly decodes?: DecodeStarts | undefined;
  /** Hears when a generating request that began on a cold backend has ended well. */
  readonly coldStarts?: Pick<ColdStarts, 'isCold' | 'warmed'>;
  /** Known before the body is read; `classified` replaces it. */
  readonly endpoint?: { readonly kind: EndpointKind; readonly format: StreamFormat };
  /** Where the request stands in a trace; absent while tracing is off. */
  readonly trace?: TraceIds | undefined;
}

/** How far a request has come at the backend that has it now. */
export interface RequestProgress extends AnswerProgress {
  /** its last byte was received */
  askedMs: number;
  sentMs: number | undefined;
  /** token events of one choice: the engine may have put several tokens into one */
  events: number;
}

export interface Observer extends StreamTap {
  /** A moment (monotonic ms). The first one given counts, except of `lastToken` and `end`. */
  mark(name: TimelineMark, atMs: number): void;
  classified(job: Job): void;
  /**
   * An attempt on a backend begins: whatever an earlier one brought is forgotten.
   * @returns what the backend is to be told of the trace; undefined while tracing is off
   */
  attempt(attempt: AttemptStart & { readonly atMs?: number }): TraceHeaders | undefined;
  /** The attempt is over, well or not; without this it ends with the next one or with the request. */
  attemptEnd(end: AttemptEnd): void;
  /** A piece of an answer that is not a stream. */
  answer(chunk: Buffer): void;
  /** Such an answer is over: its error is known now, its counts and reasons when the record is. */
  answerEnd(): void;
  /** Reading the answer failed by a bug of ours; what was read so far stays. */
  failed(error: unknown): void;
  /** The request's body is known to have so many bytes. */
  requestBytes(bytes: number): void;
  responseBytes(bytes: number): void;
  /** warmlane answers by itself: what an attempt brought did not reach the client. */
  ownAnswer(bytes: number): void;
  /** warmlane's own time for the latest read, µs, sampled. */
  ownTime(micros: number): void;
  /** Where the time went until now, as far as it is known when a head is passed on. */
  headTimes(): HeadTimes;
  /** Fills in how far it has come. To be asked now and then, not for each token. */
  progress(into: RequestProgress): void;
  /** The request is over. @returns its record, the same one however often it is asked */
  finish(ending: Ending): RequestRecord;
  /** Id that the answer gave itself. */
  readonly responseId: string | undefined;
  /** Of the latest attempt, so far. */
  readonly tokenEvents: number;
  /** What `failed` was told last. */
  readonly failure: unknown;
}

const lastWins: ReadonlySet<TimelineMark> = new Set(['lastToken', 'end']);

export function createObserver(settings: MeasureSettings, start: ObserverStart): Observer {
  return new RequestObserver(settings, start);
}

class RequestObserver implements Observer {
  failure: unknown;
  readonly #settings: MeasureSettings;
  readonly #start: ObserverStart;
  /** Clients may repeat their request ids: this tells one request from another. */
  readonly #key = Symbol('request');
  #timeline: Timeline;
  #job: Job | undefined;
  #backend: string | undefined;
  #engine: Engine | undefined;
  #current: Attempt | undefined;
  #cold = false;
  #attempts = 0;
  #firstAttemptMs: number | undefined;
  #attemptMs: number | undefined;
  /** The latest moment that was marked. */
  #latestMs: number;
  #requestBytes: number | undefined;
  #responseBytes = 0;
  #ownMicros = 0;
  #ownEvents = 0;
  #routeReason: string | undefined;
  #routing: RouteNote | undefined;
  #onFirstToken: (() => void) | undefined;
  readonly #attemptLog: AttemptLog | undefined;
  /** How the latest attempt ended, once somebody told. */
  #attemptEnd: AttemptEnd | undefined;
  #failedAttempts: FailedAttempt[] | undefined;
  #usable: UsableText | undefined;
  #decoding: Decoding | undefined;
  #record: RequestRecord | undefined;

  constructor(settings: MeasureSettings, start: ObserverStart) {
    this.#settings = settings;
    this.#start = start;
    this.#timeline = { received: start.head.receivedMs };
    this.#latestMs = start.head.receivedMs;
    this.#attemptLog = start.trace === undefined ? undefined : new AttemptLog(start.trace);
  }

  get error() {
    return this.#current?.error;
  }

  get responseId() {
    return this.#current?.responseId;
  }

  get tokenEvents() {
    return this.#current?.tokenEvents ?? 0;
  }

  mark(name: TimelineMark, atMs: number): void {
    this.#latestMs = atMs;
    if (this.#timeline[name] === undefined || lastWins.has(name)) this.#timeline[name] = atMs;
    if (name === 'end') this.#decoding?.end(atMs);
  }

  classified(job: Job): void {
    this.#job = job;
  }

  attempt(next: AttemptStart & { readonly atMs?: number }): TraceHeaders | undefined {
    if (this.#attempts > 0) this.#noteFailure();
    this.#attemptLog?.end({ atMs: next.atMs ?? this.#latestMs }, this.#timeline);
    this.#decoding?.end(next.atMs ?? this.#latestMs);
    this.#decoding = undefined;
    this.#backend = next.backend;
    this.#routeReason = next.reason;
    this.#routing = next.routing;
    this.#onFirstToken = next.onFirstToken;
    this.#engine = next.engine;
    this.#cold = this.#job?.generates === true && this.#start.coldStarts?.isCold(next.backend) === true;
    this.#attempts += 1;
    this.#attemptMs = next.atMs ?? this.#latestMs;
    this.#firstAttemptMs ??= this.#attemptMs;
    // The first attempt finds no others' moments.
    if (this.#attempts > 1) this.#timeline = beforeAttempts(this.#timeline);
    this.#responseBytes = 0;
    this.#current = undefined;
    this.#usable = createUsableText(this.#job, this.#settings.maxCheckedBytes);
    return this.#attemptLog?.begin(next, this.#attemptMs);
  }

  attemptEnd(end: AttemptEnd): void {
    this.#attemptEnd = end;
    this.#attemptLog?.end(end, this.#timeline);
  }

  beginRead(atMs: number): void {
    this.#now().beginRead(atMs);
  }

  event(data: Buffer, start: number, end: number, name: string): number {
    this.#usable?.event(data, start, end);
    return this.#now().event(data, start, end, name);
  }

  endRead(): void {}

  gaveUp(): void {
    this.#usable?.lose();
    this.#now().gaveUp();
  }

  answer(chunk: Buffer): void {
    this.#usable?.answer(chunk);
    this.#now().answer(chunk);
  }

  answerEnd(): void {
    this.#now().answerEnd();
  }

  failed(error: unknown): void {
    this.#usable?.lose();
    this.failure = error ?? new Error('reading the answer failed');
  }

  requestBytes(bytes: number): void {
    this.#requestBytes = bytes;
  }

  ownAnswer(bytes: number): void {
    this.#responseBytes = bytes;
  }

  responseBytes(bytes: number): void {
    this.#responseBytes += bytes;
  }

  ownTime(micros: number): void {
    const events = this.#current?.eventsInRead ?? 0;
    if (events === 0) return;
    this.#ownMicros += micros;
    this.#ownEvents += events;
  }

  headTimes(): HeadTimes {
    return headTimesOf({
      timeline: this.#timeline,
      attemptMs: this.#attemptMs,
      firstAttemptMs: this.#firstAttemptMs,
    });
  }

  progress(into: RequestProgress): void {
    const { received, receivedLast, sent, firstToken, lastToken } = this.#timeline;
    into.askedMs = receivedLast ?? received;
    into.sentMs = sent;
    into.tokens = 0;
    into.firstTokenMs = firstToken;
    into.lastTokenMs = lastToken;
    this.#current?.progress(into);
    into.events = into.tokens;
    const counted = this.#record?.tokens.output?.value;
    if (counted !== undefined) into.tokens = counted / (this.#job?.choices ?? 1);
  }

  finish(ending: Ending): RequestRecord {
    if (this.#record !== undefined) return this.#record;
    if (this.#cold && ending.outcome === 'ok' && this.#backend !== undefined)
      this.#start.coldStarts?.warmed(this.#backend);
    if (this.#failedOtherwise(ending)) this.#noteFailure();
    const { atMs, outcome, reason } = ending;
    this.#attemptLog?.end({ atMs, outcome, reason }, this.#timeline);
    this.#decoding?.end(ending.atMs);
    this.#record = buildRecord(
      {
        start: this.#start,
        job: this.#job,
        backend: this.#backend,
        engine: this.#engine,
        timeline: this.#timeline,
        attempts: ending.attempts ?? this.#attempts,
        firstAttemptMs: this.#firstAttemptMs,
        attemptMs: this.#attemptMs,
        sums: this.#now().sums(this.#job?.maxOutputTokens),
        key: this.#key,
        requestBytes: this.#requestBytes,
        responseBytes: this.#responseBytes,
        overheadPerEventMicros: this.#ownEvents === 0 ? undefined : this.#ownMicros / this.#ownEvents,
        readingFailed: this.failure !== undefined,
        prefixHitShare: this.#settings.prefixHitShare,
        coldStart: this.#cold,
        decodeConcurrency: this.#decoding?.concurrency,
        routeReason: this.#routeReason,
        routing: this.#routing,
        failedAttempts: this.#failedAttempts,
        responseId: this.#current?.responseId,
        attemptLog: this.#attemptLog?.list(),
      },
      ending,
    );
    if (this.#settings.maxCheckedBytes !== undefined) noteUsable(this.#record, this.#usable);
    return this.#record;
  }

  /** The latest attempt failed, and the request ended of something else: no place elsewhere, say. */
  #failedOtherwise({ outcome, reason }: Ending): boolean {
    const end = this.#attemptEnd;
    if (end?.outcome === undefined || !failedOutcomes.has(end.outcome)) return false;
    return end.outcome !== outcome || end.reason !== (reason ?? outcome);
  }

  /** The latest attempt did not bring what the client got. */
  #noteFailure(): void {
    if (this.#backend === undefined) return;
    const { outcome = 'upstream_error', reason } = this.#attemptEnd ?? {};
    this.#attemptEnd = undefined;
    this.#failedAttempts ??= [];
    this.#failedAttempts.push(
      reason === undefined ? { backend: this.#backend, outcome } : { backend: this.#backend, outcome, reason },
    );
  }

  #now(): Attempt {
    this.#current ??= new Attempt(this.#settings, {
      format: this.#job?.format ?? 'unknown',
      engine: this.#engine,
      choicesAsked: this.#job?.choices ?? 1,
      onFirstToken: (atMs) => this.#notePrefill(atMs),
    });
    return this.#current;
  }

  /** As soon as the first token is there: a stream that ends meanwhile must find the cause of its stall, and what ran beside it. */
  #notePrefill(toMs: number): void {
    const { prefills, head } = this.#start;
    this.#onFirstToken?.();
    const fromMs = this.#engine === 'llama-server' ? this.#timeline.head : this.#timeline.sent;
    if (this.#backend !== undefined)
      this.#decoding = this.#start.decodes?.began(this.#backend, this.#job?.choices ?? 1, toMs);
    if (fromMs !== undefined && this.#backend !== undefined) {
      prefills?.add(this.#backend, { key: this.#key, requestId: head.requestId, fromMs, toMs });
    }
  }
}

/** The moments that don't belong to an attempt. */
function beforeAttempts(timeline: Timeline): Timeline {
  const { received, receivedLast, classified, queued, admitted } = timeline;
  const kept: Timeline = { received };
  if (receivedLast !== undefined) kept.receivedLast = receivedLast;
  if (classified !== undefined) kept.classified = classified;
  if (queued !== undefined) kept.queued = queued;
  if (admitted !== undefined) kept.admitted = admitted;
  return kept;
}
