import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonKind } from '../../../src/platform/json-walk.ts';
import { createJsonScan, forPieces } from '../../../src/platform/json-scan.ts';
import { dress, everyByte } from '../../support/json-bodies.ts';

const keys = new Map([
  ['messages', 0],
  ['tools', forPieces],
  ['prompt', forPieces],
  ['model', 100],
]);

interface Told {
  /** `key:kind` and the part's bytes. */
  readonly parts: string[];
  readonly fields: string[];
}

/** @param whole keys that are not cut into elements */
function pieces(text: string, cutAt: readonly number[] = [], whole: readonly string[] = ['tools']): Told {
  const bytes = Buffer.from(text);
  const parts: string[] = [];
  let key = '';
  let part: string | undefined;
  let read = '';
  const scan = createJsonScan({
    keys,
    pieces: {
      memberBegin(name) {
        expect(part).toBeUndefined();
        key = name;
        return name === 'model' ? undefined : whole.includes(name) ? 'whole' : 'elements';
      },
      partBegin(kind: JsonKind) {
        expect(part).toBeUndefined();
        part = `${key}:${kind} `;
        read = '';
      },
      piece(from, start, end, last) {
        expect(part).toBeDefined();
        expect(start).toBeLessThanOrEqual(end);
        read += from.toString('latin1', start, end);
        if (!last) return;
        parts.push(part + Buffer.from(read, 'latin1').toString('utf8'));
        part = undefined;
      },
    },
  });
  let from = 0;
  for (const cut of [...cutAt, bytes.length].map((at) => Math.min(at, bytes.length)).toSorted((a, b) => a - b)) {
    const chunk = Buffer.from(bytes.subarray(from, cut));
    scan.push(chunk);
    chunk.fill(0x22);
    from = cut;
  }
  const result = scan.end();
  expect(result.readable).toBe(true);
  expect(part).toBeUndefined();
  return { parts, fields: [...result.fields.keys()] };
}

describe('the parts of a body', () => {
  it('are the elements of an array, without what stands between them', () => {
    expect(pieces('{ "messages" : [ {"a": [1, 2]} , "two",null ] , "model":"m"}').parts).toEqual([
      'messages:object {"a": [1, 2]}',
      'messages:string "two"',
      'messages:null null',
    ]);
  });

  it('are one where the value is no array, or is wanted whole', () => {
    expect(pieces('{"prompt":"a \\" b","tools":[ {}, {} ]}').parts).toEqual([
      'prompt:string "a \\" b"',
      'tools:array [ {}, {} ]',
    ]);
    expect(pieces('{"prompt":{"x":[1]},"messages":12}').parts).toEqual([
      'prompt:object {"x":[1]}',
      'messages:number 12',
    ]);
  });

  it('take numbers in a row as one, up to what follows them', () => {
    expect(pieces('{"prompt":[1, 2,3]}').parts).toEqual(['prompt:number 1, 2,3']);
    expect(pieces('{"prompt":[[1,2],[3]]}').parts).toEqual(['prompt:array [1,2]', 'prompt:array [3]']);
    expect(pieces('{"prompt":[1, "x", 2 , 3 ]}').parts).toEqual([
      'prompt:number 1, ',
      'prompt:string "x"',
      'prompt:number 2 , 3 ',
    ]);
  });

  it('are none in an empty array', () => {
    expect(pieces('{"prompt":[ ],"messages":[]}').parts).toEqual([]);
  });

  it('make no field of a key that is wanted for its pieces alone', () => {
    expect(pieces('{"messages":[],"tools":[],"model":"m"}').fields).toEqual(['messages', 'model']);
  });
});

describe('cache_control', () => {
  const part = (object: string) =>
    pieces(`{"messages":[${object}]}`).parts.map((text) => text.slice(text.indexOf(' ') + 1));

  it('goes with the comma in front of it', () => {
    expect(part('{"text":"a","cache_control":{"type":"ephemeral","n":[1,{"x":2}]}}')).toEqual(['{"text":"a"}']);
    expect(part('{"text": "a", "cache_control": {"type": "ephemeral"}}')).toEqual(['{"text": "a"}']);
    expect(part('{"text":"a" , "cache_control":null , "b":1}')).toEqual(['{"text":"a"  , "b":1}']);
  });

  it('goes with the comma behind it where it comes first', () => {
    expect(part('{"cache_control":{"type":"ephemeral"},"text":"a"}')).toEqual(['{"text":"a"}']);
    expect(part('{ "cache_control": 12 , "text":"a"}')).toEqual(['{ "text":"a"}']);
    expect(part('{"x":{"cache_control":true }}')).toEqual(['{"x":{}}']);
    expect(part('{"cache_control":true}')).toEqual(['{}']);
  });

  it('stays where it is a text, another key or too near the top', () => {
    for (const object of [
      '{"text":"cache_control"}',
      '{"text":"\\"cache_control\\":{}"}',
      '{"cache_contro1":1,"cache_controls":2}',
      '{"b":"\\\\","\\"cache_control":1}',
    ]) {
      expect(part(object)).toEqual([object]);
    }
    expect(pieces('{"prompt":{"cache_control":1}}').parts).toEqual(['prompt:object {"cache_control":1}']);
  });

  it('is gone whatever the cuts', () => {
    const text =
      '{"messages":[{"a":1 , "cache_control":{"t":["e"]}, "b":{"cache_control" : 1 , "c":2}},{"cache_control":{}}],' +
      '"tools":[{"n":"x","cache_control":{"t":1}}]}';
    const expected = ['messages:object {"a":1 , "b":{"c":2}}', 'messages:object {}', 'tools:array [{"n":"x"}]'];
    expect(pieces(text).parts).toEqual(expected);
    expect(pieces(text, everyByte(text.length)).parts).toEqual(expected);
    for (const cut of everyByte(text.length)) expect(pieces(text, [cut]).parts).toEqual(expected);
  });
});

describe('any body', () => {
  const inner = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null)),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom('cache_control', 'text', 'cache_contro', 'é'), tie('value'), { maxKeys: 4 }),
    ),
  })).value;
  const body = fc.record(
    { messages: fc.array(inner, { maxLength: 4 }), tools: inner, prompt: inner },
    { requiredKeys: [] },
  );
  const rolls = fc.array(fc.nat(), { minLength: 32, maxLength: 32 });

  it('gives the same parts, and the same bytes in each, whatever the cuts', () => {
    fc.assert(
      fc.property(body, rolls, fc.array(fc.nat(300), { maxLength: 8 }), (value, dice, cuts) => {
        let turn = 0;
        const text = dress(value, () => dice[turn++ % dice.length] ?? 0);
        const uncut = pieces(text).parts;
        expect(pieces(text, cuts).parts).toEqual(uncut);
        expect(pieces(text, everyByte(Buffer.byteLength(text))).parts).toEqual(uncut);
      }),
      { numRuns: 300 },
    );
  });

  it('written plainly, is as if the left-out members had never been there', () => {
    fc.assert(
      fc.property(body, fc.array(fc.nat(300), { maxLength: 4 }), (value, cuts) => {
        const cleaned = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, cleanOf(one, 1)]));
        expect(pieces(JSON.stringify(value), cuts).parts).toEqual(pieces(JSON.stringify(cleaned)).parts);
      }),
      { numRuns: 300 },
    );
  });

  it('damaged anywhere, is judged as without a sink, and never throws', () => {
    const damage = fc.record({ at: fc.nat(300), remove: fc.nat(3), put: fc.string({ maxLength: 3 }) });
    const quiet = { memberBegin: () => 'elements' as const, partBegin() {}, piece() {} };
    fc.assert(
      fc.property(body, damage, fc.array(fc.nat(300), { maxLength: 4 }), (value, { at, remove, put }, cuts) => {
        const text = JSON.stringify(value);
        const damaged = Buffer.from(text.slice(0, at) + put + text.slice(at + remove));
        const judged = (sink: typeof quiet | undefined) => {
          const scan = createJsonScan({ keys, pieces: sink });
          let from = 0;
          for (const cut of [...cuts.map((one) => Math.min(one, damaged.length)), damaged.length].toSorted(
            (a, b) => a - b,
          )) {
            scan.push(damaged.subarray(from, cut));
            from = cut;
          }
          const { readable, problem } = scan.end();
          return { readable, problem };
        };
        expect(judged(quiet)).toEqual(judged(undefined));
      }),
      { numRuns: 300 },
    );
  });

  /** @param depth containers around the value */
  function cleanOf(value: unknown, depth: number): unknown {
    if (Array.isArray(value)) return value.map((one) => cleanOf(one, depth + 1));
    if (typeof value !== 'object' || value === null) return value;
    const kept = Object.entries(value).filter(([key]) => key !== 'cache_control' || depth < 2);
    return Object.fromEntries(kept.map(([key, one]) => [key, cleanOf(one, depth + 1)]));
  }
});
