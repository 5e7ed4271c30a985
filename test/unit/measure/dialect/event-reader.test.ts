import { describe, expect, it } from 'vitest';
import type { Engine, StreamFormat } from '../../../../src/domain/names.ts';
import { EventFlag } from '../../../../src/domain/tap.ts';
import { createEventReader } from '../../../../src/measure/dialect/event-reader.ts';
import type { EventFacts } from '../../../../src/measure/dialect/facts.ts';

const { token, finish, usageOnly, error, done, sign } = EventFlag;

function read(format: StreamFormat, data: string | object, engine: Engine = 'openai', name = ''): EventFacts {
  const bytes = Buffer.from(typeof data === 'string' ? data : JSON.stringify(data));
  return createEventReader(format, engine).read(bytes, 0, bytes.length, name);
}
const chat = (choice: object, engine?: Engine, more: object = {}) =>
  read('chat', { choices: [{ index: 0, finish_reason: null, ...choice }], ...more }, engine);

describe('what is no JSON object', () => {
  it('C020 empty data, a JSON string and null are signs of life, not errors', () => {
    for (const data of ['', '   ', '""', 'null', '[]']) {
      expect(read('chat', data)).toMatchObject({ flags: sign });
      expect(read('chat', data).malformed).toBeUndefined();
    }
  });

  it('knows the end marker, with blanks after it too', () => {
    expect(read('chat', '[DONE]').flags).toBe(done);
    expect(read('chat', '[DONE] ').flags).toBe(done);
    expect(read('chat', '[DONE').malformed).toBe(true);
  });

  it('marks broken JSON and says nothing else of it', () => {
    expect(read('chat', '{"choices":[{"index":0,"del')).toMatchObject({ flags: 0, malformed: true });
  });

  it('C014 reads two objects in one event as two events', () => {
    const call = JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0 }] } }] });
    const facts = read('chat', `${call}\n${call}`);
    expect(facts).toMatchObject({ flags: token, next: { flags: token } });
    expect(read('chat', `${call}\n{"choices":`)).toMatchObject({ flags: 0, malformed: true });
    expect(read('chat', '{"choices":\n[]}').malformed).toBeUndefined();
  });
});

describe('errors in every shape', () => {
  it.each([
    ['OpenAI', { error: { message: 'queue full', type: 'overloaded', code: 503 } }, 503, 'queue full'],
    [
      'vLLM',
      '{"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "param": null, "code": 500}}',
      500,
      'EngineCore encountered an issue.',
    ],
    [
      'SGLang, flat',
      { object: 'error', message: 'too long', type: 'BadRequestError', param: null, code: 400 },
      400,
      'too long',
    ],
    ['TGI', { error: { message: 'overloaded', http_status_code: 422 } }, 422, 'overloaded'],
    ['TGI, string', { error: 'Model is overloaded', error_type: 'overloaded' }, undefined, 'Model is overloaded'],
    ['a code that is a word', { error: { message: 'no', code: 'model_not_found' } }, undefined, 'no'],
    ['a code in digits', { error: { message: 'no', code: '404' } }, 404, 'no'],
  ])('%s', (_, data, status, message) => {
    const facts = read('chat', data);
    expect(facts.flags & error).toBe(error);
    expect(facts.flags & token).toBe(0);
    expect(facts.error?.message).toBe(message);
    expect(facts.error?.status).toBe(status);
  });

  it('C049 an event named error is one whatever its body says', () => {
    const { flags, error: told } = read('chat', { error: { code: 400, message: 'bad' } }, 'openai', 'error');
    expect(flags & error).toBe(error);
    expect(told).toMatchObject({ message: 'bad', status: 400 });
    expect(
      read('messages', { code: 500, message: 'gone', type: 'server_error' }, 'llama-server', 'error').error,
    ).toMatchObject({
      message: 'gone',
      type: 'server_error',
      status: 500,
    });
    expect(read('chat', 'plain words', 'openai', 'error')).toMatchObject({ flags: error, malformed: true });
  });

  it('of Anthropic, Responses and Ollama', () => {
    expect(read('messages', { type: 'error', error: { type: 'internal_error', message: 'x' } }).error?.message).toBe(
      'x',
    );
    expect(read('responses', { type: 'error', code: 'server_error', message: 'y' }).error).toMatchObject({
      message: 'y',
      type: 'error',
    });
    const failed = read('responses', { type: 'response.failed', response: { error: { code: 'rate', message: 'z' } } });
    expect(failed.error?.message).toBe('z');
    expect(failed.flags).toBe(error | finish | done);
    expect(read('ollama_chat', { error: 'model stopped' }).error).toMatchObject({ message: 'model stopped' });
  });

  it('keep the whole error object beside the short message, unless it is very large', () => {
    const told = { message: 'm'.repeat(2000), type: 'BadRequestError', param: 'max_tokens', code: 400 };
    const { error: kept } = read('chat', { error: told });
    expect(kept?.message).toHaveLength(500);
    expect(JSON.parse(kept?.body ?? '')).toEqual(told);
    expect(read('chat', { error: { ...told, message: 'ü'.repeat(9000) } }).error).not.toHaveProperty('body');
    expect(read('chat', { error: { code: 400 } }).error).not.toHaveProperty('body');
  });

  it('a null error is none', () => {
    expect(chat({ delta: { content: 'x' } }, 'openai', { error: null }).flags).toBe(token);
  });
});

describe('chat', () => {
  it.each([
    ['text', { content: 'x' }, 'text'],
    ['a refusal', { refusal: 'no' }, 'text'],
    ['reasoning (vLLM)', { reasoning: 'x' }, 'reasoning'],
    ['reasoning (llama-server, SGLang)', { reasoning_content: 'x' }, 'reasoning'],
    ['reasoning beside empty content (Ollama)', { content: '', reasoning: 'x' }, 'reasoning'],
    ['a tool call', { content: null, tool_calls: [{ index: 0, function: { name: 'f' } }] }, 'tool'],
    ['a function call', { function_call: { name: 'f' } }, 'tool'],
    ['text beside a role (TGI)', { role: 'assistant', content: 'x' }, 'text'],
  ])('%s is a token event', (_, delta, kind) => {
    expect(chat({ delta })).toMatchObject({ flags: token, deltas: [{ choice: 0, kind }], roles: [] });
  });

  it('C023 a role chunk is a sign, no token', () => {
    for (const content of ['', null, undefined]) {
      const facts = chat({ delta: { role: 'assistant', content } }, 'vllm');
      expect(facts).toMatchObject({ flags: sign, deltas: [], roles: [0] });
    }
  });

  it('R14 empty content without a role is a token on vLLM, and nothing elsewhere', () => {
    expect(chat({ delta: { content: '' } }, 'vllm')).toMatchObject({ flags: token, deltas: [{ kind: 'text' }] });
    expect(chat({ delta: { content: '' } }, 'sglang')).toMatchObject({ flags: sign, deltas: [] });
    expect(chat({ delta: { content: '' }, finish_reason: 'stop' }, 'vllm').flags).toBe(token | finish);
    expect(chat({ delta: {}, finish_reason: 'stop' }, 'vllm').flags).toBe(finish);
  });

  it('token ids are tokens, and tell how many', () => {
    expect(chat({ delta: { content: '' }, token_ids: [1, 2] }, 'vllm').deltas).toEqual([
      { choice: 0, kind: 'text', tokens: 2 },
    ]);
    expect(chat({ delta: {}, token_ids: [7] }, 'openai').deltas).toEqual([{ choice: 0, kind: 'text', tokens: 1 }]);
  });

  it('progress is a sign, even with a role', () => {
    const progress = { prompt_progress: { total: 911, cache: 900, processed: 905, time_ms: 1 } };
    const facts = chat({ delta: { role: 'assistant', content: null } }, 'llama-server', progress);
    expect(facts).toMatchObject({ flags: sign, roles: [], early: { prompt: 911, cached: 900, native: true } });
  });

  it('C042 text beside a finish reason is a token', () => {
    const facts = chat({ delta: { content: 'b' }, finish_reason: 'length' });
    expect(facts).toMatchObject({ flags: token | finish, finishes: [{ choice: 0, reason: 'length' }] });
  });

  it('C033 usage beside choices is read, and makes the chunk neither token nor strippable', () => {
    const usage = { prompt_tokens: 40, completion_tokens: 120, prompt_tokens_details: { cached_tokens: 32 } };
    const facts = chat({ delta: {} }, 'openai', { usage });
    expect(facts).toMatchObject({ flags: sign, usage: { prompt: 40, output: 120, cached: 32 } });
  });

  it('usage alone is strippable; empty choices without usage are not (SGLang’s sglext)', () => {
    expect(read('chat', { choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }).flags).toBe(usageOnly);
    expect(read('chat', { choices: [], usage: null }).flags).toBe(sign);
    expect(read('chat', { choices: [], sglext: {} }).flags).toBe(sign);
  });

  it('padding that hides lengths changes nothing', () => {
    expect(chat({ delta: { content: 'x' } }, 'openai', { obfuscation: 'k3Jq', usage: null }).flags).toBe(token);
  });

  it('R23 nothing depends on key order or spacing', () => {
    const facts = read('chat', '{ "choices" : [ { "delta" : { "content" : "x" } , "index" : 1 } ] , "id" : "a" }');
    expect(facts).toMatchObject({ flags: token, deltas: [{ choice: 1 }], responseId: 'a' });
  });

  it('numbers that are no counts are not taken for counts', () => {
    const usage = { prompt_tokens: -1, completion_tokens: '12', prompt_tokens_details: { cached_tokens: null } };
    expect(read('chat', { choices: [], usage }).usage).toEqual({});
    expect(chat({ index: 1e9, delta: { content: 'x' } }).deltas[0]?.choice).toBe(1023);
  });
});

describe('completions', () => {
  const completions = (choice: object, engine?: Engine) =>
    read('completions', { choices: [{ index: 0, ...choice }] }, engine);

  it('R14 empty text is a token on vLLM, the end on llama-server', () => {
    expect(completions({ text: '' }, 'vllm').flags).toBe(token);
    expect(completions({ text: '', finish_reason: 'length' }, 'llama-server').flags).toBe(finish);
    expect(completions({ text: ' x' }, 'llama-server').flags).toBe(token);
  });
});

describe('responses', () => {
  const responses = (data: object, engine?: Engine) => read('responses', data, engine);

  it('what comes before any work is a sign', () => {
    const created = { type: 'response.created', response: { id: 'resp_1', model: 'm', status: 'in_progress' } };
    expect(responses(created, 'vllm')).toMatchObject({ flags: sign, roles: [], responseId: 'resp_1' });
    expect(responses(created, 'llama-server')).toMatchObject({ flags: sign, roles: [0] });
    expect(responses({ type: 'response.in_progress', response: {} }).flags).toBe(sign);
    expect(responses({ type: 'response.content_part.added', part: { text: '' } }).flags).toBe(sign);
  });

  it.each([
    ['response.output_text.delta', 'text'],
    ['response.reasoning_text.delta', 'reasoning'],
    ['response.reasoning_summary_text.delta', 'summary'],
    ['response.function_call_arguments.delta', 'tool'],
  ])('%s is a token event', (type, kind) => {
    expect(responses({ type, delta: 'x' })).toMatchObject({ flags: token, deltas: [{ kind }] });
    expect(responses({ type, delta: '' }).flags).toBe(sign);
  });

  it('R22 the reason is in the details, not in the event’s name', () => {
    const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
    expect(responses({ type: 'response.completed', response: cut })).toMatchObject({
      flags: finish | done,
      finishes: [{ reason: 'max_output_tokens' }],
    });
    expect(responses({ type: 'response.incomplete', response: {} }).finishes[0]?.reason).toBe('incomplete');
  });
});

describe('messages', () => {
  const messages = (data: object) => read('messages', data, 'vllm');

  it('reads a stream’s parts', () => {
    const usage = { input_tokens: 8, cache_read_input_tokens: 32, cache_creation_input_tokens: 2, output_tokens: 0 };
    expect(messages({ type: 'message_start', message: { id: 'm1', model: 'm', usage } })).toMatchObject({
      flags: sign,
      roles: [0],
      usage: { prompt: 42, cached: 32 },
    });
    expect(messages({ type: 'content_block_start', content_block: { type: 'text', text: '' } }).flags).toBe(sign);
    expect(messages({ type: 'content_block_start', content_block: { type: 'tool_use', name: 'f' } }).flags).toBe(token);
    expect(messages({ type: 'content_block_delta', delta: { type: 'text_delta', text: 'x' } }).deltas[0]?.kind).toBe(
      'text',
    );
    expect(messages({ type: 'content_block_delta', delta: { thinking: 'x' } }).deltas[0]?.kind).toBe('reasoning');
    expect(messages({ type: 'content_block_delta', delta: { partial_json: '{' } }).deltas[0]?.kind).toBe('tool');
    expect(messages({ type: 'content_block_delta', delta: { partial_json: '' } }).flags).toBe(sign);
    expect(messages({ type: 'content_block_delta', delta: { signature: 'abc' } }).flags).toBe(sign);
    expect(messages({ type: 'ping' }).flags).toBe(sign);
    expect(
      messages({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } }),
    ).toMatchObject({ flags: finish, finishes: [{ reason: 'end_turn' }], usage: { output: 3 } });
    expect(messages({ type: 'message_stop' }).flags).toBe(done);
  });
});

describe('llama-server’s own', () => {
  const native = (data: object) => read('llama_native', data, 'llama-server');

  it('progress carries no token, though it says tokens: [0]', () => {
    const progress = { content: '', tokens: [0], stop: false, prompt_progress: { total: 5, cache: 3 } };
    expect(native(progress)).toMatchObject({ flags: sign, deltas: [], early: { prompt: 5, cached: 3 } });
  });

  it('an id without text is a token', () => {
    expect(native({ index: 0, content: '', tokens: [1], stop: false, tokens_predicted: 2 })).toMatchObject({
      flags: token,
      outputSoFar: 2,
    });
  });

  it('the last event has whole-prompt and output counts', () => {
    const last = {
      content: '',
      tokens: [],
      stop: true,
      stop_type: 'limit',
      tokens_predicted: 12,
      tokens_evaluated: 40,
    };
    expect(native({ ...last, tokens_cached: 51, timings: { cache_n: 36, prompt_n: 4 } })).toMatchObject({
      flags: finish | done,
      finishes: [{ reason: 'limit' }],
      usage: { prompt: 40, output: 12 },
      timings: { cached: 36 },
      native: true,
    });
  });

  it('a last event that response_fields stripped is still the last', () => {
    expect(native({ 'timings/cache_n': 4 }).flags).toBe(finish | done);
  });
});

describe('Ollama', () => {
  it('reads both routes', () => {
    expect(read('ollama_chat', { message: { role: 'assistant', content: 'x' }, done: false }).flags).toBe(token);
    expect(read('ollama_chat', { message: { content: '', thinking: 'x' }, done: false }).deltas[0]?.kind).toBe(
      'reasoning',
    );
    expect(read('ollama_generate', { response: 'x', done: false }).flags).toBe(token);
    const last = { response: '', done: true, done_reason: 'stop', prompt_eval_count: 40, eval_count: 12 };
    expect(read('ollama_generate', { ...last, prompt_eval_duration: 30_000_000 })).toMatchObject({
      flags: finish | done,
      usage: { prompt: 40, output: 12 },
      engineTimes: { prefillMs: 30 },
    });
  });
});

it('an unknown format has signs, errors and an end, and no tokens', () => {
  expect(read('unknown', { token: { text: 'x' } }).flags).toBe(sign);
  expect(read('unknown', { error: 'x' }).flags).toBe(error);
  expect(read('unknown', '[DONE]').flags).toBe(done);
});
