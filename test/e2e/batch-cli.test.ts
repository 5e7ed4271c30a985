/** `warmlane batch` against a whole warmlane with a real SQLite store and a backend of which it is known what it was asked. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { runBatch } from '../../src/cli/batch/run-batch.ts';
import type { Process } from '../../src/cli/process.ts';
import { crashInput } from '../support/batch-crash.ts';
import { accessOf, keyOf } from '../support/keys.ts';
import { type LineBackend, startLineBackend } from '../support/line-backend.ts';
import { type ConfigChange, type Proxy, startProxy } from '../support/proxy.ts';
import { eventually } from '../support/stage.ts';

let folder: string;
const closers: (() => Promise<void>)[] = [];
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'warmlane-batch-cli-'))));
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(
  change: ConfigChange = { batch: { store: { kind: 'sqlite', directory: join(folder, 'store') } } },
  pace = { minMs: 1, maxMs: 4 },
): Promise<{ readonly proxy: Proxy; readonly backend: LineBackend }> {
  const refuses = (id: string) => id.endsWith('7');
  const backend = await startLineBackend({ seed: 1, engine: 'vllm', refuses, ...pace });
  closers.push(() => backend.close());
  const proxy = await startProxy([backend.url], change);
  closers.push(() => proxy.close());
  return { proxy, backend };
}

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

interface Running {
  readonly done: Promise<Ran>;
  /** Ctrl-C. */
  interrupt(): void;
}

function start({ url }: Pick<Proxy, 'url'>, words: readonly string[], key?: string): Running {
  let out = '';
  let err = '';
  let interrupt = () => {};
  const process: Process = {
    argv: [],
    env: { WARMLANE_URL: url, ...(key === undefined ? {} : { WARMLANE_API_KEY: key }) },
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    onSignal(signal, listener) {
      if (signal === 'SIGINT') interrupt = listener;
      return () => {};
    },
    onUncaught() {},
    exit() {},
    async outBytes(bytes) {
      out += Buffer.from(bytes).toString('utf8');
      return Promise.resolve();
    },
  };
  const done = runBatch(words, process).then((code) => ({ code, out, err }));
  return { done, interrupt: () => interrupt() };
}

const run = (proxy: Pick<Proxy, 'url'>, words: readonly string[], key?: string) => start(proxy, words, key).done;

function input(count: number): string {
  const path = join(folder, 'in.jsonl');
  writeFileSync(path, crashInput(count));
  return path;
}

const idsIn = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id)
    .toSorted();

describe('warmlane batch before a whole warmlane', () => {
  it('goes from the file to its answers and its errors', async () => {
    const { proxy } = await open();
    const [output, errors] = [join(folder, 'out.jsonl'), join(folder, 'err.jsonl')];
    const ran = await run(proxy, ['submit', input(20), '--wait', '-o', output, '--errors', errors]);
    expect(ran.err).toContain('completed: 18 of 20 lines answered, 2 failed');
    expect(ran.code).toBe(3);
    expect(idsIn(readFileSync(output, 'utf8'))).toHaveLength(18);
    expect(idsIn(readFileSync(errors, 'utf8'))).toEqual(['line-007', 'line-017']);

    const listed = await run(proxy, ['list']);
    expect(listed.out).toMatch(/^batch_\w+ {2}completed {2}18 of 20 answered {2}2 failed {2}\d+s ago {2}m\n$/);
    const id = listed.out.split(' ')[0] ?? '';
    const results = await run(proxy, ['results', id]);
    expect(results.out).toBe(readFileSync(output, 'utf8'));
    expect(results.code).toBe(3);
  });

  it('prints what is wrong in the file, by line', async () => {
    const { proxy, backend } = await open();
    const path = input(3);
    const [first = ''] = readFileSync(path, 'utf8').split('\n');
    writeFileSync(path, `${first}\n\n${first}\nno JSON\n`);
    const ran = await run(proxy, ['submit', path, '--wait']);
    expect(ran.code).toBe(1);
    expect(ran.err).toMatch(/ {2}line 3: .*\(duplicate_custom_id\)\n {2}line 4: .*\(invalid_json_line\)/);
    expect(backend.sent).toEqual([]);
  });

  it('prints the same fault once, with its first lines and how many more', async () => {
    const { proxy } = await open();
    const path = join(folder, 'in.jsonl');
    writeFileSync(path, 'no JSON\n'.repeat(30));
    const ran = await run(proxy, ['submit', path, '--endpoint', '/v1/chat/completions', '--wait']);
    expect(ran.err).toMatch(/\n {2}lines 1, 2, 3, 4, 5 and 25 more: .*\(invalid_json_line\)\n/);
    expect(ran.err.split('invalid_json_line')).toHaveLength(2);
    const logged = proxy.logged.find(({ msg }) => msg === 'batch failed at validation');
    expect(logged).toMatchObject({ errors: 30, firstCode: 'invalid_json_line', firstLine: 1 });
  });

  it('says of the admin port that it is one, and where clients are served', async () => {
    const { proxy } = await open();
    for (const words of [['submit', input(2)], ['list'], ['status', 'batch_x'], ['cancel', 'batch_x']]) {
      const ran = await run({ url: proxy.adminUrl }, words);
      expect(ran.code).toBe(1);
      expect(ran.err).toContain(`Clients are served on port ${proxy.port} of the same machine.`);
      expect(ran.err).not.toContain('is off');
    }
    const off = await open({});
    expect((await run(off.proxy, ['list'])).err).toContain('the Batch API is off');
  });

  it('warns of a model that no backend lists, and of no other', async () => {
    const { proxy } = await open();
    const path = input(2);
    const known = await run(proxy, ['submit', path]);
    expect(known).toMatchObject({ code: 0, err: '' });
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('"model":"m"', '"model":"mm"'));
    const ran = await run(proxy, ['submit', path]);
    expect(ran.code).toBe(0);
    expect(ran.err).toContain('no backend lists the model "mm" of this file; listed: m.');
  });

  it('leaves a batch at Ctrl-C, finds it again, cancels it, and has all of its lines', async () => {
    const { proxy, backend } = await open(undefined, { minMs: 40, maxMs: 80 });
    const waiting = start(proxy, ['submit', input(2000), '--wait']);
    await eventually(() => backend.answered() > 5, 'lines are answered', 10_000);
    waiting.interrupt();
    const left = await waiting.done;
    expect(left.code).toBe(130);
    const id = /warmlane batch status (batch_\w+) --wait/.exec(left.err)?.[1] ?? '';
    const status = await run(proxy, ['status', id, '--json']);
    expect(JSON.parse(status.out)).toMatchObject({ id, status: 'in_progress' });
    expect((await run(proxy, ['results', id])).code).toBe(1);
    const cancelled = await run(proxy, ['cancel', id]);
    expect(cancelled).toMatchObject({ code: 0, err: '' });
    const errors = join(folder, 'err.jsonl');
    const ended = await run(proxy, ['results', id, '--wait', '-o', '-', '--errors', errors]);
    expect(ended.code).toBe(1);
    const ids = [...idsIn(ended.out), ...idsIn(readFileSync(errors, 'utf8'))];
    expect([ids.length, new Set(ids).size]).toEqual([2000, 2000]);
  });

  it('says that the API is off, and how to turn it on', async () => {
    const { proxy } = await open({});
    for (const words of [['list'], ['submit', input(1)], ['status', 'batch_1']]) {
      const ran = await run(proxy, words);
      expect(ran.code).toBe(1);
      expect(ran.err).toContain('the Batch API is off');
    }
  });

  it('says what is wrong with a key', async () => {
    const { proxy } = await open({
      access: accessOf([{ name: 'a' }]),
      batch: { store: { kind: 'sqlite', directory: join(folder, 'store') } },
    });
    expect((await run(proxy, ['list'])).err).toContain('put a key into WARMLANE_API_KEY');
    expect((await run(proxy, ['list'], 'wrong')).err).toContain('is not known');
    expect(await run(proxy, ['list'], keyOf('a'))).toEqual({ code: 0, out: 'There is no batch.\n', err: '' });
  });
});
