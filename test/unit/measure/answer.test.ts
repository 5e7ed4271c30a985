import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAnswerReading } from '../../../src/measure/answer.ts';
import { observeAnswer, type Scene } from '../../support/observe.ts';

function read(json: object | string, maxValueBytes = 10_000, step = 7) {
  const reading = createAnswerReading(maxValueBytes);
  const bytes = Buffer.from(typeof json === 'string' ? json : JSON.stringify(json));
  for (let i = 0; i < bytes.length; i += step) reading.push(bytes.subarray(i, i + step));
  return reading.end();
}

describe('an answer that is not streamed', () => {
  it.each<[string, Scene, object, object]>([
    [
      'chat of vLLM',
      { engine: 'vllm' },
      {
        id: 'c1',
        model: 'm',
        choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'length' }],
        usage: { prompt_tokens: 34, completion_tokens: 12, prompt_tokens_details: null },
      },
      {
        finishReasons: ['length'],
        responseModel: 'm',
        warmth: 'unknown',
        tokens: { output: { value: 12, source: 'usage' } },
      },
    ],
    [
      'responses',
      { format: 'responses', engine: 'vllm' },
      {
        object: 'response',
        status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        error: null,
        usage: { input_tokens: 40, input_tokens_details: { cached_tokens: 32 }, output_tokens: 3 },
      },
      {
        finishReasons: ['max_output_tokens'],
        warmth: 'prefix_hit',
        tokens: { cached: { value: 32, source: 'usage' } },
      },
    ],
    [
      'messages',
      { format: 'messages', engine: 'vllm' },
      {
        type: 'message',
        content: [],
        stop_reason: 'end_turn',
        usage: { input_tokens: 8, cache_read_input_tokens: 32, output_tokens: 12 },
      },
      { finishReasons: ['end_turn'], tokens: { prompt: { value: 40, source: 'usage' } } },
    ],
    [
      'llama-server’s own',
      { format: 'llama_native', engine: 'llama-server' },
      {
        content: 'x',
        stop: true,
        stop_type: 'eos',
        tokens_predicted: 12,
        tokens_evaluated: 40,
        tokens_cached: 51,
        timings: { cache_n: 36, prompt_n: 4, predicted_n: 12, prompt_ms: 30.5 },
      },
      {
        finishReasons: ['eos'],
        tokens: {
          prompt: { value: 40, source: 'native' },
          output: { value: 12, source: 'native' },
          cached: { value: 36, source: 'timings' },
        },
        figures: { prefillMs: 30.5, prefillKind: 'split' },
      },
    ],
    [
      'Ollama',
      { format: 'ollama_generate', engine: 'ollama' },
      {
        model: 'm',
        response: 'x',
        done: true,
        done_reason: 'stop',
        prompt_eval_count: 40,
        eval_count: 12,
        prompt_eval_duration: 5e6,
      },
      { finishReasons: ['stop'], tokens: { output: { value: 12, source: 'native' } }, figures: { prefillMs: 5 } },
    ],
    [
      'embeddings',
      { format: 'unknown', engine: 'llama-server' },
      { object: 'list', data: [{ embedding: [0.1, 0.2] }], usage: { prompt_tokens: 2, total_tokens: 2 } },
      { finishReasons: [], tokens: { prompt: { value: 2, source: 'usage' } } },
    ],
  ])('%s', (_, scene, json, expected) => {
    expect(observeAnswer(scene, 10, JSON.stringify(json))).toMatchObject(expected);
  });

  it('llama-server counts one of several choices only: the output is unknown then', () => {
    const choices = [0, 1].map((index) => ({ index, finish_reason: 'length' }));
    const json = { choices, usage: { prompt_tokens: 38, completion_tokens: 8 }, timings: { predicted_n: 8 } };
    const record = observeAnswer({ engine: 'llama-server', choices: 2 }, 10, JSON.stringify(json));
    expect(record.tokens).toEqual({ prompt: { value: 38, source: 'usage' } });
    expect(record.finishReasons).toEqual(['length', 'length']);
    expect(observeAnswer({ engine: 'vllm', choices: 2 }, 10, JSON.stringify(json)).tokens.output?.value).toBe(8);
  });

  it('values past the bound are not kept; the rest is read all the same', () => {
    const choices = [{ index: 0, message: { content: 'x'.repeat(5000) }, finish_reason: 'stop' }];
    const found = read({ choices, usage: { prompt_tokens: 3, completion_tokens: 9 } }, 200);
    expect(found?.facts.usage).toEqual({ prompt: 3, output: 9 });
    expect(found?.facts.finishes).toEqual([]);
    expect(found?.choices).toBe(1);
  });

  it('an error in it is told', () => {
    expect(read({ error: { message: 'no', code: 400 } })?.facts.error).toMatchObject({ message: 'no', status: 400 });
    expect(read({ object: 'error', message: 'flat', code: 400 })?.facts.error).toMatchObject({
      message: 'flat',
      status: 400,
    });
    expect(read({ choices: [], error: null })?.facts.error).toBeUndefined();
  });

  it('what is no JSON object says nothing', () => {
    expect(read('[1,2]')).toBeUndefined();
    expect(read('{"usage":{"prompt_tokens":3}')).toBeUndefined();
    expect(read('')).toBeUndefined();
    expect(observeAnswer({}, 10, 'Internal Server Error')).toMatchObject({ tokens: {}, finishReasons: [] });
  });

  it('says the same whether it comes in one piece or in many', () => {
    const text = fc.oneof(
      fc.string({ maxLength: 12 }),
      fc.integer({ min: 100, max: 1100 }).map((length) => 'é'.repeat(length)),
    );
    const value = fc.oneof(
      text,
      fc.double(),
      fc.constantFrom(null, true, 7),
      fc.record({
        prompt_tokens: fc.nat(),
        completion_tokens: fc.nat(),
        message: text,
        code: fc.constantFrom(400, 'x'),
      }),
      fc.array(fc.record({ index: fc.nat(3), finish_reason: text }), { maxLength: 3 }),
    );
    const key = fc.constantFrom(
      ...[
        'id',
        'model',
        'object',
        'type',
        'status',
        'code',
        'usage',
        'choices',
        'error',
        'message',
        'stop_reason',
        'response',
      ],
      ...['eval_count', 'timings', 'ID', 'data', '__proto__', 'i\\u0064'],
    );
    const member = fc.tuple(key, value).map(([name, of]) => `"${name}": ${JSON.stringify(of)}`);
    const tail = fc.constantFrom('}', '} \n', '}}', '', '} x', ',"choices":[NaN]}');
    fc.assert(
      fc.property(fc.array(member), tail, fc.constantFrom(600, 2000, 10_000), (members, end, bound) => {
        const json = `{${members.join(',')}${end}`;
        expect(read(json, bound, json.length + 9_999)).toEqual(read(json, bound, 7));
      }),
      { numRuns: 500 },
    );
  });
});
