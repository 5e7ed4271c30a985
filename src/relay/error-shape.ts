/**
 * Errors in the shape that the dialect's clients understand: as a whole answer, and as the event that ends a broken stream.
 * Every one says who spoke (`source`) and never carries a made-up finish.
 */
import type { StreamFormat } from '../domain/names.ts';
import type { Refusal, RefusalCode } from '../domain/refusal.ts';

/** Body of an error answer, JSON text. */
export function errorBody(refusal: Refusal, format: StreamFormat): string {
  const { message, type, code, spokenBy, body } = refusal;
  const isOllama = format === 'ollama_chat' || format === 'ollama_generate';
  if (body !== undefined && !isOllama) return enginesBody(body, refusal, format);
  if (format === 'messages') {
    return JSON.stringify({
      type: 'error',
      error: { type: anthropicTypes[code] ?? type, message, code, source: spokenBy },
    });
  }
  if (isOllama) return JSON.stringify({ error: message, code });
  return JSON.stringify({ error: { message, type, param: refusal.param ?? null, code, source: spokenBy } });
}

/** Where Anthropic has a word of its own: https://docs.claude.com/en/api/errors. */
const anthropicTypes: Readonly<Partial<Record<RefusalCode, string>>> = {
  invalid_api_key: 'authentication_error',
  model_not_allowed: 'permission_error',
  rate_limit_exceeded: 'rate_limit_error',
};

/** What the engine said of its error, whole: its `param`, `code` and `type` are what clients decide by. */
function enginesBody(body: string, refusal: Refusal, format: StreamFormat): string {
  const error = { ...(JSON.parse(body) as object), source: refusal.spokenBy };
  return JSON.stringify(format === 'messages' ? { type: 'error', error } : { error });
}

/** The event that ends a broken stream; whole, with its blank line. */
export function errorEvent(refusal: Refusal, format: StreamFormat): Buffer {
  const { message, code } = refusal;
  switch (format) {
    case 'ollama_chat':
    case 'ollama_generate':
      return Buffer.from(`${errorBody(refusal, format)}\n`);
    case 'messages':
      return Buffer.from(`event: error\ndata: ${errorBody(refusal, format)}\n\n`);
    case 'responses': {
      const data = { type: 'error', code, message, param: null, source: refusal.spokenBy };
      return Buffer.from(`event: error\ndata: ${JSON.stringify(data)}\n\n`);
    }
    default:
      return Buffer.from(`data: ${errorBody(refusal, format)}\n\n`);
  }
}

/** Headers of an error answer made by warmlane, raw names and values in turn. */
export function errorHeaders(refusal: Refusal, requestId: string): string[] {
  const headers = ['Content-Type', 'application/json; charset=utf-8', 'X-Request-Id', requestId];
  if (refusal.retryAfterSeconds !== undefined) headers.push('Retry-After', String(refusal.retryAfterSeconds));
  if (refusal.headers !== undefined) headers.push(...refusal.headers);
  if (refusal.predictedWaitMs !== undefined)
    headers.push('X-Warmlane-Predicted-Wait-Ms', String(refusal.predictedWaitMs));
  // A connection to an instance that goes away is of no more use to its client.
  if (refusal.code === 'shutting_down') headers.push('Connection', 'close');
  return headers;
}

/** One comment line, one newline: an older client takes a blank line after an id for an event (C008). */
export const heartbeat = Buffer.from(': warmlane\n');
