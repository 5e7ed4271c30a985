/**
 * A planned "no": a value, never thrown. Rendered as an OpenAI-shaped error (or the dialect's own shape)
 * that says whether warmlane or the backend spoke.
 */
import type { Outcome } from './names.ts';

export type RefusalCode =
  | 'invalid_api_key'
  | 'model_not_allowed'
  | 'id_not_found'
  | 'rate_limit_exceeded'
  | 'body_too_large'
  | 'bodies_memory_full'
  | 'body_unreadable'
  | 'duplicate_key'
  | 'model_not_found'
  | 'model_after_file'
  | 'route_closed'
  | 'queue_full'
  | 'queue_timeout'
  | 'wait_too_long'
  | 'not_idle'
  | 'no_backend'
  | 'backend_unreachable'
  | 'backend_closed_early'
  | 'backend_bad_response'
  | 'backend_busy'
  | 'backend_stream_error'
  | 'connect_timeout'
  | 'head_timeout'
  | 'first_token_timeout'
  | 'content_stall'
  | 'total_timeout'
  | 'backend_lost'
  | 'prompt_killed_engine'
  | 'shutting_down'
  | 'loop_detected'
  | 'internal';

export interface Refusal {
  readonly refused: true;
  readonly code: RefusalCode;
  /** HTTP status to answer with while the head is uncommitted. */
  readonly status: number;
  /** OpenAI error `type`, for example `invalid_request_error`, `rate_limit_error`, `api_error`. */
  readonly type: string;
  /** What happened and what to do, for a person. Never contains a prompt, an answer or a key. */
  readonly message: string;
  /** The backend's own error object as JSON text: its client gets it instead of `message`. May quote a prompt: not to be logged. */
  readonly body?: string;
  /** Name of the offending request field, if one. */
  readonly param?: string;
  /** Whole seconds for `Retry-After`. */
  readonly retryAfterSeconds?: number;
  /** Of one that was refused because its wait was foreseen to be too long: that wait. */
  readonly predictedWaitMs?: number;
  /** More headers for its answer, raw names and values in turn. */
  readonly headers?: readonly string[];
  /** Who is the cause: `warmlane` refuses by its own rule, `backend` failed or spoke. */
  readonly spokenBy: 'warmlane' | 'backend';
  /** The record's reason where it isn't the code. */
  readonly reason?: string;
  /** How the record books it. */
  readonly outcome: Outcome;
}

export function isRefusal(value: object): value is Refusal {
  return 'refused' in value && value.refused === true;
}
