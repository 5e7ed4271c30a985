/** The Files and Batch API of a whole warmlane, by the official `openai` client, unmodified. */
import OpenAI, { APIError, NotFoundError, toFile } from 'openai';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import type { Proxy } from '../support/proxy.ts';
import { createStage, eventually, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
let directory: string;
beforeEach(() => {
  stage = createStage();
  directory = mkdtempSync(join(tmpdir(), 'warmlane-batch-e2e-'));
});
afterEach(async () => {
  await stage.close();
  rmSync(directory, { recursive: true, force: true });
});

const answerTo = ({ body }: RawRequest) => {
  const asked = JSON.parse(body.toString()) as {
    readonly messages: readonly { readonly content: string }[];
    n?: unknown;
  };
  if (asked.n === 'two')
    return [wholeAnswer(400, { error: { message: 'n must be a number', type: 'BadRequestError' } })];
  const message = { role: 'assistant', content: `re: ${asked.messages[0]?.content ?? ''}` };
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  return [
    wholeAnswer(200, {
      id: 'c',
      object: 'chat.completion',
      model: 'm',
      choices: [{ index: 0, message, finish_reason: 'stop' }],
      usage,
    }),
  ];
};

const answering = () => stage.backend({ onRequest: answerTo });

const clientOf = (proxy: Proxy) => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: 'none', maxRetries: 0 });
const openProxy = async (backend: Awaited<ReturnType<Stage['backend']>>) =>
  stage.proxy(backend, { change: { batch: { store: { kind: 'sqlite', directory } } } });
const lineOf = (customId: string, more: object = {}) =>
  JSON.stringify({
    custom_id: customId,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'm', messages: [{ role: 'user', content: customId }], ...more },
  });
const fileOf = (lines: readonly string[], name = 'in.jsonl') => toFile(Buffer.from(lines.join('\n')), name);

async function untilOver(client: OpenAI, id: string): Promise<OpenAI.Batch> {
  let batch = await client.batches.retrieve(id);
  await eventually(
    async () => {
      batch = await client.batches.retrieve(id);
      return ['completed', 'failed', 'cancelled', 'expired'].includes(batch.status);
    },
    'the end of the batch',
    15_000,
  );
  return batch;
}

async function linesOf(client: OpenAI, id: string | null | undefined): Promise<readonly ResultLine[]> {
  if (id === null || id === undefined) return [];
  const text = await (await client.files.content(id)).text();
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as ResultLine]));
}

interface ResultLine {
  readonly id: string;
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly body: OpenAI.ChatCompletion } | null;
  readonly error: object | null;
}

describe('openai.files', () => {
  it('uploads, lists, retrieves, downloads and deletes', async () => {
    const client = clientOf(await openProxy(await stage.backend()));
    const content = `${lineOf('ä')}\r\n`;
    const file = await client.files.create({
      file: await toFile(Buffer.from(content), 'täglich.jsonl'),
      purpose: 'batch',
      expires_after: { anchor: 'created_at', seconds: 7200 },
    });
    expect(file).toMatchObject({ object: 'file', filename: 'täglich.jsonl', purpose: 'batch', status: 'processed' });
    expect((file.expires_at ?? 0) - file.created_at).toBe(7200);
    expect(await client.files.retrieve(file.id)).toMatchObject({ id: file.id, bytes: Buffer.byteLength(content) });
    expect(await (await client.files.content(file.id)).text()).toBe(content);
    const others = [];
    for (let index = 0; index < 4; index += 1)
      others.push(await client.files.create({ file: await fileOf(['x']), purpose: 'vision' }));
    const listed = [];
    for await (const one of client.files.list({ limit: 2, order: 'asc' })) listed.push(one.id);
    expect(listed).toEqual([file.id, ...others.map(({ id }) => id)]);
    expect(await client.files.delete(file.id)).toEqual({ id: file.id, object: 'file', deleted: true });
    await expect(client.files.retrieve(file.id)).rejects.toBeInstanceOf(NotFoundError);
    expect(await client.files.waitForProcessing(others[0]?.id ?? '')).toMatchObject({ status: 'processed' });
  });
});

describe('openai.batches', () => {
  it('C173 creates, follows and fetches; one line that its backend refuses fails alone', async () => {
    const backend = await answering();
    const client = clientOf(await openProxy(backend));
    const lines = ['a', 'b', 'c', 'd', 'e'].map((id) => lineOf(id, id === 'd' ? { n: 'two' } : {}));
    const file = await client.files.create({ file: await fileOf(lines), purpose: 'batch' });
    const batch = await client.batches.create({
      input_file_id: file.id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
      metadata: { night: '1' },
    });
    const over = await untilOver(client, batch.id);
    expect(over).toMatchObject({
      status: 'completed',
      model: 'm',
      request_counts: { total: 5, completed: 4, failed: 1 },
      metadata: { night: '1' },
      errors: null,
    });
    const done = await linesOf(client, over.output_file_id);
    expect(done.map((line) => String(line.response?.body.choices[0]?.message.content)).toSorted()).toEqual([
      're: a',
      're: b',
      're: c',
      're: e',
    ]);
    expect(
      (await linesOf(client, over.error_file_id)).map((line) => [line.custom_id, line.response?.status_code]),
    ).toEqual([['d', 400]]);
    expect((await client.batches.list({ limit: 5 })).data.map(({ id }) => id)).toEqual([batch.id]);
    expect(await client.batches.cancel(batch.id)).toMatchObject({ status: 'completed' });
  });

  it('C166 C172 C173 C180 fails a file whose lines are wrong, each with its line, and sends none of them', async () => {
    const backend = await answering();
    const client = clientOf(await openProxy(backend));
    const wrong = [
      lineOf('a'),
      lineOf('a'),
      lineOf('c').replace('/v1/chat', '/v1'),
      lineOf('d', { stream: true }),
      lineOf('e', { pad: 'x'.repeat(9_000_000) }),
    ];
    const file = await client.files.create({ file: await fileOf(wrong), purpose: 'batch' });
    const batch = await client.batches.create({
      input_file_id: file.id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    });
    const over = await untilOver(client, batch.id);
    expect(over.status).toBe('failed');
    expect(over.errors?.data?.map(({ code, line }) => [code, line])).toEqual([
      ['duplicate_custom_id', 2],
      ['mismatched_url', 3],
      ['stream_not_supported', 4],
      ['line_too_large', 5],
    ]);
    expect(backend.requests.filter(({ method }) => method === 'POST')).toEqual([]);
  });

  it('C170 fails an empty file, and C167 refuses another purpose with its parameter', async () => {
    const client = clientOf(await openProxy(await stage.backend()));
    const create = async (purpose: 'batch' | 'vision') => {
      const file = await client.files.create({ file: await fileOf(['', '', '']), purpose });
      return client.batches.create({
        input_file_id: file.id,
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      });
    };
    const over = await untilOver(client, (await create('batch')).id);
    expect([over.status, over.errors?.data?.[0]?.code]).toEqual(['failed', 'empty_file']);
    const error = await create('vision').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: 400, param: 'input_file_id', type: 'invalid_request_error' });
  });
});

describe('without a place for batches', () => {
  it('files and batches are the backends’, as every other route', async () => {
    const backend = await stage.backend({
      onRequest: () => [wholeAnswer(200, { object: 'list', data: [], theirs: true })],
    });
    const client = clientOf(await stage.proxy(backend));
    expect(await client.batches.list()).toMatchObject({ data: [] });
    expect(usersOf(backend).map(({ method, target }) => [method, target])).toEqual([['GET', '/v1/batches']]);
  });
});
