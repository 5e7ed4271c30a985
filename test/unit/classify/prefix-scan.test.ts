import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { partHead, partTools, placeOf } from '../../../src/domain/prefix.ts';
import { everyByte, jsonText } from '../../support/json-bodies.ts';
import { chainOf, findChain, sharedKeys } from '../../support/prefix.ts';

/** Text without a pattern. @param seed other text for each */
function prose(bytes: number, seed = 1): string {
  let state = seed;
  let text = '';
  while (text.length < bytes) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    text += `${(state >>> 8).toString(36)} `;
  }
  return text.slice(0, bytes);
}

function base64(bytes: number, seed = 1): string {
  const data = Buffer.alloc(bytes);
  for (let at = 0, state = seed; at < bytes; at += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    data[at] = state >>> 24;
  }
  return data.toString('base64');
}

const user = (content: unknown) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });
const chat = (messages: readonly unknown[], rest: object = {}) => ({ model: 'm', messages, ...rest });
const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

describe('the keys of a prompt', () => {
  const body = fc.record(
    {
      model: fc.constantFrom('a', 'b'),
      tools: fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 3 }),
      messages: fc.array(
        fc.record({ role: fc.constant('user'), content: fc.oneof(fc.string({ maxLength: 3000 }), fc.jsonValue()) }),
        { maxLength: 4 },
      ),
      cache_salt: fc.string(),
      documents: fc.jsonValue(),
    },
    { requiredKeys: ['messages'] },
  );

  it('are the same whatever the cuts', () => {
    fc.assert(
      fc.property(body, fc.array(fc.nat(9000), { maxLength: 12 }), (value, cutAt) => {
        const text = JSON.stringify(value);
        const uncut = findChain(text);
        expect(findChain(text, { cutAt })).toEqual(uncut);
        expect(findChain(text, { cutAt: everyByte(Buffer.byteLength(text)) })).toEqual(uncut);
      }),
      { numRuns: 150 },
    );
  });

  it('are the same in whatever order the members come', () => {
    fc.assert(
      fc.property(body, fc.array(fc.nat(), { minLength: 5, maxLength: 5 }), (value, rank) => {
        const members = Object.entries(value);
        const shuffled = members.toSorted(
          (one, other) => (rank[members.indexOf(one)] ?? 0) - (rank[members.indexOf(other)] ?? 0),
        );
        expect(findChain(Object.fromEntries(shuffled))).toEqual(findChain(value));
      }),
    );
  });

  it('never fail on a body that can be read', () => {
    fc.assert(
      fc.property(jsonText, fc.array(fc.nat(400)), ({ text }, cutAt) => {
        for (const reading of ['chat', 'completions', 'native', 'responses', 'ollama'] as const)
          expect(findChain(text, { reading, cutAt })).toEqual(findChain(text, { reading }));
      }),
      { numRuns: 100 },
    );
  });

  it('are equal up to the chunk before the first byte that differs, and different from there on', () => {
    const text = prose(20_000);
    const chain = chainOf(chat([user(text)]));
    for (const at of [0, 200, 255, 256, 3000, 4095, 5000, 12_345, 19_999]) {
      const other = chainOf(chat([user(`${text.slice(0, at)}#${text.slice(at + 1)}`)]));
      const shared = sharedKeys(chain, other);
      const inMessage = JSON.stringify(user('')).length - 2 + at;
      expect(chain.ends[shared - 1] ?? 0).toBeLessThanOrEqual(inMessage);
      expect(chain.ends[shared]).toBeGreaterThan(inMessage);
      for (let index = shared; index < chain.keys.length; index += 1) {
        const [one, another] = [chain.keys[index] ?? 0, other.keys[index] ?? 0];
        // In both halves: the whole of a key depends on all before it.
        expect(one % 2 ** 32).not.toBe(another % 2 ** 32);
        expect(Math.floor(one / 2 ** 32)).not.toBe(Math.floor(another / 2 ** 32));
      }
    }
  });

  it('are whole numbers of at most 53 bits', () => {
    const { keys } = chainOf(chat([user(prose(50_000))]));
    for (const key of keys) expect(Number.isSafeInteger(key) && key >= 0).toBe(true);
    expect(new Set(keys).size).toBe(keys.length);
    expect(Math.max(...keys)).toBeGreaterThan(2 ** 51);
  });

  it('C144 turn after turn go on from where the last turn ended', () => {
    const messages: unknown[] = [{ role: 'system', content: prose(3000) }];
    let before = chainOf(chat(messages));
    for (let turn = 1; turn <= 12; turn += 1) {
      messages.push(user(prose(37 * turn, turn)), assistant(prose(700 * turn, turn + 99)));
      const now = chainOf(chat([...messages, user(prose(50, turn))]));
      expect(sharedKeys(before, now)).toBe(before.keys.length);
      const grown = chainOf(chat(messages));
      expect(sharedKeys(grown, now)).toBe(grown.keys.length);
      before = now.keys.length > grown.keys.length ? grown : now;
    }
  });

  it('C145 tell apart short prompts and addresses that differ only in the end', () => {
    const urls = Array.from(
      { length: 200 },
      (_, i) => `https://img.test/bucket/long/path/${String(i + 1).padStart(4, '0')}.jpg`,
    );
    const ask = (url: string) =>
      chainOf(
        chat([
          user([
            { type: 'text', text: 'See?' },
            { type: 'image_url', image_url: { url } },
          ]),
        ]),
      );
    expect(new Set(urls.map((url) => ask(url).keys.at(-1))).size).toBe(200);
    expect(ask('https://img.test/a.jpg')).toEqual(ask('https://img.test/a.jpg'));
    const long = (url: string) => chainOf(chat([user(prose(500)), user([{ type: 'image_url', image_url: { url } }])]));
    expect(sharedKeys(long(urls[0] ?? ''), long(urls[1] ?? ''))).toBe(long(urls[0] ?? '').keys.length - 1);
  });

  it('C146 know an image by all of its bytes', () => {
    const picture = (data: string) =>
      chainOf(
        chat([
          user([
            { type: 'text', text: 'Look' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } },
          ]),
          assistant('Yes.'),
          user('And?'),
        ]),
      );
    const start = base64(48 * 1024);
    const one = picture(start + base64(180 * 1024, 2));
    const other = picture(start + base64(180 * 1024, 3));
    expect(one).toEqual(picture(start + base64(180 * 1024, 2)));
    expect(one.keys.at(-1)).not.toBe(other.keys.at(-1));
    expect(sharedKeys(one, other)).toBeLessThan(3);
    const whole = start + base64(180 * 1024, 2);
    for (const at of [70_000, 150_000, 250_000]) {
      const changed = whole.slice(0, at) + (whole[at] === 'A' ? 'B' : 'A') + whole.slice(at + 1);
      expect(sharedKeys(one, picture(changed))).toBeLessThan(one.keys.length - 3);
    }
    // Some thousand tokens' worth, not 75,000.
    expect(one.bytes).toBeGreaterThan(2000);
    expect(one.bytes).toBeLessThan(8000);
  });
});

describe('what a prompt is computed with', () => {
  const first = (rest: object, reading: 'chat' | 'responses' | 'ollama' = 'chat') =>
    chainOf(chat([user('Hello')], { input: 'Hello', prompt: 'Hello', ...rest }), { reading }).keys[0];

  it('is part of every key', () => {
    const plain = first({});
    const rests = [
      { model: 'other' },
      { lora: [{ id: 0, scale: 1 }] },
      { lora_adapter: 'a' },
      { adapter_id: 'a' },
      { cache_salt: 's1' },
      { cache_salt: 's2' },
      { chat_template: '{{ messages }}' },
      { chat_template_kwargs: { enable_thinking: false } },
      { add_generation_prompt: false },
      { reasoning_effort: 'low' },
      { reasoning_effort: 'high' },
    ];
    const keys = rests.map((rest) => first(rest));
    expect(new Set([plain, ...keys]).size).toBe(rests.length + 1);
  });

  it('is not what engines do not render', () => {
    const plain = first({});
    for (const rest of [
      { stream: true, temperature: 1, max_tokens: 5, n: 2, seed: 1, stop: ['x'] },
      { user: 'u', prompt_cache_key: 'k', metadata: { a: 'b' } },
      { tool_choice: 'auto', response_format: { type: 'json_object' }, tools: null, cache_salt: null },
    ])
      expect(first(rest)).toBe(plain);
  });

  it('takes no part of a name for another one', () => {
    expect(first({ lora_adapter: 'x' })).not.toBe(first({ adapter_id: 'x' }));
    expect(first({ model: 'mx' })).not.toBe(first({ model: 'm', lora_path: 'x' }));
  });

  it('has the stored conversation that a Responses body goes on from', () => {
    const plain = first({}, 'responses');
    expect(first({ previous_response_id: 'resp_1' }, 'responses')).not.toBe(plain);
    expect(first({ conversation: 'conv_1' }, 'responses')).not.toBe(plain);
    expect(first({ think: true }, 'ollama')).not.toBe(first({}, 'ollama'));
  });
});

describe('the parts of a prompt', () => {
  const tool = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });

  it('come in the order in which an engine renders them: tools, head, messages', () => {
    const body = { messages: [user('One'), user('Two')], system: 'Be brief.', tools: [tool('a')], model: 'm' };
    const { parts, ends, bytes } = chainOf(body, { reading: 'messages' });
    expect([...parts]).toEqual([partTools, partHead, 0, 1]);
    const lengths = [body.tools, body.system, ...body.messages].map(bytesOf);
    expect([...ends]).toEqual(
      lengths.map((_, index) => lengths.slice(0, index + 1).reduce((sum, one) => sum + one, 0)),
    );
    expect(bytes).toBe(ends.at(-1));
  });

  it('have a grid of their own: 256 bytes for each chunk of the first 4 KiB, then 1 KiB, the rest of a part by itself', () => {
    const message = user(prose(6000));
    const chain = chainOf(chat([message, user('x')]));
    const sizes = [...chain.ends].map((end, index) => end - (chain.ends[index - 1] ?? 0));
    expect(sizes).toEqual([...Array<number>(16).fill(256), 1024, bytesOf(message) - 5120, bytesOf(user('x'))]);
    expect(placeOf(chain, 17)).toEqual({ part: 0, startBytes: 5120, endBytes: bytesOf(message) });
    expect(placeOf(chain, 18)).toEqual({ part: 1, startBytes: 0, endBytes: bytesOf(user('x')) });
  });

  it('make every message cold when the tools change, and the tools warm when only a message does', () => {
    const one = chainOf(chat([user('Hi')], { tools: [tool('a'), tool('b')] }));
    const swapped = chainOf(chat([user('Hi')], { tools: [tool('b'), tool('a')] }));
    const asked = chainOf(chat([user('Ho')], { tools: [tool('a'), tool('b')] }));
    expect(sharedKeys(one, swapped)).toBe(0);
    expect(sharedKeys(one, asked)).toBe(one.keys.length - 1);
    expect(chainOf(chat([user('Hi')], { tools: [] })).bytes).toBe(bytesOf([]) + bytesOf(user('Hi')));
  });

  it('are the elements of a list of prompts, and one for a prompt in token numbers', () => {
    const parts = (prompt: unknown) => [...chainOf({ model: 'm', prompt }, { reading: 'completions' }).parts];
    expect(parts('text')).toEqual([0]);
    expect(parts(['one', 'two'])).toEqual([0, 1]);
    expect(parts([1, 2, 3])).toEqual([0]);
    expect(parts([[1, 2], [3]])).toEqual([0, 1]);
  });

  it('of an infill are the other files, the text before the gap, the prompt, the text behind', () => {
    const body = {
      input_suffix: '}',
      prompt: 'int',
      input_prefix: 'f() {',
      input_extra: [
        { filename: 'a', text: 'x' },
        { filename: 'b', text: 'y' },
      ],
    };
    const chain = chainOf(body, { reading: 'native' });
    expect([...chain.parts]).toEqual([0, 1, 2, 3, 4]);
    const otherGap = chainOf({ ...body, input_suffix: '};' }, { reading: 'native' });
    expect(sharedKeys(chain, otherGap)).toBe(4);
  });

  it('are read of every kind of body that holds a prompt', () => {
    const bodies = [
      ['responses', { input: 'Hello', instructions: 'Be brief.' }, [partHead, 0]],
      ['responses', { input: [user('Hello'), user('Again')], text: { format: { type: 'text' } } }, [0, 1]],
      ['native', { prompt: ['a ', 12, 13] }, [0, 1]],
      ['native', { prompt: { prompt_string: 'a', multimodal_data: [] } }, [0]],
      ['native', { inputs: 'TGI' }, [0]],
      ['ollama', { prompt: 'x', system: 's' }, [partHead, 0]],
      ['ollama', { messages: [user('x')] }, [0]],
      ['invocations', { prompt: 'x' }, [0]],
      ['invocations', { messages: [user('x')] }, [0]],
    ] as const;
    for (const [reading, body, parts] of bodies) expect([...chainOf(body, { reading }).parts]).toEqual(parts);
    for (const [reading, body] of [
      ['chat', { messages: [] }],
      ['chat', { tools: [tool('a')] }],
      ['model_only', { prompt: 'x' }],
    ] as const)
      expect(findChain(body, { reading })).toBeUndefined();
  });

  it('of a key that comes twice are those of its last value', () => {
    const twice = '{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"b"}]}';
    expect(chainOf(twice)).toEqual(chainOf({ messages: [user('b')] }));
  });

  it('do not change with a breakpoint of the client that moves from message to message', () => {
    const block = (text: string, marked: boolean) => [
      { type: 'text', text, ...(marked ? { cache_control: { type: 'ephemeral' } } : {}) },
    ];
    const turn = (count: number) => ({
      model: 'm',
      system: block('Be brief.', true),
      messages: Array.from({ length: count }, (_, i) => user(block(prose(400, i), i === count - 1))),
    });
    const first = chainOf(turn(2), { reading: 'messages' });
    expect(sharedKeys(first, chainOf(turn(3), { reading: 'messages' }))).toBe(first.keys.length);
  });
});

describe('the length of a prompt', () => {
  it('is counted beyond the chunks that are kept', () => {
    const messages = Array.from({ length: 40 }, (_, i) => user(prose(1000, i)));
    const whole = chainOf(chat(messages));
    const kept = chainOf(chat(messages), { maxChunks: 10 });
    expect(kept.keys).toEqual(whole.keys.slice(0, 10));
    expect([kept.ends.length, kept.parts.length]).toEqual([10, 10]);
    expect(kept.bytes).toBe(whole.bytes);
    expect(kept.bytes).toBe(messages.reduce((sum, one) => sum + bytesOf(one), 0));
  });

  it('is that of the text, whether a client writes it in UTF-8 or in escapes', () => {
    const text = '从头读取提示并保留已计算的内容é😀'.repeat(60);
    const plain = JSON.stringify(chat([user(text)]));
    const escaped = plain.replace(/[^\0-~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
    const [one, other] = [chainOf(plain), chainOf(escaped)];
    expect(one.bytes).toBe(bytesOf(user(text)));
    expect(Math.abs(other.bytes - one.bytes) / one.bytes).toBeLessThan(0.05);
    expect(one.wideBytes / Buffer.byteLength(text)).toBeGreaterThan(0.9);
    expect(other.wideBytes / Buffer.byteLength(text)).toBeGreaterThan(0.9);
    expect(chainOf(chat([user(prose(3000))])).wideBytes).toBe(0);
    expect(chainOf(chat([user('\\n"\\u'.repeat(300))])).wideBytes).toBe(0);
  });

  it('takes a token number for four bytes', () => {
    const ids = Array.from({ length: 5000 }, (_, i) => (i * 7919) % 100_000);
    const { bytes, keys } = chainOf({ prompt: ids }, { reading: 'completions' });
    expect(Math.abs(bytes - 20_000) / 20_000).toBeLessThan(0.05);
    const longer = chainOf({ prompt: [...ids, 7] }, { reading: 'completions' });
    expect(sharedKeys({ keys } as typeof longer, longer)).toBe(keys.length - 1);
  });

  it('is bounded for an image or a sound, and no text is taken for one', () => {
    const sound = (data: string) =>
      chainOf(chat([user([{ type: 'input_audio', input_audio: { data, format: 'mp3' } }])]));
    expect(sound(base64(3_000_000)).bytes).toBeLessThan(20_000);
    expect(sound(base64(3_000_000)).keys.length).toBeLessThan(6);
    for (const text of ['a'.repeat(8000), prose(8000), 'https://a.test/B1c2?x=%20;'.repeat(300), 'x1Y2,'.repeat(1600)])
      expect(chainOf(chat([user(text)])).bytes).toBe(bytesOf(user(text)));
  });

  it('leaves room for the text behind a large image', () => {
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${base64(3_000_000)}` } };
    const ask = (question: string) => chainOf(chat([user([image]), user(question)]));
    expect(sharedKeys(ask('One?'), ask('Two?'))).toBe(ask('One?').keys.length - 1);
  });
});
