/** Batches over real sockets and a real SQLite store: what the runner does with lines, backends and clients at work. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { reset, type Script } from '../../src/sim/fault-steps.ts';
import { createScriptedServer, type ScriptedServer } from '../../src/sim/faults.ts';
import { answerProbe } from '../../src/sim/probe-answers.ts';
import type { RawRequest } from '../../src/sim/raw-request.ts';
import { createSimServer } from '../../src/sim/server.ts';
import { instantLlamaServer, instantVllmServer, type SimServerSettings } from '../../src/sim/server-settings.ts';
import { wholeAnswer } from '../../src/sim/sse-script.ts';
import {
  cancelBatch,
  getBatch,
  listBatches,
  listFiles,
  resultLines,
  untilOver,
  uploadFile,
} from '../support/batch-client.ts';
import { startProxy, type Proxy } from '../support/proxy.ts';
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

async function proxyOn(urls: readonly string[], directory: string, batch: object = {}): Promise<Proxy> {
  const store = { kind: 'sqlite' as const, directory };
  const proxy = await startProxy(urls, { batch: { store, leaseMs: 3000, ...batch } });
  closers.push(() => proxy.close());
  return proxy;
}

/** A backend whose answer to each line the test gives; the line is known by its `user`. */
async function backend(answer: (id: string) => Script): Promise<ScriptedServer> {
  const server = await createScriptedServer({
    // A line names warmlane as its client, as probes do; only lines are posted.
    probes: false,
    onRequest: (request) =>
      request.method === 'POST' ? answer(userOf(request)) : answerProbe(request, { engine: 'openai', model: 'm' }),
  });
  closers.push(() => server.close());
  return server;
}

const ok = (id: string) => wholeAnswer(200, { id, object: 'chat.completion', choices: [] });

function input(ids: readonly string[], change: object = {}): string {
  const lines = ids.map((id) => {
    const body = { model: 'm', user: id, messages: [{ role: 'user', content: `about ${id}` }], ...change };
    return JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body });
  });
  return `${lines.join('\n')}\n`;
}

async function submit(proxy: Proxy, text: string, window = '24h'): Promise<string> {
  const { id } = await uploadFile(proxy.url, text);
  const answer = await fetch(`${proxy.url}/v1/batches`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input_file_id: id, endpoint: '/v1/chat/completions', completion_window: window }),
  });
  const batch = (await answer.json()) as { id: string };
  if (!answer.ok) throw new Error(JSON.stringify(batch));
  return batch.id;
}

const names = (count: number, name = 'l') => Array.from({ length: count }, (_, n) => `${name}${n}`);

function linesAsked(server: ScriptedServer): string[] {
  return server.requests.filter(({ method }) => method === 'POST').map(userOf);
}

function userOf(request: RawRequest): string {
  return (request.json() as { user: string }).user;
}

describe('lines on simulated engines', () => {
  const engines: readonly SimServerSettings[] = [instantLlamaServer, instantVllmServer];

  it.each(engines)(
    'R09 go to $dialect streamed, and come back as the object that it sends unstreamed',
    async (engine) => {
      const sim = await createSimServer(engine);
      closers.push(() => sim.close());
      const proxy = await proxyOn([sim.url], folder());
      const change = { model: 'simulated', max_tokens: 9, temperature: 0 };
      const id = await submit(proxy, input(names(3), change));
      const batch = await untilOver(proxy.url, id, 10_000);
      expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 3, completed: 3, failed: 0 } });
      const records = (await proxy.records(3)).filter(({ lane }) => lane === 'batch');
      expect(records.map(({ streamed }) => streamed)).toEqual([true, true, true]);
      for (const { custom_id: name, response } of await resultLines(proxy.url, batch.output_file_id)) {
        const body = { ...change, user: name, messages: [{ role: 'user', content: `about ${name}` }] };
        const direct = await fetch(`${sim.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
        expect(timeless(response?.body)).toEqual(timeless(await direct.json()));
      }
    },
  );

  it('are shown on the admin page, with no contents, and counted in the metrics', async () => {
    const sim = await createSimServer(instantVllmServer);
    closers.push(() => sim.close());
    const proxy = await proxyOn([sim.url], folder());
    const id = await submit(proxy, input(names(3), { model: 'simulated', max_tokens: 2 }));
    await untilOver(proxy.url, id, 10_000);
    const page = await (await fetch(`${proxy.adminUrl}/batches`)).text();
    expect(JSON.parse(page)).toMatchObject({
      batches: [
        {
          id,
          tenant: 'anonymous',
          status: 'completed',
          endedAt: expect.any(Number) as unknown,
          lines: { total: 3, completed: 3, failed: 0, left: 0 },
        },
      ],
    });
    expect(page).not.toContain('about');
    expect((await fetch(`${proxy.adminUrl}/batches?limit=0`)).status).toBe(400);
    const metrics = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    expect(metrics).toContain('warmlane_batch_lines_total{result="completed"} 3');
    expect(metrics).toContain('warmlane_batch_lines_in_flight 0');
    expect(metrics).toContain('warmlane_batch_lines_backing_off 0');
  });
});

describe('a line on a faulty backend', () => {
  it('is tried again where that may help, and fails alone where it may not', async () => {
    const tries = new Map<string, number>();
    const server = await backend((id) => {
      const count = (tries.get(id) ?? 0) + 1;
      tries.set(id, count);
      if (id === 'l1' && count === 1) return [wholeAnswer(429, { error: { message: 'slow' } }, { 'Retry-After': '1' })];
      if (id === 'l2' && count === 1) return [reset()];
      if (id === 'l3') return [wholeAnswer(400, { error: { message: 'wrong' } })];
      return [ok(id)];
    });
    const proxy = await proxyOn([server.url], folder());
    const id = await submit(proxy, input(names(5)));
    const batch = await untilOver(proxy.url, id, 15_000);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 5, completed: 4, failed: 1 } });
    expect(await resultLines(proxy.url, batch.error_file_id)).toMatchObject([
      { custom_id: 'l3', response: { status_code: 400, body: { error: { message: 'wrong' } } } },
    ]);
    expect(Object.fromEntries(tries)).toEqual({ l0: 1, l1: 2, l2: 2, l3: 1, l4: 1 });
  });

  it('is counted while it waits for its next try, on the admin page and in the metrics', async () => {
    const busy = [wholeAnswer(429, { error: { message: 'slow' } }, { 'Retry-After': '600' })];
    const server = await backend((id) => (id === 'l1' ? busy : [ok(id)]));
    const proxy = await proxyOn([server.url], folder());
    await submit(proxy, input(names(3)));
    const shown = async () => {
      const page = (await (await fetch(`${proxy.adminUrl}/batches`)).json()) as {
        batches: { lines: { completed: number }; here?: { backingOff: number } }[];
      };
      return page.batches[0];
    };
    await eventually(async () => (await shown())?.here?.backingOff === 1, 'the page shows the line that waits');
    await eventually(async () => (await shown())?.lines.completed === 2, 'the others have their results');
    expect(await shown()).toMatchObject({
      lines: { total: 3, left: 1 },
      here: { inFlight: 0, backingOff: 1, retries: 1 },
    });
    const metrics = await (await fetch(`${proxy.adminUrl}/metrics`)).text();
    expect(metrics).toContain('warmlane_batch_lines_backing_off 1');
    expect(metrics).toContain('warmlane_batch_lines_in_flight 0');
    expect(metrics).toContain('warmlane_batch_line_retries_total 1');
  });

  it('waits for a backend that is away, and loses no attempt by it', async () => {
    const server = await backend((id) => [ok(id)]);
    await server.refuse();
    const proxy = await proxyOn([server.url], folder(), { maxAttempts: 1 });
    const id = await submit(proxy, input(names(4)));
    await sleep(1500);
    expect((await getBatch(proxy.url, id)).request_counts).toMatchObject({ total: 4, completed: 0, failed: 0 });
    await server.listenAgain();
    const batch = await untilOver(proxy.url, id, 20_000);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { completed: 4, failed: 0 } });
  }, 30_000);

  it('that answers too long fails by itself', async () => {
    const server = await backend((id) => [id === 'l0' ? wholeAnswer(200, { id, text: 'a'.repeat(5000) }) : ok(id)]);
    const proxy = await proxyOn([server.url], folder(), { maxAnswerBytes: 2000 });
    const batch = await untilOver(proxy.url, await submit(proxy, input(names(2))), 10_000);
    expect(batch.request_counts).toEqual({ total: 2, completed: 1, failed: 1 });
    expect(await resultLines(proxy.url, batch.error_file_id)).toMatchObject([
      { custom_id: 'l0', response: null, error: { code: 'answer_too_large' } },
    ]);
  });
});

describe('a batch that does not come to its end', () => {
  it('C174 C185 when it is cancelled has each line in one file, and its requests are cut', async () => {
    const server = await backend((id) => (Number(id.slice(1)) < 5 ? [ok(id)] : [5000, ok(id)]));
    const proxy = await proxyOn([server.url], folder(), { maxLinesInFlight: 8 });
    const id = await submit(proxy, input(names(25)));
    await eventually(() => linesAsked(server).length >= 13, 'the slow ones are under way');
    await eventually(async () => (await getBatch(proxy.url, id)).request_counts.completed === 5, 'five are done');
    const startedMs = performance.now();
    await cancelBatch(proxy.url, id);
    const batch = await untilOver(proxy.url, id, 5000);
    expect(performance.now() - startedMs).toBeLessThan(2000);
    expect(batch).toMatchObject({ status: 'cancelled', request_counts: { total: 25, completed: 5, failed: 20 } });
    const output = await resultLines(proxy.url, batch.output_file_id);
    const errors = await resultLines(proxy.url, batch.error_file_id);
    expect([...output, ...errors].map((line) => line.custom_id).toSorted()).toEqual(names(25).toSorted());
    expect(errors.every(({ error }) => error?.code === 'batch_cancelled')).toBe(true);
    const page: unknown = await (await fetch(`${proxy.adminUrl}/batches`)).json();
    // Beside OpenAI's count, in which they failed.
    const lines = { total: 25, completed: 5, failed: 0, unrun: 20, left: 0 };
    expect(page).toMatchObject({ batches: [{ id, status: 'cancelled', endedAt: batch.cancelled_at, lines }] });
    const cut = server.requests.filter((request) => request.method === 'POST' && Number(userOf(request).slice(1)) >= 5);
    expect(cut).toHaveLength(8);
    await eventually(() => cut.every((request) => !server.connectionOf(request).open), 'their requests are cut');
    for (let n = 0; n < 3; n += 1) expect(await getBatch(proxy.url, id)).toEqual(batch);
    expect(await listBatches(proxy.url)).toEqual([batch]);
    expect((await listFiles(proxy.url)).map((file) => file.id)).toEqual(
      expect.arrayContaining([batch.output_file_id, batch.error_file_id]),
    );
    expect(await cancelBatch(proxy.url, id)).toEqual(batch);
  });

  it('C181 when its window is over keeps what is done', async () => {
    const server = await backend((id) => [450, ok(id)]);
    const proxy = await proxyOn([server.url], folder(), { maxLinesInFlight: 1 });
    const id = await submit(proxy, input(names(10)), '2s');
    const batch = await untilOver(proxy.url, id, 10_000);
    expect(batch.status).toBe('expired');
    const output = await resultLines(proxy.url, batch.output_file_id);
    const errors = await resultLines(proxy.url, batch.error_file_id);
    expect(output.length).toBeGreaterThan(0);
    expect(errors.length).toBeGreaterThan(0);
    expect(output.length + errors.length).toBe(10);
    expect(errors.every(({ error }) => error?.code === 'batch_expired')).toBe(true);
    expect(batch.request_counts).toEqual({ total: 10, completed: output.length, failed: errors.length });
  });

  it('when warmlane stops goes on with the next one, and no finished line is sent again', async () => {
    const server = await backend((id) => [100, ok(id)]);
    const directory = folder();
    const first = await proxyOn([server.url], directory, { maxLinesInFlight: 4 });
    const id = await submit(first, input(names(30)));
    await eventually(async () => (await getBatch(first.url, id)).request_counts.completed >= 8, 'some are done');
    await first.app.stop();
    const second = await proxyOn([server.url], directory, { maxLinesInFlight: 4 });
    const batch = await untilOver(second.url, id, 15_000);
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 30, completed: 30, failed: 0 } });
    // The grace lets all that are under way end.
    expect(linesAsked(server).toSorted()).toEqual(names(30).toSorted());
  });
});

/** Without what differs from one answer to the next. */
function timeless(value: unknown): unknown {
  const { id: _id, created: _created, timings: _timings, usage, ...rest } = value as Record<string, unknown>;
  const { prompt_tokens_details: _details, ...counts } = usage as Record<string, unknown>;
  return { ...rest, usage: counts };
}
