import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Job } from '../../../src/domain/job.ts';
import type { PrefixChain } from '../../../src/domain/prefix.ts';
import type { RequestRecord } from '../../../src/domain/record.ts';
import { openPromptTrace } from '../../../src/export/prompt-trace/open-prompt-trace.ts';
import { blockKeysOf } from '../../../src/export/prompt-trace/prompt-line.ts';
import { createPromptTrace } from '../../../src/export/prompt-trace/prompt-trace.ts';
import { createAppendFile } from '../../../src/platform/append-file.ts';
import { createKeyBlinder } from '../../../src/platform/key-blinder.ts';
import { type Log, type LogFields, silentLog } from '../../../src/platform/log.ts';
import { createTraceReader } from '../../../src/sim/traces/read-trace.ts';
import { sampleRecord } from '../../support/sample-record.ts';

let folder: string;
beforeAll(() => (folder = mkdtempSync(join(tmpdir(), 'prompt-trace-'))));
afterAll(() => rmSync(folder, { recursive: true }));

/** Messages of so many bytes each, as the classifier would cut them; equal seeds mean equal beginnings. */
function chainOf(...messages: readonly { readonly bytes: number; readonly seed: number }[]): PrefixChain {
  const keys: number[] = [];
  const ends: number[] = [];
  const parts: number[] = [];
  let bytes = 0;
  let key = 17;
  messages.forEach((message, part) => {
    for (let left = message.bytes; left > 0; left -= 1024) {
      bytes += Math.min(1024, left);
      key = (key * 31 + message.seed * 7919 + bytes) % 9_007_199_254_740_881;
      keys.push(key);
      ends.push(bytes);
      parts.push(part);
    }
  });
  return {
    keys: Float64Array.from(keys),
    ends: Float64Array.from(ends),
    parts: Int32Array.from(parts),
    bytes,
    wideBytes: 0,
  };
}

function jobOf(prefix: PrefixChain): Job {
  return {
    requestId: 'r',
    endpoint: 'chat',
    method: 'POST',
    target: '/v1/chat/completions',
    format: 'chat',
    generates: true,
    stream: true,
    choices: 1,
    bodyBytes: prefix.bytes,
    readable: true,
    lane: 'online',
    usage: { byClient: false },
    measured: true,
    prefix,
  };
}

function answered(promptTokens: number, over: Partial<RequestRecord> = {}): RequestRecord {
  return sampleRecord({
    backend: 'b1',
    tokens: { prompt: { value: promptTokens, source: 'usage' }, output: { value: 30, source: 'usage' } },
    ...over,
  });
}

function collected() {
  const lines: string[] = [];
  const file = { write: (line: string) => lines.push(line) > 0, dropped: 0, close: () => Promise.resolve() };
  return { lines, file };
}

interface Line {
  readonly timestamp: number;
  readonly input_length: number;
  readonly output_length: number;
  readonly hash_ids: readonly number[];
}

const parsed = (text = '') => JSON.parse(text) as Line;

describe('the prompt trace', () => {
  it('tells a longer prompt from a shorter one that it continues, block by block', async () => {
    const { lines, file } = collected();
    const trace = createPromptTrace({ file });
    const first = [
      { bytes: 9000, seed: 1 },
      { bytes: 500, seed: 2 },
    ];
    trace.add(answered(2375, { startedAtEpochMs: 1000 }), jobOf(chainOf(...first)));
    trace.add(answered(2875, { startedAtEpochMs: 4000 }), jobOf(chainOf(...first, { bytes: 2000, seed: 3 })));
    trace.add(answered(2375, { startedAtEpochMs: 9000 }), jobOf(chainOf({ bytes: 9500, seed: 8 })));
    await trace.close();
    const [one, two, three] = [0, 1, 2].map((at) => parsed(lines[at]));
    expect(one).toMatchObject({ timestamp: 1000, input_length: 2375, output_length: 30 });
    expect(one?.hash_ids).toHaveLength(5);
    expect(two?.hash_ids.slice(0, 4)).toEqual(one?.hash_ids.slice(0, 4));
    expect(two?.hash_ids[4]).not.toBe(one?.hash_ids[4]);
    expect(three?.hash_ids.some((id) => one?.hash_ids.includes(id))).toBe(false);
    const reader = createTraceReader({ name: 'own', seed: 1, maxRequests: 10 });
    for (const line of lines) reader.line(line);
    const read = reader.end();
    expect(read).toMatchObject({ format: 'mooncake', badLines: 0 });
    expect(read.trace.requests.map(({ atMs }) => atMs)).toEqual([0, 3000, 8000]);
  });

  it('cuts blocks alike in all prompts, by the bytes that a token has in the first answers', async () => {
    const { lines, file } = collected();
    const trace = createPromptTrace({ file });
    // Three bytes a token: 512 tokens are a chunk and a half.
    for (let index = 0; index < 20; index += 1) {
      trace.add(answered(4096), jobOf(chainOf({ bytes: 12_288, seed: 5 })));
      if (index < 15) expect(lines).toHaveLength(0);
    }
    await trace.close();
    expect(lines).toHaveLength(20);
    expect(new Set(lines.map((line) => JSON.stringify(parsed(line).hash_ids))).size).toBe(1);
    expect(parsed(lines[0]).hash_ids).toHaveLength(8);
  });

  it('says of a line that it is batch, and of no other: one without a lane is of online', async () => {
    const { lines, file } = collected();
    const trace = createPromptTrace({ file });
    const job = jobOf(chainOf({ bytes: 4096, seed: 1 }));
    trace.add(answered(1024), job);
    trace.add(answered(1024, { lane: 'batch' }), job);
    await trace.close();
    expect(lines.map((line) => (JSON.parse(line) as { lane?: string }).lane)).toEqual([undefined, 'batch']);
    const reader = createTraceReader({ name: 'own', seed: 1, maxRequests: 10, lane: 'online' });
    for (const line of lines) reader.line(line);
    const { trace: kept, leftOut } = reader.end();
    expect([kept.requests.length, leftOut]).toEqual([1, 1]);
  });

  it('is of what clients asked: no line of warmlane’s own warm-ups, nor of an answer given again', async () => {
    const { lines, file } = collected();
    const trace = createPromptTrace({ file });
    const job = jobOf(chainOf({ bytes: 4096, seed: 1 }));
    trace.add(answered(1024, { marks: ['warm_up'], lane: 'batch' }), job);
    const { backend: _none, ...replayed } = answered(1024, { warmth: 'replayed' });
    trace.add(replayed, job);
    trace.add(answered(1024), job);
    await trace.close();
    expect(lines).toHaveLength(1);
  });

  it('has as many numbers as the length asks for, whatever chain and ratio are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ bytes: fc.nat({ max: 9000 }), seed: fc.nat({ max: 3 }) }), { maxLength: 4 }),
        fc.integer({ min: 1, max: 20_000 }),
        fc.double({ min: 0.5, max: 12, noNaN: true }),
        (messages, promptTokens, ratio) => {
          const keys = blockKeysOf({ chain: chainOf(...messages), promptTokens }, ratio);
          expect(keys).toHaveLength(Math.ceil(promptTokens / 512));
        },
      ),
    );
  });

  it('knows nothing of a prompt behind the chunks that are kept', () => {
    const whole = chainOf({ bytes: 8192, seed: 1 });
    const cut = {
      ...whole,
      keys: whole.keys.slice(0, 4),
      ends: whole.ends.slice(0, 4),
      parts: whole.parts.slice(0, 4),
    };
    const keys = blockKeysOf({ chain: cut, promptTokens: 2048 }, 4);
    expect(keys.map((key) => key === undefined)).toEqual([false, false, true, true]);
  });

  it('leaves out what was never computed, what is no prompt, and what no backend answered', async () => {
    const { lines, file } = collected();
    const trace = createPromptTrace({ file });
    const job = jobOf(chainOf({ bytes: 2000, seed: 1 }));
    trace.add(answered(500, { outcome: 'client_abort' }), job);
    trace.add(answered(500), undefined);
    trace.add(answered(500), { ...job, generates: false });
    const { backend: _, ...unsent } = answered(500);
    trace.add(unsent, job);
    trace.add(answered(500, { outcome: 'client_abort', timeline: { received: 1, firstToken: 2 } }), job);
    await trace.close();
    expect(lines).toHaveLength(1);
  });

  it('writes a file for its owner only, adds to it, and stops at its size', async () => {
    const path = join(folder, 'a.jsonl');
    const job = jobOf(chainOf({ bytes: 2000, seed: 1 }));
    for (let turn = 0; turn < 2; turn += 1) {
      const trace = openPromptTrace({ file: path, maxBytes: 10_000 }, silentLog);
      for (let index = 0; index < 20; index += 1) trace?.add(answered(500), job);
      await trace?.close();
    }
    const text = readFileSync(path, 'utf8');
    expect(text.split('\n').filter((line) => line !== '')).toHaveLength(40);
    expect(statSync(path).mode & 0o077).toBe(0);
    // Another start, another secret: its numbers mean nothing beside the others.
    expect(
      new Set(
        text
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.stringify(parsed(line).hash_ids)),
      ).size,
    ).toBe(2);
    expect(openPromptTrace({ maxBytes: 1 }, silentLog)).toBeUndefined();
  });
});

describe('a file that is appended to', () => {
  it('ends whole at its bound', async () => {
    const path = join(folder, 'b.txt');
    const why: string[] = [];
    const file = createAppendFile({ path, maxBytes: 25 }, { ended: ({ kind }) => void why.push(kind) });
    for (let index = 0; index < 5; index += 1) file.write('123456789\n');
    await file.close();
    expect(readFileSync(path, 'utf8')).toBe('123456789\n123456789\n');
    expect(why).toEqual(['full']);
    expect(file.dropped).toBe(3);
    expect(file.write('more\n')).toBe(false);
  });

  it('that can not be written is known before the first line', async () => {
    const said: LogFields[] = [];
    const log: Log = { ...silentLog, warn: (_message, fields = {}) => void said.push(fields) };
    const trace = openPromptTrace({ file: join(folder, 'no', 'such'), maxBytes: 100 }, log);
    await vi.waitFor(() => expect(said).toHaveLength(1));
    expect(String(said[0]?.['error'])).toContain('ENOENT');
    await trace?.close();
    expect(said).toHaveLength(1);
  });

  it('is there before the first line, with what it had', async () => {
    const path = join(folder, 'early.txt');
    const file = createAppendFile({ path, maxBytes: 100 }, { ended: () => {} });
    await vi.waitFor(() => expect(existsSync(path)).toBe(true));
    file.write('a\n');
    await file.close();
    await createAppendFile({ path, maxBytes: 100 }, { ended: () => {} }).close();
    expect(readFileSync(path, 'utf8')).toBe('a\n');
  });

  it('that can not be written is given up, once', async () => {
    const why: string[] = [];
    const file = createAppendFile(
      { path: join(folder, 'no', 'such'), maxBytes: 100 },
      { ended: ({ kind }) => void why.push(kind) },
    );
    file.write('a\n');
    await file.close();
    expect(file.write('b\n')).toBe(false);
    expect(why).toEqual(['failed']);
    expect(file.dropped).toBe(2);
  });
});

describe('blinded keys', () => {
  it('are equal for equal keys under one secret, and say nothing under another', () => {
    const blind = createKeyBlinder();
    const keys = [1, 2 ** 53 - 1, 0, -5, 1];
    const once = blind(keys);
    expect(blind(keys)).toEqual(once);
    expect(new Set(once).size).toBe(4);
    expect(once.every((id) => Number.isSafeInteger(id) && id >= 0)).toBe(true);
    expect(createKeyBlinder()(keys)).not.toEqual(once);
  });
});
