/**
 * A span as the official exporters take it: plain data, made once, from moments on the monotonic clock.
 * The SDK's own spans are not used: they drop events past a limit, and are made of calls while a request runs.
 */
import type {
  Attributes,
  AttributeValue,
  HrTime,
  SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceState,
} from '@opentelemetry/api';
import type { ReadableSpan, TimedEvent } from '@opentelemetry/sdk-trace-base';
import type { TraceIds } from '../../domain/trace.ts';
import { randomSpanId } from '../../platform/trace-context.ts';
import type { TelemetrySource } from '../otlp/telemetry-source.ts';

export type Writable = Record<string, AttributeValue>;

/** What all spans of one process share. */
export interface SpanSource extends TelemetrySource {
  /** The library's own values: it is loaded only while tracing is on. */
  readonly kinds: Readonly<Record<SpanWord, SpanKind>>;
  readonly statuses: { readonly unset: SpanStatusCode; readonly error: SpanStatusCode };
}

export type SpanWord = 'internal' | 'server' | 'client';

export interface SpanParts {
  readonly name: string;
  readonly kind: SpanWord;
  /** Made up unless given. */
  readonly spanId?: string;
  readonly parentSpanId: string | undefined;
  /** The parent is in another process. */
  readonly remoteParent?: boolean;
  /** Monotonic ms. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly events?: TimedEvent[];
  /** Absent: nothing is wrong. */
  readonly fault?: string | undefined;
}

/** Makes the spans of one request. */
export interface SpanMaker {
  make(parts: SpanParts): ReadableSpan;
  /** Wall-clock time of a monotonic moment, to the nanosecond. */
  time(atMs: number): HrTime;
}

/** @param start the same moment on both clocks */
export function createSpanMaker(
  source: SpanSource,
  trace: TraceIds,
  start: { readonly epochMs: number; readonly monotonicMs: number },
): SpanMaker {
  const baseSeconds = Math.floor(start.epochMs / 1000);
  const baseNanos = (start.epochMs - baseSeconds * 1000) * 1e6;
  const time = (atMs: number): HrTime => {
    const nanos = Math.round(baseNanos + (atMs - start.monotonicMs) * 1e6);
    const whole = Math.floor(nanos / 1e9);
    return [baseSeconds + whole, nanos - whole * 1e9];
  };
  const unset = { code: source.statuses.unset };
  const traceFlags = trace.sampled ? 1 : 0;
  const state = trace.state === undefined ? {} : { traceState: stateOf(trace.state) };
  const context = (spanId: string, isRemote: boolean): SpanContext => ({
    traceId: trace.traceId,
    spanId,
    traceFlags,
    ...state,
    ...(isRemote ? { isRemote } : {}),
  });
  return {
    time,
    make(parts) {
      const own = context(parts.spanId ?? randomSpanId(), false);
      const startTime = time(parts.startMs);
      const endTime = time(Math.max(parts.startMs, parts.endMs));
      const { parentSpanId, fault } = parts;
      return {
        name: parts.name,
        kind: source.kinds[parts.kind],
        spanContext: () => own,
        ...(parentSpanId === undefined
          ? {}
          : { parentSpanContext: context(parentSpanId, parts.remoteParent === true) }),
        startTime,
        endTime,
        status: fault === undefined ? unset : { code: source.statuses.error, message: fault },
        attributes: parts.attributes,
        links: [],
        events: parts.events ?? [],
        duration: difference(startTime, endTime),
        ended: true,
        resource: source.resource,
        instrumentationScope: source.scope,
        droppedAttributesCount: 0,
        droppedEventsCount: 0,
        droppedLinksCount: 0,
      };
    },
  };
}

function difference(from: HrTime, to: HrTime): HrTime {
  const nanos = (to[0] - from[0]) * 1e9 + (to[1] - from[1]);
  const whole = Math.floor(nanos / 1e9);
  return [whole, nanos - whole * 1e9];
}

/** The caller's `tracestate` as it came: nothing of ours is put into it. */
function stateOf(text: string): TraceState {
  const state: TraceState = {
    set: () => state,
    unset: () => state,
    get: () => undefined,
    serialize: () => text,
  };
  return state;
}

/** Sets what is known: absent is not zero. */
export function put(attributes: Writable, key: string, value: AttributeValue | undefined): void {
  if (value !== undefined) attributes[key] = value;
}

/** Seconds to the microsecond. */
export function seconds(valueMs: number | undefined): number | undefined {
  return valueMs === undefined ? undefined : Math.round(valueMs * 1000) / 1e6;
}
