/**
 * From what an observer gathered to the record. Its only effects: it tells the prefill log what this request's prompt
 * cost, and asks it who made this stream wait.
 */
import type { Job } from '../domain/job.ts';
import type { Engine, Outcome, Phase } from '../domain/names.ts';
import type { FailedAttempt, PrefillStall, RecordMark, RequestRecord, Timeline } from '../domain/record.ts';
import type { RouteNote } from '../domain/routing.ts';
import type { AttemptRecord } from '../domain/trace.ts';
import type { AttemptSums, EventMoments } from './attempt.ts';
import { takeFigures } from './figures.ts';
import { itlSketch } from './itl.ts';
import type { ObserverStart } from './observer.ts';
import { takeTpot } from './tpot.ts';
import { warmthOf } from './warmth.ts';

export interface Ending {
  readonly outcome: Outcome;
  readonly spokenBy: 'warmlane' | 'backend';
  /** Monotonic moment of the end, for what has no `end` mark of its own. */
  readonly atMs: number;
  readonly status?: number;
  readonly reason?: string;
  /** Kept in the record unless the outcome is `ok`. */
  readonly phase?: Phase;
  /** Attempts made, when the caller counts them; else those told to `attempt`. */
  readonly attempts?: number;
  /** How often its place was taken for online work. */
  readonly reclaimed?: number | undefined;
  /** An earlier answer was given again. */
  readonly replayed?: true;
  /** Notes that only the caller can make. */
  readonly marks?: readonly RecordMark[];
}

export interface Gathered {
  readonly start: ObserverStart;
  readonly job: Job | undefined;
  readonly backend: string | undefined;
  readonly engine: Engine | undefined;
  readonly timeline: Timeline;
  readonly attempts: number;
  readonly firstAttemptMs: number | undefined;
  readonly attemptMs: number | undefined;
  readonly sums: AttemptSums;
  /** Tells this request from others with its id. */
  readonly key: symbol;
  readonly requestBytes: number | undefined;
  readonly responseBytes: number;
  readonly overheadPerEventMicros: number | undefined;
  readonly readingFailed: boolean;
  readonly prefixHitShare: number;
  /** The backend had generated nothing since it was seen loading or down. */
  readonly coldStart: boolean;
  /** Mean number of sequences that decoded there meanwhile. */
  readonly decodeConcurrency: number | undefined;
  readonly routeReason: string | undefined;
  readonly routing: RouteNote | undefined;
  readonly failedAttempts: readonly FailedAttempt[] | undefined;
  readonly responseId: string | undefined;
  /** Absent while tracing is off. */
  readonly attemptLog: readonly AttemptRecord[] | undefined;
}

export function buildRecord(gathered: Gathered, ending: Ending): RequestRecord {
  const { start, job, engine, sums } = gathered;
  const { head } = start;
  const { choices, tokens } = sums;
  const unanswered = gotNoAnswer(gathered, ending);
  const streamed = sums.streamed || (unanswered && job?.stream === true);
  const timeline = withMoments(gathered.timeline, sums.moments);
  const endMs = timeline.end ?? ending.atMs;
  const tpot = takeTpot({ streamed, unanswered, choices, tokens, engine });
  const stalls = settlePrefill(gathered, endMs);
  const record: Writable<RequestRecord> = {
    requestId: head.requestId,
    startedAtEpochMs: start.wallMs,
    endpoint: job?.endpoint ?? start.endpoint?.kind ?? 'other',
    method: head.method,
    path: boundedPath(head.target),
    lane: job?.lane ?? 'online',
    outcome: ending.outcome,
    spokenBy: ending.spokenBy,
    attempts: gathered.attempts,
    streamed,
    format: job?.format ?? start.endpoint?.format ?? 'unknown',
    responseBytes: gathered.responseBytes,
    events: sums.tokenEvents,
    tokens,
    finishReasons: sums.finishReasons,
    warmth:
      ending.replayed === true
        ? 'replayed'
        : warmthOf(tokens, {
            coldStart: gathered.coldStart,
            prefixHitShare: gathered.prefixHitShare,
          }),
    timeline,
    figures: takeFigures({
      attemptMs: gathered.attemptMs,
      firstAttemptMs: gathered.firstAttemptMs,
      overheadPerEventMicros: gathered.overheadPerEventMicros,
      engine,
      timeline,
      endMs,
      streamed,
      choices,
      tokens,
      tpot,
      engineTimes: sums.engineTimes,
    }),
    marks: marksOf(gathered, ending, tpot.marks),
  };
  addOptional(record, gathered, ending);
  if (stalls.length > 0) record.stalls = stalls;
  return record;
}

/** Into the observer's own timeline, which ends here: a copy would cost a shape of its own (see answer-reader.ts). */
function withMoments(timeline: Timeline, moments: EventMoments): Timeline {
  if (moments.firstEvent !== undefined) timeline.firstEvent = moments.firstEvent;
  if (moments.role !== undefined) timeline.role = moments.role;
  if (moments.firstToken !== undefined) timeline.firstToken = moments.firstToken;
  if (moments.firstAnswer !== undefined) timeline.firstAnswer = moments.firstAnswer;
  if (moments.lastToken !== undefined) timeline.lastToken = moments.lastToken;
  if (moments.finish !== undefined) timeline.finish = moments.finish;
  return timeline;
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };

/**
 * What may be absent. Each key by its name: an object of this size that is filled by computed keys becomes a hash table in
 * V8, dear to make, to keep and to collect.
 */
function addOptional(record: Writable<RequestRecord>, gathered: Gathered, ending: Ending): void {
  const { start, job, backend, engine, requestBytes, sums, routeReason, attemptLog } = gathered;
  if (job?.model !== undefined) record.model = job.model;
  if (job?.tenant !== undefined) record.tenant = job.tenant;
  if (sums.responseModel !== undefined) record.responseModel = sums.responseModel;
  const { responseId, failedAttempts } = gathered;
  if (responseId !== undefined && responseId.length <= longestId) record.responseId = responseId;
  if (job?.maxOutputTokens !== undefined) record.maxOutputTokens = job.maxOutputTokens;
  if (job?.generates === true && job.choices !== 1) record.choices = job.choices;
  if (backend !== undefined) record.backend = backend;
  if (engine !== undefined) record.engine = engine;
  if (ending.reason !== undefined) record.reason = ending.reason;
  if (ending.outcome !== 'ok' && ending.phase !== undefined) record.phase = ending.phase;
  if (ending.status !== undefined) record.status = ending.status;
  if (ending.reclaimed !== undefined && ending.reclaimed > 0) record.reclaimed = ending.reclaimed;
  if (requestBytes !== undefined) record.requestBytes = requestBytes;
  if (sums.stamps !== undefined) {
    record.stamps = sums.stamps;
    const itl = itlSketch(sums.stamps);
    if (itl !== undefined) record.itl = itl;
  }
  const { decodeConcurrency } = gathered;
  if (decodeConcurrency !== undefined) record.assessment = { decodeConcurrency };
  if (routeReason !== undefined) record.routeReason = routeReason;
  const { routing } = gathered;
  if (routing !== undefined) record.routing = routing;
  if (failedAttempts !== undefined) record.failedAttempts = failedAttempts;
  if (start.trace !== undefined) {
    record.trace = start.trace;
    const host = start.head.header?.('host');
    if (host !== undefined && host.length <= longestHost) record.host = host;
  }
  if (attemptLog !== undefined) record.attemptLog = attemptLog;
}

/** Nothing came of it: no head, or the head of a stream and no byte after it. */
function gotNoAnswer({ timeline, sums }: Gathered, { phase }: Ending): boolean {
  if (sums.streamed || timeline.firstByte !== undefined) return false;
  return timeline.head === undefined || phase === 'waiting_first_token';
}

const longestPath = 1024;
/** A part of an id, or of a name, would be another one: what is longer is left out. */
const longestId = 128;
const longestHost = 256;

function boundedPath(target: string): string {
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  // A copy: a slice would keep the whole target alive.
  return path.length <= longestPath ? path : Buffer.from(`${path.slice(0, longestPath - 1)}…`).toString();
}

function marksOf(gathered: Gathered, ending: Ending, tpotMarks: readonly RecordMark[]): RecordMark[] {
  const { sums, start } = gathered;
  const marks = new Set<RecordMark>(tpotMarks);
  for (const mark of sums.marks) marks.add(mark);
  for (const mark of ending.marks ?? []) marks.add(mark);
  if (sums.tokens.output?.source === 'events_estimate') marks.add('estimated_tokens');
  if (ending.outcome === 'ok' && sums.lacksEnd) marks.add('no_end_marker');
  if (gathered.readingFailed) marks.add('reading_failed');
  if (start.lag?.laggedSince(start.head.receivedMs) === true) marks.add('loop_lag');
  return [...marks];
}

/** A prefill that ended without a first token held others up all the same. */
function settlePrefill(gathered: Gathered, endMs: number): PrefillStall[] {
  const { start, key, job, backend, engine, timeline, sums } = gathered;
  const { prefills, head } = start;
  const fromMs = engine === 'llama-server' ? timeline.head : timeline.sent;
  if (prefills === undefined || backend === undefined || fromMs === undefined || job?.generates !== true) return [];
  const { requestId } = head;
  if (sums.moments.firstToken === undefined) prefills.add(backend, { key, requestId, fromMs, toMs: endMs });
  const { prompt, cached } = sums.tokens;
  if (prompt !== undefined) prefills.tell(backend, key, prompt.value - (cached?.value ?? 0));
  return prefills.explain(backend, key, sums.stamps);
}
