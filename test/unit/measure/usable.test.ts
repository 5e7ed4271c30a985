import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { UselessReason } from '../../../src/domain/assessment.ts';
import type { AnswerShape, Job } from '../../../src/domain/job.ts';
import type { Outcome } from '../../../src/domain/names.ts';
import type { RequestRecord } from '../../../src/domain/record.ts';
import { createObserver } from '../../../src/measure/observer.ts';
import { sse } from '../../support/events.ts';
import { jobOf, measureSettings, playReads, type Read, readsOf, type Scene, sceneOf } from '../../support/observe.ts';
import { loadRecorded } from '../../support/recorded.ts';

interface Checked extends Scene {
  readonly shape?: AnswerShape;
  readonly maxCheckedBytes?: number | 'off';
  readonly outcome?: Outcome;
}

function observerFor(scene: Checked) {
  const job: Job = { ...jobOf(scene), ...(scene.shape === undefined ? {} : { shape: scene.shape }) };
  const { maxCheckedBytes = 65_536 } = scene;
  const observer = createObserver(
    { ...measureSettings, ...(maxCheckedBytes === 'off' ? {} : { maxCheckedBytes }) },
    { head: { requestId: 'r', method: 'POST', target: job.target, receivedMs: 1 }, wallMs: 1 },
  );
  observer.mark('receivedLast', 1);
  observer.classified(job);
  observer.attempt({ backend: 'b', engine: scene.engine ?? 'openai', atMs: 1, reason: 'only' });
  return observer;
}

function recordOf(scene: Checked, reads: readonly Read[]): RequestRecord {
  const observer = observerFor(scene);
  playReads(observer, scene, 1, reads);
  return observer.finish({ outcome: scene.outcome ?? 'ok', spokenBy: 'backend', status: 200, atMs: 100 });
}

function streamed(scene: Checked, ...events: readonly string[]): readonly UselessReason[] | undefined {
  return recordOf(scene, [[10, ...events]]).assessment?.useless;
}

function whole(scene: Checked, body: object | string): readonly UselessReason[] | undefined {
  const observer = observerFor(scene);
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  for (let at = 0; at < bytes.length; at += 7) observer.answer(bytes.subarray(at, at + 7));
  observer.answerEnd();
  return observer.finish({ outcome: scene.outcome ?? 'ok', spokenBy: 'backend', status: 200, atMs: 100 }).assessment
    ?.useless;
}

const json: Checked = { shape: { json: true } };
const tools: Checked = { shape: { tools: true } };
const delta = (fields: object, index = 0) => sse({ choices: [{ index, delta: fields, finish_reason: null }] });
const end = (reason: string, index = 0) => sse({ choices: [{ index, delta: {}, finish_reason: reason }] });
const call = (fields: object, at = 0) => ({ tool_calls: [{ index: at, function: fields }] });

describe('an answer that must be JSON', () => {
  it('is of use when it parses, in however many events it came', () => {
    expect(streamed(json, delta({ content: '{"a":' }), delta({ content: ' [1, "ü"]}\n' }), end('stop'))).toEqual([]);
  });

  it('is of none when it doesn’t, or is empty', () => {
    expect(streamed(json, delta({ content: 'Sure! {"a":1}' }), end('stop'))).toEqual(['response_format']);
    expect(streamed(json, delta({ role: 'assistant' }), end('stop'))).toEqual(['response_format']);
  });

  it('is of none when one of its choices isn’t', () => {
    const two = [delta({ content: '{}' }), delta({ content: '{' }, 1), end('stop'), end('stop', 1)];
    expect(streamed({ ...json, choices: 2 }, ...two)).toEqual(['response_format']);
    expect(streamed({ ...json, choices: 2 }, ...two, delta({ content: '}' }, 1))).toEqual([]);
  });

  it('may be a refusal, or calls of tools instead', () => {
    expect(streamed(json, delta({ refusal: 'I can’t' }), end('stop'))).toEqual([]);
    const both: Checked = { shape: { json: true, tools: true } };
    expect(streamed(both, delta(call({ name: 'f', arguments: '{}' })), end('tool_calls'))).toEqual([]);
  });

  it('doesn’t count its thoughts', () => {
    expect(streamed(json, delta({ reasoning_content: 'well {' }), delta({ content: '{}' }), end('stop'))).toEqual([]);
  });

  it('may be a text completion, a response, or not streamed', () => {
    const text = (piece: string) => sse({ choices: [{ index: 0, text: piece, finish_reason: null }] });
    const completions: Checked = { ...json, format: 'completions' };
    expect(streamed(completions, text('[1'), text(']'), end('stop'))).toEqual([]);
    expect(whole(completions, { choices: [{ index: 0, text: '[1', finish_reason: 'stop' }] })).toEqual([
      'response_format',
    ]);
    expect(whole(json, { choices: [{ message: { content: '{"a":1}' }, finish_reason: 'stop' }] })).toEqual([]);
    expect(whole(json, { choices: [{ message: { content: '{"a":' }, finish_reason: 'length' }] })).toEqual([
      'response_format',
      'cut_by_length',
    ]);
    const responses: Checked = { ...json, format: 'responses' };
    const item = (part: string) => sse({ type: 'response.output_text.delta', output_index: 0, delta: part });
    const completed = sse({ type: 'response.completed', response: { status: 'completed' } });
    expect(streamed(responses, item('{"a"'), item(':1}'), completed)).toEqual([]);
    expect(streamed(responses, item('{"a"'), completed)).toEqual(['response_format']);
    const output = [{ type: 'message', content: [{ type: 'output_text', text: '{"a"' }] }];
    expect(whole(responses, { object: 'response', status: 'completed', output })).toEqual(['response_format']);
  });

  it('parses exactly when its pieces together do', () => {
    fc.assert(
      fc.property(fc.json(), fc.boolean(), fc.array(fc.nat(), { maxLength: 6 }), (text, broken, cuts) => {
        const said = broken ? `${text}}` : text;
        const at = [0, ...cuts.map((cut) => cut % (said.length + 1)), said.length].toSorted((a, b) => a - b);
        const pieces = at.slice(1).map((to, i) => delta({ content: said.slice(at[i], to) }));
        expect(streamed(json, ...pieces, end('stop'))).toEqual(broken ? ['response_format'] : []);
      }),
    );
  });
});

describe('the arguments of tool calls', () => {
  it('must parse, each call’s by itself', () => {
    const two = [
      delta(call({ name: 'f', arguments: '' })),
      delta(call({ name: 'g', arguments: '{"b":' }, 1)),
      delta(call({ arguments: '{"a":1}' })),
    ];
    expect(streamed(tools, ...two, delta(call({ arguments: '2}' }, 1)), end('tool_calls'))).toEqual([]);
    expect(streamed(tools, ...two, end('tool_calls'))).toEqual(['tool_arguments']);
  });

  it('may be missing altogether, and so may the call', () => {
    expect(streamed(tools, delta(call({ name: 'now' })), end('tool_calls'))).toEqual([]);
    expect(streamed(tools, delta({ content: 'not { json' }), end('stop'))).toEqual([]);
  });

  it('of the old kind count too, those of free text don’t', () => {
    expect(streamed(tools, delta({ function_call: { name: 'f', arguments: '{' } }), end('function_call'))).toEqual([
      'tool_arguments',
    ]);
    const custom = { tool_calls: [{ type: 'custom', custom: { name: 'sh', input: 'ls {' } }] };
    expect(whole(tools, { choices: [{ message: custom, finish_reason: 'tool_calls' }] })).toEqual([]);
  });

  it('are read in messages and responses, streamed and not', () => {
    const messages: Checked = { ...tools, format: 'messages' };
    const start = sse({
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'tool_use', name: 'f', input: {} },
    });
    const piece = (part: string) =>
      sse({ type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: part } });
    const stop = sse({ type: 'message_delta', delta: { stop_reason: 'tool_use' } });
    expect(streamed(messages, start, piece(''), piece('{"a":'), piece('1}'), stop)).toEqual([]);
    expect(streamed(messages, start, piece('{"a":'), stop)).toEqual(['tool_arguments']);
    expect(streamed(messages, start, stop)).toEqual([]);
    const content = [{ type: 'tool_use', name: 'f', input: { a: 1 } }];
    expect(whole(messages, { type: 'message', content, stop_reason: 'tool_use' })).toEqual([]);

    const responses: Checked = { ...tools, format: 'responses' };
    const added = sse({
      type: 'response.output_item.added',
      output_index: 0,
      item: { type: 'function_call', arguments: '' },
    });
    const args = (part: string) =>
      sse({ type: 'response.function_call_arguments.delta', output_index: 0, delta: part });
    const completed = sse({ type: 'response.completed', response: { status: 'completed' } });
    expect(streamed(responses, added, args('{'), args('}'), completed)).toEqual([]);
    expect(streamed(responses, added, args('{'), completed)).toEqual(['tool_arguments']);
    const output = [{ type: 'function_call', name: 'f', arguments: '{"a"' }];
    expect(whole(responses, { object: 'response', status: 'completed', output })).toEqual(['tool_arguments']);
  });

  it.each([
    ['llama-server', 'chat-tool-call', []],
    ['vllm', 'chat-tool-call', []],
    // Its list of calls was cut by max_tokens in the middle.
    ['vllm', 'chat-tool-choice-named', ['tool_arguments', 'cut_by_length']],
  ] as const)('of a real %s (%s) are %j', (server, name, useless) => {
    const recorded = loadRecorded(server, name);
    const reads = readsOf(recorded, 'as recorded');
    expect(recordOf({ ...sceneOf(recorded), ...tools }, reads).assessment?.useless).toEqual(useless);
  });
});

describe('any answer', () => {
  it('is of no use when its length cut it, whatever was asked of it', () => {
    expect(streamed({}, delta({ content: 'a' }), end('length'))).toEqual(['cut_by_length']);
    expect(streamed({}, delta({ content: 'a' }), end('stop'))).toEqual([]);
    const native = sse({ content: 'a', stop: true, stop_type: 'limit' });
    expect(streamed({ format: 'llama_native' }, native)).toEqual(['cut_by_length']);
  });

  it('is unchecked when it did not come whole, or did not say how it ended', () => {
    expect(streamed({ ...json, outcome: 'client_abort' }, delta({ content: '{' }), end('stop'))).toBeUndefined();
    expect(streamed({ ...json, outcome: 'timeout' }, delta({ content: '{' }))).toBeUndefined();
    expect(streamed({}, delta({ content: 'a' }))).toBeUndefined();
  });

  it('is unchecked while checks are off', () => {
    expect(streamed({ ...json, maxCheckedBytes: 'off' }, delta({ content: '{' }), end('length'))).toBeUndefined();
  });

  it('goes unchecked as JSON once it is longer than may be kept, or wasn’t understood', () => {
    const long = Array.from({ length: 30 }, () => delta({ content: '[[[[[[[[[[' }));
    expect(streamed({ ...json, maxCheckedBytes: 200 }, ...long, end('stop'))).toBeUndefined();
    expect(streamed({ ...json, maxCheckedBytes: 200 }, ...long, end('length'))).toEqual(['cut_by_length']);
    expect(streamed({ ...json, maxCheckedBytes: 2000 }, ...long, end('stop'))).toEqual(['response_format']);
    expect(streamed(json, delta({ content: '{' }), 'data: broken\n\n', end('stop'))).toBeUndefined();
    const body = { choices: [{ message: { content: '{'.repeat(300) }, finish_reason: 'stop' }] };
    expect(whole({ ...json, maxCheckedBytes: 200 }, body)).toBeUndefined();
  });

  it('of an attempt that failed is forgotten', () => {
    const observer = observerFor(json);
    playReads(observer, json, 1, [[10, delta({ content: 'broken' })]]);
    observer.attempt({ backend: 'b2', engine: 'openai', atMs: 20, reason: 'only' });
    playReads(observer, json, 1, [[30, delta({ content: '{}' }), end('stop')]]);
    const record = observer.finish({ outcome: 'ok', spokenBy: 'backend', atMs: 40 });
    expect(record.assessment).toEqual({ useless: [] });
  });

  it('leaves nothing of its text in the record', () => {
    const record = recordOf(json, [[10, delta({ content: 'the secret' }), end('stop')]]);
    expect(JSON.stringify(record)).not.toContain('secret');
  });
});
