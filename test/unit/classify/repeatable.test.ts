import { describe, expect, it } from 'vitest';

import { jobOf } from '../../support/classified.ts';

const of = (body: object | string, path = '/v1/chat/completions', headers: Record<string, string> = {}) =>
  jobOf({ line: `POST ${path}`, body: typeof body === 'string' ? body : JSON.stringify(body), headers }).repeatable;

describe('a request that gets the same answer again', () => {
  it.each(['0', '0.0', '0e5', '-0'])('says temperature %s', (zero) => {
    expect(of(`{"messages":[],"temperature":${zero}}`)).toBe('always');
  });

  it.each([{}, { temperature: 0.1 }, { temperature: null }, { temperature: '0' }, { temperature: 1e-9 }])(
    'is not one that says %o: what an engine does then is not known',
    (said) => {
      expect(of({ messages: [], ...said })).toBe('on_request');
    },
  );

  it('has one choice', () => {
    expect(of({ messages: [], temperature: 0, n: 1 })).toBe('always');
    expect(of({ messages: [], temperature: 0, n: 2 })).toBe('on_request');
    expect(of({ prompt: ['a', 'b'], temperature: 0 }, '/v1/completions')).toBe('on_request');
  });

  it('leaves nothing behind at the backend', () => {
    expect(of({ messages: [], temperature: 0, store: false })).toBe('always');
    expect(of({ messages: [], temperature: 0, store: null })).toBe('always');
    expect(of({ messages: [], temperature: 0, store: true })).toBeUndefined();
    expect(of({ messages: [], temperature: 0 }, '/v1/chat/completions', { 'x-conversation-id': 'c' })).toBeUndefined();
  });

  it('is none of the Responses API unless its client says so, and stores nothing', () => {
    expect(of({ input: 'a', temperature: 0 }, '/v1/responses')).toBeUndefined();
    expect(of({ input: 'a', temperature: 0, store: false }, '/v1/responses')).toBe('on_request');
    const follows = { input: 'a', temperature: 0, store: false, previous_response_id: 'resp_1' };
    expect(of(follows, '/v1/responses')).toBeUndefined();
  });

  it('says a key once', () => {
    expect(of('{"messages":[],"temperature":0,"temperature":1}')).toBeUndefined();
  });

  it('may offer tools: the client carries their calls out', () => {
    const tools = [{ type: 'function', function: { name: 'f' } }];
    expect(of({ messages: [], temperature: 0, tools })).toBe('always');
  });

  it.each([
    ['/api/chat', { messages: [], options: { temperature: 0 } }, 'always'],
    ['/api/chat', { messages: [], options: { temperature: 1 } }, 'on_request'],
    ['/api/chat', { messages: [], temperature: 0, options: { temperature: 1 } }, 'on_request'],
    ['/completion', { prompt: 'a', temperature: 0 }, 'always'],
    ['/generate', { text: 'a', sampling_params: { temperature: 0 } }, 'always'],
    ['/v1/messages', { messages: [], max_tokens: 5, temperature: 0 }, 'always'],
  ])('is read in the dialect of %s: %o', (path, body, expected) => {
    expect(of(body, path)).toBe(expected);
  });

  it('is one for vectors and scores in any case', () => {
    expect(of({ input: 'a' }, '/v1/embeddings')).toBe('always');
    expect(of({ query: 'a', documents: [] }, '/rerank')).toBe('always');
  });

  it.each(['/v1/audio/speech', '/tokenize', '/unknown'])('is none on %s', (path) => {
    expect(of({ temperature: 0 }, path)).toBeUndefined();
  });

  it('is none that can not be read', () => {
    expect(of('[1,2]')).toBeUndefined();
  });
});
