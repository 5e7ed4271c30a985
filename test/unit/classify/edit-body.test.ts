import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyEdits, planEdits, type EditOptions } from '../../../src/classify/edit-body.ts';
import type { BodyEdit } from '../../../src/domain/job.ts';
import { jobOf } from '../../support/classified.ts';
import { dress } from '../../support/json-bodies.ts';

const options: EditOptions = { engine: 'vllm', usageMode: 'ask', aliases: {} };

function cut(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const borders = [...cuts.map((at) => Math.min(at, bytes.length)), bytes.length].toSorted((a, b) => a - b);
  return borders.map((border, index) => bytes.subarray(borders[index - 1] ?? 0, border));
}

function edited(body: string, edits: readonly BodyEdit[], cuts: readonly number[] = []): string {
  const { chunks, bytes } = applyEdits(cut(Buffer.from(body), cuts), edits);
  const whole = Buffer.concat(chunks);
  expect(bytes).toBe(whole.length);
  return whole.toString();
}

describe('applyEdits', () => {
  it('without edits gives the very chunks back', () => {
    const chunks = [Buffer.from('{"a"'), Buffer.from(':1}')];
    expect(applyEdits(chunks, []).chunks).toBe(chunks);
    expect(applyEdits(chunks, []).bytes).toBe(7);
  });

  it('leaves untouched bytes where they are, in views', () => {
    const chunk = Buffer.from('0123456789');
    const { chunks } = applyEdits([chunk], [{ start: 3, end: 5, text: 'é' }]);
    expect(chunks.map(String)).toEqual(['012', 'é', '56789']);
    expect(chunks[0]?.buffer).toBe(chunk.buffer);
    expect(chunks[2]?.buffer).toBe(chunk.buffer);
  });

  it('replaces spans that lie across chunks, at both ends, and empty ones', () => {
    const edits = [
      { start: 0, end: 0, text: '<' },
      { start: 2, end: 7, text: '' },
      { start: 7, end: 8, text: 'xyz' },
      { start: 10, end: 10, text: '>' },
    ];
    for (const cuts of [[], [3], [2, 7], [1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 0, 10]])
      expect(edited('0123456789', edits, cuts)).toBe('<01xyz89>');
  });

  it('throws on edits that were planned for another body', () => {
    for (const edits of [
      [{ start: 0, end: 4, text: '' }],
      [{ start: 2, end: 1, text: '' }],
      [
        { start: 1, end: 2, text: '' },
        { start: 1, end: 3, text: '' },
      ],
    ]) {
      expect(() => applyEdits([Buffer.from('abc')], edits)).toThrow(RangeError);
    }
  });

  it('keeps every byte outside the spans, for any bytes, cuts and edits', () => {
    const spans = fc.array(fc.tuple(fc.nat(8), fc.nat(8), fc.string({ maxLength: 6 })), { maxLength: 6 });
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), fc.array(fc.nat(80)), spans, (bytes, cuts, plan) => {
        const body = Buffer.from(bytes);
        const edits: BodyEdit[] = [];
        const expected: Buffer[] = [];
        let at = 0;
        for (const [skip, length, text] of plan) {
          const start = Math.min(at + skip, body.length);
          const end = Math.min(start + length, body.length);
          edits.push({ start, end, text });
          expected.push(body.subarray(at, start), Buffer.from(text));
          at = end;
        }
        expected.push(body.subarray(at));
        const result = applyEdits(cut(body, cuts), edits);
        expect(Buffer.concat(result.chunks)).toEqual(Buffer.concat(expected));
        expect(result.bytes).toBe(Buffer.concat(expected).length);
      }),
      { numRuns: 300 },
    );
  });
});

describe('planEdits', () => {
  const streamed = jobOf({ body: '{"model":"m","stream":true}' });

  it('asks for usage on vLLM and SGLang, and strips what it asked for', () => {
    for (const engine of ['vllm', 'sglang'] as const) {
      expect(planEdits(streamed, { ...options, engine })).toEqual({ edits: [streamed.usage.edit], stripUsage: true });
    }
  });

  it('C105 changes nothing on other engines, in passive mode, or when the client asked', () => {
    for (const engine of ['llama-server', 'tgi', 'ollama', 'openai'] as const) {
      expect(planEdits(streamed, { ...options, engine })).toEqual({ edits: [], stripUsage: false });
    }
    expect(planEdits(streamed, { ...options, usageMode: 'passive' })).toEqual({ edits: [], stripUsage: false });
    const asked = jobOf({ body: '{"stream":true,"stream_options":{"include_usage":true}}' });
    expect(planEdits(asked, options)).toEqual({ edits: [], stripUsage: false });
  });

  it('leaves options without a word on usage to vLLM, which reports then by itself', () => {
    const unstated = jobOf({ body: '{"stream":true,"stream_options":{}}' });
    expect(planEdits(unstated, { ...options, engine: 'vllm' })).toEqual({ edits: [], stripUsage: false });
    expect(planEdits(unstated, { ...options, engine: 'sglang' }).stripUsage).toBe(true);
  });

  it('replaces an alias on every engine, written as JSON', () => {
    const body = '{"x":1,"model" : "\\u0066ast","y":2}';
    const aliases = { fast: 'org/"é"\\x' };
    const { edits, stripUsage } = planEdits(jobOf({ body }), { engine: 'llama-server', usageMode: 'ask', aliases });
    expect(edited(body, edits)).toBe('{"x":1,"model" : "org/\\"é\\"\\\\x","y":2}');
    expect(stripUsage).toBe(false);
  });

  it('C162 puts a priority into bodies only where the backend is said to take it from there', () => {
    const body = '{"model":"m","stream":true}';
    const told: EditOptions = { ...options, engine: 'sglang', usageMode: 'passive', priority: 'set' };
    const [online, batch] = [jobOf({ body }), { ...jobOf({ body }), lane: 'batch' as const }];
    expect(edited(body, planEdits(online, told).edits)).toBe('{"priority":10,"model":"m","stream":true}');
    expect(edited(body, planEdits(batch, told).edits)).toBe('{"priority":0,"model":"m","stream":true}');
    expect(planEdits(batch, { ...told, priority: undefined }).edits).toEqual([]);
  });

  it('overrules a client’s own priority in its place', () => {
    const told: EditOptions = { ...options, engine: 'sglang', priority: 'set' };
    const body = '{"stream":true, "priority" : 1e9 ,"model":"m"}';
    const text = edited(body, planEdits(jobOf({ body }), told).edits);
    expect(JSON.parse(text)).toMatchObject({ priority: 10, stream_options: { include_usage: true } });
    expect(text).toContain(' "priority" : 10 ,"model":"m"}');
    const bare = '{}';
    expect(edited(bare, planEdits(jobOf({ body: bare }), told).edits)).toBe('{"priority":10}');
  });

  it('takes a client’s own priority out, wherever it stands among what else is changed', () => {
    const told: EditOptions = { ...options, engine: 'sglang', priority: 'remove', aliases: { fast: 'big' } };
    for (const body of [
      '{"priority":9,"model":"fast","stream":true}',
      '{ "priority" : 9 , "model":"fast","stream":true}',
      '{"model":"fast", "priority":{"a":[1,2]} ,"stream":true}',
      '{"stream":true,"model":"fast","priority":9}',
      '{"stream":true,"model":"fast" ,\n "prior\\u0069ty":"9" }',
    ]) {
      const text = edited(body, planEdits(jobOf({ body }), told).edits);
      expect(JSON.parse(text)).toEqual({ model: 'big', stream: true, stream_options: { include_usage: true } });
    }
    // Without it nothing would be left; no engine takes such a body.
    const only = '{"priority":9}';
    expect(edited(only, planEdits(jobOf({ body: only }), told).edits)).toBe(only);
    const none = '{"model":"m"}';
    expect(planEdits(jobOf({ body: none }), told).edits).toEqual([]);
  });

  it('makes both edits, in order, wherever the model stands', () => {
    for (const body of [
      '{"model":"fast","stream":true}',
      '{"stream":true,"stream_options":{"include_usage":false},"model":"fast"}',
      '{"stream":true,"model":"fast","stream_options":null}',
    ]) {
      const { edits } = planEdits(jobOf({ body }), { ...options, aliases: { fast: 'm' } });
      expect(JSON.parse(edited(body, edits))).toEqual({
        model: 'm',
        stream: true,
        stream_options: { include_usage: true },
      });
    }
  });

  it('writes an alias into a form part as it is', () => {
    const body = '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nfast\r\n--b--\r\n';
    const job = jobOf({ line: 'POST /v1/audio/transcriptions', body, contentType: 'multipart/form-data; boundary=b' });
    expect(edited(body, planEdits(job, { ...options, aliases: { fast: 'whisper' } }).edits)).toBe(
      body.replace('fast', 'whisper'),
    );
  });

  it('takes no alias from the prototype, and none that changes nothing', () => {
    for (const model of ['constructor', '__proto__', 'toString', 'same']) {
      expect(
        planEdits(jobOf({ body: `{"model":"${model}"}` }), { ...options, aliases: { same: 'same' } }).edits,
      ).toEqual([]);
    }
  });

  it('C105 C106 odd blanks, escapes and number forms are not touched when nothing is edited', () => {
    const body =
      '{ "tools" :[{"b":1,\t"a":2}] , "model":"m","messages":[{"content":"<b>&amp;</b> \\u00e9 é \\/ \\u003c \u2028"}],"x":1.0,"y":1E2 }\n';
    const chunks = cut(Buffer.from(body), [5, 40]);
    const { edits } = planEdits(jobOf({ body }), { ...options, engine: 'llama-server' });
    expect(applyEdits(chunks, edits).chunks).toBe(chunks);
  });
});

describe('an edited body', () => {
  it('differs from the received one in the intended way alone, whatever it looks like', () => {
    const streamOptions = fc.oneof(
      fc.constant(null),
      fc.dictionary(fc.constantFrom('include_usage', 'x', 'é"'), fc.oneof(fc.boolean(), fc.constant(null)), {
        maxKeys: 3,
      }),
    );
    const document = fc.record(
      {
        stream: fc.boolean(),
        stream_options: streamOptions,
        model: fc.constantFrom('fast', 'm\u00e9"\\', 'x'),
        messages: fc.jsonValue({ maxDepth: 3 }),
        'mod\u2028el': fc.string(),
      },
      { requiredKeys: [] },
    );
    const rolls = fc.array(fc.nat(), { minLength: 64, maxLength: 64 });
    const aliases = { fast: 'a"b', 'm\u00e9"\\': 'plain' };
    let changed = 0;
    fc.assert(
      fc.property(document, rolls, fc.array(fc.nat(300)), (value, dice, cuts) => {
        let turn = 0;
        const body = dress(value, () => dice[turn++ % dice.length] ?? 0);
        const job = jobOf({ body });
        const { edits, stripUsage } = planEdits(job, { engine: 'sglang', usageMode: 'ask', aliases });
        const expected = JSON.parse(body) as Record<string, unknown>;
        if (value.stream === true && value.stream_options?.['include_usage'] !== true) {
          expected['stream_options'] = { ...value.stream_options, include_usage: true };
        }
        if (value.model !== undefined && value.model in aliases)
          expected['model'] = aliases[value.model as keyof typeof aliases];
        const result = edited(body, edits, cuts);
        expect(JSON.parse(result)).toEqual(expected);
        expect(stripUsage).toBe(JSON.stringify(expected['stream_options']) !== JSON.stringify(value.stream_options));
        if (edits.length > 0) changed += 1;
      }),
      { numRuns: 500 },
    );
    expect(changed).toBeGreaterThan(100);
  });
});

describe('counts in every event, by config', () => {
  const body = { model: 'm', stream: true, messages: [] };
  const plan = (over: object, engine: EditOptions['engine']) => {
    const bytes = Buffer.from(JSON.stringify({ ...body, ...over }));
    const job = jobOf({ body: bytes.toString() });
    const { edits, stripUsage } = planEdits(job, { engine, usageMode: 'per_event', aliases: {} });
    const sent = Buffer.concat([...applyEdits([bytes], edits).chunks]).toString();
    return { asked: JSON.parse(sent) as Record<string, unknown>, stripUsage };
  };

  it('asks vLLM for continuous usage, and takes nothing out again', () => {
    for (const over of [
      {},
      { stream_options: {} },
      { stream_options: null },
      { stream_options: { include_usage: false } },
    ]) {
      const { asked, stripUsage } = plan(over, 'vllm');
      expect(stripUsage).toBe(false);
      // An empty object switches usage on by itself there: left alone.
      if (JSON.stringify(over) === '{"stream_options":{}}') expect(asked['stream_options']).toEqual({});
      else expect(asked['stream_options']).toEqual({ include_usage: true, continuous_usage_stats: true });
    }
  });

  it('asks llama-server for timings in every event', () => {
    expect(plan({}, 'llama-server').asked).toEqual({ ...body, timings_per_token: true });
  });

  it('asks engines that nothing is known of for nothing', () => {
    expect(plan({}, 'openai').asked).toEqual(body);
  });
});
