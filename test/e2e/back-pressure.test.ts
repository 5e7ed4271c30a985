/** Fast backends and slow clients: what is passed at once, what is held at most, who is cut, and that nobody hangs. */
import { createHash } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Script } from '../../src/sim/fault-steps.ts';
import { chunk, DONE, FIN, lastChunk, ROLE, sseEvent, sseHead, T, wholeAnswer } from '../../src/sim/sse-script.ts';
import { serveBuilt, type Served } from '../support/built.ts';
import { readSlowly } from '../support/slow-reader.ts';
import { chatBody, parseAnswer, postBytes, R0, rawClient, type RawClient } from '../support/raw-http.ts';
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

const full = process.env['WARMLANE_TEST_FULL'] === '1';
const MiB = 1024 * 1024;

let stage: Stage;
let opened: { end(): Promise<void> }[];
beforeEach(() => {
  stage = createStage();
  opened = [];
});
afterEach(async () => {
  for (const each of opened) await each.end();
  await stage.close();
});

/** Events of some size, whose contents differ, so that a lost or doubled one shows. Made once for all who ask for it. */
function bulk(
  totalBytes: number,
  eventBytes: number,
): { readonly script: readonly Uint8Array[]; readonly sha256: string } {
  const events: string[] = [ROLE];
  for (let sent = 0, i = 0; sent < totalBytes; sent += eventBytes, i += 1)
    events.push(T(`${i} `.padEnd(eventBytes, 'x')));
  events.push(FIN('stop'), DONE);
  return {
    script: [Buffer.from(sseHead()), ...events.map((event) => chunk(event)), Buffer.from(lastChunk)],
    sha256: sha256(events.join('')),
  };
}

function sha256(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

describe('bytes that nobody waits for', () => {
  it('C129 each event leaves when it came: one client read per event, none waits for the next', async () => {
    const count = full ? 40 : 20;
    const gapMs = full ? 200 : 60;
    const backend = await stage.backend({
      async *onRequest() {
        yield sseHead();
        for (let i = 0; i < count; i += 1) {
          yield gapMs;
          yield chunk(sseEvent(JSON.stringify({ sentMs: performance.now(), pad: ''.padEnd(190, 'p') })));
        }
        yield lastChunk;
      },
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(R0);
    await client.answer();
    const events = client.reads.filter(({ text }) => text.includes('sentMs'));
    expect(events).toHaveLength(count);
    const delaysMs = events
      .map(({ atMs, text }) => atMs - Number(/"sentMs":([\d.]+)/.exec(text)?.[1]))
      .toSorted((a, b) => a - b);
    // The test's own processes share the machine: what is shown is that none waits for the next event, not how quick it is.
    expect(delaysMs[Math.floor(count / 2)]).toBeLessThan(gapMs * 0.75);
    expect(events.every(({ text }) => text.split('sentMs').length === 2)).toBe(true);
    const headMs = client.reads[0]?.atMs ?? Infinity;
    const firstEventMs = events[0]?.atMs ?? 0;
    expect(headMs).toBeLessThan(firstEventMs - 20);
  });

  it('C131 status and headers come at once, long before the first event; Cache-Control is kept and completed', async () => {
    const backend = await stage.backend({
      *onRequest() {
        yield sseHead({ 'Cache-Control': 'no-store' });
        yield 1500;
        yield chunk(ROLE, T('a'), FIN('stop'), DONE);
        yield lastChunk;
      },
    });
    const proxy = await stage.proxy(backend);
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('\r\n\r\n'), 1000);
    expect(performance.now() - client.sentMs).toBeLessThan(500);
    const answer = await client.answer();
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('text/event-stream');
    expect(answer.headers['cache-control']).toBe('no-store, no-transform');
    expect(answer.headers['x-accel-buffering']).toBe('no');
  });

  it('C131 where the head waits for the first event, it waits no longer than its bound', async () => {
    const backend = await stage.backend({
      probes: { engine: 'vllm' },
      *onRequest() {
        yield sseHead();
        yield 2000;
        yield chunk(ROLE, T('a'), FIN('stop'), DONE);
        yield lastChunk;
      },
    });
    const proxy = await stage.proxy(backend, { change: { relay: { headHoldMs: 250 } } });
    const client = await stage.client(proxy);
    client.send(R0);
    await client.until(() => client.received.includes('\r\n\r\n'), 1500);
    const elapsedMs = performance.now() - client.sentMs;
    expect(elapsedMs).toBeGreaterThan(225);
    expect(elapsedMs).toBeLessThan(1000);
    const answer = await client.answer();
    expect(answer.headers['cache-control']).toBe('no-cache, no-transform');
    expect(answer.complete).toBe(true);
  });
});

describe('a client that does not read', () => {
  it('C082 is cut at its limit: the backend is cancelled and its place goes to the next one', async () => {
    const { script } = bulk(24 * MiB, 64 * 1024);
    const backend = await stage.backend({
      onRequest: (request): Script => (request.text().includes('"A"') ? script : [wholeAnswer(200, { ok: true })]),
    });
    const proxy = await stage.proxy(backend, { places: 1, change: { relay: { deadlines: { clientStallMs: 1200 } } } });
    const a = await stage.client(proxy);
    a.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'A' }));
    await a.until(() => a.receivedBytes > 10_000);
    a.socket.pause();
    const b = await stage.client(proxy);
    b.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'B', stream: false }));
    await eventually(async () => (await loadOf(proxy)).waiting === 1, 'B waits');
    const load = await loadOf(proxy);
    expect(load).toMatchObject({ slots: 1, running: [{ phase: 'streaming' }, { phase: 'queued' }] });
    const answer = await b.answer();
    expect(answer.status).toBe(200);
    expect(performance.now() - b.sentMs).toBeGreaterThan(700);
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({
      outcome: 'client_abort',
      reason: 'client_stalled',
      phase: 'streaming',
      status: 200,
    });
    const request = usersOf(backend)[0];
    expect(request === undefined ? true : backend.connectionOf(request).open).toBe(false);
    await untilIdle(proxy);
  });

  it('C082 a client that takes its bytes slowly, but takes them, is not cut', async () => {
    const answers = bulk(10 * MiB, 64 * 1024);
    const backend = await stage.backend({ onRequest: () => answers.script });
    const proxy = await stage.proxy(backend, { change: { relay: { deadlines: { clientStallMs: 3000 } } } });
    const client = await stage.client(proxy);
    client.send(R0);
    const answer = await readSlowly(client, { everyMs: 40 });
    // Longer than the limit; the kernel tells of the bytes taken every second or so.
    expect(performance.now() - client.sentMs).toBeGreaterThan(4500);
    expect(answer.complete).toBe(true);
    expect(sha256(answer.body)).toBe(answers.sha256);
    expect((await proxy.records(1))[0]).toMatchObject({ outcome: 'ok' });
  }, 40_000);

  it('C082 an ended answer whose last bytes nobody takes does not keep the socket for ever', async () => {
    const backend = await stage.backend({ onRequest: () => [wholeAnswer(200, Buffer.alloc(12 * MiB, 'y'))] });
    // So much may be kept that the backend is through with it while the client has taken nothing.
    const proxy = await stage.proxy(backend, {
      change: { relay: { maxBufferedBytes: 32 * MiB, deadlines: { clientStallMs: 1000 } } },
    });
    const client = await stage.client(proxy);
    client.socket.pause();
    client.send(postBytes('/v1/chat/completions', { ...chatBody, stream: false }));
    const [record] = await proxy.records(1);
    expect(record).toMatchObject({ outcome: 'ok' });
    await untilIdle(proxy);
    await sleep(2500);
    client.socket.resume();
    await client.until(() => client.ended !== 'no', 5000);
    expect(parseAnswer(client.received, true)?.complete).toBe(false);
  });

  it('C082 what an ended answer had to be taken within does not end the wait for the request behind it', async () => {
    const big = Buffer.alloc(12 * MiB, 'y');
    const backend = await stage.backend({
      onRequest: (request): Script =>
        request.text().includes('"A"') ? [wholeAnswer(200, big)] : [2500, wholeAnswer(200, { ok: true })],
    });
    const proxy = await stage.proxy(backend, {
      change: { relay: { maxBufferedBytes: 32 * MiB, deadlines: { clientStallMs: 1000 } } },
    });
    const client = await stage.client(proxy);
    client.socket.pause();
    const [a, b] = ['A', 'B'].map((user) => postBytes('/v1/chat/completions', { ...chatBody, user, stream: false }));
    client.send(Buffer.concat([Buffer.from(a ?? ''), Buffer.from(b ?? '')]));
    await proxy.records(1);
    client.socket.resume();
    await client.until(() => client.received.includes('{"ok":true}'), 10_000);
    expect((await proxy.records(2)).map(({ outcome }) => outcome)).toEqual(['ok', 'ok']);
  });

  it(
    'C083 that goes away while its stream is held back leaves nothing behind',
    async () => {
      const rounds = full ? 1000 : 20;
      const { script } = bulk(24 * MiB, 256 * 1024);
      const backend = await stage.backend({ onRequest: () => script });
      const proxy = await stage.proxy(backend, { change: { http: { maxRecords: 5 }, export: { requestLog: false } } });
      const before = process.getActiveResourcesInfo().filter((kind) => kind.startsWith('TCP')).length;
      for (let round = 0; round < rounds; round += 1) {
        const client = await rawClient(proxy.port);
        client.send(R0);
        const early = round % 4 === 3;
        await client.until(() => client.receivedBytes > 0);
        if (!early) {
          client.socket.pause();
          const request = await untilAsked(backend, round + 1);
          const connection = backend.connectionOf(request);
          // Held back: the backend's writes stand still.
          let sentBytes = -1;
          await eventually(async () => {
            const standsStill = connection.sentBytes === sentBytes;
            sentBytes = connection.sentBytes;
            await sleep(15);
            return standsStill;
          }, 'the backend is held back');
          expect(sentBytes).toBeLessThan(24 * MiB);
        }
        if (round % 2 === 0) client.leave();
        else client.reset();
      }
      await untilIdle(proxy);
      await eventually(() => backend.openSockets === 0, 'all sockets of the backend are closed');
      await eventually(
        () => process.getActiveResourcesInfo().filter((kind) => kind.startsWith('TCP')).length <= before + 2,
        'all sockets are closed',
      );
      expect((await proxy.records(1)).every(({ outcome }) => outcome === 'client_abort')).toBe(true);
    },
    full ? 600_000 : 60_000,
  );
});

describe('many slow clients', () => {
  it(
    "C133 all answers arrive exact at their clients' pace, none is stuck",
    async () => {
      const [clients, bytes] = full ? [20, 40 * MiB] : [8, 12 * MiB];
      const bulky = bulk(bytes, 16 * 1024);
      const backend = await stage.backend({ onRequest: () => bulky.script });
      const proxy = await stage.proxy(backend);
      const answers = await Promise.all(
        Array.from({ length: clients }, async () => {
          const client = await stage.client(proxy);
          client.send(R0);
          return readSlowly(client, { everyMs: 10 });
        }),
      );
      for (const answer of answers) {
        expect(answer.complete).toBe(true);
        expect(sha256(answer.body)).toBe(bulky.sha256);
      }
      const records = await proxy.records(clients);
      expect(new Set(records.map(({ outcome }) => outcome))).toEqual(new Set(['ok']));
    },
    full ? 600_000 : 60_000,
  );

  it(
    'C132 paused clients: little is held for each, the backend feels it, and after it all bytes come',
    async () => {
      // More than the kernel's buffers hold, on each of both ways.
      const [streams, bytes] = full ? [64, 32 * MiB] : [12, 24 * MiB];
      const bulky = bulk(bytes, 256 * 1024);
      const backend = await stage.backend({
        onRequest: (request): Script => (request.text().includes('warm-up') ? [shortStream] : bulky.script),
      });
      const served = await serveBuilt({
        config: { backends: [{ url: backend.url }], deadlines: { clientStallMs: 600_000 } },
      });
      opened.push(served);
      await warmUp(served);
      const startBytes = await rssOf(served);
      const clients: RawClient[] = [];
      for (let i = 0; i < streams; i += 1) {
        const client = await rawClient(served.port);
        clients.push(client);
        client.send(R0);
        await client.until(() => client.receivedBytes > 0);
        client.socket.pause();
      }
      await sleep(1500);
      const sentBytes = usersOf(backend).map((request) => backend.connectionOf(request).sentBytes);
      expect(Math.max(...sentBytes)).toBeLessThan(bytes);
      // The answers are 24 MiB each; the rest is the runtime's own room to breathe.
      const mostBytes = streams * MiB + 36 * MiB;
      let grownBytes = (await rssOf(served)) - startBytes;
      // What is held stays; what was garbage goes within seconds, since nothing comes meanwhile.
      for (let tries = 0; tries < 15 && grownBytes >= mostBytes; tries += 1) {
        await sleep(1000);
        grownBytes = (await rssOf(served)) - startBytes;
      }
      expect(grownBytes).toBeLessThan(mostBytes);
      // One after another: what the test itself holds shall stay small.
      for (const client of clients) {
        const answer = await readSlowly(client, { everyMs: 0 });
        expect(answer.complete).toBe(true);
        expect(sha256(answer.body)).toBe(bulky.sha256);
        client.leave();
      }
      await eventually(
        () => served.logged.filter(({ outcome }) => outcome === 'ok').length === streams + 1,
        'all are booked well',
      );
    },
    full ? 300_000 : 180_000,
  );

  it(
    'C134 thousands of short requests: no warning, no listener, no growth',
    async () => {
      const requests = full ? 20_000 : 3200;
      const backend = await stage.backend({
        onRequest: (request) => [request.text().includes('"stream":true') ? shortStream : shortAnswer],
      });
      const served = await serveBuilt({
        config: {
          backends: [{ url: backend.url }],
          records: { maxRecords: 10 },
          log: { format: 'json', requests: false },
        },
        nodeArguments: [
          '--trace-warnings',
          '--expose-gc',
          '--import',
          new URL('../support/report-memory.mjs', import.meta.url).href,
        ],
      });
      opened.push(served);
      const run = async (count: number) => {
        await Promise.all(
          Array.from({ length: 8 }, async () => {
            let client = await rawClient(served.port);
            for (let i = 0; i < count / 8; i += 1) {
              if (i % 50 === 49) {
                client.leave();
                client = await rawClient(served.port);
              }
              const before = client.receivedBytes;
              client.send(i % 2 === 0 ? R0 : postBytes('/v1/chat/completions', { ...chatBody, stream: false }));
              await client.until(() => parseAnswer(client.received.subarray(before))?.complete === true);
            }
            client.leave();
          }),
        );
      };
      const memory = async () => {
        const before = served.logged.length;
        served.child.kill('SIGUSR2');
        const line = () => served.logged.slice(before).find(({ msg }) => msg === 'memory');
        await eventually(() => line() !== undefined, 'its memory is told');
        return line() as unknown as { heapBytes: number; mostListeners: number };
      };
      await run(requests / 2);
      const early = await memory();
      await run(requests / 2);
      const late = await memory();
      expect(usersOf(backend)).toHaveLength(requests);
      expect(late.heapBytes / early.heapBytes).toBeLessThan(1.05);
      expect(late.mostListeners).toBeLessThanOrEqual(early.mostListeners);
      expect(late.mostListeners).toBeLessThan(10);
      expect(served.logged.filter(({ text, level }) => text !== undefined || level === 'error')).toEqual([]);
      await untilIdle(served);
    },
    full ? 300_000 : 180_000,
  );
});

const shortStream = Buffer.concat([
  Buffer.from(sseHead()),
  chunk(ROLE, T('a'), FIN('stop'), DONE),
  Buffer.from(lastChunk),
]);
const shortAnswer = wholeAnswer(200, {
  object: 'chat.completion',
  choices: [],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

async function rssOf(served: Served): Promise<number> {
  const answer = await fetch(`${served.adminUrl}/healthz`);
  return ((await answer.json()) as { rssBytes: number }).rssBytes;
}

/** Lets the program load and compile what every request needs. */
async function warmUp(served: Served): Promise<void> {
  const client = await rawClient(served.port);
  client.send(postBytes('/v1/chat/completions', { ...chatBody, user: 'warm-up' }));
  await client.answer(30_000);
  client.leave();
}
