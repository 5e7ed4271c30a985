/**
 * The Batch API in front of a real engine: the official clients' batch code as it is, and lines that were streamed and put
 * together again held against the engine's own unstreamed answers.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import OpenAI, { toFile } from 'openai';
import { describe, expect, it } from 'vitest';
import { resultLines } from '../support/batch-client.ts';
import { untilIdle, type Bench } from './bench.ts';
import { jsonl, submit, withBatchWarmlane, type Line } from './batch-work.ts';
import { freshPrompt } from './dialects.ts';
import { modelName, type Engine } from './engine.ts';
import { installed, vllmFiles } from './installed.ts';
import { ask } from './raw-client.ts';
import { decodingLines } from './lanes-suite.ts';
import { known } from './reading.ts';
import { normalise, parseJson } from './stream-events.ts';
import { toolCallAsk } from './tool-call.ts';

const run = promisify(execFile);
type Json = ReturnType<typeof parseJson>;

export function batchSuite(kind: Engine['kind'], bench: () => Pick<Bench, 'engine'>): void {
  const url = () => bench().engine.url;

  describe('the Batch API', () => {
    it('openai for Node uploads, creates, polls, downloads and cancels', async () => {
      await withBatchWarmlane(url(), {}, async (warmlane) => {
        const client = new OpenAI({ baseURL: `${warmlane.url}/v1`, apiKey: 'none', maxRetries: 0 });
        const create = async (lines: readonly Line[]) => {
          const file = await client.files.create({
            file: await toFile(Buffer.from(jsonl(lines)), 'in.jsonl'),
            purpose: 'batch',
          });
          const batch = await client.batches.create({
            input_file_id: file.id,
            endpoint: '/v1/chat/completions',
            completion_window: '24h',
            metadata: { from: 'node' },
          });
          return { file, batch };
        };
        const untilOver = async (id: string) => {
          for (;;) {
            const batch = await client.batches.retrieve(id);
            if (['completed', 'failed', 'expired', 'cancelled'].includes(batch.status)) return batch;
            await pause(200);
          }
        };
        const short = await create(decodingLines(4, 5));
        expect(short.batch).toMatchObject({ object: 'batch', metadata: { from: 'node' }, output_file_id: null });
        const done = await untilOver(short.batch.id);
        expect(done).toMatchObject({ status: 'completed', request_counts: { total: 4, completed: 4, failed: 0 } });
        const text = await (await client.files.content(done.output_file_id ?? '')).text();
        const answers = text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as Answered);
        expect(answers.map((answer) => answer.custom_id).toSorted()).toEqual(['line-0', 'line-1', 'line-2', 'line-3']);
        for (const { response } of answers) expect(response.body.usage?.completion_tokens).toBe(5);
        expect((await client.files.delete(short.file.id)).deleted).toBe(true);

        const long = await create(decodingLines(40, 200));
        await pause(1000);
        expect((await client.batches.cancel(long.batch.id)).status).toBe('cancelling');
        const cancelled = await untilOver(long.batch.id);
        expect(cancelled.status).toBe('cancelled');
        const kept = await Promise.all(
          [cancelled.output_file_id, cancelled.error_file_id].map((id) => resultLines(warmlane.url, id ?? null)),
        );
        expect(new Set(kept.flat().map((line) => line.custom_id)).size).toBe(40);
        expect(kept.flat()).toHaveLength(40);
        await untilIdle(bench().engine);
      });
    }, 180_000);

    // The Python client comes with vLLM's environment.
    it.runIf(installed('vllm'))(
      'openai for Python does the same',
      async () => {
        await withBatchWarmlane(url(), {}, async (warmlane) => {
          const script = join(import.meta.dirname, 'python-batch.py');
          const { stdout } = await run(vllmFiles.python, [script, warmlane.url, modelName], { timeout: 150_000 });
          expect(JSON.parse(stdout)).toEqual({
            status: 'completed',
            counts: [3, 3, 0],
            metadata: { from: 'python' },
            ids: ['line-0', 'line-1', 'line-2'],
            tokens: [4, 4, 4],
            listed: true,
            deleted: true,
            cancelling: 'cancelling',
            cancelled: 'cancelled',
            cancelledLines: 40,
            cancelledOnce: true,
          });
          await untilIdle(bench().engine);
        });
      },
      180_000,
    );

    it.each(comparedBatches(kind))(
      '$name: answers are those that the engine gives unstreamed',
      async ({ lines, unstreamed }) => {
        // One at a time: vLLM's answers differ when they are computed together.
        await withBatchWarmlane({ url: url(), maxInFlight: 1 }, {}, async (warmlane) => {
          const batch = await (await submit(warmlane, lines)).untilOver(120_000);
          expect(batch).toMatchObject({ status: 'completed', request_counts: { total: lines.length, failed: 0 } });
          const answers = new Map(
            (await resultLines(warmlane.url, batch.output_file_id)).map((line) => [
              line.custom_id,
              line.response ?? undefined,
            ]),
          );
          for (const { id, path, body } of lines) {
            const direct = await ask(url(), { path, body: { ...body } });
            expect(direct.status, id).toBe(200);
            const answer = known(answers.get(id), `the answer to ${id}`);
            expect(comparable(answer.body as Json), id).toEqual(comparable(parseJson(direct.text)));
            // What was put together, and what wasn't.
            expect((await warmlane.record(answer.request_id)).streamed, id).toBe(!unstreamed.has(id));
          }
        });
      },
      180_000,
    );
  });
}

interface Answered {
  readonly custom_id: string;
  readonly response: { readonly body: { readonly usage?: { readonly completion_tokens: number } } };
}

interface Compared {
  readonly name: string;
  readonly lines: readonly Line[];
  /** Lines that are sent as they are, since a stream might tell less. */
  readonly unstreamed: ReadonlySet<string>;
}

function comparedBatches(kind: Engine['kind']): readonly Compared[] {
  const common = { model: modelName, temperature: 0, ...(kind === 'llama-server' ? { cache_prompt: false } : {}) };
  const plain = kind === 'vllm' ? { chat_template_kwargs: { enable_thinking: false } } : {};
  const messages = () => [{ role: 'user', content: freshPrompt() }];
  const chat = (id: string, more: object): Line => ({
    id,
    path: '/v1/chat/completions',
    body: { ...common, ...plain, messages: messages(), max_tokens: 12, ...more },
  });
  const text = (id: string, more: object): Line => ({
    id,
    path: '/v1/completions',
    body: { ...common, prompt: freshPrompt(), max_tokens: 12, ...more },
  });
  return [
    {
      name: 'chat',
      unstreamed: new Set(['a key that is not known', ...(kind === 'vllm' ? ['a tool call'] : [])]),
      lines: [
        chat('plain', {}),
        chat('to its limit', { ignore_eos: true }),
        chat('a stop', { stop: [' ', '.'] }),
        chat('logprobs', { logprobs: true, top_logprobs: 2, max_tokens: 4 }),
        chat('a key that is not known', { some_new_field: 1 }),
        chat('JSON', { response_format: { type: 'json_object' }, max_tokens: 30 }),
        { id: 'a tool call', path: '/v1/chat/completions', body: { ...toolCallAsk(kind), ...common } },
      ],
    },
    {
      name: 'completions',
      unstreamed: new Set(),
      lines: [
        text('plain', {}),
        text('to its limit', { ignore_eos: true }),
        text('logprobs', { logprobs: 1, max_tokens: 4 }),
      ],
    },
    {
      name: 'responses',
      unstreamed: new Set(kind === 'vllm' ? ['plain', 'messages'] : []),
      lines: [
        { id: 'plain', path: '/v1/responses', body: { ...common, input: freshPrompt(), max_output_tokens: 12 } },
        { id: 'messages', path: '/v1/responses', body: { ...common, input: messages(), max_output_tokens: 12 } },
      ],
    },
  ];
}

/** Without what the cache alone decides, and what is made up anew for every answer. */
function comparable(value: Json): Json {
  const own = normalise(value);
  const strip = (part: Json): Json => {
    if (Array.isArray(part)) return part.map(strip);
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(
      Object.entries(part)
        .filter(
          ([key]) =>
            !['cached_tokens', 'cache_write_tokens', 'created_cache_tokens', 'cache_n', 'prompt_n'].includes(key),
        )
        .map(([key, member]) => [key, strip(member)]),
    );
  };
  return strip(own);
}
