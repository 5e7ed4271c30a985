/**
 * The closed sets of words that code, logs, metrics and docs share.
 * Values only; imports nothing.
 */

/** Software behind a backend. `openai` means: speaks the OpenAI routes, nothing more is known. */
export type Engine = 'vllm' | 'llama-server' | 'sglang' | 'tgi' | 'ollama' | 'openai';

export type Lane = 'online' | 'batch';

/** How one request ended. `proxy_error` is always our own bug. */
export type Outcome =
  | 'ok'
  | 'client_abort'
  | 'client_error'
  | 'upstream_error'
  | 'upstream_truncated'
  | 'timeout'
  | 'rejected'
  | 'shutdown'
  | 'proxy_error';

export const warmths = ['cold_start', 'resident', 'prefix_hit', 'replayed', 'unknown'] as const;

/** How a request met the prefix cache; `unknown` when the engine did not say. */
export type Warmth = (typeof warmths)[number];

/** Ends that are nobody's choice: neither a whole answer, nor a client that left or asked wrongly. */
export const failedOutcomes: ReadonlySet<string> = new Set<Outcome>([
  'upstream_error',
  'upstream_truncated',
  'timeout',
  'rejected',
  'shutdown',
  'proxy_error',
]);

/** Reasons of a 429 by which a tenant is told that it asked for more than its key allows: its own doing. */
export const tenantLimits: ReadonlySet<string> = new Set(['limit_concurrent', 'limit_requests', 'limit_tokens']);

export const endpointKinds = [
  'chat',
  'completions',
  'responses',
  'messages',
  'embeddings',
  'rerank',
  'audio',
  'native_completion',
  'infill',
  'ollama_chat',
  'ollama_generate',
  'tokenize',
  'models',
  'control',
  'other',
] as const;

/** What a route is for. `other` passes through unread. */
export type EndpointKind = (typeof endpointKinds)[number];

/** Those whose answers are text made token by token: only they have a TTFT and what follows from it. */
export const generatingEndpoints: ReadonlySet<string> = new Set<EndpointKind>([
  'chat',
  'completions',
  'responses',
  'messages',
  'native_completion',
  'infill',
  'ollama_chat',
  'ollama_generate',
]);

/** The dialect of a streamed answer: how its events are read and in which shape an error event must be written. */
export type StreamFormat =
  | 'chat'
  | 'completions'
  | 'responses'
  | 'messages'
  | 'llama_native'
  | 'ollama_chat'
  | 'ollama_generate'
  | 'unknown';

/** Where in its life a request was when something happened. */
export type Phase =
  | 'receiving'
  | 'queued'
  | 'connecting'
  | 'sending'
  | 'waiting_head'
  | 'waiting_first_token'
  | 'streaming'
  | 'reading_answer'
  /** an upgraded connection that is open: bytes both ways, unread */
  | 'tunnel';
