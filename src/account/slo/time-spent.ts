/**
 * Where the time of one request went, and so which phase a broken bound is put down to. Pure: the record's moments, cut
 * into phases that touch and never overlap.
 */
import type { SloPhase } from '../../domain/assessment.ts';
import type { RequestRecord } from '../../domain/record.ts';

/** Milliseconds in each phase from the request's last byte to `untilMs` (monotonic); phases without time are absent. */
export function timeSpent(record: RequestRecord, untilMs: number): ReadonlyMap<SloPhase, number> {
  const { timeline, figures, attempts } = record;
  const spent = new Map<SloPhase, number>();
  let atMs = beginOf(record);
  const leg = (phase: SloPhase, toMs: number | undefined) => {
    const endMs = Math.min(toMs ?? untilMs, untilMs);
    if (endMs <= atMs) return;
    spent.set(phase, (spent.get(phase) ?? 0) + endMs - atMs);
    atMs = endMs;
  };
  leg('receiving', timeline.queued);
  leg('queued', timeline.admitted);
  const { connected } = timeline;
  if (attempts > 1 && connected !== undefined) leg('failed_attempts', connected - (figures.connectMs ?? 0));
  leg('connecting', connected ?? timeline.sent);
  leg('sending', timeline.sent);
  if (record.streamed) inStream(record, untilMs, leg);
  else inAnswer(record, leg);
  return spent;
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

function inStream(record: RequestRecord, untilMs: number, leg: Leg): void {
  const { timeline, figures, engine } = record;
  const { sent, head, firstToken } = timeline;
  if (sent === undefined) return;
  // llama-server's head comes when a slot starts: until then its queue has the request.
  if (engine === 'llama-server' && head === undefined && firstToken === undefined) return leg('engine_queue', untilMs);
  const { engineQueueMs } = figures;
  if (engineQueueMs !== undefined) leg('engine_queue', Math.min(sent + engineQueueMs, firstToken ?? untilMs));
  leg('prefill', firstToken);
  if (firstToken === undefined || firstToken >= untilMs) return;
  leg('stalled', firstToken + stalledMs(record, untilMs));
  leg('decode', untilMs);
}

/** Not streamed: all that is seen is when its head and its end came, unless the engine told its times. */
function inAnswer({ timeline, figures }: RequestRecord, leg: Leg): void {
  const { sent, head } = timeline;
  const { engineQueueMs = 0, prefillMs } = figures;
  if (sent === undefined) return;
  if (prefillMs === undefined) {
    leg('waiting_head', head);
    return leg('reading_answer', undefined);
  }
  leg('engine_queue', sent + engineQueueMs);
  leg('prefill', sent + engineQueueMs + prefillMs);
  leg('decode', undefined);
}
