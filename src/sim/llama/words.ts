/**
 * How llama-server words its heads and errors: header order and case, keep-alive habits, error shapes,
 * seen on b10434 and b11549.
 */
import { simulatedHeader, type Exchange } from '../dialect.ts';

export const buildInfo = 'b0-simulated';

/** After so many answers on one connection the server closes it. */
const answersPerConnection = 100;

export interface LlamaRefusal {
  readonly status: number;
  readonly message: string;
  readonly type: string;
  /** Members added inside `error`. */
  readonly more?: Readonly<Record<string, number>>;
  /** Some errors are built by hand in the server and have another key order. */
  readonly codeLast?: boolean;
}

export function sendJson(exchange: Exchange, body: string): void {
  sendWhole(exchange, { status: 200, body, type: 'application/json; charset=utf-8' });
}

export function sendWhole(
  exchange: Exchange,
  answer: {
    readonly status: number;
    readonly body: string;
    readonly type: string;
    readonly before?: readonly string[];
  },
): void {
  const close = exchange.numberOnConnection >= answersPerConnection;
  const connection = close ? ['Connection', 'close'] : ['Keep-Alive', 'timeout=5, max=100'];
  const body = ['Content-Type', answer.type, 'Content-Length', String(Buffer.byteLength(answer.body))];
  const headers = [...baseHeaders(exchange), ...(answer.before ?? []), ...body, ...connection, ...simulatedHeader];
  exchange.reply.whole({ status: answer.status, headers, body: answer.body, close });
}

/** Every error closes its connection. */
export function refuse(exchange: Exchange, refusal: LlamaRefusal): void {
  const body = errorBody(refusal);
  const type = ['Content-Type', 'application/json; charset=utf-8', 'Content-Length', String(Buffer.byteLength(body))];
  exchange.reply.whole({
    status: refusal.status,
    headers: [...baseHeaders(exchange), ...type, 'Connection', 'close', ...simulatedHeader],
    body,
    close: true,
  });
}

/** The connection is closed after the stream although the head announces keep-alive. */
export function openStream(exchange: Exchange): void {
  const stream = ['X-Accel-Buffering', 'no', 'Content-Type', 'text/event-stream', 'Transfer-Encoding', 'chunked'];
  const headers = [...baseHeaders(exchange), ...stream, 'Keep-Alive', 'timeout=5, max=100', ...simulatedHeader];
  exchange.reply.open({ status: 200, headers, close: true });
}

export function errorBody({ status, message, type, more, codeLast }: LlamaRefusal): string {
  const error = codeLast === true ? { message, type, code: status } : { code: status, message, type, ...more };
  return JSON.stringify({ error });
}

/** The CORS header is there even when it says nothing. */
export function baseHeaders(exchange: Exchange): string[] {
  return ['Server', 'llama.cpp', 'Access-Control-Allow-Origin', exchange.headers.origin ?? ''];
}

export const loading: LlamaRefusal = {
  status: 503,
  message: 'Loading model',
  type: 'unavailable_error',
  codeLast: true,
};
export const badKey: LlamaRefusal = {
  status: 401,
  message: 'Invalid API Key',
  type: 'authentication_error',
  codeLast: true,
};
export const notFound: LlamaRefusal = {
  status: 404,
  message: 'File Not Found',
  type: 'not_found_error',
  codeLast: true,
};
export const noSlot: LlamaRefusal = { status: 503, message: 'no slot available', type: 'unavailable_error' };

export function badJson(body: Buffer, status: 400 | 500): LlamaRefusal {
  const where = `parse error at line 1, column ${body.length + 1}`;
  return {
    status,
    message: `[json.exception.parse_error.101] ${where}: syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal`,
    type: status === 500 ? 'server_error' : 'invalid_request_error',
  };
}

export function invalidRequest(message: string, status: 400 | 500 = 400): LlamaRefusal {
  return { status, message, type: status === 500 ? 'server_error' : 'invalid_request_error' };
}

export function promptTooLong(promptTokens: number, contextTokens: number): LlamaRefusal {
  return {
    status: 400,
    message: `request (${promptTokens} tokens) exceeds the available context size (${contextTokens} tokens), try increasing it`,
    type: 'exceed_context_size_error',
    more: { n_prompt_tokens: promptTokens, n_ctx: contextTokens },
  };
}

export function unsupported(message: string): LlamaRefusal {
  return { status: 501, message, type: 'not_supported_error' };
}

export function failed(message: string): LlamaRefusal {
  return { status: 500, message, type: 'server_error' };
}
