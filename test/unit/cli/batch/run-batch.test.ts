import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { runBatch } from '../../../../src/cli/batch/run-batch.ts';
import type { Process } from '../../../../src/cli/process.ts';
import { runCli } from '../../../../src/cli/run.ts';
import { batchObject, startApiServer, type ApiScript, type ApiServer } from '../../../support/batch-api-server.ts';

let folder = '';
const servers: ApiServer[] = [];
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'warmlane-batch-cli-'))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function serve(script: ApiScript = {}): Promise<ApiServer> {
  const server = await startApiServer(script);
  servers.push(server);
  return server;
}

function file(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const line = (id: string, url = '/v1/chat/completions') =>
  JSON.stringify({ custom_id: id, method: 'POST', url, body: { model: 'm', messages: [] } });
const input = () => file('in.jsonl', `${line('a')}\n${line('b')}\n`);

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

interface Around {
  readonly env?: Readonly<Record<string, string>>;
  readonly terminal?: boolean;
  /** Ctrl-C at this sleep, counted from 1. */
  readonly leaveAtSleep?: number;
  readonly onSleep?: (count: number) => Promise<void> | void;
}

/** The clock moves as the command sleeps; nobody waits. */
async function run(server: Pick<ApiServer, 'url'>, words: readonly string[], around: Around = {}): Promise<Ran> {
  let out = '';
  let err = '';
  let nowMs = 1_800_000_010_000;
  let sleeps = 0;
  let leave = () => {};
  const process: Process = {
    argv: [],
    env: around.env ?? {},
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    onSignal(signal, listener) {
      if (signal === 'SIGINT') leave = listener;
      return () => {};
    },
    onUncaught() {},
    exit() {},
    terminal: around.terminal === true,
    columns: () => 100,
    async outBytes(bytes) {
      out += Buffer.from(bytes).toString('utf8');
      return Promise.resolve();
    },
  };
  const code = await runBatch([...words, '--url', server.url], process, {
    nowMs: () => nowMs,
    async sleep(ms) {
      nowMs += ms;
      sleeps += 1;
      if (sleeps === around.leaveAtSleep) leave();
      await around.onSleep?.(sleeps);
    },
  });
  return { code, out, err };
}

const working = (completed: number, failed = 0) =>
  batchObject({ status: 'in_progress', request_counts: { total: 10, completed, failed } });
const done = (more: object = {}) =>
  batchObject({
    status: 'completed',
    output_file_id: 'file-out',
    completed_at: 1_800_000_100,
    request_counts: { total: 10, completed: 10, failed: 0 },
    usage: { input_tokens: 1200, input_tokens_details: { cached_tokens: 900 }, output_tokens: 34, total_tokens: 1234 },
    ...more,
  });

describe('warmlane batch submit', () => {
  it('uploads the very bytes of the file and makes a batch for the first line’s route', async () => {
    const server = await serve();
    const path = file('odd "name".jsonl', `\uFEFF\r\n\n${line('é', '/v1/embeddings')}\r\n${line('b')}`);
    const ran = await run(server, ['submit', path, '--metadata', 'run=7', '--window', '24h'], {
      env: { WARMLANE_API_KEY: 'sk-key' },
    });
    expect(ran).toEqual({ code: 0, out: 'batch_1\n', err: '' });
    const [upload, create] = server.requests;
    expect(upload).toMatchObject({ method: 'POST', path: '/v1/files' });
    expect(upload?.headers.authorization).toBe('Bearer sk-key');
    expect(Number(upload?.headers['content-length'])).toBe(upload?.bytes);
    expect(upload?.body).toContain('name="purpose"\r\n\r\nbatch\r\n');
    expect(upload?.body).toContain('filename="odd %22name%22.jsonl"');
    expect(upload?.body).toContain(`\r\n\r\n${readFileSync(path, 'utf8')}\r\n--`);
    expect(JSON.parse(create?.body ?? '')).toEqual({
      input_file_id: 'file-in',
      endpoint: '/v1/embeddings',
      completion_window: '24h',
      metadata: { run: '7' },
    });
  });

  it('C179 streams a large file: what it holds does not grow with it', async () => {
    const server = await serve();
    const path = file('large.jsonl', `${line('first')}\n`);
    truncateSync(path, 300_000_000);
    const before = process.memoryUsage().rss;
    let highest = 0;
    const watch = setInterval(() => (highest = Math.max(highest, process.memoryUsage().rss)), 5);
    const ran = await run(server, ['submit', path]);
    clearInterval(watch);
    expect(ran.code).toBe(0);
    expect(server.requests[0]?.bytes).toBeGreaterThan(300_000_000);
    expect(highest - before).toBeLessThan(150_000_000);
    rmSync(path);
  });

  it.each([
    ['', 'has no line in it'],
    ['\n \n', 'has no line in it'],
    ['custom_id,prompt\n1,hi', 'line 1 is no JSON; each line is one request'],
    [
      '\n{"custom_id"',
      'line 2 is no whole JSON object; a request may not go on in the next line; each line is one request',
    ],
    ['[\n{}]', 'line 1 is no whole JSON object'],
    ['[{"custom_id":"a","url":"/v1/embeddings"}]', 'line 1 is an array; each line is one request'],
    ['"/v1/embeddings"', 'line 1 is no JSON object; each line is one request'],
    [Buffer.from('\ufeff{}', 'utf16le'), 'is UTF-16; save it as UTF-8'],
    [gzipSync('{}'), 'is compressed (gzip); unpack it first'],
    ['{"custom_id":"a"}\n', 'line 1 has no "url"; name the route with --endpoint /v1/chat/completions'],
  ])('names what is wrong with the file %j', async (content, problem) => {
    const server = await serve();
    const ran = await run(server, ['submit', file('wrong.jsonl', content)]);
    expect(ran.code).toBe(2);
    expect(ran.err).toContain(problem);
    expect(server.requests).toEqual([]);
  });

  it('names a file that is not there', async () => {
    const ran = await run({ url: 'http://127.0.0.1:9' }, ['submit', join(folder, 'none.jsonl')]);
    expect(ran.code).toBe(2);
    expect(ran.err).toContain('none.jsonl: there is no such file');
  });

  it('takes its file away again when no batch is made of it', async () => {
    const no = { status: 400, json: { error: { message: 'window must be 24h', code: 'invalid_value' } } };
    const server = await serve({
      instead: ({ method, path }) => (method === 'POST' && path === '/v1/batches' ? no : undefined),
    });
    const ran = await run(server, ['submit', input(), '--window', '1h']);
    expect(ran.code).toBe(1);
    expect(ran.err).toContain('answered 400: window must be 24h');
    expect(server.requests.at(-1)).toMatchObject({ method: 'DELETE', path: '/v1/files/file-in' });
  });

  it('does not make a batch twice when the answer is lost, and says where to look', async () => {
    const server = await serve({
      instead: ({ method, path }) => (method === 'POST' && path === '/v1/batches' ? 'cut' : undefined),
    });
    const ran = await run(server, ['submit', input()]);
    expect(ran.code).toBe(1);
    expect(ran.err).toContain('warmlane batch list');
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /v1/files',
      'POST /v1/batches',
    ]);
  });
});

describe('warmlane batch submit --wait', () => {
  const contents = { 'file-out': '{"custom_id":"a"}\n', 'file-err': '{"custom_id":"b"}\n' };

  it('stays until the end and writes both files', async () => {
    const server = await serve({ contents, states: [working(2), working(7), done()] });
    const [output, errors] = [join(folder, 'out.jsonl'), file('err.jsonl', 'of an earlier run')];
    const ran = await run(server, ['submit', input(), '--wait', '-o', output, '--errors', errors]);
    expect(ran.code).toBe(0);
    expect(ran.out).toBe('');
    expect(ran.err).toContain('batch_1 is submitted');
    expect(ran.err).toContain('batch_1 completed: 10 of 10 lines answered in 1m40s');
    expect(ran.err).toContain('Tokens: 1,200 in (900 from caches), 34 out');
    expect(readFileSync(output, 'utf8')).toBe(contents['file-out']);
    expect(readFileSync(errors, 'utf8')).toBe('');
    expect(readdirSync(folder).filter((name) => name.endsWith('.part'))).toEqual([]);
  });

  it('shows a bar on a terminal, with counts, rate, time left and deadline', async () => {
    const states = [working(0), working(1), working(2), working(4, 1), done()];
    const server = await serve({ contents, states });
    const ran = await run(server, ['submit', input(), '--wait'], { terminal: true });
    const shown = ran.out.split('\r').map((text) => text.replace('\u001b[K', ''));
    const last = shown.findLast((text) => text.startsWith('['));
    expect(last).toMatch(
      /^\[#{12,15}-+\] {2}50\.0 % {2}4 of 10 answered {2}1 failed {2}\d\.\d\d\/s {2}\ds left {2}due in 23h59m$/,
    );
    expect(Math.max(...shown.filter((text) => text.startsWith('[')).map(({ length }) => length))).toBeLessThan(100);
    expect(ran.out).toContain('Its answers: warmlane batch results batch_1 -o FILE');
  });

  it('says in a log each new state at once, and once', async () => {
    const server = await serve({ contents, states: [working(0), working(0), working(1), done()] });
    const { err } = await run(server, ['submit', input(), '--wait']);
    expect(err.match(/^batch_1 \w+/gm)).toEqual([
      'batch_1 is',
      'batch_1 validating',
      'batch_1 in_progress',
      'batch_1 completed',
    ]);
  });

  it('prints every problem of the file with its line', async () => {
    const errors = {
      object: 'list',
      data: [
        { code: 'duplicate_custom_id', message: 'custom_id "a" was used in line 1', param: null, line: 3 },
        { code: 'invalid_json_line', message: 'this line is no JSON', param: null, line: 7 },
        { code: 'empty_file', message: 'x\u001b[31m', param: null, line: null },
      ],
    };
    const server = await serve({ states: [batchObject({ status: 'failed', errors })] });
    const ran = await run(server, ['submit', input(), '--wait']);
    expect(ran.code).toBe(1);
    expect(ran.err).toContain('  line 3: custom_id "a" was used in line 1 (duplicate_custom_id)');
    expect(ran.err).toContain('  line 7: this line is no JSON (invalid_json_line)');
    expect(ran.err).not.toContain('\u001b');
  });

  it.each([
    ['completed', { error_file_id: 'file-err', request_counts: { total: 10, completed: 9, failed: 1 } }, 3],
    ['expired', { request_counts: { total: 10, completed: 9, failed: 1 } }, 1],
    ['cancelled', {}, 1],
  ])('tells scripts apart what %s with failed lines means', async (status, more, code) => {
    const server = await serve({ contents, states: [done({ status, ...more })] });
    const ran = await run(server, ['submit', input(), '--wait', '--json']);
    expect(ran.code).toBe(code);
    expect(JSON.parse(ran.out)).toMatchObject({ id: 'batch_1', status });
  });

  it('goes on after the connection was lost', async () => {
    let looks = 0;
    const server = await serve({
      contents,
      states: [working(2), done()],
      instead({ method, path }) {
        if (method !== 'GET' || path !== '/v1/batches/batch_1') return undefined;
        looks += 1;
        if (looks < 3) return 'cut';
        return looks < 5 ? { status: 503, json: { error: { message: 'starting' } } } : undefined;
      },
    });
    const ran = await run(server, ['submit', input(), '--wait']);
    expect(ran.code).toBe(0);
    expect(ran.err.match(/trying again/g)).toHaveLength(1);
    expect(ran.err).toContain('warmlane answers again after');
  });

  it('gives up when nobody answers for a quarter of an hour, and says how to come back', async () => {
    const server = await serve();
    const ran = await run(server, ['submit', input(), '--wait'], {
      onSleep: async (count) => {
        if (count === 1) await server.close();
      },
    });
    expect(ran.code).toBe(1);
    expect(ran.err).toContain('nothing listens there');
    expect(ran.err).toContain('the batch is kept: warmlane batch status batch_1 --wait');
  });

  it('leaves the batch running at Ctrl-C and says how to come back', async () => {
    const server = await serve({ states: [working(1)] });
    const ran = await run(server, ['submit', input(), '--wait'], { leaveAtSleep: 3 });
    expect(ran.code).toBe(130);
    expect(ran.err).toContain('batch_1 goes on without you. To come back: warmlane batch status batch_1 --wait');
    expect(server.requests.some(({ path }) => path.endsWith('/cancel'))).toBe(false);
  });
});

describe('warmlane batch status, list, cancel, results', () => {
  it('say how one stands', async () => {
    const server = await serve({ states: [working(4, 1)] });
    const ran = await run(server, ['status', 'batch_1']);
    expect(ran.code).toBe(0);
    expect(ran.out).toContain('lines     50.0 %  4 of 10 answered  1 failed  5 to come  due in 23h59m');
    const json = await run(server, ['status', 'batch_1', '--json']);
    expect(JSON.parse(json.out)).toEqual(working(4, 1));
  });

  it('list the newest', async () => {
    const server = await serve({ states: [working(4), done()] });
    const ran = await run(server, ['list', '--limit', '5', '--after', 'batch_0']);
    expect(ran.out.split('\n').map((row) => row.replaceAll(/ {2,}/g, '|'))).toEqual([
      'batch_1|in_progress|4 of 10 answered|6 to come|10s ago|due in 23h59m|m',
      'batch_1|completed|10 of 10 answered|10s ago|m',
      '',
    ]);
    expect(server.requests[0]?.path).toBe('/v1/batches?limit=5&after=batch_0');
  });

  it('cancel', async () => {
    const server = await serve({ states: [batchObject({ status: 'cancelling' })] });
    const ran = await run(server, ['cancel', 'batch_1']);
    expect(ran).toMatchObject({ code: 0, err: '' });
    expect(ran.out).toContain('batch_1 is cancelling');
    expect(server.requests.at(-1)).toMatchObject({ method: 'POST', path: '/v1/batches/batch_1/cancel' });
  });

  it('cancel says so where the batch had ended already, and as what', async () => {
    for (const [status, said] of [
      ['completed', 'completed: 10 of 10 lines answered in 1m40s'],
      ['cancelled', 'cancelled: 10 of 10 lines answered in 1m40s'],
    ] as const) {
      const server = await serve({ states: [done({ status })] });
      const ran = await run(server, ['cancel', 'batch_1']);
      expect(ran).toMatchObject({ code: 0, err: '' });
      expect(ran.out).toContain(`Nothing to cancel, it had ended already: batch_1 ${said}\n`);
      expect(server.requests.map(({ method }) => method)).toEqual(['GET']);
      expect(JSON.parse((await run(server, ['cancel', 'batch_1', '--json'])).out)).toMatchObject({ status });
    }
  });

  it.each([
    ['in_progress', '6 of 10 answered', '3 failed', '1 to come'],
    ['completed', '6 of 10 answered', '3 failed'],
    // Those that were not run are among the failed ones here, among none elsewhere.
    ['cancelled', '6 of 10 answered', '4 without an answer'],
    ['expired', '6 of 10 answered', '4 without an answer'],
    ['cancelling', '6 of 10 answered'],
  ])('tell the lines of one that is %s apart, and call none done that has no answer', async (status, ...counts) => {
    const state = done({ status, request_counts: { total: 10, completed: 6, failed: 3 } });
    const server = await serve({ states: [state] });
    const [row = ''] = (await run(server, ['list'])).out.split('\n');
    expect(row.split(/ {2,}/).slice(1, 2 + counts.length)).toEqual([status, ...counts]);
    expect(row.split(/ {2,}/)[2 + counts.length]).toBe('10s ago');
    const shown = (await run(server, ['status', 'batch_1'])).out;
    expect(/^lines +(?:90\.0 % {2})?(.*?)(?: {2}due .*)?$/m.exec(shown)?.[1]?.split('  ')).toEqual(counts);
    expect(shown.includes('90.0 %')).toBe(status === 'in_progress');
  });

  it('show the time to a deadline in one form, that only falls', async () => {
    const due = async (seconds: number) => {
      const server = await serve({ states: [batchObject({ expires_at: 1_800_000_010 + seconds })] });
      return /due in (.*?) {2}/.exec((await run(server, ['list'])).out)?.[1];
    };
    const shown = [];
    for (const seconds of [86_430, 86_400, 86_399, 7200, 3600, 3599, 59, 4 * 86_400, 4 * 86_400 - 1])
      shown.push(await due(seconds));
    expect(shown).toEqual(['24h00m', '24h00m', '23h59m', '2h00m', '1h00m', '59m59s', '59s', '4d00h', '95h59m']);
  });

  it('fetch results to stdout byte for byte, and to a file again when the connection breaks', async () => {
    const text = '{"custom_id":"é"}\n'.repeat(5000);
    let asked = 0;
    const server = await serve({
      states: [done()],
      contents: { 'file-out': text },
      instead: ({ path }) => (path.endsWith('/content') && (asked += 1) === 2 ? 'cut' : undefined),
    });
    const hash = (data: string) => createHash('sha256').update(data).digest('hex');
    const toStdout = await run(server, ['results', 'batch_1']);
    expect([toStdout.code, hash(toStdout.out), toStdout.err]).toEqual([0, hash(text), '']);
    const path = join(folder, 'fetched.jsonl');
    const toFile = await run(server, ['results', 'batch_1', '-o', path]);
    expect([toFile.code, hash(readFileSync(path, 'utf8')), asked]).toEqual([0, hash(text), 3]);
  });

  it('have no results of a batch that is not over', async () => {
    const server = await serve({ states: [working(4)] });
    const ran = await run(server, ['results', 'batch_1']);
    expect(ran.code).toBe(1);
    expect(ran.err).toContain('batch_1 is in_progress, 4 of 10 answered, 6 to come');
  });

  it.each([
    ['submit', '--wait', '-o'],
    ['submit', '--wait', '--errors'],
    ['results', '--wait', '-o'],
    ['results', '--errors'],
  ])('%s %s %s finds out before anything is asked that the file can not be written', async (verb, ...flags) => {
    const server = await serve({ states: [done()] });
    for (const [path, why] of [
      [join(folder, 'none', 'out.jsonl'), 'there is no such file or folder'],
      [folder, 'is a folder'],
    ] as const) {
      const ran = await run(server, [verb, verb === 'submit' ? input() : 'batch_1', ...flags, path]);
      expect([ran.code, ran.out, ran.err]).toEqual([1, '', `warmlane batch: ${path}: ${why}\n`]);
    }
    expect(server.requests).toEqual([]);
  });

  it('say where the lines are that have no answer, and how to get them', async () => {
    const more = { error_file_id: 'file-err', request_counts: { total: 10, completed: 9, failed: 1 } };
    const server = await serve({ states: [done(more)], contents: { 'file-out': 'x', 'file-err': 'y' } });
    const hint = 'Its lines without an answer, and why: warmlane batch results batch_1 --errors FILE\n';
    for (const words of [
      ['submit', input(), '--wait'],
      ['results', 'batch_1'],
    ]) {
      const ran = await run(server, words);
      expect([ran.code, ran.err.split(hint).length]).toEqual([3, 2]);
      const told = await run(server, [...words, '--errors', join(folder, 'told.jsonl')]);
      expect([told.code, told.err.includes(hint)]).toEqual([3, false]);
    }
  });

  it('write no part of a file where it cannot be', async () => {
    const server = await serve({ states: [done()], contents: { 'file-out': 'x' } });
    const ran = await run(server, ['results', 'batch_1', '-o', join(folder, 'none', 'out.jsonl')]);
    expect(ran.code).toBe(1);
    expect(ran.err).toContain('out.jsonl: there is no such file or folder');
  });
});

describe('what went wrong', () => {
  const all = (status: number, json: unknown) => ({ instead: () => ({ status, json }) });

  it('is said when nobody is there', async () => {
    const server = await startApiServer();
    await server.close();
    const ran = await run(server, ['list']);
    expect(ran.code).toBe(1);
    expect(ran.err).toContain(`warmlane is not reachable at ${server.url}: nothing listens there; is it running?`);
  });

  it.each([
    ['submit', () => ['submit', input()]],
    ['list', () => ['list']],
    ['status', () => ['status', 'batch_1']],
    ['cancel', () => ['cancel', 'batch_1']],
  ])('of %s, when the API is off, is how to turn it on', async (_, words) => {
    // llama-server's own answer, passed on.
    const server = await serve(all(404, { error: { code: 404, message: 'File Not Found', type: 'not_found_error' } }));
    const ran = await run(server, words());
    expect(ran.code).toBe(1);
    expect(ran.err).toContain('the Batch API is off');
    expect(ran.err).toContain('--batch-dir');
  });

  it('is the batch, not the API, when that alone is not there', async () => {
    const server = await serve();
    const ran = await run(server, ['status', 'batch_2']);
    expect(ran.err).toContain('answered 404: no such thing: /v1/batches/batch_2');
  });

  it('is the key, which is never printed, also when the server repeats it', async () => {
    const server = await serve(all(401, { error: { message: 'Incorrect API key: sk-secret' } }));
    const without = await run(server, ['list']);
    expect(without.err).toContain('put a key into WARMLANE_API_KEY');
    const wrong = await run(server, ['list'], { env: { WARMLANE_API_KEY: 'sk-secret' } });
    expect(wrong.code).toBe(1);
    expect(wrong.err).toContain('is not known');
    expect(wrong.err).not.toContain('sk-secret');
  });

  it('is the use of it, by the program’s own name', async () => {
    let err = '';
    const process: Process = {
      argv: ['batch', 'sumbit', 'x'],
      env: {},
      out() {},
      err: (text) => void (err += text),
      onSignal: () => () => {},
      onUncaught() {},
      exit() {},
    };
    expect(await runCli(process)).toBe(2);
    expect(err).toContain('did you mean submit?');
  });
});
