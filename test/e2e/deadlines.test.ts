/** Silences, each with its own limit: whose it is, when it fires, what the client, the backend and the record get. */
import { describe, expect, it } from 'vitest';
import type { RelaySettings } from '../../src/relay/settings.ts';
import { fin, hang, repeat, stopReading, trickle } from '../../src/sim/fault-steps.ts';
import type { ScriptedServer } from '../../src/sim/faults.ts';
import { chunk, DONE, FIN, lastChunk, responseHead, ROLE, sseHead, T, wholeStream } from '../../src/sim/sse-script.ts';
import { chatBody, postBytes, R0 } from '../support/raw-http.ts';
import { readSlowly } from '../support/slow-reader.ts';
import { eventually, loadOf, sleep, staged, untilAsked, untilIdle, usersOf } from '../support/stage.ts';

const ping = chunk(': ping\n\n');

function limits(deadlines: Partial<RelaySettings['deadlines']>): {
  readonly relay: { readonly deadlines: typeof deadlines };
} {
  return { relay: { deadlines: { perBodyKibMs: 0, ...deadlines } } };
}

/** Tens of milliseconds are the ticker's; the rest is for a busy machine. */
function expectAround(elapsedMs: number, limitMs: number): void {
  expect(elapsedMs).toBeGreaterThan(limitMs - Math.max(25, limitMs / 10));
  expect(elapsedMs).toBeLessThan(limitMs + 2000);
}

async function untilUserSocketsClosed(backend: ScriptedServer): Promise<void> {
  await eventually(
    () => backend.connections.every(({ requests, open }) => requests[0]?.method !== 'POST' || !open),
    'the backend was told',
  );
}

describe('the three silences of a backend', () => {
  it.concurrent(
    'C121 late headers: the head limit, and the error names it',
    staged(async (stage) => {
      const backend = await stage.backend({ onRequest: () => [hang()] });
      const proxy = await stage.proxy(backend, {
        places: 1,
        change: limits({ headMs: 600, firstTokenMs: 5000, contentStallMs: 5000 }),
      });
      const client = await stage.client(proxy);
      client.send(R0);
      const answer = await client.answer();
      expectAround(performance.now() - client.sentMs, 600);
      expect(answer.status).toBe(504);
      expect(JSON.parse(answer.body.toString())).toMatchObject({
        error: {
          code: 'head_timeout',
          source: 'backend',
          message: expect.stringContaining('deadlines.headMs') as string,
        },
      });
      expect((await proxy.records(1))[0]).toMatchObject({
        outcome: 'timeout',
        reason: 'head_timeout',
        phase: 'waiting_head',
        status: 504,
        spokenBy: 'backend',
      });
      await untilUserSocketsClosed(backend);
      // The connection of the client is as good as before.
      client.send(R0);
      await untilAsked(backend, 2);
    }),
  );

  it.concurrent(
    'C121 headers, then nothing: the limit for the first token, told as an error event and an unclean end',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield sseHead();
          yield hang();
        },
      });
      const proxy = await stage.proxy(backend, {
        places: 1,
        change: limits({ headMs: 5000, firstTokenMs: 700, contentStallMs: 5000 }),
      });
      const client = await stage.client(proxy);
      client.send(R0);
      const answer = await client.answer();
      expectAround(performance.now() - client.sentMs, 700);
      expect(answer.status).toBe(200);
      expect(answer.complete).toBe(false);
      expect(answer.body.toString()).toMatch(
        /^data: \{"error":\{.*deadlines\.firstTokenMs.*"code":"first_token_timeout".*\}\}\n\n$/,
      );
      expect((await proxy.records(1))[0]).toMatchObject({
        outcome: 'timeout',
        reason: 'first_token_timeout',
        phase: 'waiting_first_token',
        status: 200,
      });
      await untilUserSocketsClosed(backend);
      await untilIdle(proxy);
    }),
  );

  it.concurrent(
    'C121 headers, then pings: still the limit for the first token, and each ping passes until then',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield sseHead();
          yield repeat(ping, 100);
        },
      });
      const proxy = await stage.proxy(backend, {
        change: limits({ headMs: 5000, firstTokenMs: 900, contentStallMs: 400 }),
      });
      const client = await stage.client(proxy);
      client.send(R0);
      const answer = await client.answer();
      expectAround(performance.now() - client.sentMs, 900);
      expect(answer.body.toString().split(': ping').length).toBeGreaterThan(2);
      expect(answer.body.toString()).toContain('"code":"first_token_timeout"');
      expect(answer.body.toString()).not.toContain('[DONE]');
      expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'timeout', reason: 'first_token_timeout' });
    }),
  );

  it.concurrent(
    'C121 a limit of 0 is none',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield 700;
          yield sseHead();
          yield 700;
          yield chunk(T('a'));
          yield 700;
          yield chunk(T('b'), FIN('stop'), DONE);
          yield lastChunk;
        },
      });
      const proxy = await stage.proxy(backend, {
        change: limits({
          headMs: 0,
          firstTokenMs: 0,
          contentStallMs: 0,
          totalMs: 0,
          refusedStallMs: 0,
          clientStallMs: 0,
        }),
      });
      const client = await stage.client(proxy);
      client.send(R0);
      expect((await client.answer()).complete).toBe(true);
      expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'ok' });
    }),
  );

  it.concurrent(
    'C121 a longer prompt gets its share of time',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield 1200;
          yield wholeStream(ROLE, T('a'), FIN('stop'), DONE);
        },
      });
      const proxy = await stage.proxy(backend, {
        change: limits({ headMs: 300, firstTokenMs: 300, perBodyKibMs: 100 }),
      });
      const [short, long] = [await stage.client(proxy), await stage.client(proxy)];
      short.send(R0);
      long.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'x'.repeat(20 * 1024) }));
      expect((await short.answer()).status).toBe(504);
      expect((await long.answer()).status).toBe(200);
    }),
  );
});

describe('silence between tokens', () => {
  it.concurrent(
    'C124 pings do not count as content: the stall limit ends the stream, its place is free',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield sseHead();
          yield chunk(ROLE, T('a'));
          yield repeat(ping, 100);
        },
      });
      const proxy = await stage.proxy(backend, { places: 1, change: limits({ contentStallMs: 1000 }) });
      const client = await stage.client(proxy);
      client.send(R0);
      const answer = await client.answer();
      expectAround(performance.now() - client.sentMs, 1000);
      expect(answer.complete).toBe(false);
      const text = answer.body.toString();
      expect(text.split(': ping').length).toBeGreaterThan(2);
      expect(text).toMatch(/\n\ndata: \{"error":\{[^\n]*"code":"content_stall"[^\n]*\}\}\n\n$/);
      const [record] = await proxy.records(1);
      expect(record).toMatchObject({
        outcome: 'timeout',
        reason: 'content_stall',
        phase: 'streaming',
        events: 1,
        finishReasons: [],
      });
      await untilUserSocketsClosed(backend);
      await untilIdle(proxy);
    }),
  );

  it.concurrent(
    'C124 a slow stream whose tokens come within the limit survives',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield sseHead();
          for (let i = 0; i < 4; i += 1) {
            yield chunk(T(`t${i}`));
            for (let pings = 0; pings < 6; pings += 1) {
              yield 100;
              yield ping;
            }
          }
          yield chunk(FIN('stop'), DONE);
          yield lastChunk;
        },
      });
      const proxy = await stage.proxy(backend, { change: limits({ contentStallMs: 1500 }) });
      const client = await stage.client(proxy);
      client.send(R0);
      expect((await client.answer()).complete).toBe(true);
      expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'ok', events: 4 });
    }),
  );

  it(
    'C126 a paused client is no silent backend; when it has drained, the limit counts anew',
    staged(async (stage) => {
      let served = 0;
      const burst = T('x'.repeat(64 * 1024));
      const backend = await stage.backend({
        *onRequest() {
          yield sseHead();
          for (let sent = 0; sent < 12 * 1024 * 1024; sent += burst.length) {
            yield chunk(burst);
            served += burst.length;
          }
          yield hang();
        },
      });
      const proxy = await stage.proxy(backend, { change: limits({ contentStallMs: 700, clientStallMs: 30_000 }) });
      const client = await stage.client(proxy);
      client.send(R0);
      await client.until(() => client.receivedBytes > 100_000);
      client.socket.pause();
      await sleep(2500);
      // More than three limits long the backend was held back, not silent.
      expect(served).toBeLessThan(12 * 1024 * 1024);
      expect((await loadOf(proxy)).running).toHaveLength(1);
      const reading = readSlowly(client, { everyMs: 0 });
      await eventually(() => served >= 12 * 1024 * 1024, 'the burst is out', 20_000);
      const drainedMs = performance.now();
      const answer = await reading;
      expect(performance.now() - drainedMs).toBeLessThan(700 + 3000);
      expect(answer.complete).toBe(false);
      expect(answer.body.length).toBeGreaterThan(12 * 1024 * 1024);
      expect(answer.body.subarray(-2000).toString()).toContain('"code":"content_stall"');
      expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'timeout', reason: 'content_stall' });
    }),
    40_000,
  );

  it(
    'C126 the limit for everything holds while the client is paused, too',
    staged(async (stage) => {
      const burst = chunk(T('x'.repeat(64 * 1024)));
      const backend = await stage.backend({
        *onRequest() {
          yield sseHead();
          for (let i = 0; i < 400; i += 1) yield burst;
          yield hang();
        },
      });
      const proxy = await stage.proxy(backend, { places: 1, change: limits({ totalMs: 1500, clientStallMs: 60_000 }) });
      const client = await stage.client(proxy);
      client.send(R0);
      await client.until(() => client.receivedBytes > 100_000);
      client.socket.pause();
      const [record] = await proxy.records(1);
      expect(record).toMatchObject({ outcome: 'timeout', reason: 'total_timeout' });
      expectAround(performance.now() - client.sentMs, 1500);
      await untilUserSocketsClosed(backend);
      await untilIdle(proxy);
    }),
  );

  it.concurrent(
    'an answer that is not streamed has the limit for everything, and none before',
    staged(async (stage) => {
      const backend = await stage.backend({ onRequest: () => [hang()] });
      const proxy = await stage.proxy(backend, {
        change: limits({ headMs: 200, firstTokenMs: 200, contentStallMs: 200, totalMs: 1000 }),
      });
      const client = await stage.client(proxy);
      client.send(postBytes('/v1/chat/completions', { ...chatBody, stream: false }));
      const answer = await client.answer();
      expectAround(performance.now() - client.sentMs, 1000);
      expect(answer.status).toBe(504);
      expect(answer.body.toString()).toContain('total_timeout');
    }),
  );

  it(
    'a backend that takes the request in and never reads it to its end has the head limit',
    staged(async (stage) => {
      const backend = await stage.backend({ answerAfter: 'head', onRequest: () => [stopReading(), hang()] });
      const proxy = await stage.proxy(backend, {
        places: 1,
        change: { http: { maxBodyBytes: 64 * 1024 * 1024 }, ...limits({ headMs: 800 }) },
      });
      const client = await stage.client(proxy);
      client.send(
        postBytes('/v1/chat/completions', { ...chatBody, stream: false, user: 'x'.repeat(30 * 1024 * 1024) }),
      );
      const answer = await client.answer();
      expect(answer.status).toBe(504);
      expect((await proxy.records(1))[0]).toMatchObject({
        outcome: 'timeout',
        reason: 'head_timeout',
        phase: 'sending',
      });
      await untilIdle(proxy);
    }),
  );
});

describe('one byte at a time', () => {
  it.concurrent(
    'C127 a response head that trickles in does not move its limit',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield trickle(responseHead(200, { 'Content-Type': 'text/event-stream' }), 1, 100);
          yield hang();
        },
      });
      const proxy = await stage.proxy(backend, { places: 1, change: limits({ headMs: 1000 }) });
      const client = await stage.client(proxy);
      client.send(R0);
      const answer = await client.answer();
      expectAround(performance.now() - client.sentMs, 1000);
      expect(answer.status).toBe(504);
      expect(answer.body.toString()).toContain('head_timeout');
      await untilIdle(proxy);
    }),
  );

  it.concurrent(
    'C127 a request head that trickles in ends with 408 at its limit, and no backend hears of it',
    staged(async (stage) => {
      const backend = await stage.backend();
      const proxy = await stage.proxy(backend, { change: { http: { requestHeadMs: 1000 } } });
      const client = await stage.client(proxy);
      const openedMs = performance.now();
      const head =
        'POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\nX-Slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa';
      const drip = (async () => {
        for (const byte of head) {
          if (client.ended !== 'no') return;
          client.send(byte);
          await sleep(100);
        }
      })();
      const answer = await client.answer();
      const elapsedMs = performance.now() - openedMs;
      expect(answer.status).toBe(408);
      expect(answer.headers['connection']).toBe('close');
      expect(JSON.parse(answer.body.toString())).toMatchObject({ error: { source: 'warmlane' } });
      expect(elapsedMs).toBeGreaterThan(900);
      expect(elapsedMs).toBeLessThan(3500);
      await drip;
      expect(usersOf(backend)).toEqual([]);
    }),
  );

  it.concurrent(
    'C123 an upload may take longer than the head limit, as long as no limit for the whole request is set',
    staged(async (stage) => {
      const backend = await stage.backend({ onRequest: () => [wholeStream(ROLE, T('a'), FIN('stop'), DONE)] });
      const proxy = await stage.proxy(backend, { change: { http: { requestHeadMs: 500, requestMs: 0 } } });
      const client = await stage.client(proxy);
      const bytes = postBytes('/v1/chat/completions', chatBody);
      client.send(bytes.slice(0, -25));
      for (const byte of bytes.slice(-25)) {
        await sleep(120);
        client.send(byte);
      }
      expect((await client.answer()).status).toBe(200);
    }),
  );

  it.concurrent(
    'C123 a limit for the whole request ends a slow upload with 408, and the socket of one that reads nothing',
    staged(async (stage) => {
      const backend = await stage.backend();
      const proxy = await stage.proxy(backend, { change: { http: { requestHeadMs: 1000, requestMs: 1000 } } });
      const client = await stage.client(proxy);
      client.send(postBytes('/v1/chat/completions', chatBody).slice(0, -10));
      const answer = await client.answer();
      expect(answer.status).toBe(408);
      expect(performance.now() - client.sentMs).toBeLessThan(3500);
      const [record] = await proxy.records(1);
      expect(record).toMatchObject({
        outcome: 'client_error',
        status: 408,
        reason: 'request_timeout',
        phase: 'receiving',
        attempts: 0,
      });
      await untilIdle(proxy);
      // This client keeps its side open and goes on sending: that ends as well.
      for (let i = 0; i < 40 && client.ended !== 'reset'; i += 1) {
        client.send('x');
        await sleep(100);
      }
      expect(client.ended).toBe('reset');
      expect(usersOf(backend)).toEqual([]);
    }),
  );

  it.concurrent(
    "C123 a body that breaks HTTP in its middle gets 400, recorded as the client's error",
    staged(async (stage) => {
      const backend = await stage.backend();
      const proxy = await stage.proxy(backend);
      const client = await stage.client(proxy);
      client.send(
        'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"m\r\n',
      );
      await eventually(async () => (await loadOf(proxy)).running.length === 1, 'it is received');
      client.send('zz\r\n');
      const answer = await client.answer();
      expect(answer.status).toBe(400);
      expect((await proxy.records(1))[0]).toMatchObject({
        outcome: 'client_error',
        status: 400,
        reason: 'bad_http',
        phase: 'receiving',
      });
      expect(usersOf(backend)).toEqual([]);
    }),
  );

  it.concurrent(
    'C123 a limit that is over in the middle of an answer cuts it, and writes nothing into it',
    staged(async (stage) => {
      // The backend answers early and goes on reading, while the client never ends its upload.
      const backend = await stage.backend({
        answerAfter: 'head',
        *onRequest() {
          yield responseHead(200, { 'Content-Type': 'application/octet-stream', 'Content-Length': '1000' });
          yield 'begun';
          yield hang();
        },
      });
      const proxy = await stage.proxy(backend, { change: { http: { requestHeadMs: 1000, requestMs: 1000 } } });
      const client = await stage.client(proxy);
      client.send(
        'POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 200000\r\n\r\nabc',
      );
      const answer = await client.answer();
      expect(answer.status).toBe(200);
      expect(answer.body.toString()).toBe('begun');
      expect(answer.complete).toBe(false);
    }),
  );

  it.concurrent(
    'C128 waiting in the queue is not counted against the backend',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest(request) {
          const first = request.text().includes('"A"');
          yield sseHead();
          for (let i = 0; i < (first ? 20 : 1); i += 1) {
            yield chunk(T(`t${i}`));
            yield 100;
          }
          yield chunk(FIN('stop'), DONE);
          yield lastChunk;
        },
      });
      const proxy = await stage.proxy(backend, {
        places: 1,
        change: { ...limits({ headMs: 800, firstTokenMs: 800 }), admit: { queueTimeoutMs: 20_000 } },
      });
      const [a, b] = [await stage.client(proxy), await stage.client(proxy)];
      a.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'A' }));
      await untilAsked(backend, 1);
      b.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'B' }));
      const [first, second] = await Promise.all([a.answer(), b.answer()]);
      expect([first.complete, second.complete, second.status]).toEqual([true, true, 200]);
      expect(usersOf(backend)).toHaveLength(2);
      const [recordA, recordB] = await proxy.records(2);
      expect(recordA).toMatchObject({ outcome: 'ok' });
      expect(recordB).toMatchObject({ outcome: 'ok', attempts: 1 });
      expect(recordA?.figures.queueMs).toBeLessThan(200);
      expect(recordB?.figures.queueMs).toBeGreaterThan(1500);
      expect((recordB?.figures.upstreamTtftMs ?? Infinity) < 800).toBe(true);
    }),
  );

  it.concurrent(
    'C128 the queue has a limit of its own, with a status and a moment to come again',
    staged(async (stage) => {
      const backend = await stage.backend({
        *onRequest() {
          yield sseHead();
          yield repeat(chunk(T('a')), 50);
        },
      });
      const proxy = await stage.proxy(backend, { places: 1, change: { admit: { queueTimeoutMs: 500 } } });
      const [a, b] = [await stage.client(proxy), await stage.client(proxy)];
      a.send(R0);
      await untilAsked(backend, 1);
      b.send(R0);
      const answer = await b.answer();
      expectAround(performance.now() - b.sentMs, 500);
      expect(answer.status).toBe(503);
      expect(answer.headers['retry-after']).toBe('1');
      expect(JSON.parse(answer.body.toString())).toMatchObject({
        error: { code: 'queue_timeout', source: 'warmlane' },
      });
      const [record] = await proxy.records(1);
      expect(record).toMatchObject({ outcome: 'rejected', reason: 'queue_timeout', phase: 'queued', attempts: 0 });
      expect(record?.timeline).not.toHaveProperty('admitted');
      expect(record?.figures.queueMs).toBeGreaterThan(450);
      expect(usersOf(backend)).toHaveLength(1);
    }),
  );
});

describe('a connection that never comes about', () => {
  it.concurrent(
    'a backend that closes before its head is told as such, at once',
    staged(async (stage) => {
      const backend = await stage.backend({ onRequest: () => [fin()] });
      const proxy = await stage.proxy(backend, { change: limits({ headMs: 5000 }) });
      const client = await stage.client(proxy);
      client.send(R0);
      const answer = await client.answer();
      expect(answer.status).toBe(502);
      expect(performance.now() - client.sentMs).toBeLessThan(2500);
      expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'upstream_error', reason: 'backend_closed_early' });
    }),
  );
});
