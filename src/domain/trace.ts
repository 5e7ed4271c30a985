/** Where a request stands in a distributed trace (W3C Trace Context). Ids are lower-case hex. Values only. */
import type { Engine, Outcome } from './names.ts';

export interface TraceIds {
  /** 32 digits */
  readonly traceId: string;
  /** 16 digits: the request's SERVER span */
  readonly spanId: string;
  /** the caller's span; absent when the trace begins here */
  readonly parentSpanId?: string;
  /** the head decision; what goes upstream as the flag */
  readonly sampled: boolean;
  /** the caller's `tracestate`, passed on as it came */
  readonly state?: string;
}

/** What an attempt's backend is told of the trace, in place of what the client sent. */
export interface TraceHeaders {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** One attempt on one backend. Moments are monotonic ms; absent means it did not get so far. */
export interface AttemptRecord {
  readonly backend: string;
  readonly engine: Engine;
  /** 16 digits: the attempt's CLIENT span, which the backend was given as its parent */
  readonly spanId: string;
  /** why this backend was chosen */
  readonly routeReason?: string;
  readonly startMs: number;
  readonly connectedMs?: number;
  readonly sentMs?: number;
  readonly headMs?: number;
  readonly endMs: number;
  /** the backend's status; absent without a head */
  readonly status?: number;
  /** absent where nobody told */
  readonly outcome?: Outcome;
  /** fault or refusal that ended it, as a short machine word; absent when it ended well */
  readonly reason?: string;
}
