/**
 * From what came of a line's request to what the runner is told: an answer, a failure that may pass, or one that won't. Reads the
 * collected answer and the request's record. Pure.
 */
import type { RequestRecord } from '../../domain/record.ts';
import type { RefusalCode } from '../../domain/refusal.ts';
import type { LineEnd } from '../line-port.ts';
import { type Assembled, isObject, parseObject } from './assembled.ts';

export interface Collected {
  /** Absent: no head came. */
  readonly status: number | undefined;
  readonly retryAfter: string | undefined;
  /** `open`: its client had left. */
  readonly how: 'open' | 'ended' | 'cut';
  /** Of an answer that was no stream. */
  readonly text: string;
  /** Of one that was. */
  readonly assembled: Assembled | undefined;
}

export type Told = Pick<RequestRecord, 'outcome' | 'reason' | 'spokenBy' | 'tokens'>;

/** Refusals that say nothing about the line itself: tried again later it may well get an answer. */
const passing: ReadonlySet<string> = new Set<RefusalCode>([
  'bodies_memory_full',
  'queue_full',
  'queue_timeout',
  'not_idle',
  'no_backend',
  'backend_unreachable',
  'backend_closed_early',
  'backend_bad_response',
  'connect_timeout',
  'head_timeout',
  'first_token_timeout',
  'content_stall',
  'total_timeout',
  'backend_lost',
  'shutting_down',
  'internal',
]);

/** @param nowMs wall clock, for a `Retry-After` that is a date */
export function lineEnd(answer: Collected, record: Told | undefined, nowMs: number): LineEnd {
  const { status, how, assembled, text } = answer;
  const reason = record?.reason;
  if (record?.outcome === 'shutdown') return failed('shutting_down', 'warmlane is shutting down.', true);
  if (status === undefined) return failed(reason ?? 'no_answer', 'The request ended without an answer.', true);
  if (how === 'cut') return cut(record);
  if (assembled !== undefined) return fromStream(assembled, record);
  const body = parseObject(text);
  const message = messageOf(body);
  if (reason === 'prompt_killed_engine') return failed(reason, message ?? 'The engine died of it.', false);
  // `backend_busy` and the like are a backend's own answers, whoever wrote them down.
  const isOurs = record?.spokenBy === 'warmlane' && (status === 429 || status >= 500);
  if (reason !== undefined && (passing.has(reason) || isOurs)) return failed(reason, message ?? reason, true);
  if (status < 400 && body === undefined)
    return failed('backend_bad_response', 'The backend answered with something that is no JSON object.', true);
  if (status < 400 && record?.outcome === 'upstream_error')
    return failed('backend_stream_error', message ?? 'The backend answered with an error.', true);
  const retryAfterMs = readRetryAfter(answer.retryAfter, nowMs);
  return {
    kind: 'answered',
    status,
    body: body === undefined ? wrapped(text) : text,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...usageOf(record),
  };
}

function fromStream(assembled: Assembled, record: Told | undefined): LineEnd {
  if (assembled.kind === 'whole') return { kind: 'answered', status: 200, body: assembled.body, ...usageOf(record) };
  if (assembled.kind === 'broken') return failed('answer_broken', assembled.message, true);
  const { status, body, message } = assembled;
  if (status === undefined) return failed('backend_stream_error', message, true);
  return { kind: 'answered', status, body };
}

/** Broken off in the middle: by the backend, or by a deadline of ours. */
function cut(record: Told | undefined): LineEnd {
  const { reason, outcome } = record ?? {};
  const code = outcome === 'timeout' && reason !== undefined ? reason : 'answer_broken';
  return failed(code, `The backend's answer broke off (${reason ?? 'not known why'}).`, true);
}

function failed(code: string, message: string, retryable: boolean): LineEnd {
  return { kind: 'failed', code, message, retryable };
}

function messageOf(body: { readonly error?: unknown } | undefined): string | undefined {
  const error = body?.error;
  const message = isObject(error) ? error.message : error;
  return typeof message === 'string' ? message : undefined;
}

const mostShown = 4096;

/** An error page of something between, say: its client reads JSON. */
function wrapped(text: string): string {
  const message = text.trim() === '' ? 'The backend answered without a body.' : text.slice(0, mostShown);
  return JSON.stringify({ error: { message, type: 'api_error', param: null, code: null } });
}

type Answered = Extract<LineEnd, { kind: 'answered' }>;

function usageOf(record: Told | undefined): Pick<Answered, 'usage'> {
  const { prompt, output, cached, reasoning } = record?.tokens ?? {};
  if (prompt === undefined && output === undefined) return {};
  const usage = {
    input: prompt?.value ?? 0,
    cached: cached?.value ?? 0,
    output: output?.value ?? 0,
    reasoning: reasoning?.value ?? 0,
  };
  return { usage };
}

/** Seconds or a date (RFC 9110, 10.2.3). */
function readRetryAfter(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d{1,9}$/.test(value.trim())) return Number(value) * 1000;
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}
