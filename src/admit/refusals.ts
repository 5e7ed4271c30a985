/** The waiting room's own refusals. */
import type { Refusal } from '../domain/refusal.ts';

export function queueFull(maxQueuedJobs: number): Refusal {
  return {
    refused: true,
    code: 'queue_full',
    status: 429,
    type: 'rate_limit_error',
    message: `The queue of this proxy is full (${maxQueuedJobs} requests wait). Try again later.`,
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
}

export function queueTimeout(queueTimeoutMs: number): Refusal {
  return {
    refused: true,
    code: 'queue_timeout',
    status: 503,
    type: 'api_error',
    message: `No backend had a free place within ${queueTimeoutMs} ms (queue.timeoutMs). Try again later.`,
    retryAfterSeconds: 1,
    spokenBy: 'warmlane',
    outcome: 'rejected',
  };
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
