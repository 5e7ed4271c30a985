/**
 * The SERVER span of a request: what its client saw, with everything that is known of it. One per record, ended at the
 * answer's last byte. HTTP attributes by the stable HTTP conventions, `warmlane.*` for what they have no word for.
 */
import type { RequestRecord } from '../../domain/record.ts';
import { methodLabel } from '../method-label.ts';
import { serverErrorType } from '../otlp/conventions.ts';
import { thousandth } from '../rounding.ts';
import { putGenAi } from './gen-ai.ts';
import { putRoute } from './route-attributes.ts';
import { put, seconds, type SpanMaker, type SpanParts, type Writable } from './span.ts';

export interface ServerSpanView {
  readonly route: string | undefined;
  /** `http` or `https`, as clients see it. */
  readonly scheme: string;
  /** Why it is exported. */
  readonly kept: string;
}

export function serverSpan(record: RequestRecord, view: ServerSpanView, maker: SpanMaker): SpanParts {
  const { trace } = record;
  const method = methodLabel(record.method);
  const fault = faultOf(record);
  const attributes: Writable = {
    'http.request.method': method,
    'url.path': record.path,
    'url.scheme': view.scheme,
  };
  put(attributes, 'http.request.method_original', method === record.method ? undefined : record.method);
  put(attributes, 'http.route', view.route);
  putServer(attributes, record.host, view.scheme);
  put(attributes, 'http.response.status_code', record.status);
  put(attributes, 'http.request.body.size', record.requestBytes);
  put(attributes, 'http.response.body.size', record.responseBytes);
  put(attributes, 'error.type', serverErrorType(record.outcome, record.status));
  putGenAi(attributes, record, (atMs) => isoTime(maker.time(atMs)));
  putOwn(attributes, record);
  putRoute(attributes, record);
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

/** Error status wherever there is an `error.type`. @returns what happened in one word; undefined when nothing is wrong */
export function faultOf({ outcome, status, reason }: RequestRecord): string | undefined {
  const type = serverErrorType(outcome, status);
  return type === undefined ? undefined : (reason ?? type);
}

const authority = /^(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/i;

/** By the name under which the client asked; what can't be one is left out. */
function putServer(attributes: Writable, host: string | undefined, scheme: string): void {
  const [, address6, name, port] = authority.exec(host ?? '') ?? [];
  const address = address6 ?? name;
  if (address === undefined) return;
  attributes['server.address'] = address.toLowerCase();
  attributes['server.port'] = port === undefined ? (scheme === 'https' ? 443 : 80) : Number(port);
}

function isoTime([whole, nanos]: readonly [number, number]): string {
  return new Date(whole * 1000 + Math.round(nanos / 1e6)).toISOString();
}

function putOwn(attributes: Writable, record: RequestRecord): void {
  const { tokens, marks, stalls } = record;
  attributes['warmlane.request_id'] = record.requestId;
  attributes['warmlane.endpoint'] = record.endpoint;
  attributes['warmlane.lane'] = record.lane;
  put(attributes, 'warmlane.tenant', record.tenant);
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
  put(attributes, 'warmlane.overhead.per_event_us', thousandth(figures.overheadPerEventMicros));
  put(attributes, 'warmlane.decode.tokens_per_second', thousandth(figures.decodeTokensPerSecond));
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
  put(attributes, 'warmlane.decode.concurrency', thousandth(decodeConcurrency));
}
