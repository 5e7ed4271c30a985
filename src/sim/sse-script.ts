/**
 * Bytes for scripted answers: response heads, HTTP chunk framing and the few chat events from which most scripts are made.
 * Only builds bytes; sockets are `faults.ts`'s business. The names in capitals are meant to be read in a row, as a script:
 * `ROLE, T('a'), FIN('stop'), USE(3, 1), DONE`.
 */

export type HeaderList = readonly (readonly [name: string, value: string])[] | Readonly<Record<string, string>>;

const common = { id: 'chatcmpl-scripted', object: 'chat.completion.chunk', created: 1_780_000_000, model: 'm' };

/** One SSE event without an `event:` line: `data: …` and a blank line, LF. An object is written as compact JSON. */
export function sseEvent(data: object | string, name?: string): string {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`;
}

/** A chat chunk with one choice and this delta. */
export function delta(value: object, index = 0, finishReason: string | null = null): string {
  return sseEvent({ ...common, choices: [{ index, delta: value, finish_reason: finishReason }] });
}

/** The role chunk: no token. */
export const ROLE: string = delta({ role: 'assistant', content: '' });

/** A chunk with this text. */
export function T(text: string, index = 0): string {
  return delta({ content: text }, index);
}

/** The finish chunk: an empty delta with a finish reason. */
export function FIN(reason: string, index = 0): string {
  return delta({}, index, reason);
}

/** The usage chunk: no choices, prompt and completion tokens; `details` adds members to `usage`. */
export function USE(promptTokens: number, completionTokens: number, details: object = {}): string {
  const usage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    ...details,
  };
  return sseEvent({ ...common, choices: [], usage });
}

export const DONE: string = sseEvent('[DONE]');

/** A response head; the reason phrase follows from the status unless given. */
export function responseHead(status: number, headers: HeaderList = {}, reason = reasons[status] ?? 'Status'): string {
  return `HTTP/1.1 ${status} ${reason}\r\n${renderHeaders(headers)}\r\n`;
}

/** Head of a chunked event stream; `headers` come after the usual two. */
export function sseHead(headers: HeaderList = {}): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n${renderHeaders(headers)}\r\n`;
}

/** One HTTP chunk that holds all payloads together. */
export function chunk(...payloads: readonly (string | Uint8Array)[]): Buffer {
  const body = Buffer.concat(payloads.map(toBuffer));
  return Buffer.concat([Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')]);
}

/** The end of a chunked body. */
export const lastChunk = '0\r\n\r\n';

/** A whole answer with `Content-Length`; an object is written as compact JSON. */
export function wholeAnswer(status: number, body: object | string | Uint8Array, headers: HeaderList = {}): Buffer {
  const isJson = typeof body === 'object' && !(body instanceof Uint8Array);
  const bytes = isJson ? Buffer.from(JSON.stringify(body)) : toBuffer(body);
  const type = isJson ? 'Content-Type: application/json\r\n' : '';
  const head = `HTTP/1.1 ${status} ${reasons[status] ?? 'Status'}\r\n${type}Content-Length: ${bytes.length}\r\n`;
  return Buffer.concat([Buffer.from(`${head}${renderHeaders(headers)}\r\n`), bytes]);
}

/** A whole streamed answer: head, one HTTP chunk per event, last chunk. */
export function wholeStream(...events: readonly string[]): Buffer {
  return Buffer.concat([Buffer.from(sseHead()), ...events.map((event) => chunk(event)), Buffer.from(lastChunk)]);
}

export function toBuffer(bytes: string | Uint8Array): Buffer {
  return typeof bytes === 'string' ? Buffer.from(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function renderHeaders(headers: HeaderList): string {
  const pairs = Array.isArray(headers) ? headers : Object.entries(headers);
  return pairs.map(([name, value]) => `${name}: ${value}\r\n`).join('');
}

const reasons: Readonly<Record<number, string>> = {
  100: 'Continue',
  200: 'OK',
  204: 'No Content',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
};
