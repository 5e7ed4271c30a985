/** Clients that leave, in each phase of a request: what the backend sees of it, what the record says, what stays. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Script } from '../../src/sim/fault-steps.ts';
import { hang, repeat, stopReading } from '../../src/sim/fault-steps.ts';
import {
  chunk,
  DONE,
  FIN,
  lastChunk,
  ROLE,
  sseHead,
  T,
  USE,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import { chatBody, parseAnswer, postBytes, R0, R1, rawClient } from '../support/raw-http.ts';
import {
  createStage,
  eventually,
  loadOf,
  sleep,
  type Stage,
  untilAsked,
  untilIdle,
  usersOf,
} from '../support/stage.ts';

let stage: Stage;
beforeEach(() => {
  stage = createStage();
});
afterEach(() => stage.close());

const notStreamed = postBytes('/v1/chat/completions', { ...chatBody, stream: false });
const answerJson = {
  id: 'x',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
};
/** A backend may take this long to see that its client has gone; the machine may be busy. */
const seenGoneMs = 200;

async function* manyTokens(count: number, everyMs: number): AsyncGenerator<string | Uint8Array | number> {
  yield sseHead();
  yield chunk(ROLE);
  for (let i = 0; i < count; i += 1) {
    yield everyMs;
    yield chunk(T(`t${i} `));
  }
  yield chunk(FIN('stop'), DONE);
  yield lastChunk;
}

describe('an ordinary request', () => {
  it('C077 is never booked as an abort, whatever its connection does after the last byte', async () => {
    let ended = 0;
    const backend = await stage.backend({
      *onRequest(request): Generator<Uint8Array> {
        yield request.text().includes('"stream":true')
          ? wholeStream(ROLE, T('a'), FIN('stop'), USE(3, 1), DONE)
          : wholeAnswer(200, answerJson);
        ended += 1;
      },
    });
    const proxy = await stage.proxy(backend);
    const big = 'x'.repeat(1024 * 1024);
    const bodies = [
      { ...chatBody, stream: false },
      chatBody,
      { ...chatBody, stream: false, messages: [{ role: 'user', content: big }] },
      { ...chatBody, messages: [{ role: 'user', content: big }] },
    ];
    for (let round = 0; round < 25; round += 1) {
      const kept = await stage.client(proxy);
      for (const [index, body] of bodies.entries()) {
        const closes = (round + index) % 2 === 1;
        const client = closes ? await stage.client(proxy) : kept;
        const before = client.received.length;
        client.send(postBytes('/v1/chat/completions', body, closes ? { Connection: 'close' } : {}));
        await client.until(() => parseAnswer(client.received.subarray(before))?.complete === true);
        if (closes) client.leave();
        expect(parseAnswer(client.received.subarray(before))?.status).toBe(200);
      }
      kept.leave();
    }
    const records = await proxy.records(100);
    expect(records.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 100 }, () => 'ok'));
    expect(ended).toBe(100);
    expect(usersOf(backend)).toHaveLength(100);
  });

  it('C077 was answered whole when its client closes at the end marker, before the last chunk', async () => {
    const backend = await stage.backend({
      *onRequest() {
        yield sseHead();
        yield chunk(ROLE, T('a'), FIN('stop'), DONE);
        yield hang();
      },
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('[DONE]'));
    client.leave();
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'ok', status: 200, finishReasons: ['stop'] });
    await untilIdle(proxy);
  });
});

describe('a client that leaves', () => {
  it('C078 while its whole answer is awaited: the backend sees it at once, the place is free', async () => {
    const backend = await stage.backend({ onRequest: () => [hang()] });
    const proxy = await stage.proxy(backend, { places: 1 });
    const client = await stage.client(proxy);
    client.send(notStreamed);
    const request = await untilAsked(backend, 1);
    await sleep(300);
    expect((await loadOf(proxy)).slots).toBe(1);
    const leftMs = performance.now();
    client.leave();
    const connection = backend.connectionOf(request);
    await eventually(() => connection.goneMs !== undefined, 'the backend sees the close');
    expect((connection.goneMs ?? Infinity) - leftMs).toBeLessThan(seenGoneMs);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'client_abort', phase: 'waiting_head', reason: 'client_left' });
    expect(record?.status).toBeUndefined();
    await untilIdle(proxy);
  });

  it('C079 during prefill: cancelled at once, not tried elsewhere, no late answer', async () => {
    const asked: number[] = [];
    const script = (number: number) => (): Script => {
      asked.push(number);
      return [hang()];
    };
    const backends = [await stage.backend({ onRequest: script(0) }), await stage.backend({ onRequest: script(1) })];
    const proxy = await stage.proxy(backends, { change: { relay: { retryAfterCrash: true } } });
    const client = await stage.client(proxy);
    client.send(R0);
    await eventually(() => asked.length === 1, 'one backend is asked');
    await sleep(300);
    const leftMs = performance.now();
    client.leave();
    const backend = backends[asked[0] ?? 0];
    await eventually(
      () =>
        backend?.connections.some(({ requests, goneMs }) => requests[0]?.method === 'POST' && goneMs !== undefined) ===
        true,
      'the backend sees the close',
    );
    expect(performance.now() - leftMs).toBeLessThan(seenGoneMs + 100);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'client_abort', phase: 'waiting_head', attempts: 1 });
    await sleep(200);
    expect(asked).toHaveLength(1);
    expect(proxy.logged.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('C080 the queue: its request never reaches the backend, the next one starts in its stead', async () => {
    const backend = await stage.backend({
      onRequest: (request) => manyTokens(request.text().includes('"A"') ? 15 : 1, 100),
    });
    const proxy = await stage.proxy(backend, { places: 1 });
    const ask = async (name: string) => {
      const client = await stage.client(proxy);
      client.send(postBytes('/v1/chat/completions', { ...chatBody, user: name }));
      return client;
    };
    const a = await ask('A');
    await untilAsked(backend, 1);
    const b = await ask('B');
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'B waits');
    const c = await ask('C');
    await eventually(async () => (await loadOf(proxy)).waiting === 2, 'C waits');
    await sleep(300);
    b.leave();
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'B is forgotten at once', 500);
    const [left] = await proxy.records(1);
    expect(left).toMatchObject({ outcome: 'client_abort', phase: 'queued', attempts: 0 });
    expect(left?.figures.queueMs).toBeGreaterThan(250);
    expect(left?.backend).toBeUndefined();
    const answers = await Promise.all([a.answer(), c.answer()]);
    expect(answers.map(({ complete }) => complete)).toEqual([true, true]);
    expect(usersOf(backend).map((request) => (request.json() as { user: string }).user)).toEqual(['A', 'C']);
    const endOfA = (await proxy.records(3))[1]?.timeline.end ?? 0;
    const cStarted = usersOf(backend)[1]?.firstByteMs ?? Infinity;
    expect(cStarted - endOfA).toBeLessThan(100);
  });

  it('C084 in the middle of a stream: an abort of its own with what was produced, and no failure of the backend', async () => {
    const usage = (count: number) =>
      `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'x' }, finish_reason: null }], usage: { prompt_tokens: 7, completion_tokens: count, total_tokens: 7 + count } })}\n\n`;
    const backend = await stage.backend({
      async *onRequest() {
        yield sseHead();
        yield chunk(ROLE);
        for (let i = 1; i <= 10; i += 1) {
          yield chunk(usage(i));
          yield i === 5 ? 600 : 20;
        }
        yield chunk(FIN('stop'), DONE);
        yield lastChunk;
      },
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(R1);
    await client.until(() => client.received.includes('"completion_tokens":5'));
    client.leave();
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({
      outcome: 'client_abort',
      reason: 'client_left',
      phase: 'streaming',
      status: 200,
      tokens: { prompt: { value: 7 }, output: { value: 5 } },
      events: 5,
      finishReasons: [],
    });
    expect(record?.responseBytes).toBeGreaterThan(500);
    expect(record?.requestBytes).toBeGreaterThan(50);
    expect(proxy.logged.find(({ msg }) => msg === 'request')).toMatchObject({
      outcome: 'client_abort',
      reason: 'client_left',
    });
    expect(proxy.app.fleet.snapshot().backends[0]).toMatchObject({ health: 'up' });
  });

  it('before its body is complete: nothing is asked of the backend, the held bytes are given back', async () => {
    const backend = await stage.backend({ onRequest: () => [wholeAnswer(200, answerJson)] });
    const proxy = await stage.proxy(backend, { change: { http: { maxHeldBytes: 100_000, maxBodyBytes: 100_000 } } });
    const long = postBytes('/v1/chat/completions', { ...chatBody, stream: false, user: 'x'.repeat(90_000) });
    for (let round = 0; round < 3; round += 1) {
      const client = await stage.client(proxy);
      client.send(long.slice(0, 80_000));
      await eventually(async () => (await loadOf(proxy)).running.length === 1, 'it is received');
      await sleep(20);
      if (round === 0) client.leave();
      else if (round === 1) client.reset();
      else client.halfClose();
      await proxy.records(round + 1);
    }
    const records = await proxy.records(3);
    for (const record of records)
      expect(record).toMatchObject({ outcome: 'client_abort', phase: 'receiving', attempts: 0 });
    const client = await stage.client(proxy);
    client.send(long);
    expect((await client.answer()).status).toBe(200);
    expect(usersOf(backend)).toHaveLength(1);
  });

  it('while the connection to the backend is being made: the attempt ends with it', async () => {
    const backend = await stage.backend({ onRequest: () => [hang()] });
    const proxy = await stage.proxy(backend, {
      places: 1,
      change: { fleet: { probeTimeoutMs: 300 } },
    });
    const client = await stage.client(proxy);
    client.send(notStreamed);
    client.leave();
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'client_abort' });
    await untilIdle(proxy);
    await eventually(
      () => backend.connections.every(({ requests, open }) => requests[0]?.method !== 'POST' || !open),
      'no socket is left',
    );
  });

  it('while its upload stands still before a backend that takes no more of it: that has a limit, and all is free', async () => {
    const backend = await stage.backend({ answerAfter: 'head', onRequest: () => [stopReading(), hang()] });
    const proxy = await stage.proxy(backend, { change: { relay: { deadlines: { headMs: 1000, perBodyKibMs: 0 } } } });
    const client = await stage.client(proxy);
    const bytes = 64 * 1024 * 1024;
    client.send(
      `POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: ${bytes}\r\n\r\n`,
    );
    const piece = Buffer.alloc(1024 * 1024);
    for (let i = 0; i < 40; i += 1) client.send(piece);
    await untilAsked(backend, 1);
    let leftBytes = 0;
    await eventually(async () => {
      const before = leftBytes;
      leftBytes = client.socket.writableLength;
      await sleep(150);
      return leftBytes > 0 && leftBytes === before;
    }, 'the upload stands still');
    // Nothing is read from a client whose bytes nobody takes, so its leaving can't be seen before that.
    client.reset();
    const [record] = await proxy.records(1, 10_000);
    expect(record).toMatchObject({ outcome: 'timeout', reason: 'head_timeout', phase: 'sending' });
    await untilIdle(proxy);
    expect(proxy.app.fleet.snapshot().backends[0]).toMatchObject({ health: 'up' });
  });

  it('while its upload streams on: noticed at once, no word against the backend', async () => {
    const backend = await stage.backend({ answerAfter: 'head', onRequest: () => [hang()] });
    const proxy = await stage.proxy(backend);
    for (const leave of ['leave', 'reset', 'halfClose'] as const) {
      const client = await stage.client(proxy);
      client.send(
        'POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n',
      );
      client.send(Buffer.alloc(100_000));
      await eventually(async () => (await loadOf(proxy)).running[0]?.phase === 'sending', 'it is sent');
      await sleep(50);
      client[leave]();
      await untilIdle(proxy);
    }
    for (const record of await proxy.records(3))
      expect(record).toMatchObject({ outcome: 'client_abort', phase: 'sending', attempts: 1 });
    expect(proxy.app.fleet.snapshot().backends[0]).toMatchObject({ health: 'up' });
    await eventually(
      () => backend.connections.every(({ requests, open }) => requests[0]?.method !== 'POST' || !open),
      'no socket is left',
    );
  });

  it('with a second request in the pipe: both end at once, the one that has had no turn too', async () => {
    const backend = await stage.backend({
      onRequest: (request): Script =>
        request.text().includes('"stream":true') ? [sseHead(), repeat(chunk(T('on ')), 30)] : [hang()],
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(R0 + notStreamed);
    await untilAsked(backend, 2);
    await client.until(() => client.received.includes('on '));
    client.leave();
    await untilIdle(proxy, 1500);
    const records = await proxy.records(2);
    expect(records.map(({ outcome }) => outcome)).toEqual(['client_abort', 'client_abort']);
    await eventually(
      () => backend.connections.every(({ requests, open }) => requests[0]?.method !== 'POST' || !open),
      'both are cancelled',
    );
  });

  it('R11 by FIN alone counts as gone, and the backend sees a full close, not a half one', async () => {
    const backend = await stage.backend({
      halfOpen: true,
      *onRequest() {
        yield sseHead();
        yield chunk(ROLE, T('a'));
        yield repeat(chunk(T('b')), 20);
      },
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('"b"'));
    client.halfClose();
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'client_abort', phase: 'streaming' });
    // A socket that was only half closed would take these events for ever; a closed one answers the next with a reset.
    await eventually(
      () => backend.connections.every(({ requests, open }) => requests[0]?.method !== 'POST' || !open),
      'the backend is reset',
    );
  });

  it('R11 a half-close is no abort where `halfClose: finish` is set: the answer comes whole', async () => {
    const backend = await stage.backend({ onRequest: () => manyTokens(5, 30) });
    const proxy = await stage.proxy(backend, { change: { http: { clientHalfClose: 'finish' } } });
    const client = await stage.client(proxy);
    client.send(R0);
    client.halfClose();
    const answer = await client.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toContain('t4 ');
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'ok' });
    // And its connection is closed after it, as nothing more can come.
    await client.until(() => client.ended === 'fin', 2000);
  });

  it('R11 never half-closes towards the backend, however a request ends', async () => {
    const ends: string[] = [];
    const backend = await stage.backend({
      halfOpen: true,
      *onRequest(_request, connection) {
        connection.socket.once('end', () => ends.push(`half-closed while writing ${!connection.socket.writableEnded}`));
        yield sseHead();
        yield chunk(ROLE, T('a'), FIN('stop'), DONE);
        yield lastChunk;
      },
    });
    const proxy = await stage.proxy(backend);
    const client = await rawClient(proxy.port);
    client.send(R0);
    await client.answer();
    client.halfClose();
    await client.until(() => client.ended !== 'no');
    await sleep(100);
    expect(ends).toEqual([]);
  });
});
