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

/** How a request met the prefix cache; `unknown` when the engine did not say. */
export type Warmth = 'cold_start' | 'resident' | 'prefix_hit' | 'replayed' | 'unknown';

/** What a route is for. `other` passes through unread. */
export type EndpointKind =
  | 'chat'
  | 'completions'
  | 'responses'
  | 'messages'
  | 'embeddings'
  | 'rerank'
  | 'audio'
  | 'native_completion'
  | 'infill'
  | 'ollama_chat'
  | 'ollama_generate'
  | 'tokenize'
  | 'models'
  | 'control'
  | 'other';

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
  | 'reading_answer';
