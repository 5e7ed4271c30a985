/** The waiting room's own refusals. */
import type { Refusal } from '../domain/refusal.ts';

/** @param waits what does, for its client @param placeMs until one may be free, as far as is known */
export function queueFull(waits: string, placeMs: number | undefined): Refusal {
  return {
    refused: true,
    code: 'queue_full',
    status: 429,
    type: 'rate_limit_error',
    message: `The queue of this proxy is full (${waits}). Try again later.`,
    retryAfterSeconds: retrySeconds(placeMs),
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
}

/** @param of the key that sets the limit, and how long a new one would wait, as far as is known */
export function queueTimeout(
  queueTimeoutMs: number,
  { key, waitMs }: { readonly key: string; readonly waitMs: number | undefined },
): Refusal {
  return {
    refused: true,
    code: 'queue_timeout',
    status: 503,
    type: 'api_error',
    message: `No backend had a free place within ${queueTimeoutMs} ms (${key}). Try again later.`,
    retryAfterSeconds: retrySeconds(waitMs),
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
}

/** Its first token would come far too late: that is said at once, and when it may be worth another try. */
export function waitTooLong(
  waitMs: number,
  { ttftBoundMs, refuseBeyond }: { readonly ttftBoundMs: number; readonly refuseBeyond: number },
): Refusal {
  return {
    refused: true,
    code: 'wait_too_long',
    status: 429,
    type: 'rate_limit_error',
    message: `This request would wait about ${Math.round(waitMs)} ms for a place, more than ${refuseBeyond} times the ${ttftBoundMs} ms in which its first token is due (lanes.refuseBeyond). Try again later.`,
    retryAfterSeconds: retrySeconds(waitMs - refuseBeyond * ttftBoundMs),
    predictedWaitMs: Math.round(waitMs),
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
}

/** Nobody is sent away for longer than that by a guess. */
const longestRetrySeconds = 3600;

function retrySeconds(ms: number | undefined): number {
  return ms === undefined ? 1 : Math.min(longestRetrySeconds, Math.max(1, Math.ceil(ms / 1000)));
}

/** For warmlane's own jobs that run only where nobody else does. */
export function notIdle(): Refusal {
  return {
    refused: true,
    code: 'not_idle',
    status: 503,
    type: 'api_error',
    message: 'The backend has other work.',
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
}

/** @param reason for the record, where the code doesn't say enough */
export function shuttingDown(reason?: string): Refusal {
  return {
    refused: true,
    code: 'shutting_down',
    status: 503,
    type: 'api_error',
    message: 'This proxy is shutting down. Try again: another instance will answer.',
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'shutdown',
    ...(reason === undefined ? {} : { reason }),
  };
}
