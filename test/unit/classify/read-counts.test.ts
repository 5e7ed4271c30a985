import { describe, expect, it } from 'vitest';
import { jobOf } from '../../support/classified.ts';

const choices = (body: string, line?: string) => jobOf({ body, ...(line === undefined ? {} : { line }) }).choices;
const limit = (body: string, line?: string) => jobOf({ body, ...(line === undefined ? {} : { line }) }).maxOutputTokens;

describe('engine slots asked for', () => {
  it('are n, and 1 when n is none that an engine takes', () => {
    expect(
      ['{}', '{"n":3}', '{"n":3.0}', '{"n":0}', '{"n":-2}', '{"n":"4"}', '{"n":1e999}', '{"n":null}'].map((body) =>
        choices(body),
      ),
    ).toEqual([1, 3, 3, 1, 1, 1, 1, 1]);
  });

  it('are n times the prompts, where an array of token ids is one prompt', () => {
    const line = 'POST /v1/completions';
    expect(choices('{"prompt":["a","b"],"n":2}', line)).toBe(4);
    expect(choices('{"prompt":[1,2,3]}', line)).toBe(1);
    expect(choices('{"prompt":[[1,2],[3],[4]]}', line)).toBe(3);
    expect(choices('{"prompt":["a",12]}', line)).toBe(1);
    expect(choices('{"prompt":[]}', line)).toBe(1);
    expect(choices('{"prompt":"a"}', line)).toBe(1);
  });

  it('follow the spelling of each dialect', () => {
    expect(choices('{"prompt":["a","b"],"n_cmpl":3,"n":1}', 'POST /completion')).toBe(6);
    expect(choices('{"text":["a","b"],"sampling_params":{"n":2}}', 'POST /generate')).toBe(4);
    expect(choices('{"messages":[[{}],[{}],[{}]]}', 'POST /v1/chat/completions/batch')).toBe(3);
    expect(choices('{"messages":[{},{},{}]}')).toBe(1);
  });

  it('stay a number that can be counted with', () => {
    expect(choices('{"n":9007199254740991,"prompt":["a","b"]}', 'POST /v1/completions')).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe('the bound on output tokens', () => {
  it('is the largest one stated, and 0 is one', () => {
    expect(limit('{"max_tokens":5}')).toBe(5);
    expect(limit('{"max_tokens":5,"max_completion_tokens":7}')).toBe(7);
    expect(limit('{"max_tokens":0}')).toBe(0);
    expect(limit('{"max_tokens":null,"n_predict":9}')).toBe(9);
  });

  it('follows the spelling of each dialect', () => {
    expect(limit('{"max_output_tokens":8,"max_tokens":3}', 'POST /v1/responses')).toBe(8);
    expect(limit('{"max_tokens":4}', 'POST /v1/messages')).toBe(4);
    expect(limit('{"options":{"num_predict":6,"temperature":0}}', 'POST /api/chat')).toBe(6);
    expect(limit('{"parameters":{"max_new_tokens":2}}', 'POST /generate')).toBe(2);
    expect(limit('{"sampling_params":{"max_tokens":3}}', 'POST /inference/v1/generate')).toBe(3);
  });

  it('is absent when none is stated, or one of them is no bound', () => {
    for (const body of [
      '{}',
      '{"n_predict":-1}',
      '{"n_predict":-1,"max_tokens":5}',
      '{"max_tokens":"5"}',
      '{"max_tokens":1e999}',
    ]) {
      expect(jobOf({ body })).not.toHaveProperty('maxOutputTokens');
    }
    expect(jobOf({ line: 'POST /v1/embeddings', body: '{"max_tokens":5}' })).not.toHaveProperty('maxOutputTokens');
  });
});
