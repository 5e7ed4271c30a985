/** Faults of a backend and expired deadlines, as refusals: what the client is told and how the record books it. */
import type { Outcome } from '../domain/names.ts';
import type { Refusal, RefusalCode } from '../domain/refusal.ts';
import type { UpstreamFault } from '../platform/upstream/port.ts';

interface Words {
  readonly code: RefusalCode;
  readonly status: number;
  readonly message: string;
  readonly outcome: Outcome;
  readonly retryAfterSeconds?: number;
}

function backendRefusal(words: Words): Refusal {
  return { refused: true, type: 'api_error', spokenBy: 'backend', ...words };
}

/** @param backend the backend's name: the config's word for it, shown to the client */
export function faultRefusal(fault: UpstreamFault, backend: string): Refusal {
  switch (fault.kind) {
    case 'dns':
    case 'refused':
    case 'tls':
      return backendRefusal({
        code: 'backend_unreachable',
        status: 502,
        message: `The backend ${backend} can't be reached: ${fault.detail}.`,
        outcome: 'upstream_error',
        retryAfterSeconds: 1,
      });
    case 'connect_timeout':
      return backendRefusal({
        code: 'connect_timeout',
        status: 504,
        message: `The backend ${backend} took no connection in time (deadlines.connectMs): ${fault.detail}.`,
        outcome: 'timeout',
      });
    case 'bad_response':
      return backendRefusal({
        code: 'backend_bad_response',
        status: 502,
        message: `The backend ${backend} answered with invalid HTTP: ${fault.detail}.`,
        outcome: 'upstream_error',
      });
    default:
      return backendRefusal({
        code: 'backend_closed_early',
        status: 502,
        message: `The backend ${backend} closed the connection ${fault.responseStarted ? 'in the middle of' : 'before'} its answer.`,
        outcome: fault.responseStarted ? 'upstream_truncated' : 'upstream_error',
      });
  }
}

/** It took the request on a pooled connection, which broke at once, and takes no new one since (decision 11). */
export function crashRefusal(backend: string): Refusal {
  return backendRefusal({
    code: 'backend_closed_early',
    status: 502,
    message: `The backend ${backend} closed the connection before its answer and takes no new one: it may have crashed on this request.`,
    outcome: 'upstream_error',
  });
}

export function truncated(backend: string): Refusal {
  return backendRefusal({
    code: 'backend_closed_early',
    status: 502,
    message: `The backend ${backend} ended its answer before it was complete.`,
    outcome: 'upstream_truncated',
  });
}

export type DeadlineName = 'headMs' | 'firstTokenMs' | 'contentStallMs' | 'totalMs';

const deadlineCodes: Readonly<Record<DeadlineName, RefusalCode>> = {
  headMs: 'head_timeout',
  firstTokenMs: 'first_token_timeout',
  contentStallMs: 'content_stall',
  totalMs: 'total_timeout',
};

export function deadlineRefusal(deadline: DeadlineName, limitMs: number, backend: string): Refusal {
  return backendRefusal({
    code: deadlineCodes[deadline],
    status: 504,
    message: `The backend ${backend} was silent for too long: deadlines.${deadline} (${Math.round(limitMs)} ms for this request) is over.`,
    outcome: 'timeout',
  });
}

/** Silence on a backend whose port refuses new connections (R04, R07). */
export function lostRefusal(backend: string): Refusal {
  return backendRefusal({
    code: 'backend_lost',
    status: 502,
    message: `The backend ${backend} fell silent and refuses new connections: it is gone.`,
    outcome: 'upstream_error',
  });
}

/**
 * A status that the engine told in its first event instead of the head (R03).
 * @param body the engine's own error object, JSON text
 */
export function streamErrorRefusal(status: number, message: string, body?: string): Refusal {
  const busy = status === 503 || status === 429;
  return {
    refused: true,
    code: busy ? 'backend_busy' : 'backend_stream_error',
    status,
    type: status < 500 ? 'invalid_request_error' : 'api_error',
    message,
    ...(body === undefined ? {} : { body }),
    ...(busy ? { retryAfterSeconds: 1 } : {}),
    spokenBy: 'backend',
    outcome: busy ? 'rejected' : status < 500 ? 'client_error' : 'upstream_error',
  };
}

/** Decision 11: what killed an engine doesn't visit the next one. */
export function killerRefusal(backend: string): Refusal {
  return backendRefusal({
    code: 'prompt_killed_engine',
    status: 502,
    message: `Two backends (last ${backend}) broke while working on this request; it is not sent to a third.`,
    outcome: 'upstream_error',
  });
}

/** A backend that is this proxy itself, or another one that sends its requests back here. */
export function loopRefusal(): Refusal {
  return {
    refused: true,
    code: 'loop_detected',
    status: 508,
    type: 'api_error',
    message:
      'This request has passed through warmlane again and again: a backend is warmlane itself. Look at `backends` in its configuration.',
    spokenBy: 'warmlane',
    outcome: 'proxy_error',
  };
}

/** A bug of ours, while the client has nothing yet. The log has the error; the client is told no more than this. */
export function internalRefusal(): Refusal {
  return {
    refused: true,
    code: 'internal',
    status: 500,
    type: 'api_error',
    message: 'warmlane failed on this request. Its log tells why, under this request id.',
    spokenBy: 'warmlane',
    outcome: 'proxy_error',
  };
}

/** For the record of an attempt alone: the request is asked for again, and its client hears nothing of it. */
export function reclaimedRefusal(): Refusal {
  return {
    refused: true,
    code: 'backend_busy',
    status: 503,
    type: 'api_error',
    message: 'Its place was needed for online work.',
    spokenBy: 'warmlane',
    outcome: 'rejected',
    reason: 'reclaimed',
  };
}
