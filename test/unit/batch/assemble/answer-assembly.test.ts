/** Recorded streams of both engines, put together again, beside what the same engines send unstreamed. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createAnswerAssembly } from '../../../../src/batch/assemble/answer-assembly.ts';
import type { Assembled } from '../../../../src/batch/assemble/assembled.ts';
import type { BatchEndpoint } from '../../../../src/batch/batch.ts';
import type { Engine } from '../../../../src/domain/names.ts';
import { loadRecorded, type RecordedServer } from '../../../support/recorded.ts';

const chat = '/v1/chat/completions';
const bound = 1024 * 1024;

function assemble(body: Buffer, engine: Engine | undefined, endpoint: BatchEndpoint = chat): Assembled {
  const assembly = createAnswerAssembly(endpoint, bound);
  assembly.push(body);
  return assembly.end(engine);
}

/** The whole answer that a recorded stream comes to. */
function whole(server: RecordedServer, name: string, endpoint: BatchEndpoint = chat): Whole {
  const found = assemble(loadRecorded(server, name).body, server, endpoint);
  if (found.kind !== 'whole') throw new Error(`${name}: ${found.message}`);
  return JSON.parse(found.body) as Whole;
}

interface Whole {
  readonly choices: readonly {
    readonly message: { readonly content: unknown; readonly tool_calls?: unknown; readonly [key: string]: unknown };
    readonly [key: string]: unknown;
  }[];
  readonly usage: { readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

/** Keys of an object and of those in it, without what stands in them. */
function shape(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [shape(value[0])];
  if (typeof value !== 'object' || value === null) return value === null ? null : typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, held]) => [key, shape(held)]));
}

describe('a streamed chat answer', () => {
  it('of llama-server has the members of its unstreamed one', () => {
    const unstreamed = JSON.parse(loadRecorded('llama-server', 'chat-nonstream').body.toString()) as Whole;
    expect(shape(whole('llama-server', 'chat-usage'))).toEqual(shape(unstreamed));
  });

  it('of vLLM has the members of its unstreamed one, nulls and all', () => {
    const unstreamed = JSON.parse(loadRecorded('vllm', 'chat-non-stream').body.toString()) as Whole;
    expect(shape(whole('vllm', 'chat-usage'))).toEqual(shape(unstreamed));
  });

  it('has the text that the pieces make, also of characters cut between them', () => {
    expect(whole('llama-server', 'chat-plain').choices[0]?.message.content).toMatch(
      /^The rainbow is often .*rainbow is$/s,
    );
    expect(whole('vllm', 'chat-unicode').choices[0]?.message.content).not.toContain('\u{fffd}');
  });

  it('R15 joins a tool call by its index and leaves the index out, as both engines do unstreamed', () => {
    const expected = { type: 'function', function: { name: 'get_weather', arguments: '{"city":"Paris"}' } };
    const [choice] = whole('llama-server', 'chat-tool-call').choices;
    expect(choice?.message.tool_calls).toMatchObject([{ ...expected, function: { name: 'get_weather' } }]);
    expect(JSON.parse(argumentsOf(choice?.message.tool_calls))).toEqual({ city: 'Paris' });
    expect(JSON.stringify(choice?.message.tool_calls)).not.toContain('"index"');
    expect(choice?.['finish_reason']).toBe('tool_calls');
    const [other] = whole('vllm', 'chat-tool-call').choices;
    expect(JSON.parse(argumentsOf(other?.message.tool_calls))).toEqual({ city: 'Paris' });
    expect(other?.message.content).toBeNull();
  });

  it('R15 keeps reasoning apart from the text', () => {
    const [llama] = whole('llama-server', 'chat-reasoning').choices;
    expect(llama?.message['reasoning_content']).toMatch(/^The sky looks/);
    expect(llama?.message.content).toMatch(/\.$/);
    const [vllm] = whole('vllm', 'chat-reasoning').choices;
    expect(vllm?.message['reasoning']).toContain('7 divide it.');
    expect(vllm?.message.content).toBe('Yes, it is.');
  });

  it('R18 sums the usage of llama-server, which counts each choice apart', () => {
    const { choices, usage } = whole('llama-server', 'chat-n2');
    expect(choices.map(({ index }) => index)).toEqual([0, 1]);
    expect(usage).toMatchObject({ prompt_tokens: 38, completion_tokens: 16, total_tokens: 54 });
  });

  it('R19 takes the usage of vLLM as the sum that it is', () => {
    const { choices, usage } = whole('vllm', 'chat-n2');
    expect(choices).toHaveLength(2);
    expect(usage).toMatchObject({ prompt_tokens: 33, completion_tokens: 16, total_tokens: 49 });
  });

  it('takes the last of running counts, not their sum', () => {
    expect(whole('vllm', 'chat-continuous-usage').usage).toMatchObject({ completion_tokens: 8, total_tokens: 42 });
  });

  it('puts log probabilities one behind the other', () => {
    for (const server of ['llama-server', 'vllm'] as const) {
      const [choice] = whole(server, 'chat-logprobs').choices;
      const { content } = (choice?.['logprobs'] ?? {}) as { content: { token: string }[] };
      expect(content.map(({ token }) => token).join('')).toBe(choice?.message.content);
    }
  });

  it('keeps token ids and what else came on the way', () => {
    const { choices, ...top } = whole('vllm', 'chat-return-token-ids');
    expect(choices[0]?.['token_ids']).toHaveLength(8);
    expect(top['prompt_token_ids']).toHaveLength(33);
  });

  it('R16 is the same whatever number of tokens an event carries', () => {
    expect(whole('vllm', 'stream-interval-5').choices[0]?.['finish_reason']).toBeTypeOf('string');
    expect(whole('vllm', 'ngram-speculation').choices[0]?.message.content).toBeTypeOf('string');
  });

  it('R17 is the same wherever its bytes are cut', () => {
    const { body } = loadRecorded('vllm', 'chat-unicode');
    const uncut = assemble(body, 'vllm');
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: body.length - 1 }), { maxLength: 40 }), (cuts) => {
        const assembly = createAnswerAssembly(chat, bound);
        let from = 0;
        for (const cut of [...new Set(cuts)].toSorted((a, b) => a - b)) {
          assembly.push(body.subarray(from, cut));
          from = cut;
        }
        assembly.push(body.subarray(from));
        expect(assembly.end('vllm')).toEqual(uncut);
      }),
    );
  });
});

describe('a streamed text completion', () => {
  it('of both engines is put together', () => {
    const llama = whole('llama-server', 'completions', '/v1/completions');
    expect(llama).toMatchObject({ object: 'text_completion', usage: { completion_tokens: 16 } });
    expect(llama.choices[0]).toMatchObject({ index: 0, logprobs: null, finish_reason: 'length' });
    expect(llama.choices[0]?.['text']).toMatch(/^, the city of Nova Haven was a thriving metropolis/);
    const vllm = whole('vllm', 'completions-stream', '/v1/completions');
    expect(vllm.choices[0]).toMatchObject({ finish_reason: 'length', stop_reason: null, prompt_logprobs: null });
    expect(vllm.usage).toMatchObject({ prompt_tokens_details: { cached_tokens: 0, multimodal_tokens: null } });
  });

  it('has all lists of its log probabilities whole', () => {
    const [choice] = whole('vllm', 'completions-echo', '/v1/completions').choices;
    const { tokens, text_offset: offsets } = (choice?.['logprobs'] ?? {}) as {
      tokens: string[];
      text_offset: number[];
    };
    expect(tokens.join('')).toBe(choice?.['text']);
    expect(offsets).toHaveLength(tokens.length);
  });
});

describe('a streamed response', () => {
  it("is its last event's object, as it stands there", () => {
    const raw = loadRecorded('vllm', 'responses-stream').body.toString();
    const found = assemble(Buffer.from(raw), 'vllm', '/v1/responses');
    expect(found.kind === 'whole' && raw.includes(`{"response":${found.body},"sequence_number":18`)).toBe(true);
  });

  it('of llama-server names the moment of its end, as it does unstreamed', () => {
    const { body } = loadRecorded('llama-server', 'responses');
    const found = assemble(body, 'llama-server', '/v1/responses');
    const response = JSON.parse(found.kind === 'whole' ? found.body : '{}') as Record<string, unknown>;
    expect(response).toMatchObject({ object: 'response', status: 'completed', completed_at: response['created_at'] });
    expect(response).not.toHaveProperty('timings');
  });

  it('that failed is an error, and one without an end is broken', () => {
    const failed = `event: response.failed\ndata: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"died"}}}\n\n`;
    expect(assemble(Buffer.from(failed), 'vllm', '/v1/responses')).toMatchObject({ kind: 'error', message: 'died' });
    const told = 'event: error\ndata: {"type":"error","code":"server_error","message":"no"}\n\n';
    expect(assemble(Buffer.from(told), 'vllm', '/v1/responses')).toMatchObject({ kind: 'error', message: 'no' });
    const cut = 'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n';
    expect(assemble(Buffer.from(cut), 'vllm', '/v1/responses')).toMatchObject({ kind: 'broken' });
  });
});

describe('a stream that went wrong', () => {
  it('R08 is an error whatever was said before it', () => {
    const { body } = loadRecorded('llama-server', 'error-in-stream');
    expect(assemble(body, 'llama-server')).toEqual({
      kind: 'error',
      status: 500,
      message: 'Context size has been exceeded.',
      body: '{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}',
    });
  });

  it('R06 is an error in spite of [DONE]', () => {
    const { body } = loadRecorded('vllm', 'engine-died-mid-stream');
    expect(assemble(body, 'vllm')).toMatchObject({ kind: 'error', status: 500 });
  });

  it('R07 without finish or end marker is broken', () => {
    expect(assemble(loadRecorded('llama-server', 'chat-sigterm').body, 'llama-server')).toMatchObject({
      kind: 'broken',
    });
    const { body } = loadRecorded('vllm', 'chat-usage');
    const unmarked = body.subarray(0, body.lastIndexOf('data: [DONE]'));
    expect(assemble(unmarked, 'vllm')).toMatchObject({ kind: 'broken' });
    expect(assemble(Buffer.from('data: [DONE]\n\n'), 'vllm')).toMatchObject({ kind: 'broken' });
  });

  it('that holds no JSON is broken', () => {
    expect(assemble(Buffer.from('data: <html>\n\ndata: [DONE]\n\n'), 'vllm')).toMatchObject({ kind: 'broken' });
  });

  it('is given up past the bound, by its text and by one event', () => {
    const event = (text: string) =>
      Buffer.from(`data: {"id":"x","choices":[{"index":0,"delta":{"content":"${text}"},"finish_reason":null}]}\n\n`);
    const many = createAnswerAssembly(chat, 2000);
    for (let n = 0; n < 100 && !many.tooLong; n += 1) many.push(event('abcdefghij'));
    expect(many.tooLong).toBe(true);
    const one = createAnswerAssembly(chat, 2000);
    one.push(Buffer.from(`data: ${'a'.repeat(3000)}`));
    expect(one.tooLong).toBe(true);
  });
});

function argumentsOf(calls: unknown): string {
  const [call] = calls as { function: { arguments: string } }[];
  return call?.function.arguments ?? '';
}
