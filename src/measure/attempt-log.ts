/**
 * Every attempt of one request in order, each with the span id that its backend was given: what becomes of them when
 * tracing is on. Belongs to the observer, which tells it the moments; holds a few numbers per attempt.
 */
import type { Engine, Outcome } from '../domain/names.ts';
import type { RouteNote } from '../domain/routing.ts';
import type { Timeline } from '../domain/record.ts';
import type { AttemptRecord, TraceHeaders, TraceIds } from '../domain/trace.ts';
import { randomSpanId, traceparentOf } from '../platform/trace-context.ts';

export interface AttemptStart {
  readonly backend: string;
  readonly engine: Engine;
  readonly reason?: string;
  /** the decision behind it */
  readonly routing?: RouteNote | undefined;
  /** hears of the first token */
  readonly onFirstToken?: (() => void) | undefined;
}

export interface AttemptEnd {
  readonly atMs: number;
  /** The backend's status. */
  readonly status?: number | undefined;
  readonly outcome?: Outcome;
  /** Absent when it ended well. */
  readonly reason?: string | undefined;
}

export class AttemptLog {
  readonly #trace: TraceIds;
  readonly #ended: AttemptRecord[] = [];
  #open:
    | (Pick<AttemptStart, 'backend' | 'engine' | 'reason'> & { readonly spanId: string; readonly startMs: number })
    | undefined;

  constructor(trace: TraceIds) {
    this.#trace = trace;
  }

  /** @returns what the backend is to be told */
  begin(start: AttemptStart, startMs: number): TraceHeaders {
    const { traceId, sampled, state } = this.#trace;
    const spanId = randomSpanId();
    const { backend, engine, reason } = start;
    this.#open = { backend, engine, spanId, startMs, ...(reason === undefined ? {} : { reason }) };
    const traceparent = traceparentOf(traceId, spanId, sampled);
    return state === undefined ? { traceparent } : { traceparent, tracestate: state };
  }

  /** @param timeline the request's moments so far, as this attempt left them. The first end counts. */
  end({ atMs, status, outcome, reason }: AttemptEnd, timeline: Readonly<Timeline>): void {
    const open = this.#open;
    if (open === undefined) return;
    this.#open = undefined;
    const { connected, sent, head, end } = timeline;
    this.#ended.push({
      backend: open.backend,
      engine: open.engine,
      spanId: open.spanId,
      ...(open.reason === undefined ? {} : { routeReason: open.reason }),
      startMs: open.startMs,
      ...(connected === undefined ? {} : { connectedMs: connected }),
      ...(sent === undefined ? {} : { sentMs: sent }),
      ...(head === undefined ? {} : { headMs: head }),
      // The answer's last byte where it came so far; what is done after that is ours.
      endMs: Math.max(open.startMs, end ?? atMs),
      ...(status === undefined ? {} : { status }),
      ...(outcome === undefined ? {} : { outcome }),
      ...(reason === undefined ? {} : { reason }),
    });
  }

  /** All that have ended. */
  list(): readonly AttemptRecord[] {
    return this.#ended;
  }
}
