/**
 * The spans below a request's SERVER span: `queue`, one CLIENT span per attempt, and below the attempt that answered
 * `prefill` and `decode`. The engine's own spans hang below the CLIENT span whose id it was given.
 */
import type { TimedEvent } from '@opentelemetry/sdk-trace-base';
import type { Outcome } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';
import type { AttemptRecord } from '../../domain/trace.ts';
import { methodLabel } from '../method-label.ts';
import { clientErrorType } from '../otlp/conventions.ts';
import { thousandth } from '../rounding.ts';
import { putCost, putRoute } from './route-attributes.ts';
import { endOf, faultOf } from './server-span.ts';
import { put, seconds, type SpanMaker, type SpanParts, type Writable } from './span.ts';
import { putTokenArrays, tokenEvents } from './token-stamps.ts';
import type { TokenForm } from './trace-settings.ts';

/** Where a backend is, as far as spans tell. */
export interface BackendAddress {
  readonly host: string;
  readonly port: number;
  /** Scheme, host, port and path prefix; no credentials, no slash at the end. */
  readonly url: string;
}

/** Held back until a place was free; for who was refused or left, until then. */
export function queueSpan(record: RequestRecord): SpanParts | undefined {
  const { queued, admitted } = record.timeline;
  if (queued === undefined) return undefined;
  const attributes: Writable = { 'warmlane.lane': record.lane };
  put(attributes, 'warmlane.route.reason', record.attemptLog?.[0]?.routeReason);
  const refused = admitted === undefined && record.outcome === 'rejected';
  const fault = refused ? (record.reason ?? record.outcome) : undefined;
  put(attributes, 'error.type', refused ? record.outcome : undefined);
  return {
    name: 'queue',
    kind: 'internal',
    parentSpanId: record.trace?.spanId,
    startMs: queued,
    endMs: admitted ?? endOf(record),
    attributes,
    fault,
  };
}

export interface AttemptView {
  readonly address: BackendAddress | undefined;
  readonly route: string | undefined;
  /** How often the request had been sent before. */
  readonly resent: number;
  readonly last: boolean;
}

export function attemptSpan(record: RequestRecord, attempt: AttemptRecord, view: AttemptView): SpanParts {
  const method = methodLabel(record.method);
  const fault = attemptFault(record, attempt, view.last);
  const attributes: Writable = { 'http.request.method': method };
  put(attributes, 'http.request.method_original', method === record.method ? undefined : record.method);
  if (view.address !== undefined) {
    attributes['server.address'] = view.address.host;
    attributes['server.port'] = view.address.port;
    attributes['url.full'] = view.address.url + record.path;
  }
  put(attributes, 'url.template', view.route);
  put(attributes, 'http.response.status_code', attempt.status);
  if (view.resent > 0) attributes['http.request.resend_count'] = view.resent;
  put(attributes, 'error.type', fault === undefined ? undefined : clientErrorType(outcomeOf(record, attempt, view)));
  attributes['network.protocol.version'] = '1.1';
  attributes['warmlane.backend'] = attempt.backend;
  attributes['warmlane.engine'] = attempt.engine;
  put(attributes, 'warmlane.route.reason', attempt.routeReason);
  // The record keeps the decision behind its last attempt.
  if (view.last) {
    putRoute(attributes, record);
    putCost(attributes, record);
  }
  put(attributes, 'warmlane.reason', attempt.reason);
  put(attributes, 'warmlane.connect', since(attempt.startMs, attempt.connectedMs));
  put(attributes, 'warmlane.sent', since(attempt.startMs, attempt.sentMs));
  put(attributes, 'warmlane.head', since(attempt.startMs, attempt.headMs));
  return {
    name: method === '_OTHER' ? 'HTTP' : method,
    kind: 'client',
    spanId: attempt.spanId,
    parentSpanId: record.trace?.spanId,
    startMs: attempt.startMs,
    endMs: attempt.endMs,
    attributes,
    fault,
  };
}

function since(fromMs: number, toMs: number | undefined): number | undefined {
  return toMs === undefined ? undefined : seconds(Math.max(0, toMs - fromMs));
}

/** Where nobody told: the last one ended as its request did, the others failed. */
function outcomeOf({ outcome }: RequestRecord, attempt: AttemptRecord, { last }: AttemptView): Outcome {
  return attempt.outcome ?? (last ? outcome : 'upstream_error');
}

/** 4xx and 5xx are errors of a CLIENT span; that the caller went away is none (HTTP conventions). */
function attemptFault(record: RequestRecord, { status, reason }: AttemptRecord, last: boolean): string | undefined {
  if (last && record.outcome === 'client_abort') return undefined;
  if (status !== undefined && status >= 400) return reason ?? String(status);
  // Of an answer that came whole only the request as a whole can tell whether it was one.
  return last && record.outcome === 'ok' ? undefined : reason;
}

/** Sent → first token, of a streamed answer. */
export function prefillSpan(record: RequestRecord, parentSpanId: string): SpanParts | undefined {
  const { sent, firstToken, head, role } = record.timeline;
  if (!record.streamed || sent === undefined || firstToken === undefined || firstToken < sent) return undefined;
  const { figures, tokens, warmth } = record;
  const attributes: Writable = { 'warmlane.warmth': warmth };
  put(attributes, 'warmlane.prefill', seconds(figures.prefillMs));
  put(attributes, 'warmlane.prefill.kind', figures.prefillKind);
  put(attributes, 'warmlane.engine_queue', seconds(figures.engineQueueMs));
  put(attributes, 'warmlane.head', since(sent, head));
  put(attributes, 'warmlane.role', since(sent, role));
  put(attributes, 'warmlane.tokens.prompt', tokens.prompt?.value);
  put(attributes, 'warmlane.tokens.cached', tokens.cached?.value);
  return { name: 'prefill', kind: 'internal', parentSpanId, startMs: sent, endMs: firstToken, attributes };
}

/** Events of one span at most. A longer answer's go on in spans below it, so that none takes long to encode. */
export const tokensPerSpan = 16_384;

/** First → last token, of a streamed answer, with every token's moment. */
export function decodeSpan(
  record: RequestRecord,
  parentSpanId: string,
  { maker, form }: { readonly maker: SpanMaker; readonly form: TokenForm },
): SpanParts | undefined {
  const { firstToken, lastToken } = record.timeline;
  if (!record.streamed || firstToken === undefined || lastToken === undefined) return undefined;
  const { stamps, figures, tokens, assessment } = record;
  const stamped = stamps?.atMs.length ?? 0;
  const attributes: Writable = { 'warmlane.events': record.events };
  put(attributes, 'warmlane.tokens.output', tokens.output?.value);
  put(attributes, 'warmlane.tpot', seconds(figures.tpotMs));
  put(attributes, 'warmlane.itl.max', seconds(figures.maxItlMs));
  put(attributes, 'warmlane.decode.concurrency', thousandth(assessment?.decodeConcurrency));
  if (form !== 'off' && stamped < record.events) attributes['warmlane.token.unstamped'] = record.events - stamped;
  if (form === 'arrays' && stamps !== undefined) putTokenArrays(attributes, stamps, firstToken);
  const events = form === 'events' && stamps !== undefined ? tokenEvents(stamps, 0, tokensIn(stamped, 0), maker) : [];
  return {
    name: 'decode',
    kind: 'internal',
    parentSpanId,
    startMs: firstToken,
    endMs: lastToken,
    attributes,
    events: [...stallEvents(record, maker), ...events],
    // What broke, broke here: the first token had come.
    fault: faultOf(record),
  };
}

/** The token events that found no place on the decode span, in spans below it; each made when it is asked for. */
export function* furtherTokenSpans(
  record: RequestRecord,
  decodeSpanId: string,
  maker: SpanMaker,
): Generator<SpanParts, void> {
  const { stamps } = record;
  if (stamps === undefined) return;
  const stamped = stamps.atMs.length;
  for (let from = tokensPerSpan; from < stamped; from += tokensPerSpan) {
    const to = from + tokensIn(stamped, from);
    yield {
      name: 'tokens',
      kind: 'internal',
      parentSpanId: decodeSpanId,
      startMs: stamps.atMs[from] ?? 0,
      endMs: stamps.atMs[to - 1] ?? 0,
      attributes: { 'warmlane.token.from': from },
      events: tokenEvents(stamps, from, to, maker),
    };
  }
}

function tokensIn(stamped: number, from: number): number {
  return Math.min(tokensPerSpan, stamped - from);
}

/** R20, R21: who made this stream wait, where it happened. */
function stallEvents({ stalls }: RequestRecord, maker: SpanMaker): TimedEvent[] {
  return (stalls ?? []).map(({ atMs, durationMs, requestId, promptTokens }) => {
    const attributes: Writable = {
      'warmlane.stall.duration': durationMs / 1000,
      'warmlane.stall.request_id': requestId,
    };
    put(attributes, 'warmlane.stall.prompt_tokens', promptTokens);
    return { name: 'prefill_stall', time: maker.time(atMs), attributes, droppedAttributesCount: 0 };
  });
}
