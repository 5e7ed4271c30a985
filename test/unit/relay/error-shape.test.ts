import { describe, expect, it } from 'vitest';
import type { StreamFormat } from '../../../src/domain/names.ts';
import type { Refusal } from '../../../src/domain/refusal.ts';
import { errorBody, errorEvent, errorHeaders } from '../../../src/relay/error-shape.ts';

const refusal: Refusal = {
  refused: true,
  code: 'backend_lost',
  status: 502,
  type: 'api_error',
  message: 'The backend "b1" is gone.\nTry again.',
  spokenBy: 'backend',
  outcome: 'upstream_error',
};
const openAi = {
  error: { message: refusal.message, type: 'api_error', param: null, code: 'backend_lost', source: 'backend' },
};
const formats: readonly StreamFormat[] = [
  'chat',
  'completions',
  'responses',
  'messages',
  'llama_native',
  'ollama_chat',
  'ollama_generate',
  'unknown',
];

describe('an error answer', () => {
  it.each(['chat', 'completions', 'responses', 'llama_native', 'unknown'] as const)(
    'is OpenAI’s object for %s, and says who spoke',
    (format) => {
      expect(JSON.parse(errorBody(refusal, format))).toEqual(openAi);
    },
  );

  it('is the engine’s own object where it gave one, in the shape of the route', () => {
    const told = { message: 'm'.repeat(2000), type: 'BadRequestError', param: 'max_tokens', code: 400 };
    const spoken = { ...refusal, body: JSON.stringify(told) };
    const error = { ...told, source: 'backend' };
    expect(JSON.parse(errorBody(spoken, 'chat'))).toEqual({ error });
    expect(JSON.parse(errorBody(spoken, 'messages'))).toEqual({ type: 'error', error });
    expect(JSON.parse(errorBody(spoken, 'ollama_chat'))).toEqual({ error: refusal.message, code: refusal.code });
  });

  it('has Anthropic’s own word on its routes where there is one', () => {
    const typeOf = (code: Refusal['code'], type: string) =>
      (JSON.parse(errorBody({ ...refusal, code, type }, 'messages')) as typeof openAi).error.type;
    expect(typeOf('invalid_api_key', 'invalid_request_error')).toBe('authentication_error');
    expect(typeOf('model_not_allowed', 'invalid_request_error')).toBe('permission_error');
    expect(typeOf('rate_limit_exceeded', 'tokens')).toBe('rate_limit_error');
    expect(typeOf('backend_lost', 'api_error')).toBe('api_error');
  });

  it('carries the headers that the refusal brings', () => {
    const headers = ['WWW-Authenticate', 'Bearer realm="warmlane"'];
    expect(errorHeaders({ ...refusal, headers }, 'id').slice(-2)).toEqual(headers);
  });

  it('names the request’s field that is to blame', () => {
    const { error } = JSON.parse(
      errorBody({ ...refusal, param: 'model', spokenBy: 'warmlane' }, 'chat'),
    ) as typeof openAi;
    expect(error).toMatchObject({ param: 'model', source: 'warmlane' });
  });

  it('is Anthropic’s on its route', () => {
    expect(JSON.parse(errorBody(refusal, 'messages'))).toEqual({
      type: 'error',
      error: { type: 'api_error', message: refusal.message, code: 'backend_lost', source: 'backend' },
    });
  });

  it.each(['ollama_chat', 'ollama_generate'] as const)('is a string of Ollama’s for %s', (format) => {
    expect(JSON.parse(errorBody(refusal, format))).toEqual({ error: refusal.message, code: 'backend_lost' });
  });

  it('has its type, its id, and Retry-After only where the refusal tells a time, be it 0', () => {
    expect(errorHeaders(refusal, 'id-1')).toEqual([
      'Content-Type',
      'application/json; charset=utf-8',
      'X-Request-Id',
      'id-1',
    ]);
    expect(errorHeaders({ ...refusal, retryAfterSeconds: 0 }, 'id-1').slice(4)).toEqual(['Retry-After', '0']);
  });

  it('closes the connection of a client that must go to another instance', () => {
    expect(errorHeaders({ ...refusal, code: 'shutting_down' }, 'id-1').slice(4)).toEqual(['Connection', 'close']);
  });
});

describe('an error event', () => {
  it.each(formats)('of %s is whole, its data one line, and no finish is in it', (format) => {
    const text = errorEvent(refusal, format).toString();
    const isLines = format.startsWith('ollama');
    expect(text.endsWith(isLines ? '}\n' : '}\n\n')).toBe(true);
    expect(text).not.toMatch(/finish_reason|\[DONE\]|stop_reason|message_stop|"done"/);
    const lines = text.trimEnd().split('\n');
    const data = isLines ? lines[0] : lines.find((line) => line.startsWith('data: '))?.slice('data: '.length);
    const json = JSON.parse(data ?? '') as Record<string, unknown>;
    expect(JSON.stringify(json)).toContain('is gone');
    expect(lines.filter((line) => !/^(event|data): /.test(line) && !isLines)).toEqual([]);
  });

  it('has a name where the dialect’s clients look for one', () => {
    for (const format of ['messages', 'responses'] as const)
      expect(errorEvent(refusal, format).toString()).toMatch(/^event: error\n/);
    expect(errorEvent(refusal, 'chat').toString()).toMatch(/^data: /);
  });

  it('of the Responses API is flat', () => {
    const [, data = ''] = errorEvent(refusal, 'responses').toString().split('data: ');
    expect(JSON.parse(data)).toEqual({
      type: 'error',
      code: 'backend_lost',
      message: refusal.message,
      param: null,
      source: 'backend',
    });
  });
});
