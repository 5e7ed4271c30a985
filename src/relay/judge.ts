/** How an answer that ended is booked, by itself or by a fault, and what an end leaves behind at the engine. Pure. */
import type { Engine, Outcome, StreamFormat } from '../domain/names.ts';
import type { RecordMark } from '../domain/record.ts';
import { EventFlag } from '../domain/tap.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { UpstreamFault } from '../platform/upstream/port.ts';
import type { AnswerReader } from './answer-reader.ts';
import type { Again, RelayEnd, RelayRequest } from './attempt.ts';
import { crashRefusal } from './refusals.ts';

export interface EndedAnswer {
  readonly status: number;
  readonly reader: Pick<AnswerReader, 'flags' | 'events' | 'medium'> | undefined;
  readonly format: StreamFormat;
  /** The answer told an error, as an event or as its body. */
  readonly toldError: boolean;
}

export function judgeAnswer({ status, reader, format, toldError }: EndedAnswer): {
  readonly outcome: Outcome;
  readonly reason?: string;
} {
  if (status === 429 || status === 503) return { outcome: 'rejected', reason: 'backend_busy' };
  if (status >= 500) return { outcome: 'upstream_error', reason: `status_${status}` };
  if (status >= 400) return { outcome: 'client_error', reason: `status_${status}` };
  if (reader === undefined) return { outcome: 'ok' };
  if ((reader.flags & EventFlag.error) !== 0 || toldError) return { outcome: 'upstream_error', reason: 'error_event' };
  const read = reader.medium === 'sse' || reader.medium === 'ndjson';
  if (!read || format === 'unknown') return { outcome: 'ok' };
  if ((reader.flags & (EventFlag.finish | EventFlag.done)) !== 0) return { outcome: 'ok' };
  if (reader.events === 0) return { outcome: 'upstream_error', reason: 'empty_stream' };
  return { outcome: 'upstream_truncated', reason: 'no_finish' };
}

/** The end marker came, and no error did. */
export function isSaid(reader: Pick<AnswerReader, 'flags'> | undefined): boolean {
  return ((reader?.flags ?? 0) & (EventFlag.done | EventFlag.error)) === EventFlag.done;
}

/** llama-server notices a closed client only between events of a stream (R09, R10): until then it works on. */
export function mayGoOn(end: RelayEnd, engine: Engine): boolean {
  if (!end.aborted || engine !== 'llama-server') return false;
  // A stream that had fallen silent is not between two events.
  if (end.phase === 'streaming') return end.kind === 'answered' && end.reason === 'content_stall';
  return end.phase !== 'queued' && end.phase !== 'connecting';
}

/** How an attempt ended, in the record's words; the reason is undefined when it ended well. */
export function endingOf(end: RelayEnd): { readonly outcome: Outcome; readonly reason: string | undefined } {
  switch (end.kind) {
    case 'answered':
      return { outcome: end.outcome, reason: end.outcome === 'ok' ? undefined : (end.reason ?? end.outcome) };
    case 'client_gone':
      return { outcome: 'client_abort', reason: end.reason };
    case 'failed':
      return { outcome: end.refusal.outcome, reason: end.refusal.reason ?? end.refusal.code };
    case 'broken':
      return { outcome: 'proxy_error', reason: 'internal' };
  }
}

export function marksOfEnd(end: RelayEnd, engine: Engine): readonly RecordMark[] {
  return mayGoOn(end, engine) ? ['engine_may_go_on'] : [];
}

/** A connection from the pool that dies sooner than this after the request was sent was stale (R01, R02). */
const staleWithinMs = 1000;

export interface FaultedAttempt {
  readonly request: Pick<RelayRequest, 'afterStale' | 'backend' | 'fresh'>;
  /** What the fault says by itself. */
  readonly refusal: Refusal;
  readonly isReused: boolean;
  readonly sinceSentMs: number;
  /** What may be tried after a backend died of a request (decision 11). */
  readonly afterCrash: Again;
}

/** What a fault before the head means. `isBackends`: it tells of the backend, not of a connection that had gone stale. */
export function judgeFault(
  fault: UpstreamFault,
  { request, refusal, isReused, sinceSentMs, afterCrash }: FaultedAttempt,
): { readonly refusal: Refusal; readonly again: Again; readonly isBackends: boolean } {
  if (fault.nothingSent) {
    // It took this very request a moment ago and is gone now: that was no stale connection.
    if (request.afterStale) return { refusal: crashRefusal(request.backend.name), again: afterCrash, isBackends: true };
    return { refusal, again: 'elsewhere', isBackends: true };
  }
  if (fault.kind === 'bad_response') return { refusal, again: 'no', isBackends: false };
  const isStale = isReused && !fault.responseStarted && sinceSentMs < staleWithinMs;
  if (isStale && !request.fresh) return { refusal, again: 'same_fresh', isBackends: false };
  return { refusal, again: afterCrash, isBackends: true };
}

/** A backend that was too busy to begin has done nothing yet. */
export function againAt(status: number): 'elsewhere' | 'no' {
  return status === 503 || status === 429 ? 'elsewhere' : 'no';
}
