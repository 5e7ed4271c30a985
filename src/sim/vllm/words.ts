/**
 * How vLLM's HTTP server words its heads and errors: header order and case, error shapes, version strings,
 * as seen on version 0.32.
 */
import { simulatedHeader } from '../dialect.ts';
import type { Reply } from '../reply.ts';

export const vllmVersion = '0.32.0+simulated';
export const systemFingerprint = 'vllm-0.32.0-simulated';

/** A planned refusal, rendered by `refuse`. */
export interface VllmRefusal {
  readonly status: number;
  readonly message: string;
  readonly type: string;
  readonly param?: string;
}

export function httpDate(wallMs: number): string {
  return new Date(wallMs).toUTCString();
}

export function sendJson(
  reply: Reply,
  wallMs: number,
  answer: { readonly status: number; readonly body: string; readonly inTwoWrites?: boolean },
): void {
  reply.whole({
    status: answer.status,
    headers: wholeHeaders(wallMs, { bytes: Buffer.byteLength(answer.body), type: 'application/json' }),
    body: answer.body,
    inTwoWrites: answer.inTwoWrites ?? false,
  });
}

export function wholeHeaders(wallMs: number, body: { readonly bytes: number; readonly type?: string }): string[] {
  const type = body.type === undefined ? [] : ['content-type', body.type];
  return [
    'date',
    httpDate(wallMs),
    'server',
    'uvicorn',
    'content-length',
    String(body.bytes),
    ...type,
    'vary',
    'Origin',
    ...simulatedHeader,
  ];
}

export function streamHeaders(wallMs: number): string[] {
  return [
    ...[
      'date',
      httpDate(wallMs),
      'server',
      'uvicorn',
      'content-type',
      'text/event-stream; charset=utf-8',
      'vary',
      'Origin',
    ],
    ...simulatedHeader,
    ...['transfer-encoding', 'chunked'],
  ];
}

/** OpenAI's shape, without blanks. */
export function errorBody(refusal: VllmRefusal): string {
  const { message, type, param, status } = refusal;
  return JSON.stringify({ error: { message, type, param: param ?? null, code: status } });
}

/** The same inside a stream, where vLLM writes blanks after colons and commas. */
export function errorEvent(refusal: VllmRefusal): string {
  const { message, type, param, status } = refusal;
  const text = (value: string) => JSON.stringify(value);
  const error = `{"message": ${text(message)}, "type": ${text(type)}, "param": ${param === undefined ? 'null' : text(param)}, "code": ${status}}`;
  return `data: {"error": ${error}}\n\n`;
}

export const doneEvent = 'data: [DONE]\n\n';

export const busy: VllmRefusal = {
  status: 503,
  message:
    'The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.',
  type: 'Service Unavailable',
};

export const engineDead: VllmRefusal = {
  status: 500,
  message: 'EngineCore encountered an issue. See stack trace (above) for the root cause.',
  type: 'InternalServerError',
};

export const emptyPrompt: VllmRefusal = {
  status: 400,
  message: 'The decoder prompt cannot be empty',
  type: 'BadRequestError',
};

export const shuttingDown: VllmRefusal = {
  status: 500,
  message: 'cannot schedule new futures after shutdown',
  type: 'InternalServerError',
};

export function unknownModel(asked: string, served: string): VllmRefusal {
  return {
    status: 404,
    message: `The model \`${asked}\` does not exist. Valid aliases: ${served}.`,
    type: 'NotFoundError',
    param: 'model',
  };
}

export function badJson(body: Buffer): VllmRefusal {
  const at = body.length;
  const detail = `{'type': 'json_invalid', 'loc': 'body.${at}', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}`;
  return { status: 400, message: `1 validation error:\n  ${detail}`, type: 'Bad Request', param: `body.${at}` };
}

export function invalidField(field: string, what: string): VllmRefusal {
  return {
    status: 400,
    message: `1 validation error:\n  {'loc': 'body.${field}', 'msg': '${what}'}`,
    type: 'Bad Request',
    param: `body.${field}`,
  };
}

export function promptTooLong(contextTokens: number): VllmRefusal {
  // The server stops counting one token past the limit, and says "at least".
  const counted = contextTokens + 1;
  return {
    status: 400,
    message: `This model's maximum context length is ${contextTokens} tokens. However, your prompt contains at least ${counted} input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=${counted})`,
    type: 'BadRequestError',
    param: 'input_tokens',
  };
}

export function tooManyOutputTokens(asked: number, contextTokens: number, promptTokens: number): VllmRefusal {
  return {
    status: 400,
    message: `max_tokens is too large: ${asked}. This model's maximum context length is ${contextTokens} tokens and your request has ${promptTokens} input tokens. (parameter=max_tokens, value=${asked})`,
    type: 'BadRequestError',
    param: 'max_tokens',
  };
}
