import { describe, expect, it } from 'vitest';
import { everyByte, rawValue as raw, scanCut as scan } from '../../support/json-bodies.ts';

describe('wanted members', () => {
  it('are found with their place, kind and bytes', () => {
    const body = ' {"a":[{"model":"no"}], "model" :\t"m1" ,"stream":true,"usage":{"x":[1,2]}}\n';
    const result = scan(body);
    expect(result).toMatchObject({ readable: true, objectStart: 1, empty: false, bytes: body.length, duplicates: [] });
    expect(result.fields.get('model')).toEqual({
      keyStart: body.indexOf('"model" :'),
      start: body.indexOf('"m1"'),
      end: body.indexOf('"m1"') + 4,
      kind: 'string',
      value: Buffer.from('"m1"'),
    });
    expect(result.fields.get('stream')?.kind).toBe('true');
    expect(result.fields.get('usage')?.value?.toString()).toBe('{"x":[1,2]}');
  });

  it('are the same however the bytes are cut', () => {
    const body = '{"model":"a\\"b\\\\","stream":false,"prompt":["é",[1]],"usage":{"n":-1.5e3},"z":null}';
    const whole = scan(body);
    expect(scan(body, everyByte(Buffer.byteLength(body)))).toEqual(whole);
    for (let cut = 0; cut <= Buffer.byteLength(body); cut += 1) expect(scan(body, [cut])).toEqual(whole);
  });

  it('longer than their bound have a place and no bytes', () => {
    const body = `{"usage":"${'x'.repeat(300)}","stream":"${'y'.repeat(14)}"}`;
    for (const cuts of [[], everyByte(body.length)]) {
      const result = scan(body, cuts);
      expect(result.fields.get('usage')).toMatchObject({ start: 9, end: 311, kind: 'string' });
      expect(result.fields.get('usage')?.value).toBeUndefined();
      expect(result.fields.get('stream')?.value).toHaveLength(16);
    }
  });

  it('with a bound of 0 keep nothing but are still counted', () => {
    expect(scan('{"prompt":["a","b"]}').fields.get('prompt')).toMatchObject({ elements: { count: 2, numbers: 0 } });
    expect(scan('{"prompt":[1,2,NaN]}').fields.get('prompt')).toMatchObject({ elements: { count: 3, numbers: 3 } });
    expect(scan('{"prompt":[[1,2],[3,[4]]]}').fields.get('prompt')).toMatchObject({
      elements: { count: 2, numbers: 0 },
    });
    expect(scan('{"prompt":[]}').fields.get('prompt')).toMatchObject({ elements: { count: 0, numbers: 0 } });
    expect(scan('{"x":[1,2],"prompt":"a","y":[3]}').fields.get('prompt')).not.toHaveProperty('elements');
    expect(scan('{"prompt":"a"}').fields.get('prompt')).not.toHaveProperty('value');
  });

  it('of an empty object are none', () => {
    expect(scan(' { } ')).toMatchObject({ readable: true, empty: true, objectStart: 1 });
  });
});

describe('keys', () => {
  it('C112 are compared after unescaping, so that a hidden duplicate is listed and the last one wins', () => {
    const body =
      '{"stream":false,"str\\u0065am":true,"mod\\u0065l":"big","model":"small","messages":[{"content":"\\"stream\\":1"}]}';
    for (const cuts of [[], everyByte(body.length)]) {
      const result = scan(body, cuts);
      expect(result.duplicates).toEqual(['stream', 'model']);
      expect(raw(body, result, 'model')).toBe('"small"');
      expect(raw(body, result, 'stream')).toBe('true');
    }
  });

  it('C112 written with six bytes for each character are still recognised', () => {
    const escaped = '\\u0073\\u0074\\u0072\\u0065\\u0061\\u006D';
    expect(scan(`{"${escaped}":true}`, [4, 9]).fields.get('stream')?.kind).toBe('true');
  });

  it('C112 inside nested values and in message text never matter', () => {
    const body = '{"a":{"model":1,"model":2},"b":[{"stream":true}],"c":"\\"model\\":\\"x\\"","model":"m"}';
    const result = scan(body);
    expect(result.duplicates).toEqual([]);
    expect(raw(body, result, 'model')).toBe('"m"');
  });

  it('that differ only in case count as duplicates beside the exact one, as Ollama would take the last of both', () => {
    expect(scan('{"model":"a","MODEL":"b"}').duplicates).toEqual(['model']);
    expect(scan('{"\\u017ftream":true,"stream":false}').duplicates).toEqual(['stream']);
    expect(scan('{"Model":"a"}')).toMatchObject({ duplicates: [], fields: new Map() });
  });

  it('with other characters than ASCII are found raw and escaped', () => {
    expect(scan('{"\\u017fé\\"\\\\":1}').fields.has('ſé"\\')).toBe(true);
    expect(scan(Buffer.from('{"ſ\\u00e9\\u0022\\u005c":1}'), [3]).fields.has('ſé"\\')).toBe(true);
  });

  it('that end like a wanted key, or contain one, are not taken for it', () => {
    expect(scan('{"xmodel":1,"models":2,"":3,"model\\u0000":4}').fields.size).toBe(0);
  });
});

describe('text that is not one JSON object', () => {
  it.each([
    ['nothing', ''],
    ['blanks', ' \n'],
    ['a byte order mark', '\ufeff{"model":"m"}'],
    ['an array', '[{"model":"m"}]'],
    ['a string', '"model"'],
    ['a number', '1'],
    ['two objects', '{"model":"m"}{"model":"m"}'],
    ['trailing text', '{"model":"m"} x'],
    ['an early end', '{"model":"m"'],
    ['an open string', '{"model":"m}'],
    ['a trailing comma', '{"model":"m",}'],
    ['a leading comma', '{,"model":"m"}'],
    ['a missing colon', '{"model" "m"}'],
    ['a missing value', '{"model":}'],
    ['a missing comma', '{"model":"m" "stream":true}'],
    ['two colons', '{"model"::1}'],
    ['a crossed bracket', '{"a":[1}'],
    ['a trailing comma in an array', '{"a":[1,]}'],
    ['a key without quotes', '{model:1}'],
    ['single quotes', "{'model':1}"],
    ['a comment', '{"model":1 /* x */}'],
    ['an unknown word', '{"a":nul}'],
    ['a word with a tail', '{"a":truex}'],
    ['a leading zero', '{"a":01}'],
    ['a number ending in a dot', '{"a":1.}'],
    ['a bare minus', '{"a":-}'],
    ['a leading zero after a minus', '{"a":-01}'],
    ['a negative NaN', '{"a":-NaN}'],
    ['a plus sign', '{"a":+1}'],
    ['an open exponent', '{"a":1e}'],
    ['UTF-16', Buffer.from('{"model":"m"}', 'utf16le')],
    ['gzip', Buffer.from([0x1f, 0x8b, 0x08, 0x00])],
    ['a bad escape in a key', '{"mod\\x65l":"m"}'],
  ])('%s is unreadable, with a reason and no fields', (_, body) => {
    const length = Buffer.from(body).length;
    for (const cuts of [[], everyByte(length)]) {
      const result = scan(body, cuts);
      expect(result).toMatchObject({ readable: false, bytes: length, duplicates: [] });
      expect(result.problem).toMatch(/\w/);
      expect(result.fields.size).toBe(0);
    }
  });

  it('names the byte and never the content', () => {
    expect(scan('{"model":secret}').problem).toBe('unexpected byte at byte 9');
  });
});

describe('tolerated', () => {
  it('NaN and infinities are numbers, as Python takes them', () => {
    const body = '{"model":NaN,"usage":-Infinity,"stream":Infinity}';
    for (const cuts of [[], everyByte(body.length)]) {
      const result = scan(body, cuts);
      expect(result.readable).toBe(true);
      expect(raw(body, result, 'usage')).toBe('-Infinity');
      expect(result.fields.get('model')?.kind).toBe('number');
    }
  });

  it('huge numbers keep their bytes', () => {
    const body = `{"model":${'9'.repeat(400)},"usage":-0.1E+400}`;
    const result = scan(body);
    expect(raw(body, result, 'model')).toBe('9'.repeat(400));
    expect(raw(body, result, 'usage')).toBe('-0.1E+400');
  });

  it('C109 lone surrogate escapes pass, in values and in keys', () => {
    const body = '{"x":"x\\ud83d","\\udc00":1,"model":"\\udc00"}';
    expect(raw(body, scan(body), 'model')).toBe('"\\udc00"');
  });

  it('bytes that are no UTF-8 pass inside strings', () => {
    const body = Buffer.concat([
      Buffer.from('{"x":"'),
      Buffer.from([0xff, 0xfe, 0x80, 0xc3]),
      Buffer.from('","\x80":1,"model":"m"}', 'latin1'),
    ]);
    expect(scan(body, everyByte(body.length)).fields.get('model')?.value?.toString()).toBe('"m"');
  });

  it('C110 a character that straddles a border of 1, 4, 16 or 64 KiB changes nothing', () => {
    for (const border of [1024, 4096, 16_384, 65_536]) {
      const head = '{"messages":[{"content":"';
      const text = 'a'.repeat(border - 1 - head.length);
      const cyrillic = `${head}${text}Ж"}],"model":"m","stream":true}`;
      const ascii = `${head}${text}zz"}],"model":"m","stream":true}`;
      expect(Buffer.from(cyrillic)[border - 1]).toBe(0xd0);
      expect(scan(cyrillic, [border])).toEqual(scan(ascii, [border]));
      expect(scan(cyrillic, [border]).fields.get('model')?.value?.toString()).toBe('"m"');
    }
  });
});

describe('depth', () => {
  it('C114 nesting of 20,000 and of 300,000 levels is walked without recursion', () => {
    for (const levels of [20_000, 300_000]) {
      const body = `{"tools":${'{"p":['.repeat(levels / 2)}${']}'.repeat(levels / 2)},"model":"m"}`;
      const result = scan(body, [levels, levels * 2]);
      expect(result.readable).toBe(true);
      expect(raw(body, result, 'model')).toBe('"m"');
    }
  });

  it('C114 brackets closed in the wrong order are noticed at any depth', () => {
    expect(scan(`{"a":${'['.repeat(1000)}${'{"b":['.repeat(9)}${']}'.repeat(8)}}${']'.repeat(1001)}}`).readable).toBe(
      false,
    );
  });

  it('C114 more than a million levels are refused', () => {
    expect(scan(`{"a":${'['.repeat(1_048_575)}${']'.repeat(1_048_575)}}`).readable).toBe(true);
    expect(scan(`{"a":${'['.repeat(1_048_576)}${']'.repeat(1_048_576)}}`).problem).toMatch(/^nested too deeply/);
  });
});
