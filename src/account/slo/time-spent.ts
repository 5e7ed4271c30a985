/**
 * Where the time of one request went, and so which phase a broken bound is put down to. Pure: the moments of a record, or
 * those that its log line tells, cut into phases that touch and never overlap.
 */
import type { SloPhase } from '../../domain/assessment.ts';
import type { RequestRecord } from '../../domain/record.ts';

/** Moments and durations of one request, ms, moments since its last byte (negative: before it). Absent: not known, or never. */
export interface Course {
  readonly streamed: boolean;
  readonly engine: string | undefined;
  readonly attempts: number;
  readonly queuedMs: number | undefined;
  readonly admittedMs: number | undefined;
  readonly connectedMs: number | undefined;
  readonly sentMs: number | undefined;
  readonly headMs: number | undefined;
  readonly firstTokenMs: number | undefined;
  /** Durations. */
  readonly connectMs: number | undefined;
  readonly engineQueueMs: number | undefined;
  readonly prefillMs: number | undefined;
  /** What other requests' prefills took, up to the moment that is asked for. */
  readonly stalledMs: number;
}

/** Milliseconds in each phase from the request's last byte to `untilMs` (monotonic); phases without time are absent. */
export function timeSpent(record: RequestRecord, untilMs: number): ReadonlyMap<SloPhase, number> {
  return courseSpent(courseOf(record, untilMs), untilMs - beginOf(record));
}

/** The same of a course. @param untilMs since the request's last byte */
export function courseSpent(course: Course, untilMs: number): ReadonlyMap<SloPhase, number> {
  const { connectedMs, sentMs } = course;
  const spent = new Map<SloPhase, number>();
  let atMs = 0;
  const leg = (phase: SloPhase, toMs: number | undefined) => {
    const endMs = Math.min(toMs ?? untilMs, untilMs);
    if (endMs <= atMs) return;
    spent.set(phase, (spent.get(phase) ?? 0) + endMs - atMs);
    atMs = endMs;
  };
  leg('receiving', course.queuedMs);
  leg('queued', course.admittedMs);
  if (course.attempts > 1 && connectedMs !== undefined) leg('failed_attempts', connectedMs - (course.connectMs ?? 0));
  leg('connecting', connectedMs ?? sentMs);
  leg('sending', sentMs);
  if (sentMs === undefined) return spent;
  if (course.streamed) inStream({ ...course, sentMs }, untilMs, leg);
  else inAnswer({ ...course, sentMs }, leg);
  return spent;
}

function courseOf(record: RequestRecord, untilMs: number): Course {
  const { timeline, figures } = record;
  const begin = beginOf(record);
  const since = (moment: number | undefined) => (moment === undefined ? undefined : moment - begin);
  return {
    streamed: record.streamed,
    engine: record.engine,
    attempts: record.attempts,
    queuedMs: since(timeline.queued),
    admittedMs: since(timeline.admitted),
    connectedMs: since(timeline.connected),
    sentMs: since(timeline.sent),
    headMs: since(timeline.head),
    firstTokenMs: since(timeline.firstToken),
    connectMs: figures.connectMs,
    engineQueueMs: figures.engineQueueMs,
    prefillMs: figures.prefillMs,
    stalledMs: stalledMs(record, untilMs),
  };
}

/** The phase that took most of it. */
export function longestPhase(record: RequestRecord, untilMs: number): SloPhase {
  let longest: SloPhase = record.phase ?? 'receiving';
  let longestMs = 0;
  for (const [phase, ms] of timeSpent(record, untilMs)) {
    if (ms <= longestMs) continue;
    longest = phase;
    longestMs = ms;
  }
  return longest;
}

/** The moment from which figures count. */
export function beginOf({ timeline }: RequestRecord): number {
  return timeline.receivedLast ?? timeline.received;
}

export function endOf(record: RequestRecord): number {
  return beginOf(record) + record.figures.durationMs;
}

/** What other requests' prefills took from this stream up to a moment. */
export function stalledMs({ stalls }: RequestRecord, untilMs: number): number {
  let ms = 0;
  for (const { atMs, durationMs } of stalls ?? []) if (atMs < untilMs) ms += durationMs;
  return ms;
}

type Leg = (phase: SloPhase, toMs: number | undefined) => void;
type Sent = Course & { readonly sentMs: number };

function inStream(course: Sent, untilMs: number, leg: Leg): void {
  const { engine, sentMs, headMs, firstTokenMs, engineQueueMs } = course;
  // llama-server's head comes when a slot starts: until then its queue has the request.
  if (engine === 'llama-server' && headMs === undefined && firstTokenMs === undefined)
    return leg('engine_queue', untilMs);
  if (engineQueueMs !== undefined) leg('engine_queue', Math.min(sentMs + engineQueueMs, firstTokenMs ?? untilMs));
  leg('prefill', firstTokenMs);
  if (firstTokenMs === undefined || firstTokenMs >= untilMs) return;
  leg('stalled', firstTokenMs + course.stalledMs);
  leg('decode', untilMs);
}

/** Not streamed: all that is seen is when its head and its end came, unless the engine told its times. */
function inAnswer({ sentMs, headMs, engineQueueMs = 0, prefillMs }: Sent, leg: Leg): void {
  if (prefillMs === undefined) {
    leg('waiting_head', headMs);
    return leg('reading_answer', undefined);
  }
  leg('engine_queue', sentMs + engineQueueMs);
  leg('prefill', sentMs + engineQueueMs + prefillMs);
  leg('decode', undefined);
}
