/**
 * One finished request as the spans of its trace, and how large they will be. The record is their only source, so what
 * they say is what log, admin pages and metrics say.
 */
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base';
import type { RequestRecord } from '../../domain/record.ts';
import {
  attemptSpan,
  type BackendAddress,
  decodeSpan,
  furtherTokenSpans,
  prefillSpan,
  queueSpan,
  tokensPerSpan,
} from './attempt-spans.ts';
import { serverSpan } from './server-span.ts';
import { createSpanMaker, type SpanSource } from './span.ts';
import type { TokenForm } from './trace-settings.ts';

export interface SpanView {
  readonly source: SpanSource;
  readonly tokens: TokenForm;
  /** `http` or `https`, as clients see it. */
  readonly scheme: string;
  readonly route: (method: string, path: string) => string | undefined;
  readonly backend: (name: string) => BackendAddress | undefined;
}

/**
 * Yields what is made and encoded in one go: everything but the later tokens of a very long answer, then those, in parts.
 * @param kept why the trace is exported
 */
export function* requestSpans(record: RequestRecord, kept: string, view: SpanView): Generator<ReadableSpan[], void> {
  const { trace, timeline, attemptLog = [] } = record;
  if (trace === undefined) return;
  const start = { epochMs: record.startedAtEpochMs, monotonicMs: timeline.received };
  const maker = createSpanMaker(view.source, trace, start);
  const route = view.route(record.method, record.path);
  const spans = [maker.make(serverSpan(record, { route, scheme: view.scheme, kept }, maker))];
  const queue = queueSpan(record);
  if (queue !== undefined) spans.push(maker.make(queue));
  for (const [index, attempt] of attemptLog.entries()) {
    const last = index === attemptLog.length - 1;
    const address = view.backend(attempt.backend);
    spans.push(maker.make(attemptSpan(record, attempt, { address, route, resent: index, last })));
  }
  const answered = attemptLog.at(-1)?.spanId;
  const prefill = answered === undefined ? undefined : prefillSpan(record, answered);
  if (prefill !== undefined) spans.push(maker.make(prefill));
  const parts = answered === undefined ? undefined : decodeSpan(record, answered, { maker, form: view.tokens });
  const decode = parts === undefined ? undefined : maker.make(parts);
  if (decode !== undefined) spans.push(decode);
  yield spans;
  if (decode === undefined || view.tokens !== 'events') return;
  for (const later of furtherTokenSpans(record, decode.spanContext().spanId, maker)) yield [maker.make(later)];
}

export interface TraceSize {
  readonly spans: number;
  /** Bytes as encoded in protobuf, or as held while they wait, whichever is more: an estimate, rather too high. */
  readonly bytes: number;
}

/** Encoded: what was seen of each, rounded up (a test holds them against the encoder). */
const serverSpanBytes = 2600;
const smallSpanBytes = 480;
const attemptBytes = 560;
/** Of a routing decision, on both spans that tell of it. */
const routeBytes = 1500;
/** One considered backend, which no span tells of, in memory. */
const heldPerConsidered = 240;
const bytesPerToken = { arrays: 8, events: 20, off: 0 } as const;
/** More for an event that has attributes. */
const markedTokenBytes = 34;
const arrayItemBytes = 8;
/** One stamp in memory, and one bucket of the record's gaps. */
const heldPerToken = 8;
const heldPerBucket = 8;

export function sizeOf(record: RequestRecord, form: TokenForm): TraceSize {
  const { stamps, attemptLog = [], stalls, itl, routing } = record;
  const tokens = stamps?.atMs.length ?? 0;
  const decodes = record.streamed && record.timeline.firstToken !== undefined;
  const spans =
    1 +
    (record.timeline.queued === undefined ? 0 : 1) +
    attemptLog.length +
    (decodes ? 2 : 0) +
    (form === 'events' ? Math.max(0, Math.ceil(tokens / tokensPerSpan) - 1) : 0);
  const texts =
    2 * record.path.length +
    (record.model?.length ?? 0) +
    (record.responseModel?.length ?? 0) +
    (record.responseId?.length ?? 0) +
    (record.host?.length ?? 0) +
    (record.trace?.state?.length ?? 0) * spans;
  const perMark = form === 'events' ? markedTokenBytes : form === 'arrays' ? arrayItemBytes : 0;
  const marks = markedCount(stamps?.coalesced) + (stamps?.tokens?.length ?? 0) + (stamps?.choice?.length ?? 0);
  const bytes =
    serverSpanBytes +
    attemptLog.length * (attemptBytes + record.path.length) +
    (spans - 1 - attemptLog.length) * smallSpanBytes +
    (stalls?.length ?? 0) * 220 +
    (routing === undefined ? 0 : routeBytes + (routing.considered?.length ?? 0) * heldPerConsidered) +
    // A text of n UTF-16 units has up to 3n bytes.
    3 * texts +
    Math.max(
      tokens * heldPerToken + (itl?.counts.length ?? 0) * heldPerBucket,
      tokens * bytesPerToken[form] + marks * perMark,
    );
  return { spans, bytes };
}

function markedCount(coalesced: Uint8Array | undefined): number {
  let marked = 0;
  if (coalesced !== undefined)
    for (let index = 0; index < coalesced.length; index += 1) marked += coalesced[index] ?? 0;
  return marked;
}
