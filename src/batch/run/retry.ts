/**
 * What becomes of a line after one try: a result, or another try and when. Pure. What says nothing about the line (nobody there,
 * everybody busy) costs it none of its attempts, so a fleet that is away for an hour fails no batch.
 */
import type { LineEnd } from '../line-port.ts';

export interface Tried {
  /** tries that failed and counted, before this one */
  readonly attempts: number;
  /** tries that failed in a row, before this one: what backoff goes by */
  readonly failures: number;
  /** tries before this one after which the backend was gone without a word */
  readonly crashes: number;
}

export interface RetryRules {
  readonly maxAttempts: number;
  /** from 0 to below 1 */
  readonly random: () => number;
}

export type Verdict =
  | { readonly kind: 'result'; readonly ok: boolean }
  | { readonly kind: 'again'; readonly counted: boolean; readonly crashed: boolean; readonly delayMs: number };

/** Ends that are left once cancel, expiry and shutdown were looked at. */
export type TriedEnd = Extract<LineEnd, { kind: 'answered' | 'failed' }>;

const firstDelayMs = 1000;
const longestDelayMs = 60_000;
/** A backend that wants to be left alone for longer is asked all the same, since others may have come. */
const longestToldMs = 600_000;
/** What may have killed an engine visits one more, and no third (decision 11). */
const mostCrashes = 2;

const retriedBelow500: ReadonlySet<number> = new Set([408, 409, 425, 429]);
const neverRetried: ReadonlySet<number> = new Set([501, 505]);

/** Nobody has worked on the line. */
const uncounted: ReadonlySet<string> = new Set([
  'bodies_memory_full',
  'queue_full',
  'queue_timeout',
  'not_idle',
  'no_backend',
  'backend_unreachable',
  'connect_timeout',
  'shutting_down',
]);
const crashCodes: ReadonlySet<string> = new Set(['backend_closed_early', 'backend_lost']);

export function judgeTry(end: TriedEnd, tried: Tried, { maxAttempts, random }: RetryRules): Verdict {
  if (end.kind === 'answered' && end.status < 300) return { kind: 'result', ok: true };
  if (!isRetryable(end)) return { kind: 'result', ok: false };
  const counted = end.kind === 'answered' ? end.status !== 429 && end.status !== 503 : !uncounted.has(end.code);
  const crashed = end.kind === 'failed' && crashCodes.has(end.code);
  const isSpent = counted && tried.attempts + 1 >= maxAttempts;
  if (isSpent || (crashed && tried.crashes + 1 >= mostCrashes)) return { kind: 'result', ok: false };
  const backoffMs = Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(tried.failures, 16));
  const jitteredMs = backoffMs * (0.5 + random() / 2);
  const toldMs = end.kind === 'answered' ? (end.retryAfterMs ?? 0) : 0;
  return { kind: 'again', counted, crashed, delayMs: Math.max(jitteredMs, Math.min(toldMs, longestToldMs)) };
}

function isRetryable(end: TriedEnd): boolean {
  if (end.kind === 'failed') return end.retryable;
  return end.status >= 500 ? !neverRetried.has(end.status) : retriedBelow500.has(end.status);
}
