import { describe, expect, it } from 'vitest';

import { warmBody } from '../../../src/classify/warm-body.ts';

const chat = '/v1/chat/completions';

function made(body: string, path = chat, messages?: number): string | undefined {
  return warmBody(Buffer.from(body), path, messages)?.body.toString();
}

describe('a body that only warms', () => {
  it('has the same bytes member by member, but one token of output', () => {
    const body =
      '{ "model":"m", "messages" : [ {"role": "user",  "content":"\\u00fc, ]} \\" x"} ],"max_tokens":500,"stream":false}';
    expect(made(body)).toBe(
      '{"model":"m","messages" : [ {"role": "user",  "content":"\\u00fc, ]} \\" x"} ],"max_tokens":1,"stream":true}',
    );
  });

  it('bounds its output in the words of its route', () => {
    expect(made('{"prompt":"a","n_predict":-1}', '/completion')).toBe('{"prompt":"a","n_predict":1,"stream":true}');
    expect(made('{"input":"a","store":true}', '/v1/responses?x=1')).toBe(
      '{"input":"a","max_output_tokens":1,"store":false,"stream":true}',
    );
    expect(made('{"prompt":"a","n":4,"best_of":4,"min_tokens":9}', '/v1/completions')).toBe(
      '{"prompt":"a","max_tokens":1,"stream":true}',
    );
  });

  it.each([
    // Ollama: the other options stay, as another context size would load the model anew.
    [
      '/api/chat',
      '{"messages":[],"options":{"num_ctx":8192, "num_predict":-1},"num_predict":5}',
      '{"messages":[],"options":{"num_ctx":8192,"num_predict":1},"stream":true}',
    ],
    ['/api/generate', '{"prompt":"a"}', '{"prompt":"a","options":{"num_predict":1},"stream":true}'],
    ['/api/generate', '{"options":null,"prompt":"a"}', '{"prompt":"a","options":{"num_predict":1},"stream":true}'],
    // SGLang
    [
      '/generate',
      '{"text":"a","sampling_params":{"max_new_tokens":500,"min_new_tokens":9,"n":2,"temperature":0}}',
      '{"text":"a","sampling_params":{"temperature":0,"max_new_tokens":1},"stream":true}',
    ],
    ['/generate', '{"input_ids":[1]}', '{"input_ids":[1],"sampling_params":{"max_new_tokens":1},"stream":true}'],
    [
      '/vertex_generate',
      '{"instances":[{"text":"a"}],"parameters":{"sampling_params":{"top_p":1,"max_new_tokens":9},"lora_path":"l"}}',
      '{"instances":[{"text":"a"}],"parameters":{"lora_path":"l","sampling_params":{"top_p":1,"max_new_tokens":1}},"stream":true}',
    ],
    // TGI
    ...['/', '/generate', '/generate_stream', '/invocations'].map((path) => [
      path,
      '{"parameters":{"max_new_tokens":500,"best_of":2,"decoder_input_details":true,"truncate":9},"inputs":"a"}',
      '{"inputs":"a","parameters":{"truncate":9,"max_new_tokens":1},"stream":true}',
    ]),
    // vLLM
    [
      '/inference/v1/generate',
      '{"token_ids":[1],"sampling_params":{"max_tokens":9}}',
      '{"token_ids":[1],"sampling_params":{"max_tokens":1},"stream":true}',
    ],
    ['/generate', '{"prompt":"a","max_tokens":9}', '{"prompt":"a","max_tokens":1,"stream":true}'],
    ['/invocations', '{"messages":[]}', '{"messages":[],"max_tokens":1,"stream":true}'],
  ] as [string, string, string][])('bounds its output where %s looks for it: %s', (path, body, expected) => {
    expect(made(body, path)).toBe(expected);
  });

  it('keeps the first messages as they came, and has somebody speak behind instructions', () => {
    const body =
      '{"model":"m","messages":[{"role":"system","content":"[,{"} , {"role":"user","content":"secret"}],"tools":[]}';
    expect(made(body, chat, 1)).toBe(
      '{"model":"m","messages":[{"role":"system","content":"[,{"} ,{"role":"user","content":"."}],"tools":[],"max_tokens":1,"stream":true}',
    );
    expect(made(body, chat, 0)).toBe(
      '{"model":"m","messages":[{"role":"user","content":"."}],"tools":[],"max_tokens":1,"stream":true}',
    );
    expect(made(body, chat, 2)).toContain('{"role":"user","content":"secret"}],"tools"');
  });

  it('does not say who asked', () => {
    const body = '{"user":"alice","metadata":{"a":[1]},"messages":[{}],"prompt_cache_key":"k","cache_salt":"s"}';
    expect(made(body, chat, 1)).toBe(
      '{"messages":[{},{"role":"user","content":"."}],"cache_salt":"s","max_tokens":1,"stream":true}',
    );
  });

  it('is valid JSON that says the same', () => {
    const body = JSON.stringify({
      messages: [{ role: 'user', content: ['a', { b: [1, 2] }] }, { role: 'assistant' }],
      x: { y: [] },
    });
    const all = JSON.parse(made(body, chat, 1) ?? '') as { messages: unknown[]; x: unknown };
    expect(all).toEqual({
      messages: [{ role: 'user', content: ['a', { b: [1, 2] }] }],
      x: { y: [] },
      max_tokens: 1,
      stream: true,
    });
  });

  it.each([
    ['no JSON', 'nothing', undefined],
    ['no object', '[1]', undefined],
    ['fewer messages than are to be kept', '{"messages":[{}]}', 2],
    ['no list of messages', '{"prompt":"a"}', 1],
    ['two lists of messages', '{"messages":[{}],"messages":[{}]}', 1],
  ])('can not be made of %s', (_what, body, messages) => {
    expect(made(body, chat, messages)).toBeUndefined();
  });
});
