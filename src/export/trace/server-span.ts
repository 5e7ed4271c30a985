/**
 * The SERVER span of a request: what its client saw, with everything that is known of it. One per record, ended at the
 * answer's last byte. HTTP attributes by the stable HTTP conventions, `warmlane.*` for what they have no word for.
 */
import type { Outcome } from '../../domain/names.ts';
import type { RequestRecord } from '../../domain/record.ts';
import { putGenAi } from './gen-ai.ts';
import { millis, put, seconds, type SpanMaker, type SpanParts, type Writable } from './span.ts';

export interface ServerSpanView {
  readonly route: string | undefined;
  /** `http` or `https`, as clients see it. */
  readonly scheme: string;
  /** Why it is exported. */
  readonly kept: string;
}

/** All others are said to be `_OTHER`, lest a client invents span names (HTTP conventions). */
const knownMethods: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'CONNECT',
  'OPTIONS',
  'TRACE',
  'PATCH',
  'QUERY',
]);

export function methodOf({ method }: RequestRecord): string {
  return knownMethods.has(method) ? method : '_OTHER';
}

export function serverSpan(record: RequestRecord, view: ServerSpanView, maker: SpanMaker): SpanParts {
  const { trace } = record;
  const method = methodOf(record);
  const fault = faultOf(record);
  const attributes: Writable = {
    'http.request.method': method,
    'url.path': record.path,
    'url.scheme': view.scheme,
  };
  put(attributes, 'http.request.method_original', method === record.method ? undefined : record.method);
  put(attributes, 'http.route', view.route);
  put(attributes, 'http.response.status_code', record.status);
  put(attributes, 'http.request.body.size', record.requestBytes);
  put(attributes, 'http.response.body.size', record.responseBytes);
  put(attributes, 'error.type', fault);
  putGenAi(attributes, record, (atMs) => isoTime(maker.time(atMs)));
  putOwn(attributes, record);
  putFigures(attributes, record);
  putAssessment(attributes, record);
  put(attributes, 'warmlane.trace.kept', view.kept);
  const word = method === '_OTHER' ? 'HTTP' : method;
  return {
    name: view.route === undefined ? word : `${word} ${view.route}`,
    kind: 'server',
    ...(trace === undefined ? {} : { spanId: trace.spanId }),
    parentSpanId: trace?.parentSpanId,
    remoteParent: true,
    startMs: record.timeline.received,
    endMs: endOf(record),
    attributes,
    fault,
  };
}

/** The answer's last byte, or the moment at which it was clear that there is none. */
export function endOf({ timeline, figures, attemptLog }: RequestRecord): number {
  const end = (timeline.receivedLast ?? timeline.received) + figures.durationMs;
  return Math.max(end, attemptLog?.at(-1)?.endMs ?? end);
}

const faults: ReadonlySet<Outcome> = new Set(['upstream_error', 'upstream_truncated', 'timeout', 'shutdown']);

/**
 * Error status: 5xx, an answer that broke, our own bug. Not a 4xx, which is the client's affair, nor a client that left
 * (HTTP conventions). @returns the `error.type`, or undefined when nothing is wrong
 */
export function faultOf({ outcome, status, reason }: RequestRecord): string | undefined {
  const isClients = status !== undefined && status >= 400 && status < 500;
  const isFault = outcome === 'proxy_error' || (faults.has(outcome) && !isClients);
  if (!isFault && (status === undefined || status < 500 || outcome === 'client_abort')) return undefined;
  return errorType(reason ?? (status === undefined ? outcome : String(status)));
}

/** A backend's own status stands as the number that the conventions want. */
export function errorType(reason: string): string {
  return reason.startsWith('status_') ? reason.slice('status_'.length) : reason;
}

function isoTime([whole, nanos]: readonly [number, number]): string {
  return new Date(whole * 1000 + Math.round(nanos / 1e6)).toISOString();
}

function putOwn(attributes: Writable, record: RequestRecord): void {
  const { tokens, marks, stalls } = record;
  attributes['warmlane.request_id'] = record.requestId;
  attributes['warmlane.endpoint'] = record.endpoint;
  attributes['warmlane.lane'] = record.lane;
  attributes['warmlane.outcome'] = record.outcome;
  attributes['warmlane.spoken_by'] = record.spokenBy;
  attributes['warmlane.attempts'] = record.attempts;
  attributes['warmlane.warmth'] = record.warmth;
  put(attributes, 'warmlane.reason', record.reason);
  put(attributes, 'warmlane.phase', record.phase);
  put(attributes, 'warmlane.backend', record.backend);
  put(attributes, 'warmlane.engine', record.engine);
  put(attributes, 'warmlane.route.reason', record.routeReason);
  put(attributes, 'warmlane.tokens.source', tokens.output?.source);
  if (record.streamed) put(attributes, 'warmlane.events', record.events);
  if (marks.length > 0) put(attributes, 'warmlane.marks', [...marks]);
  if (stalls !== undefined) {
    put(attributes, 'warmlane.stalled', seconds(stalls.reduce((sum, { durationMs }) => sum + durationMs, 0)));
    put(attributes, 'warmlane.stalled_by', stalls[0]?.requestId);
  }
}

function putFigures(attributes: Writable, { figures }: RequestRecord): void {
  put(attributes, 'warmlane.ttft', seconds(figures.ttftMs));
  put(attributes, 'warmlane.ttfa', seconds(figures.ttfaMs));
  put(attributes, 'warmlane.upstream_ttft', seconds(figures.upstreamTtftMs));
  put(attributes, 'warmlane.tpot', seconds(figures.tpotMs));
  attributes['warmlane.tpot.window'] = figures.tpotWindow;
  put(attributes, 'warmlane.itl.max', seconds(figures.maxItlMs));
  put(attributes, 'warmlane.e2e', seconds(figures.e2eMs));
  put(attributes, 'warmlane.duration', seconds(figures.durationMs));
  put(attributes, 'warmlane.queue', seconds(figures.queueMs));
  put(attributes, 'warmlane.connect', seconds(figures.connectMs));
  put(attributes, 'warmlane.prefill', seconds(figures.prefillMs));
  put(attributes, 'warmlane.prefill.kind', figures.prefillKind);
  put(attributes, 'warmlane.engine_queue', seconds(figures.engineQueueMs));
  put(attributes, 'warmlane.overhead', seconds(figures.overheadMs));
  put(attributes, 'warmlane.overhead.per_event_us', millis(figures.overheadPerEventMicros));
  put(attributes, 'warmlane.decode.tokens_per_second', millis(figures.decodeTokensPerSecond));
}

function putAssessment(attributes: Writable, { assessment }: RequestRecord): void {
  if (assessment === undefined) return;
  const { slo, useless, retry, decodeConcurrency } = assessment;
  if (slo !== undefined) {
    attributes['warmlane.slo.profile'] = slo.profile;
    attributes['warmlane.slo.met'] = slo.met;
    put(attributes, 'warmlane.slo.benefit_tokens', slo.benefitTokens);
    if (slo.breaches.length > 0) {
      attributes['warmlane.slo.broken'] = slo.breaches.map(({ bound }) => bound);
      attributes['warmlane.slo.limits'] = slo.breaches.map(({ limitMs }) => limitMs / 1000);
      attributes['warmlane.slo.values'] = slo.breaches.map(({ valueMs }) => seconds(valueMs) ?? 0);
      attributes['warmlane.slo.phases'] = slo.breaches.map(({ phase }) => phase);
    }
  }
  if (useless !== undefined && useless.length > 0) attributes['warmlane.useless'] = [...useless];
  put(attributes, 'warmlane.retry', retry);
  put(attributes, 'warmlane.decode.concurrency', millis(decodeConcurrency));
}
