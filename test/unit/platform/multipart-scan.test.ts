import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createMultipartScan, readBoundary, type MultipartFields } from '../../../src/platform/multipart-scan.ts';

interface Part {
  readonly head: string;
  readonly data: string | Buffer;
}

function textPart(name: string, data: string): Part {
  return { head: `Content-Disposition: form-data; name="${name}"`, data };
}

function filePart(data: Buffer | string = Buffer.from('RIFF\r\n--\0\xff\r\n', 'latin1')): Part {
  return { head: 'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav', data };
}

function form(boundary: string, parts: readonly Part[], end = '--\r\n'): Buffer {
  const pieces = parts.flatMap(({ head, data }) => [
    Buffer.from(`--${boundary}\r\n${head}\r\n\r\n`),
    Buffer.from(data),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}${end}`)]);
}

function scan(body: Buffer, boundary: string, cuts: readonly number[] = []): MultipartFields {
  const quoted = boundary.replace(/["\\]/g, '\\$&');
  const reader = createMultipartScan(`multipart/form-data; boundary="${quoted}"`);
  let from = 0;
  for (const cut of [...cuts, body.length].map((at) => Math.min(at, body.length)).toSorted((a, b) => a - b)) {
    reader.push(body.subarray(from, cut));
    from = cut;
  }
  return reader.fields;
}

const everyByte = (body: Buffer) => Array.from(body, (_, at) => at);

describe('the boundary', () => {
  it('is read quoted, escaped and bare, whatever else stands there', () => {
    expect(readBoundary('multipart/form-data; boundary=abc')).toBe('abc');
    expect(readBoundary('Multipart/Form-Data;charset=utf-8; BOUNDARY="a b;c" ; x=y')).toBe('a b;c');
    expect(readBoundary('multipart/form-data; boundary="--x\\"y"')).toBe('--x"y');
    expect(readBoundary('multipart/form-data; boundary=--x"y')).toBe('--x"y');
  });

  it('is none where readers could differ or there is none', () => {
    for (const type of [
      '',
      'application/json; boundary=a',
      'multipart/form-data',
      'multipart/form-data; boundary=',
      'multipart/form-data; boundary=a; boundary=b',
      `multipart/form-data; boundary=${'a'.repeat(257)}`,
    ]) {
      expect(readBoundary(type)).toBeUndefined();
      expect(createMultipartScan(type).fields.problem).toMatch(/boundary/);
    }
  });
});

describe('fields', () => {
  it('C118 are read from a form whose boundary is --x"y, over any cut and past a binary file', () => {
    const body = form('--x"y', [
      filePart(),
      textPart('response_format', 'json'),
      textPart('model', 'whisper-1'),
      textPart('stream', 'true'),
    ]);
    const whole = scan(body, '--x"y');
    expect(whole).toMatchObject({ duplicates: [], fileBegan: true, closed: true });
    expect(whole.model?.value).toBe('whisper-1');
    expect(whole.stream?.value).toBe('true');
    expect(body.subarray(whole.model?.start, whole.model?.end).toString()).toBe('whisper-1');
    expect(scan(body, '--x"y', everyByte(body))).toEqual(whole);
    for (let cut = 0; cut < body.length; cut += 1) expect(scan(body, '--x"y', [cut])).toEqual(whole);
  });

  it('C119 that come after a large file are not known while it streams, and found once it is over', () => {
    const body = form('b', [
      textPart('language', 'en'),
      filePart(Buffer.alloc(3_000_000, '\r\n-')),
      textPart('model', 'm'),
    ]);
    const reader = createMultipartScan('multipart/form-data; boundary=b');
    reader.push(body.subarray(0, 40));
    expect(reader.fields).toEqual({ duplicates: [], fileBegan: false, closed: false });
    reader.push(body.subarray(40, 1_000_000));
    expect(reader.fields).toEqual({ duplicates: [], fileBegan: true, closed: false });
    reader.push(body.subarray(1_000_000));
    expect(reader.fields).toMatchObject({ model: { value: 'm' }, closed: true });
  });

  it('C119 that never come are known to be absent once the form is closed', () => {
    expect(scan(form('b', [filePart()]), 'b')).toEqual({ duplicates: [], fileBegan: true, closed: true });
    expect(scan(form('b', [filePart()]).subarray(0, -4), 'b').closed).toBe(false);
  });

  it('with empty, large or many-byte values', () => {
    expect(scan(form('b', [textPart('model', '')]), 'b').model?.value).toBe('');
    expect(scan(form('b', [textPart('model', 'é–😀')]), 'b', [70, 71, 72]).model?.value).toBe('é–😀');
    expect(scan(form('b', [textPart('model', 'x'.repeat(4096))]), 'b').model?.value).toHaveLength(4096);
    const large = form('b', [textPart('model', 'x'.repeat(4097))]);
    for (const cuts of [[], everyByte(large)]) {
      const { model } = scan(large, 'b', cuts);
      expect(model).toBeDefined();
      expect(model).not.toHaveProperty('value');
    }
  });

  it('named twice are listed', () => {
    expect(scan(form('b', [textPart('model', 'a'), textPart('model', 'b')]), 'b')).toMatchObject({
      duplicates: ['model'],
      model: { value: 'b' },
    });
  });

  it('of other names, or with a file name, are none of the wanted', () => {
    const parts = [
      textPart('Model', 'a'),
      textPart('models', 'b'),
      { head: 'Content-Disposition: form-data; name="model"; filename="x"', data: 'c' },
    ];
    expect(scan(form('b', parts), 'b')).toEqual({ duplicates: [], fileBegan: true, closed: true });
  });

  it('inside a file are data', () => {
    const inner = form('inner', [textPart('model', 'evil')]);
    expect(scan(form('b', [filePart(inner), textPart('model', 'good')]), 'b').model?.value).toBe('good');
  });

  it('whose lines begin like the boundary keep those lines', () => {
    const value = 'a\r\n--bc\r\n--b-x\r\n--b\rz';
    const body = form('b', [textPart('model', value)]);
    expect(scan(body, 'b').model?.value).toBe(value);
    expect(scan(body, 'b', everyByte(body)).model?.value).toBe(value);
  });

  it('are read from unquoted and oddly written headers', () => {
    const heads = [
      'content-disposition:form-data;name=model',
      'CONTENT-DISPOSITION: form-data ; NAME = "mo\\del"',
      'X: y\r\nContent-Disposition: form-data; name="model"',
    ];
    for (const head of heads) expect(scan(form('b', [{ head, data: 'm' }]), 'b').model?.value).toBe('m');
  });
});

describe('forms that can be read in more than one way', () => {
  it.each([
    [
      'two dispositions in a part',
      [{ head: 'Content-Disposition: form-data; name="x"\r\nContent-Disposition: form-data; name="model"', data: 'm' }],
    ],
    ['two names in a disposition', [{ head: 'Content-Disposition: form-data; name="x"; name="model"', data: 'm' }]],
    ['a folded header', [{ head: 'Content-Disposition: form-data;\r\n name="model"', data: 'm' }]],
    [
      'headers without end',
      [{ head: `Content-Disposition: form-data; name="model"; x="${'y'.repeat(17_000)}"`, data: 'm' }],
    ],
  ])('%s: nothing more is found, with a problem', (_, parts) => {
    const fields = scan(form('b', [...parts, textPart('model', 'later')]), 'b');
    expect(fields.problem).toMatch(/headers/);
    expect(fields.model).toBeUndefined();
  });

  it('blanks after a boundary: nothing more is found', () => {
    const body = Buffer.from('--b \r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b--\r\n');
    expect(scan(body, 'b')).toMatchObject({ problem: 'blanks after a boundary', closed: false });
  });

  it('line feeds alone end no header and no part', () => {
    const body = Buffer.from('--b\nContent-Disposition: form-data; name="model"\n\nm\n--b--\n');
    expect(scan(body, 'b').model).toBeUndefined();
  });

  it('what is no form at all finds nothing', () => {
    expect(scan(Buffer.from('{"model":"m"}'), 'b')).toEqual({ duplicates: [], fileBegan: false, closed: false });
  });
});

it('any form, cut anywhere, gives the same fields and the places of their bytes', () => {
  const data = fc.string({ unit: fc.constantFrom('\r', '\n', '-', 'b', '"', 'é', '\0'), maxLength: 30 });
  const part = fc.oneof(
    fc.tuple(fc.constantFrom('model', 'stream', 'x'), data).map(([name, text]) => textPart(name, text)),
    data.map((text) => filePart(text)),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 5 }), fc.array(fc.nat(600), { maxLength: 20 }), (parts, cuts) => {
      // The format itself forbids the delimiter in data.
      fc.pre(parts.every(({ data: text }) => !`\r\n${text.toString()}\r\n`.slice(2).includes('\r\n--bb')));
      const body = form('bb', parts);
      const fields = scan(body, 'bb', cuts);
      expect(fields).toEqual(scan(body, 'bb'));
      expect(fields).toMatchObject({ closed: true, fileBegan: parts.some(({ head }) => head.includes('filename')) });
      const models = parts.filter(({ head }) => head.endsWith('"model"')).map(({ data: text }) => text);
      expect(fields.model?.value).toBe(models.at(-1));
      expect(fields.duplicates.includes('model')).toBe(models.length > 1);
      if (fields.model) expect(body.subarray(fields.model.start, fields.model.end).toString()).toBe(models.at(-1));
    }),
    { numRuns: 500 },
  );
});
