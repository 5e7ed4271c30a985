/** Batches against backends, disks and clients that misbehave, over real sockets: every line has one end, and nothing waits for ever. */
import { mkdtempSync, renameSync, rmSync, truncateSync, unlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { fin, hang, reset, type Script } from '../../src/sim/fault-steps.ts';
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { answerProbe, isFromProber } from '../../src/sim/probe-answers.ts';
import {
  chunk,
  DONE,
  FIN,
  lastChunk,
  responseHead,
  ROLE,
  sseEvent,
  sseHead,
  T,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import { cancelBatch, getBatch, resultLines, untilOver, uploadFile, type ApiBatch } from '../support/batch-client.ts';
import { hasPostgres, startPostgres } from '../support/postgres.ts';
import { startProxy, type ConfigChange, type Proxy } from '../support/proxy.ts';
import { eventually, sleep } from '../support/stage.ts';

const closers: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

function folder(): string {
  const directory = mkdtempSync(join(tmpdir(), 'warmlane-batch-'));
  closers.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function proxyOn(urls: readonly string[], directory: string, change: ConfigChange = {}): Promise<Proxy> {
  const store = { kind: 'sqlite' as const, directory };
  const proxy = await startProxy(urls, { ...change, batch: { store, leaseMs: 3000, ...change.batch } });
  closers.push(() => proxy.close());
  return proxy;
}

/** A backend whose answer to each try of a line the test gives, tries counted from 1. */
async function backend(
  answer: (id: string, tries: number) => Script,
  engine: 'openai' | 'llama-server' | 'vllm' = 'openai',
): Promise<ScriptedServer & { readonly tries: ReadonlyMap<string, number> }> {
  const tries = new Map<string, number>();
  const server = await createScriptedServer({
    onRequest(request) {
      if (isFromProber(request) || request.method !== 'POST') return answerProbe(request, { engine, model: 'm' });
      const { user } = request.json() as { user: string };
      tries.set(user, (tries.get(user) ?? 0) + 1);
      return answer(user, tries.get(user) ?? 1);
    },
  });
  closers.push(() => server.close());
  return Object.assign(server, { tries });
}

const ok = (id: string) => wholeAnswer(200, { id, object: 'chat.completion', choices: [] });
const stream = (...text: readonly string[]) => wholeStream(ROLE, ...text.map((one) => T(one)), FIN('stop'), DONE);

function input(ids: readonly string[], change: object = {}): string {
  const lines = ids.map((id) => {
    const body = { model: 'm', user: id, messages: [{ role: 'user', content: `about ${id}` }], ...change };
    return JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body });
  });
  return `${lines.join('\n')}\n`;
}

const names = (count: number) => Array.from({ length: count }, (_, n) => `l${n}`);

async function submit(proxy: Proxy, text: string, window = '24h'): Promise<{ id: string; file: string }> {
  const { id: file } = await uploadFile(proxy.url, text);
  return createBatch(proxy, file, window);
}

async function createBatch(proxy: Proxy, file: string, window = '24h'): Promise<{ id: string; file: string }> {
  const answer = await fetch(`${proxy.url}/v1/batches`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: file, endpoint: '/v1/chat/completions', completion_window: window }),
  });
  const batch = (await answer.json()) as { id: string };
  if (!answer.ok) throw new Error(JSON.stringify(batch));
  return { id: batch.id, file };
}

/** Of a batch that is over: what became of each line; one that is in both files or twice in one is an error. */
async function endsOf(proxy: Proxy, batch: ApiBatch): Promise<Record<string, string>> {
  const ends: Record<string, string> = {};
  for (const file of [batch.output_file_id, batch.error_file_id]) {
    if (file === null) continue;
    for (const { custom_id: id, response, error } of await resultLines(proxy.url, file)) {
      if (ends[id] !== undefined) throw new Error(`${id} has two ends`);
      ends[id] = response === null ? (error?.code ?? 'none') : String(response.status_code);
    }
  }
  return ends;
}

describe('a line whose stream', () => {
  it('breaks off, ends in an error, ends twice or says nothing is put together once and whole, or fails by itself', async () => {
    const error = sseEvent({ error: { message: 'out of memory', code: 500 } });
    const server = await backend((id, tries) => {
      if (id === 'cut' && tries === 1) return [sseHead(), chunk(ROLE, T('half')), reset()];
      if (id === 'fin' && tries === 1) return [sseHead(), chunk(ROLE, T('half')), fin()];
      if (id === 'undone' && tries === 1) return [sseHead(), chunk(ROLE, T('half')), lastChunk];
      if (id === 'error' && tries === 1) return [sseHead(), chunk(ROLE, T('half'), error), lastChunk];
      if (id === 'twice') return [wholeStream(ROLE, T('a'), FIN('stop'), FIN('stop'), DONE, DONE)];
      if (id === 'junk') return [wholeStream('data: {"choices": [}\n\n')];
      if (id === 'empty') return [wholeStream()];
      return [stream('all ', 'of it')];
    }, 'llama-server');
    const proxy = await proxyOn([server.url], folder(), { batch: { maxAttempts: 2 } });
    const ids = ['cut', 'fin', 'undone', 'error', 'twice', 'junk', 'empty', 'plain'];
    const { id } = await submit(proxy, input(ids));
    const batch = await untilOver(proxy.url, id, 20_000);
    expect(await endsOf(proxy, batch)).toEqual({
      cut: '200',
      fin: '200',
      undone: '200',
      error: '200',
      twice: '200',
      junk: 'answer_broken',
      empty: 'answer_broken',
      plain: '200',
    });
    const output = await resultLines(proxy.url, batch.output_file_id);
    for (const { custom_id: name, response } of output)
      expect(response?.body).toMatchObject({
        object: 'chat.completion',
        choices: [{ message: { content: name === 'twice' ? 'a' : 'all of it' }, finish_reason: 'stop' }],
      });
    expect(server.tries.get('plain')).toBe(1);
    expect(server.tries.get('junk')).toBe(2);
  }, 30_000);
});

describe('a line whose answer', () => {
  it('is no JSON, never comes, is refused for its length or for its model fails by itself', async () => {
    const server = await backend((id) => {
      if (id === 'html') return [wholeAnswer(200, '<html>hello</html>', { 'Content-Type': 'text/html' })];
      if (id === 'none') return [responseHead(200, { 'Content-Length': '0' })];
      if (id === 'hang') return [hang()];
      if (id === 'long') return [wholeAnswer(400, { error: { message: 'maximum context length is 10 tokens' } })];
      if (id === 'page') return [wholeAnswer(404, 'nothing\r\nhere', { 'Content-Type': 'text/plain' })];
      return [ok(id)];
    });
    const proxy = await proxyOn([server.url], folder(), {
      batch: { maxAttempts: 2 },
      relay: { deadlines: { totalMs: 700 } },
    });
    const { id } = await submit(proxy, input(['html', 'none', 'hang', 'long', 'page', 'fine']));
    const batch = await untilOver(proxy.url, id, 20_000);
    const ends = await endsOf(proxy, batch);
    expect(ends).toMatchObject({ long: '400', page: '404', fine: '200', html: 'backend_bad_response' });
    expect(ends['hang']).toBe('total_timeout');
    expect(ends['none']).toBe('backend_bad_response');
    expect(batch.request_counts).toEqual({ total: 6, completed: 1, failed: 5 });
    expect(Object.fromEntries(server.tries)).toMatchObject({ html: 2, none: 2, hang: 2, long: 1, page: 1, fine: 1 });
  }, 30_000);

  it('says when to come again comes again then, and not before', async () => {
    const askedMs = new Map<string, number[]>();
    const server = await backend((id, tries) => {
      askedMs.set(id, [...(askedMs.get(id) ?? []), performance.now()]);
      if (tries === 1 && id === 'l0') return [wholeAnswer(429, { error: {} }, { 'Retry-After': '3' })];
      if (tries === 1 && id === 'l1') return [wholeAnswer(503, { error: {} }, { 'Retry-After': '3' })];
      return [ok(id)];
    });
    const proxy = await proxyOn([server.url], folder(), { batch: { maxAttempts: 1 } });
    const { id } = await submit(proxy, input(names(2)));
    const batch = await untilOver(proxy.url, id, 20_000);
    expect(batch.request_counts).toEqual({ total: 2, completed: 2, failed: 0 });
    for (const [first = 0, second = 0] of askedMs.values()) expect(second - first).toBeGreaterThan(2900);
  }, 30_000);
});

describe('a fleet', () => {
  it('C181 that is away for the whole window leaves every line expired, none failed', async () => {
    const server = await backend((id) => [ok(id)]);
    await server.refuse();
    const proxy = await proxyOn([server.url], folder());
    const { id } = await submit(proxy, input(names(5)), '3s');
    const batch = await untilOver(proxy.url, id, 10_000);
    expect(batch).toMatchObject({ status: 'expired', request_counts: { total: 5, completed: 0, failed: 5 } });
    expect(new Set(Object.values(await endsOf(proxy, batch)))).toEqual(new Set(['batch_expired']));
    expect(server.tries.size).toBe(0);
  }, 20_000);

  it('that answers nobody in time is left by every line when the window is over', async () => {
    const server = await backend(() => [hang()]);
    const proxy = await proxyOn([server.url], folder(), { batch: { maxLinesInFlight: 4 } });
    const { id } = await submit(proxy, input(names(9)), '2s');
    const batch = await untilOver(proxy.url, id, 10_000);
    expect(batch).toMatchObject({ status: 'expired', request_counts: { total: 9, completed: 0, failed: 9 } });
    const asked = server.requests.filter((request) => request.method === 'POST' && !isFromProber(request));
    await eventually(() => asked.every((request) => !server.connectionOf(request).open), 'all are cut');
  }, 20_000);

  it('C173 without the model refuses each line for itself', async () => {
    const one = await backend((id) => [ok(id)], 'llama-server');
    const other = await backend((id) => [ok(id)], 'llama-server');
    const proxy = await proxyOn([one.url, other.url], folder());
    const { id } = await submit(proxy, input(names(3), { model: 'no such' }));
    const batch = await untilOver(proxy.url, id, 10_000);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 3, completed: 0, failed: 3 } });
    expect(new Set(Object.values(await endsOf(proxy, batch)))).toEqual(new Set(['404']));
  }, 20_000);
});

describe('a disk', () => {
  it('C177 that is gone at the end holds the batch up until it is there again', async () => {
    const directory = folder();
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    const server = await backend((id) => [{ kind: 'until', gate }, ok(id)]);
    const proxy = await proxyOn([server.url], directory);
    const { id } = await submit(proxy, input(names(3)));
    await eventually(() => server.tries.size === 3, 'all are under way');
    renameSync(join(directory, 'files'), join(directory, 'away'));
    go();
    await eventually(async () => (await getBatch(proxy.url, id)).status === 'finalizing', 'it is finalizing');
    await sleep(800);
    expect((await getBatch(proxy.url, id)).status).toBe('finalizing');
    expect((await cancelBatch(proxy.url, id)).status).toBe('finalizing');
    expect(proxy.logged.filter(({ msg }) => /storage of batches fails/.test(String(msg)))).toHaveLength(1);
    renameSync(join(directory, 'away'), join(directory, 'files'));
    const batch = await untilOver(proxy.url, id, 15_000);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { completed: 3, failed: 0 } });
    expect(Object.keys(await endsOf(proxy, batch))).toHaveLength(3);
  }, 30_000);

  it('that is gone fails no line; what is cut off the end of a file alone does', async () => {
    const directory = folder();
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    let asked = 0;
    const server = await backend((id) => ((asked += 1) < 3 ? [ok(id)] : [{ kind: 'until', gate }, ok(id)]));
    const proxy = await proxyOn([server.url], directory, { batch: { maxLinesInFlight: 1 } });
    const { id: file } = await uploadFile(proxy.url, input(names(12)));
    renameSync(join(directory, 'files'), join(directory, 'away'));
    const { id } = await createBatch(proxy, file);
    await sleep(1500);
    expect(await getBatch(proxy.url, id)).toMatchObject({ status: 'validating', request_counts: { failed: 0 } });
    renameSync(join(directory, 'away'), join(directory, 'files'));
    await eventually(() => server.tries.size === 3, 'lines go', 15_000);
    const deleted = await fetch(`${proxy.url}/v1/files/${file}`, { method: 'DELETE' });
    expect(deleted.status).toBe(409);
    truncateSync(join(directory, 'files', file), 10);
    go();
    const batch = await untilOver(proxy.url, id, 15_000);
    expect(batch.status).toBe('completed');
    const ends = Object.values(await endsOf(proxy, batch));
    expect(ends).toHaveLength(12);
    expect(new Set(ends)).toEqual(new Set(['200', 'input_unreadable']));
  }, 40_000);

  it('that goes while lines are sent, or an input file that does, keeps none of them from being sent', async () => {
    const directory = folder();
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => (go = resolve));
    let asked = 0;
    const server = await backend((id) => ((asked += 1) < 3 ? [ok(id)] : [{ kind: 'until', gate }, ok(id)]));
    const proxy = await proxyOn([server.url], directory, { batch: { maxLinesInFlight: 1 } });
    const { id, file } = await submit(proxy, input(names(8)));
    await eventually(() => server.tries.size === 3, 'some are sent', 15_000);
    renameSync(join(directory, 'files'), join(directory, 'away'));
    unlinkSync(join(directory, 'away', file));
    go();
    await eventually(() => server.tries.size === 8, 'all are sent', 15_000);
    renameSync(join(directory, 'away'), join(directory, 'files'));
    const batch = await untilOver(proxy.url, id, 15_000);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { completed: 8, failed: 0 } });
  }, 40_000);
});

describe('a cancel', () => {
  it('C174 in the first moments ends the batch, whatever it was doing', async () => {
    const server = await backend((id) => [hang(), ok(id)]);
    const proxy = await proxyOn([server.url], folder());
    for (const waitMs of [0, 0, 5, 20, 60]) {
      const { id } = await submit(proxy, input(names(400)));
      await sleep(waitMs);
      expect((await cancelBatch(proxy.url, id)).status).toMatch(/^cancell/);
      const batch = await untilOver(proxy.url, id, 8000);
      expect(batch.status).toBe('cancelled');
      const { total, completed, failed } = batch.request_counts;
      expect([0, 400]).toContain(total);
      expect(completed + failed).toBe(total);
      expect(Object.keys(await endsOf(proxy, batch))).toHaveLength(total);
    }
  }, 40_000);
});

describe.skipIf(!hasPostgres())('a Postgres', () => {
  it('that goes away and comes back loses no line, and tries that failed are counted in it', async () => {
    const postgres = await startPostgres();
    closers.push(() => postgres.close());
    const server = await backend((id, tries) => {
      if (id === 'l1') return [wholeAnswer(500, { error: { message: 'broken' } })];
      if (id === 'l2' && tries === 1) return [reset()];
      return [150, ok(id)];
    });
    const store = { kind: 'postgres' as const, url: await postgres.database() };
    const proxy = await proxyOn([server.url], folder(), { batch: { store, maxAttempts: 2, maxLinesInFlight: 3 } });
    const { id } = await submit(proxy, input(names(30)));
    await eventually(() => server.tries.size >= 9, 'some are done');
    await postgres.stop();
    await sleep(1500);
    expect((await fetch(`${proxy.url}/v1/batches/${id}`)).status).toBe(503);
    const whileAway = server.tries.size;
    await sleep(500);
    expect(server.tries.size).toBe(whileAway);
    await postgres.start();
    const batch = await untilOver(proxy.url, id, 20_000);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 30, completed: 29, failed: 1 } });
    expect(await endsOf(proxy, batch)).toMatchObject({ l0: '200', l1: '500', l2: '200', l29: '200' });
    expect(Object.fromEntries(server.tries)).toEqual(
      Object.fromEntries(names(30).map((name) => [name, name === 'l1' || name === 'l2' ? 2 : 1])),
    );
    expect(proxy.logged.filter(({ msg }) => /can not go on/.test(String(msg)))).toEqual([]);
  }, 60_000);
});
