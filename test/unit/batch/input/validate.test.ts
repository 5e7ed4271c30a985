import fc from 'fast-check';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { PromptKeys } from '../../../../src/batch/input/prompt-keys.ts';
import { validate, type Validation, type ValidationSettings } from '../../../../src/batch/input/validate.ts';
import { prefixKeys } from '../../../../src/classify/prefix-keys.ts';
import { createPromptReader } from '../../../../src/classify/prefix-scan.ts';
import { prefixDefaults } from '../../../../src/classify/settings.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { loadXxhash } from '../../../../src/platform/xxhash.ts';

const endpoint = '/v1/chat/completions';
const settings: ValidationSettings = { endpoint, maxLines: 1000, maxFileBytes: 1e6, maxLineBytes: 10_000 };

function chunked(file: Buffer, chunkBytes: number): Readable {
  const chunks: Buffer[] = [];
  for (let at = 0; at < file.length; at += chunkBytes) chunks.push(file.subarray(at, at + chunkBytes));
  return Readable.from(chunks);
}

function check(
  file: string | Buffer,
  change: Partial<ValidationSettings> = {},
  { chunkBytes = 64, prompts }: { readonly chunkBytes?: number; readonly prompts?: PromptKeys } = {},
): Promise<Validation> {
  const input = chunked(Buffer.from(file), chunkBytes);
  return validate(
    input,
    { ...settings, ...change },
    { clock: systemClock, ...(prompts === undefined ? {} : { prompts }) },
  );
}

const bodyText = (content = 'hi', more: object = {}) => ({
  model: 'm',
  messages: [{ role: 'user', content }],
  ...more,
});
const lineText = (customId: unknown, change: object = {}) =>
  JSON.stringify({ custom_id: customId, method: 'POST', url: endpoint, body: bodyText(), ...change });
const fileText = (...lines: readonly string[]) => lines.map((line) => `${line}\n`).join('');

async function errorsOf(file: string | Buffer, change: Partial<ValidationSettings> = {}) {
  const found = await check(file, change);
  return found.ok ? [] : found.errors;
}

async function faultsOf(file: string | Buffer, change: Partial<ValidationSettings> = {}) {
  return (await errorsOf(file, change)).map(({ code, line, param }) => [code, line, param]);
}

async function linesOf(file: string | Buffer) {
  const found = await check(file);
  if (!found.ok) throw new Error(JSON.stringify(found.errors));
  return found.lines.slice(0, Number.POSITIVE_INFINITY);
}

/** Lines of a right file by rank. */
async function sentOf(file: string, prompts?: PromptKeys) {
  const found = await check(file, {}, prompts === undefined ? {} : { prompts });
  if (!found.ok) throw new Error(JSON.stringify(found.errors));
  return found.lines
    .slice(0, found.lines.count)
    .toSorted((a, b) => a.rank - b.rank)
    .map(({ customId }) => customId);
}

describe('validate', () => {
  it('finds each request where it stands in the file, and the model', async () => {
    const file = fileText(lineText('a'), '', lineText('ü"\\'));
    const found = await check(file);
    expect(found).toMatchObject({ ok: true, model: 'm' });
    const lines = await linesOf(file);
    expect(lines.map(({ line, customId, rank }) => [line, customId, rank])).toEqual([
      [1, 'a', 0],
      [3, 'ü"\\', 1],
    ]);
    const [, second] = lines;
    const bytes = Buffer.from(file);
    const text = bytes.subarray(second?.at ?? 0, (second?.at ?? 0) + (second?.bytes ?? 0));
    expect(text.toString()).toBe(lineText('ü"\\'));
  });

  it('C166 a custom_id that came before, an empty one and none are told with their lines', async () => {
    expect(await faultsOf(fileText(lineText('a'), lineText('b'), lineText('a')))).toEqual([
      ['duplicate_custom_id', 3, 'custom_id'],
    ]);
    expect((await errorsOf(fileText(lineText('a'), lineText('a'))))[0]?.message).toContain('line 1');
    expect(await faultsOf(fileText(lineText(''), lineText(undefined), lineText(7), lineText(null)))).toEqual([
      ['invalid_custom_id', 1, 'custom_id'],
      ['invalid_custom_id', 2, 'custom_id'],
      ['invalid_custom_id', 3, 'custom_id'],
      ['invalid_custom_id', 4, 'custom_id'],
    ]);
  });

  it('C166 an escaped custom_id is the same as a plain one', async () => {
    const escaped = lineText('a').replace('"a"', '"\\u0061"');
    expect(await faultsOf(fileText(lineText('a'), escaped))).toEqual([['duplicate_custom_id', 2, 'custom_id']]);
  });

  it('bounds a custom_id, and refuses one that no database gives back as it was', async () => {
    expect(await faultsOf(lineText('x'.repeat(512)))).toEqual([]);
    expect(await faultsOf(lineText('\u0001'.repeat(512)))).toEqual([]);
    for (const bad of ['x'.repeat(513), 'x'.repeat(9000), 'a\u0000b', 'a\ud800'])
      expect(await faultsOf(lineText(bad))).toEqual([['invalid_custom_id', 1, 'custom_id']]);
    expect(await faultsOf(lineText('a').replace('"a"', '"\\x"'))).toEqual([['invalid_custom_id', 1, 'custom_id']]);
  });

  it('C169 CRLF cut by a read, an escaped one and a raw U+2028 change no count', async () => {
    const file = `${lineText('a', { body: bodyText('x\r\ny') })}\r\n${lineText('b', { body: bodyText('\u2028') })}\r\n`;
    for (let chunkBytes = 1; chunkBytes < 200; chunkBytes += 1) {
      const found = await check(file, {}, { chunkBytes });
      expect(found.ok && found.lines.slice(0, 9).map(({ customId }) => customId)).toEqual(['a', 'b']);
    }
  });

  it('C170 blank lines are no requests, and a file of nothing else is empty', async () => {
    const lines = await linesOf(`${lineText('a')}\n\n  \n${lineText('b')}`);
    expect(lines.map(({ line }) => line)).toEqual([1, 4]);
    for (const empty of ['', '\n\n', ' \r\n\t', '\ufeff', '\ufeff\r\n'])
      expect(await faultsOf(empty)).toEqual([['empty_file', undefined, undefined]]);
  });

  it("C172 another path than the batch's, a slash more and another method are told with their lines", async () => {
    const file = fileText(
      lineText('a'),
      lineText('b', { url: '/v1/completions' }),
      lineText('c', { url: `${endpoint}/` }),
      lineText('d', { method: 'GET' }),
      lineText('e', { url: undefined, method: undefined }),
      lineText('f', { url: `http://elsewhere${endpoint}` }),
      lineText('g', { method: 'post', url: `${endpoint}?x` }),
    );
    expect(await faultsOf(file)).toEqual([
      ['mismatched_url', 2, 'url'],
      ['mismatched_url', 3, 'url'],
      ['invalid_method', 4, 'method'],
      ['invalid_method', 5, 'method'],
      ['invalid_url', 5, 'url'],
      ['mismatched_url', 6, 'url'],
      ['invalid_method', 7, 'method'],
      ['mismatched_url', 7, 'url'],
    ]);
    expect((await errorsOf(file))[1]?.message).toContain('slash');
  });

  it('C173 a stream is refused with its line, whatever the word for it; what only a model server can judge passes', async () => {
    const streams = [true, 'true', 1].map((stream, index) =>
      lineText(`s${index}`, { body: bodyText('hi', { stream }) }),
    );
    expect(await faultsOf(fileText(lineText('a'), lineText('b'), ...streams))).toEqual([
      ['stream_not_supported', 3, 'body.stream'],
      ['stream_not_supported', 4, 'body.stream'],
      ['stream_not_supported', 5, 'body.stream'],
    ]);
    const odd = [{ n: 'two' }, { stream: false }, { stream: null }, { messages: 3 }];
    expect(
      await linesOf(fileText(...odd.map((more, index) => lineText(`o${index}`, { body: bodyText('hi', more) })))),
    ).toHaveLength(4);
  });

  it('C180 a line over the limit is told with both sizes, and the lines behind it are read', async () => {
    const big = lineText('big', { body: bodyText('x'.repeat(60_000)) });
    const errors = await errorsOf(fileText(lineText('a'), big, lineText('a')));
    expect(errors).toEqual([
      {
        code: 'line_too_large',
        line: 2,
        message: `This line has ${big.length} bytes; the limit is 10000 (batch.maxLineBytes).`,
      },
      expect.objectContaining({ code: 'duplicate_custom_id', line: 3 }),
    ]);
  });

  it('C180 holds no more of a line of 60 MB than the limit', async () => {
    const piece = Buffer.alloc(64 * 1024, 'x');
    let mostBytes = 0;
    const beforeBytes = process.memoryUsage().arrayBuffers;
    async function* huge() {
      yield Buffer.from(`${lineText('a')}\n{"custom_id":"`);
      for (let sent = 0; sent < 60e6; sent += piece.length) {
        yield Buffer.from(piece);
        mostBytes = Math.max(mostBytes, process.memoryUsage().arrayBuffers - beforeBytes);
        await Promise.resolve();
      }
      yield Buffer.from(`"}\n${lineText('b')}`);
    }
    const found = await validate(huge(), { ...settings, maxFileBytes: 1e9 }, { clock: systemClock });
    expect(found).toMatchObject({ ok: false, errors: [{ code: 'line_too_large', line: 2 }] });
    // Of what was let go some waits for the collector.
    expect(mostBytes).toBeLessThan(45e6);
  });

  it('holds all lines to the model of the first', async () => {
    const other = (model: unknown) => lineText(`x${String(model).slice(0, 20)}`, { body: { ...bodyText(), model } });
    const file = fileText(lineText('a'), other('other'), other(undefined), other(7), other(''), other('n'.repeat(600)));
    expect(await faultsOf(file)).toEqual([
      ['mismatched_model', 2, 'body.model'],
      ['mismatched_model', 3, 'body.model'],
      ['invalid_model', 4, 'body.model'],
      ['invalid_model', 5, 'body.model'],
      ['invalid_model', 6, 'body.model'],
    ]);
    expect(await check(other(undefined))).toMatchObject({ ok: true, model: undefined });
  });

  it('tells lines that are no JSON object by their place, never by what they hold', async () => {
    const bad = ['secret', '[1]', '{"custom_id":"a"', '{"custom_id":"a",}', '{} {}', '{"body":1,"body":2}'];
    const errors = await errorsOf(fileText(...bad));
    expect(errors.map(({ code, line }) => [code, line])).toEqual(
      bad.map((_, index) => ['invalid_json_line', index + 1]),
    );
    expect(JSON.stringify(errors)).not.toContain('secret');
  });

  it('tells a body that is none, and keys in it that stand there twice', async () => {
    for (const body of [undefined, null, 'text', [1]])
      expect(await faultsOf(lineText('a', { body }))).toEqual([['invalid_body', 1, 'body']]);
    const twice = lineText('a').replace('"model":"m"', '"model":"m","model":"n"');
    expect(await faultsOf(twice)).toEqual([['invalid_body', 1, 'body.model']]);
  });

  it('tells bad UTF-8 with its line, and UTF-16', async () => {
    const file = Buffer.concat([Buffer.from(`${lineText('a')}\n`), Buffer.from([0x7b, 0xff, 0x7d])]);
    expect(await faultsOf(file)).toEqual([['invalid_encoding', 2, undefined]]);
    expect((await errorsOf(Buffer.from(`\ufeff${lineText('a')}`, 'utf16le')))[0]?.message).toContain('UTF-16');
  });

  it('names the first hundred faults and counts the others', async () => {
    const errors = await errorsOf(fileText(...Array.from({ length: 250 }, () => 'x')));
    expect(errors).toHaveLength(101);
    expect(errors[99]?.line).toBe(100);
    expect(errors[100]).toEqual({
      code: 'more_errors',
      message: 'There are 150 more errors; those above are the first.',
    });
  });

  it('stops at one line or one byte more than may be', async () => {
    const lines = Array.from({ length: 3000 }, (_, index) => lineText(`r${index}`));
    const file = Buffer.from(fileText(...lines));
    let read = 0;
    async function* counted() {
      for await (const chunk of chunked(file, 1000)) {
        read += 1;
        yield chunk as Buffer;
      }
    }
    const found = await validate(counted(), settings, { clock: systemClock });
    expect(found).toMatchObject({ ok: false, errors: [{ code: 'too_many_lines' }] });
    expect(read * 1000).toBeLessThan(file.length / 2);
    expect(await faultsOf(fileText(...lines.slice(0, 1000)))).toEqual([]);
    expect(await faultsOf(lineText('a'), { maxFileBytes: 20 })).toEqual([['file_too_large', undefined, undefined]]);
  });

  it('fails with what the file fails with, and with the abort of its signal', async () => {
    async function* broken() {
      yield Buffer.from('{');
      await Promise.resolve();
      throw new Error('disk gone');
    }
    await expect(validate(broken(), settings, { clock: systemClock })).rejects.toThrow('disk gone');
    const signal = AbortSignal.abort(new Error('stopped'));
    const input = chunked(Buffer.from(fileText(lineText('a'))), 64);
    await expect(validate(input, settings, { clock: systemClock, signal })).rejects.toThrow('stopped');
  });

  it('lets the event loop turn in the middle of a long line', async () => {
    const numbers = Array.from({ length: 400_000 }, (_, index) => index).join(',');
    const line = `{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":[${numbers}]}}`;
    let turns = 0;
    let counting = true;
    const count = () => {
      turns += 1;
      if (counting) setImmediate(count);
    };
    setImmediate(count);
    const limits = { endpoint: '/v1/embeddings', maxLineBytes: 1e7, maxFileBytes: 1e7 } as const;
    let nowMs = 0;
    const found = await validate(
      Readable.from([Buffer.from(line)]),
      { ...settings, ...limits },
      { clock: { nowMs: () => (nowMs += 1) } },
    );
    counting = false;
    expect(found.ok && found.lines.slice(0, 9)).toMatchObject([{ customId: 'a' }]);
    expect(turns).toBeGreaterThan(20);
  });

  it('finds the same whatever the cuts', async () => {
    const line = fc.constantFrom(
      lineText('a'),
      lineText('b'),
      lineText('ü\u2028'),
      '',
      '  ',
      '{"x"',
      lineText('c', { url: '/x' }),
    );
    const end = fc.constantFrom('\n', '\r\n');
    const file = fc.array(fc.tuple(line, end), { maxLength: 12 }).map((lines) => lines.flat().join(''));
    await fc.assert(
      fc.asyncProperty(file, fc.integer({ min: 1, max: 90 }), fc.boolean(), async (text, chunkBytes, mark) => {
        const marked = mark ? `\ufeff${text}` : text;
        const found = async (cut: number) => {
          const seen = await check(marked, {}, { chunkBytes: cut });
          return seen.ok ? [seen.model, seen.lines.slice(0, 99)] : seen.errors;
        };
        expect(await found(chunkBytes)).toEqual(await found(1e6));
      }),
    );
  });
});

const hash = await loadXxhash();
const read = createPromptReader(prefixDefaults, hash);

describe.each([
  ['the raw text', undefined],
  ['the keys that routing goes by', { members: prefixKeys, begin: () => read('chat') }],
] as const)('ranks by %s', (_what, prompts) => {
  const system = (name: string) => ({ role: 'system', content: `You are ${name}. ${name.repeat(200)}` });
  const asked = (customId: string, name: string, content: string, more: object = {}) =>
    lineText(customId, { body: { ...more, model: 'm', messages: [system(name), { role: 'user', content }] } });

  it('send lines of one system prompt together, in the order of the file', async () => {
    const file = fileText(
      asked('a1', 'anna', 'x'),
      asked('b1', 'bert', 'x'),
      asked('a2', 'anna', 'y'),
      asked('c1', 'carl', 'x'),
      asked('b2', 'bert', 'z'),
      asked('a3', 'anna', 'x2', { temperature: 0 }),
    );
    expect(await sentOf(file, prompts)).toEqual(['a1', 'a2', 'a3', 'b1', 'b2', 'c1']);
  });

  it('see no difference in what no prompt is made of, but in tools', async () => {
    const tools = [{ type: 'function', function: { name: 'f'.repeat(300) } }];
    const file = fileText(
      asked('a1', 'anna', 'x', { user: '1', tools }),
      asked('b1', 'anna', 'x', { user: '1' }),
      asked('a2', 'anna', 'y', { user: '2', tools }),
    );
    expect(await sentOf(file, prompts)).toEqual(['a1', 'a2', 'b1']);
  });

  it('take lines without a prompt as they come', async () => {
    const none = (customId: string) => lineText(customId, { body: { model: 'm' } });
    expect(await sentOf(fileText(none('a'), asked('b', 'anna', 'x'), none('c')), prompts)).toEqual(['a', 'b', 'c']);
  });
});
