/**
 * Words of the semantic conventions that spans and metrics must have in common: what a call is, and what failed. Pure.
 * Source: semantic-conventions-genai 0.1.0; the stable HTTP conventions, "HTTP server" and "HTTP client".
 */
import { type EndpointKind, failedOutcomes } from '../../domain/names.ts';

/** What a call of each kind of endpoint is to the conventions; absent: no call of a model. */
export const operationNames: Readonly<Record<string, string>> = {
  chat: 'chat',
  responses: 'chat',
  messages: 'chat',
  ollama_chat: 'chat',
  completions: 'text_completion',
  native_completion: 'text_completion',
  infill: 'text_completion',
  ollama_generate: 'text_completion',
  embeddings: 'embeddings',
} satisfies Partial<Record<EndpointKind, string>>;

/**
 * `error.type` of a request: its outcome, if that was a failure. A 4xx is the client's affair, a client that left is no
 * error (HTTP conventions, of a server).
 * @param status what the client got; undefined: none, or not known here
 */
export function serverErrorType(outcome: string, status: number | undefined): string | undefined {
  if (outcome === 'proxy_error') return outcome;
  if (status !== undefined && status >= 400 && status < 500) return undefined;
  if (failedOutcomes.has(outcome)) return outcome;
  // Passed on unread.
  return status !== undefined && status >= 500 && outcome !== 'client_abort' ? String(status) : undefined;
}

/** `error.type` of an attempt on a backend: its outcome, a 4xx included (HTTP conventions, of a client). */
export function clientErrorType(outcome: string): string | undefined {
  return failedOutcomes.has(outcome) || outcome === 'client_error' ? outcome : undefined;
}
