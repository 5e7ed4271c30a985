/** The fast path must say exactly what a parse says, on any event. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Engine, StreamFormat } from '../../../../src/domain/names.ts';
import { createEventReader } from '../../../../src/measure/dialect/event-reader.ts';
import type { EventFacts } from '../../../../src/measure/dialect/facts.ts';
import { listRecorded, loadRecorded } from '../../../support/recorded.ts';
import { sceneOf } from '../../../support/observe.ts';
import { readEventStream } from '../../../support/sse-reference.ts';

interface Sample {
  readonly format: StreamFormat;
  readonly engine: Engine | undefined;
  readonly name: string;
  /** One byte per character. */
  readonly data: string;
}

const samples: Sample[] = listRecorded().flatMap(({ server, name }) => {
  const recorded = loadRecorded(server, name);
  if (!recorded.headers.get('content-type')?.startsWith('text/event-stream')) return [];
  const { format = 'unknown', engine } = sceneOf(recorded);
  const { events } = readEventStream(recorded.body, 1_000_000);
  return events.slice(0, 12).map((event) => ({ format, engine, name: event.name, data: event.data }));
});

function facts(reader: ReturnType<typeof createEventReader>, data: Buffer, name: string): EventFacts {
  // Inside a larger buffer, so that offsets matter.
  const wire = Buffer.concat([Buffer.from('{"x'), data, Buffer.from('"}')]);
  const { plain: _plain, ...rest } = reader.read(wire, 3, 3 + data.length, name);
  return rest;
}

const parsed = (sample: Sample, data: Buffer) =>
  facts(createEventReader(sample.format, sample.engine), data, sample.name);

/** Text as an engine may send it, JSON-escaped in one way or another. */
const texts = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    'x',
    '\\n',
    '\\"',
    '\\\\',
    '\\u00e9',
    'é',
    '😀',
    '\\ud83d',
    '\\',
    '\\u12',
    '\\x',
    '"',
    '\t',
    '\u0000',
    '}',
    '","a":"',
  ),
  fc.string({ maxLength: 300 }).map((text) => JSON.stringify(text).slice(1, -1)),
  fc.string({ maxLength: 8, unit: 'binary' }),
);
const keys = [
  'content',
  'text',
  'reasoning',
  'reasoning_content',
  'delta',
  'thinking',
  'partial_json',
  'response',
  'arguments',
];

/** Puts another text where the event has one, or changes, takes out or adds single bytes. */
const mutation = fc.oneof(
  texts.map((text) => (data: Buffer) => {
    const found = keys.map((key) => data.indexOf(`"${key}":"`)).find((at) => at !== -1);
    if (found === undefined) return data;
    const start = data.indexOf(':"', found) + 2;
    let end = start;
    while (end < data.length && data[end] !== 34) end += data[end] === 92 ? 2 : 1;
    return Buffer.concat([data.subarray(0, start), Buffer.from(text), data.subarray(end)]);
  }),
  fc
    .tuple(fc.nat(), fc.integer({ min: 0, max: 255 }), fc.constantFrom('change', 'drop', 'add'))
    .map(([where, byte, how]) => {
      return (data: Buffer) => {
        const at = where % data.length;
        const middle = how === 'drop' ? [] : [byte];
        return Buffer.concat([data.subarray(0, at), Buffer.from(middle), data.subarray(how === 'add' ? at : at + 1)]);
      };
    }),
  fc
    .constantFrom(
      ['"finish_reason":null', '"finish_reason":"stop"'],
      ['"index":0', '"index":1'],
      ['"content":', '"role":"assistant","content":'],
      ['"token_ids":null', '"token_ids":[1,2]'],
      ['text_delta', 'other_delta'],
      ['"sequence_number":', '"sequence_number":1'],
      ['"sequence_number":', '"sequence_number":0'],
      ['"sequence_number":', '"sequence_number":-'],
      ['"sequence_number":', '"sequence_number":"",'],
    )
    .map(
      ([from = '', to = '']) =>
        (data: Buffer) =>
          Buffer.from(data.toString('latin1').replace(from, to), 'latin1'),
    ),
);

describe('fast path', () => {
  it('says what a parse says, after any events, of any changed event', () => {
    let fast = 0;
    fc.assert(
      fc.property(
        fc.constantFrom(...samples),
        fc.array(mutation, { minLength: 1, maxLength: 8 }),
        (sample, mutations) => {
          const reader = createEventReader(sample.format, sample.engine);
          const original = Buffer.from(sample.data, 'latin1');
          facts(reader, original, sample.name);
          for (const mutate of mutations) {
            const data = mutate(original);
            if (reader.read(data, 0, data.length, sample.name).plain === true) fast += 1;
            expect(facts(reader, data, sample.name)).toEqual(parsed(sample, data));
          }
        },
      ),
      { numRuns: 4000 },
    );
    expect(fast).toBeGreaterThan(1000);
  });

  it.each([
    'vllm/chat-plain',
    'llama-server/chat-plain',
    'vllm/messages-stream',
    'vllm/responses-stream',
    'llama-server/responses',
    'vllm/chat-reasoning',
    'vllm/completions-stream',
  ])('is what nearly all tokens of %s take', (path) => {
    const [server, name] = path.split('/') as ['vllm' | 'llama-server', string];
    const recorded = loadRecorded(server, name);
    const { format = 'unknown', engine } = sceneOf(recorded);
    const reader = createEventReader(format, engine);
    const events = readEventStream(recorded.body, 1_000_000).events;
    const all = events.map((event) => reader.read(Buffer.from(event.data, 'latin1'), 0, event.data.length, event.name));
    const tokens = all.filter((one) => one.deltas.length > 0);
    const fast = tokens.filter((one) => one.plain === true);
    expect(fast.length).toBeGreaterThanOrEqual(tokens.length - 3);
  });

  it('does not learn for ever from a stream in which every event differs', () => {
    const reader = createEventReader('chat', 'openai');
    const event = (i: number) =>
      Buffer.from(`{"choices":[{"index":0,"delta":{"content":"a"}}],"obfuscation":"${'x'.repeat(i % 7)}${i}"}`);
    for (let i = 0; i < 200; i += 1) {
      const data = event(i);
      expect(reader.read(data, 0, data.length, '')).toMatchObject({ flags: 1 });
    }
    // What was learned before the pause, or after it, still matches.
    const same = event(1);
    reader.read(same, 0, same.length, '');
    expect(reader.read(same, 0, same.length, '').flags).toBe(1);
  });
});
