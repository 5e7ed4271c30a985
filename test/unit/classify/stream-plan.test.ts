import { describe, expect, it } from 'vitest';
import { applyEdits } from '../../../src/classify/edit-body.ts';
import { planStream } from '../../../src/classify/stream-plan.ts';

const chat = '/v1/chat/completions';

/** The body as it is sent; undefined: unstreamed. */
function sent(path: string, body: string): string | undefined {
  const plan = planStream(path, Buffer.from(body));
  return plan === undefined ? undefined : Buffer.concat(applyEdits([Buffer.from(body)], plan.edits).chunks).toString();
}

describe('a body that may be streamed', () => {
  it('gets its two members in front, and no other byte changes', () => {
    expect(sent(chat, '{ "model":"m","messages":[1.0] }')).toBe(
      '{"stream":true,"stream_options":{"include_usage":true}, "model":"m","messages":[1.0] }',
    );
    expect(sent('/v1/completions', '{"prompt":"a","logprobs":2}')).toBe(
      '{"stream":true,"stream_options":{"include_usage":true},"prompt":"a","logprobs":2}',
    );
    expect(sent('/v1/responses', '{"input":"a"}')).toBe('{"stream":true,"input":"a"}');
  });

  it('may say that it does not stream: that is replaced in its place', () => {
    expect(sent(chat, '{"messages":[],"stream" : false}')).toBe(
      '{"stream_options":{"include_usage":true},"messages":[],"stream" : true}',
    );
    expect(sent('/v1/responses', '{"input":"a","stream":null}')).toBe('{"input":"a","stream":true}');
  });

  it('may have no members at all', () => {
    expect(sent(chat, '{}')).toBe('{"stream":true,"stream_options":{"include_usage":true}}');
  });

  it('is one whose every key means the same both ways', () => {
    for (const key of ['stream_options', 'best_of', 'echo', 'prompt_logprobs', 'return_token_ids', 'x', 'str\\u0065am'])
      expect(sent(chat, `{"messages":[],"${key}":1}`), key).toBeUndefined();
    expect(sent('/v1/embeddings', '{"input":"a"}')).toBeUndefined();
  });

  it('does not ask for a stream by itself, nor twice of anything', () => {
    expect(sent(chat, '{"messages":[],"stream":true}')).toBeUndefined();
    expect(sent(chat, '{"messages":[],"stream":0}')).toBeUndefined();
    expect(sent(chat, '{"messages":[],"stream":false,"stream":false}')).toBeUndefined();
    expect(sent(chat, '[]')).toBeUndefined();
    expect(sent(chat, '{"messages":[')).toBeUndefined();
  });

  it('has one prompt', () => {
    expect(sent('/v1/completions', '{"prompt":[1,2]}')).toBeDefined();
    expect(sent('/v1/completions', '{"prompt":["a","b"]}')).toBeUndefined();
    expect(sent('/v1/completions', '{"prompt":[[1],[2]]}')).toBeUndefined();
    expect(sent('/v1/completions', '{"model":"m"}')).toBeUndefined();
  });

  it('goes streamed to llama-server alone where vLLM reads a stream by other code', () => {
    expect(planStream(chat, Buffer.from('{"messages":[]}'))?.engines).toEqual(['llama-server', 'vllm']);
    expect(planStream(chat, Buffer.from('{"messages":[],"tools":[]}'))?.engines).toEqual(['llama-server']);
    expect(planStream('/v1/responses', Buffer.from('{"input":"a"}'))?.engines).toEqual(['llama-server']);
  });
});
