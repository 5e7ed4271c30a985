/** Decision 4 and R03: when the head goes to the client, and what becomes of an error that hides behind a 200. */
import { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Engine } from '../../src/domain/names.ts';
import { fin, hang, send, until, type ScriptStep } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseEvent, sseHead, T, USE, wholeStream } from '../../src/sim/sse-script.ts';
import { again, backendsAre, paced, pass, scripted } from '../support/exchange.ts';
import { unlagged } from '../support/moments.ts';
import { loadRecorded } from '../support/recorded.ts';
import { parseAnswer, postBytes, R0 } from '../support/raw-http.ts';
import { severalBackends } from '../support/several-backends.ts';
import { createStage, type Stage, usersOf } from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const whole = [ROLE, T('a'), FIN('stop'), DONE];
/** As vLLM writes it: blanks after colon and comma (R23). */
const busy =
  'data: {"error": {"message": "The engine is overloaded.", "type": "ServiceUnavailableError", "param": null, "code": 503}}\n\n';
/** Long enough for a machine that is busy with other things. */
const patient = { relay: { headHoldMs: 5000 } };
const hiding: readonly Engine[] = ['vllm', 'sglang', 'tgi'];

/** @returns ends the count: how often this process wrote to sockets of a port of its own */
function countWrites(port: number): () => number {
  const { prototype } = Socket as unknown as { prototype: { _writeGeneric(...args: unknown[]): void } };
  const { _writeGeneric: original } = prototype;
  let count = 0;
  prototype._writeGeneric = function (this: Socket, ...args: unknown[]) {
    if (this.localPort === port) count += 1;
    original.apply(this as never, args);
  };
  return () => {
    prototype._writeGeneric = original;
    return count;
  };
}

/** A backend that holds its answer back behind its head until told to go on. */
function gate(): { open: () => void; readonly opened: Promise<void> } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { open, opened };
}

describe('the head of a stream', () => {
  it.each(['llama-server', 'openai', 'ollama'] as const)(
    'decision 4: goes to the client at once on %s',
    async (engine) => {
      const { open, opened } = gate();
      const backend = await scripted(
        stage,
        () => [send(sseHead()), until(opened), send(chunk(...whole)), send(lastChunk)],
        engine,
      );
      const proxy = await stage.proxy(backend, { change: backendsAre([backend], engine) });
      const client = await stage.client(proxy);
      client.send(R0);
      await client.until(() => client.received.includes('\r\n\r\n'));
      expect(parseAnswer(client.received)).toMatchObject({ status: 200 });
      open();
      expect((await client.answer()).body.toString()).toBe(whole.join(''));
    },
  );

  it.each(hiding)('decision 4: waits for the first event on %s, and leaves with it in one write', async (engine) => {
    const steps = [
      send(sseHead()),
      120,
      send(chunk(ROLE)),
      60,
      send(chunk(T('a'), FIN('stop'), DONE)),
      send(lastChunk),
    ];
    const { client, writesMs, record } = await unlagged(() => pass(stage, () => steps, { engine, change: patient }));
    const [first] = client.reads;
    expect(first?.text).toContain('HTTP/1.1 200 OK');
    expect(first?.text).toContain(ROLE);
    expect(first?.atMs).toBeGreaterThanOrEqual(writesMs[1] ?? Number.NaN);
    expect(first?.atMs).toBeLessThan(writesMs[2] ?? Number.NaN);
    expect(record.timeline.head).toBeLessThan(writesMs[1] ?? Number.NaN);
  });

  it('leaves with its end in one write where one read brought both, also with something taken out between', async () => {
    const { open, opened } = gate();
    const end = Buffer.concat([chunk(T('b'), FIN('stop')), chunk(USE(3, 2)), chunk(DONE), Buffer.from(lastChunk)]);
    const backend = await scripted(
      stage,
      () => [send(sseHead()), send(chunk(ROLE, T('a'))), until(opened), send(end)],
      'vllm',
    );
    const proxy = await stage.proxy(backend, { change: backendsAre([backend], 'vllm') });
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes(T('a')));
    const writes = countWrites(proxy.port);
    open();
    expect((await client.answer()).body.toString()).toBe([ROLE, T('a'), T('b'), FIN('stop'), DONE].join(''));
    expect(writes()).toBe(1);
  });

  const json = '{"object":"chat.completion","choices":[]}';
  const lengthHead = jsonHead(`Content-Length: ${json.length}`);
  it.each([
    { as: 'of known length', pieces: [lengthHead + json], writes: 1 },
    // A premature end of the gathering would show: the last chunk is written apart from what came before it.
    { as: 'chunked', pieces: [jsonHead('Transfer-Encoding: chunked') + chunk(json).toString() + lastChunk], writes: 1 },
    // As uvicorn sends it, when the two are read apart: the head, then the body together with the end.
    { as: 'whose head came before its body', pieces: [lengthHead, json], writes: 2 },
    {
      as: 'chunked, whose head came before',
      pieces: [jsonHead('Transfer-Encoding: chunked'), chunk(json).toString() + lastChunk],
      writes: 2,
    },
  ])('leaves in as few writes as can be with an answer that is not streamed, $as', async ({ pieces, writes }) => {
    const { open, opened } = gate();
    const backend = await scripted(
      stage,
      () => [until(opened), ...pieces.flatMap((piece) => [send(piece), 30])],
      'vllm',
    );
    const proxy = await stage.proxy(backend, { change: backendsAre([backend], 'vllm') });
    const client = await stage.client(proxy);
    client.send(R0);
    const counted = countWrites(proxy.port);
    open();
    expect((await client.answer()).body.toString()).toBe(json);
    expect(counted()).toBe(writes);
  });

  it('decision 4: waits 250 ms at most; comments and half an event don’t end the wait, nor are they lost', async () => {
    const { client, answer, writesMs } = await pass(
      stage,
      () => [
        send(sseHead()),
        send(chunk(': hi\n\n')),
        send(chunk(ROLE.slice(0, 30))),
        700,
        send(chunk(ROLE.slice(30), T('a'), FIN('stop'), DONE)),
        send(lastChunk),
      ],
      { engine: 'vllm' },
    );
    const [first] = client.reads;
    expect((first?.atMs ?? 0) - (writesMs[0] ?? 0)).toBeGreaterThan(240);
    expect(first?.atMs).toBeLessThan(writesMs[3] ?? Number.NaN);
    expect(answer.body.toString()).toBe([': hi\n\n', ...whole].join(''));
  });

  it('decision 4: doesn’t wait at all with `headHoldMs: 0`', async () => {
    const { client, writesMs } = await pass(
      stage,
      () => [send(sseHead()), 300, send(chunk(...whole)), send(lastChunk)],
      {
        engine: 'vllm',
        change: { relay: { headHoldMs: 0 } },
      },
    );
    expect(client.reads[0]?.atMs).toBeLessThan(writesMs[1] ?? Number.NaN);
  });

  it('decision 4: a stream that is over before its first event passes as it is', async () => {
    const { answer, record } = await pass(
      stage,
      () => [send(sseHead()), send(chunk(': only a comment\n\n')), send(lastChunk)],
      { engine: 'vllm' },
    );
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(': only a comment\n\n');
    expect(record).toMatchObject({ outcome: 'upstream_error', reason: 'empty_stream' });
  });

  it('decision 4: a backend that dies while the head waits is a true 502', async () => {
    const { answer, record } = await pass(stage, () => [send(sseHead()), send(chunk(': hi\n\n')), 30, fin()], {
      engine: 'vllm',
      change: patient,
    });
    expect(answer).toMatchObject({ status: 502, complete: true });
    expect(record).toMatchObject({ outcome: 'upstream_truncated', status: 502, attempts: 1 });
  });

  it('decision 4: a client that leaves while the head waits is seen at once', async () => {
    const backend = await scripted(stage, () => [send(sseHead()), hang()], 'vllm');
    const proxy = await stage.proxy(backend, {
      change: { ...backendsAre([backend], 'vllm'), relay: { headHoldMs: 5000 } },
    });
    const client = await stage.client(proxy);
    client.send(R0);
    const [request] = await backend.waitForRequests(1);
    client.leave();
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'client_abort', phase: 'waiting_first_token' });
    expect(record?.status).toBeUndefined();
    expect(request).toBeDefined();
    await backend.connections.find(({ id }) => id === request?.connectionId)?.closed;
  });
});

describe('R03 an error as the first event', () => {
  it.each(hiding)('R03 is a true 503 with Retry-After on %s, booked as rejected', async (engine) => {
    const { answer, record, backend } = await pass(stage, () => paced(10, busy, DONE), { engine, change: patient });
    expect(answer).toMatchObject({ status: 503, complete: true });
    expect(answer.headers['retry-after']).toMatch(/^\d+$/);
    expect(answer.headers['content-type']).toMatch(/^application\/json/);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      error: { message: 'The engine is overloaded.', type: 'ServiceUnavailableError', code: 503, source: 'backend' },
    });
    expect(record).toMatchObject({ outcome: 'rejected', status: 503, spokenBy: 'backend', attempts: 1, tokens: {} });
    expect(usersOf(backend)).toHaveLength(1);
  });

  it('R03 R23 as vLLM really wrote it', async () => {
    const { raw } = loadRecorded('vllm', 'error-busy-in-stream');
    const { answer, record, proxy } = await pass(stage, () => [send(raw)], { engine: 'vllm', change: patient });
    expect(answer.status).toBe(503);
    expect(record).toMatchObject({ outcome: 'rejected', reason: 'backend_busy' });
    expect(proxy.app.fleet.snapshot().backends[0]?.health).toBe('up');
  });

  it.each([
    [400, 'client_error'],
    [404, 'client_error'],
    [500, 'upstream_error'],
  ])('C049 R03 of code %i is that status: %s', async (code, outcome) => {
    const told = { message: 'no '.repeat(1000), type: 'X', param: 'max_tokens', code };
    const event = sseEvent({ error: told }, 'error');
    const first = await pass(stage, () => paced(5, ': hi\n\n', event), { engine: 'vllm', change: patient });
    expect(first.answer).toMatchObject({ status: code, complete: true });
    expect(first.answer.headers['retry-after']).toBeUndefined();
    expect(JSON.parse(first.answer.body.toString())).toEqual({ error: { ...told, source: 'backend' } });
    expect(first.record).toMatchObject({ outcome, status: code, attempts: 1 });
    expect(first.proxy.app.fleet.snapshot().backends[0]?.health).toBe('up');
    const second = await again(stage, first);
    expect(second.answer.status).toBe(code);
  });

  it.each([
    ['without a status', [sseEvent({ error: { message: 'odd' } }), DONE]],
    ['with a status that is none', [sseEvent({ error: { message: 'odd', code: 7 } }), DONE]],
    ['after a role chunk', [ROLE, busy, DONE]],
    ['after a token', [T('a'), busy, DONE]],
  ])('R03 %s passes as it came', async (_, events) => {
    const { answer, record } = await pass(stage, () => paced(5, ...events), { engine: 'vllm' });
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(events.join(''));
    expect(record).toMatchObject({ outcome: 'upstream_error', reason: 'error_event', status: 200 });
  });

  it('R03 that comes later than 250 ms passes as it came', async () => {
    const { answer, record } = await pass(
      stage,
      () => [send(sseHead()), 600, send(chunk(busy, DONE)), send(lastChunk)],
      { engine: 'vllm' },
    );
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(busy + DONE);
    expect(record).toMatchObject({ outcome: 'upstream_error', status: 200 });
  });

  it.each([
    [
      '/v1/messages',
      { model: 'm', max_tokens: 3, messages: [], stream: true },
      { type: 'error', error: { code: 503 } },
    ],
    ['/v1/completions', { model: 'm', prompt: 'a', stream: true }, { error: { code: 503 } }],
  ])('R03 has the shape of its route: %s', async (path, body, shape) => {
    const { answer } = await pass(stage, () => paced(5, busy), {
      engine: 'vllm',
      change: patient,
      request: postBytes(path, body),
    });
    expect(answer.status).toBe(503);
    expect(JSON.parse(answer.body.toString())).toMatchObject(shape);
  });
});

describe('R03 with another backend', () => {
  async function two(first: () => ScriptStep[], second: () => ScriptStep[]) {
    const several = await severalBackends(stage, { count: 2, engine: 'vllm', change: patient }, (nth) =>
      nth === 1 ? first() : second(),
    );
    return { ...several, ...(await several.send()) };
  }

  it('R03 is answered by the other, and the client sees nothing of it', async () => {
    const { answer, record, asked, proxy, backends } = await two(
      () => paced(5, busy, DONE),
      () => [wholeStream(...whole)],
    );
    expect(answer).toMatchObject({ status: 200, complete: true });
    expect(answer.body.toString()).toBe(whole.join(''));
    expect(new Set(asked)).toEqual(new Set([0, 1]));
    expect(record).toMatchObject({
      outcome: 'ok',
      attempts: 2,
      backend: `b${backends[asked[1] ?? 0]?.port}`,
      events: 1,
    });
    expect(record?.tokens.output?.value).toBe(1);
    expect(proxy.app.fleet.snapshot().backends.map(({ health }) => health)).toEqual(['up', 'up']);
  });

  it('R03 is a true 503 if the other is busy too', async () => {
    const { answer, record, asked } = await two(
      () => paced(5, busy, DONE),
      () => paced(5, busy, DONE),
    );
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBeDefined();
    expect(asked).toHaveLength(2);
    expect(record).toMatchObject({ outcome: 'rejected', attempts: 2, status: 503 });
  });

  it('C049 R03 that blames the request is not asked of the other', async () => {
    const { answer, asked } = await two(
      () => paced(5, sseEvent({ error: { message: 'no', code: 400 } })),
      () => [wholeStream(...whole)],
    );
    expect(answer.status).toBe(400);
    expect(asked).toHaveLength(1);
  });

  it('R03 R06 that tells the engine’s death is not risked on the other: the request may be the cause (decision 11)', async () => {
    const died = sseEvent({
      error: {
        message: 'EngineCore encountered an issue. See stack trace (above) for the root cause.',
        type: 'InternalServerError',
        code: 500,
      },
    });
    const { answer, asked, record, proxy, backends } = await two(
      () => paced(5, died, DONE),
      () => [wholeStream(...whole)],
    );
    expect(answer.status).toBe(500);
    expect(asked).toHaveLength(1);
    expect(record).toMatchObject({ outcome: 'upstream_error', attempts: 1 });
    const { health, healthReason } =
      proxy.app.fleet.snapshot().backends.find(({ name }) => name === `b${backends[asked[0] ?? 0]?.port}`) ?? {};
    expect([health, healthReason]).toEqual(['down', 'engine_dead']);
  });
});

function jsonHead(framing: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`;
}
