/**
 * From what an observer gathered to the record. Its only effects: it tells the prefill log what this request's prompt
 * cost, and asks it who made this stream wait.
 */
import type { Job } from '../domain/job.ts';
import type { Engine, Outcome, Phase } from '../domain/names.ts';
import type { PrefillStall, RecordMark, RequestRecord, Timeline } from '../domain/record.ts';
import type { AttemptSums } from './attempt.ts';
import { compact } from './dialect/facts.ts';
import { takeFigures } from './figures.ts';
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
  /** The backend was loading or had just started. */
  readonly coldStart?: boolean;
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
  readonly responseBytes: number;
  readonly overheadPerEventMicros: number | undefined;
  readonly readingFailed: boolean;
  readonly prefixHitShare: number;
}

export function buildRecord(gathered: Gathered, ending: Ending): RequestRecord {
  const { start, job, engine, sums } = gathered;
  const { head } = start;
  const { choices, tokens, streamed } = sums;
  const timeline = { ...gathered.timeline, ...sums.moments };
  const endMs = timeline.end ?? ending.atMs;
  const tpot = takeTpot({ streamed, choices, tokens, engine });
  const stalls = settlePrefill(gathered, endMs);
  return compact<RequestRecord>({
    requestId: head.requestId,
    startedAtEpochMs: start.wallMs,
    endpoint: job?.endpoint ?? start.endpoint ?? 'other',
    method: head.method,
    path: head.target.split('?', 1)[0] ?? head.target,
    lane: job?.lane ?? 'online',
    model: job?.model,
    responseModel: sums.responseModel,
    backend: gathered.backend,
    engine,
    outcome: ending.outcome,
    reason: ending.reason,
    phase: ending.outcome === 'ok' ? undefined : ending.phase,
    status: ending.status,
    spokenBy: ending.spokenBy,
    attempts: gathered.attempts,
    streamed,
    format: job?.format ?? 'unknown',
    requestBytes: job?.bodyBytes ?? 0,
    responseBytes: gathered.responseBytes,
    events: sums.tokenEvents,
    tokens,
    finishReasons: sums.finishReasons,
    warmth: warmthOf(tokens, {
      coldStart: ending.coldStart === true,
      prefixHitShare: gathered.prefixHitShare,
    }),
    timeline,
    figures: takeFigures({
      ...gathered,
      timeline,
      endMs,
      streamed,
      choices,
      tokens,
      tpot,
      engineTimes: sums.engineTimes,
    }),
    stamps: sums.stamps,
    stalls: stalls.length === 0 ? undefined : stalls,
    marks: marksOf(gathered, ending, tpot.marks),
  });
}

function marksOf(gathered: Gathered, ending: Ending, tpotMarks: readonly RecordMark[]): RecordMark[] {
  const { sums, start } = gathered;
  const marks = new Set<RecordMark>([...tpotMarks, ...sums.marks, ...(ending.marks ?? [])]);
  if (sums.tokens.output?.source === 'events_estimate') marks.add('estimated_tokens');
  if (ending.outcome === 'ok' && sums.lacksEnd) marks.add('no_end_marker');
  if (gathered.readingFailed) marks.add('reading_failed');
  if (start.lag?.laggedSince(start.head.receivedMs) === true) marks.add('loop_lag');
  return [...marks];
}

/** A prefill that ended without a first token held others up all the same. */
function settlePrefill(gathered: Gathered, endMs: number): PrefillStall[] {
  const { start, job, backend, engine, timeline, sums } = gathered;
  const { prefills, head } = start;
  const fromMs = engine === 'llama-server' ? timeline.head : timeline.sent;
  if (prefills === undefined || backend === undefined || fromMs === undefined || job?.generates !== true) return [];
  const { requestId } = head;
  if (sums.moments.firstToken === undefined) prefills.add(backend, { requestId, fromMs, toMs: endMs });
  const { prompt, cached } = sums.tokens;
  if (prompt !== undefined) prefills.tell(backend, requestId, prompt.value - (cached?.value ?? 0));
  return prefills.explain(backend, requestId, sums.stamps);
}
