import { describe, expect, it } from 'vitest';
import { findControl } from '../../../src/classify/control-routes.ts';
import { findEndpoint } from '../../../src/classify/endpoint-table.ts';

const generating = [
  ['/v1/chat/completions', 'chat', 'chat'],
  ['/chat/completions', 'chat', 'chat'],
  ['/v1/chat/completions/batch', 'chat', 'chat'],
  ['/cohere/v2/chat', 'chat', 'unknown'],
  ['/v1/completions', 'completions', 'completions'],
  ['/v1/responses', 'responses', 'responses'],
  ['/responses', 'responses', 'responses'],
  ['/v1/messages', 'messages', 'messages'],
  ['/completion', 'native_completion', 'llama_native'],
  ['/completions', 'native_completion', 'llama_native'],
  ['/infill', 'infill', 'llama_native'],
  ['/inference/v1/generate', 'native_completion', 'unknown'],
  ['/generate', 'native_completion', 'unknown'],
  ['/generate_stream', 'native_completion', 'unknown'],
  ['/api/chat', 'ollama_chat', 'ollama_chat'],
  ['/api/generate', 'ollama_generate', 'ollama_generate'],
  ['/v1/audio/transcriptions', 'audio', 'unknown'],
  ['/invocations', 'other', 'unknown'],
] as const;

const serving = [
  ['/v1/embeddings', 'embeddings'],
  ['/v2/embed', 'embeddings'],
  ['/pooling', 'embeddings'],
  ['/api/embed', 'embeddings'],
  ['/rerank', 'rerank'],
  ['/v1/rerank', 'rerank'],
  ['/v2/rerank', 'rerank'],
  ['/v1/score', 'rerank'],
  ['/classify', 'rerank'],
  ['/v1/audio/speech', 'audio'],
  ['/tokenize', 'tokenize'],
  ['/detokenize', 'tokenize'],
  ['/apply-template', 'tokenize'],
  ['/v1/messages/count_tokens', 'tokenize'],
  ['/v1/responses/input_tokens', 'tokenize'],
  ['/chat/completions/input_tokens', 'tokenize'],
  ['/v1/chat/completions/render', 'tokenize'],
] as const;

describe('the table', () => {
  it.each(generating)('POST %s generates: %s, format %s', (path, kind, format) => {
    expect(findEndpoint('POST', path)).toMatchObject({
      kind,
      format,
      generates: true,
      measured: true,
      readsBody: true,
    });
  });

  it.each(serving)('POST %s is %s and generates nothing', (path, kind) => {
    expect(findEndpoint('POST', path)).toMatchObject({ kind, format: 'unknown', generates: false, readsBody: true });
  });

  it('has no row that is a closed route', () => {
    const paths = [...generating, ...serving].map(([path]) => path);
    expect(paths.filter((path) => findControl('POST', path) !== undefined)).toEqual([]);
    expect(findControl('GET', '/v1/models')).toBeUndefined();
  });

  it('lists models at their two GET paths alone', () => {
    expect(['/v1/models', '/models'].map((path) => findEndpoint('GET', path).kind)).toEqual(['models', 'models']);
    expect(findEndpoint('HEAD', '/v1/models').kind).toBe('models');
    expect(findEndpoint('POST', '/models')).toMatchObject({ kind: 'control', control: 'models' });
    expect(findEndpoint('GET', '/api/tags').kind).toBe('other');
  });

  it('knows what other methods do not do', () => {
    for (const path of [
      '/v1/chat/completions',
      '/api/generate',
      '/slots',
      '/props',
      '/metrics',
      '/health',
      '/v1/realtime',
    ]) {
      expect(findEndpoint('GET', path)).toMatchObject({ kind: 'other', generates: false, readsBody: false });
    }
    expect(findEndpoint('PUT', '/v1/completions').generates).toBe(true);
  });
});

describe('a path', () => {
  it('may have a query, be in absolute form, or be percent-encoded as backends decode it', () => {
    for (const target of [
      '/v1/chat/completions?a=/sleep',
      'http://h/v1/chat/completions',
      '/v1/%63hat/completions',
      '/v1/chat%2Fcompletions',
      '/v1/chat/completions%0A',
    ]) {
      expect(findEndpoint('POST', target)).toMatchObject({ kind: 'chat', generates: true });
    }
  });

  it('with a trailing slash, other case or doubled slashes is another one, as it is to the backends', () => {
    for (const target of [
      '/v1/chat/completions/',
      '/V1/chat/completions',
      '//v1/chat/completions',
      '/v1/chat/../chat/completions',
    ]) {
      expect(findEndpoint('POST', target)).toMatchObject({ kind: 'other', generates: false });
    }
  });

  it('that is unknown passes, and its body is looked at for the model only', () => {
    expect(findEndpoint('POST', '/v1/images/generations')).toMatchObject({
      kind: 'other',
      reads: 'model_only',
      readsBody: true,
    });
    expect(findEndpoint('DELETE', '/v1/files/x')).toMatchObject({ kind: 'other', reads: 'nothing', readsBody: false });
    expect(findEndpoint('OPTIONS', '/v1/chat/completions')).toMatchObject({ kind: 'other', generates: false });
  });

  it('is compared before dots and encodings can make it a closed one', () => {
    expect(findEndpoint('POST', '/v1/..%2Fsleep')).toMatchObject({ kind: 'control', control: 'sleep' });
    expect(findEndpoint('POST', '/v1/responses/../load_lora_adapter')).toMatchObject({ control: 'lora' });
  });

  it('may name what one backend keeps', () => {
    expect(findEndpoint('GET', '/v1/responses/resp_1?stream=true')).toMatchObject({
      kind: 'responses',
      format: 'responses',
      pathId: 'resp_1',
      generates: false,
    });
    expect(findEndpoint('POST', '/v1/responses/resp_1/cancel')).toMatchObject({
      kind: 'responses',
      pathId: 'resp_1',
      generates: false,
    });
    expect(findEndpoint('GET', '/v1/conversations/conv_1/items')).toMatchObject({ kind: 'other', pathId: 'conv_1' });
    expect(findEndpoint('GET', '/v1/chat/completions/chatcmpl-1')).toMatchObject({
      kind: 'other',
      pathId: 'chatcmpl-1',
    });
    expect(findEndpoint('POST', '/v1/chat/completions/control')).not.toHaveProperty('pathId');
    expect(findEndpoint('GET', '/v1/models/org%2Fm%C3%A91')).toMatchObject({ kind: 'other', pathModel: 'org/mé1' });
  });
});
