import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../src/platform/clock.ts';
import { createH1Client } from '../../../../src/platform/upstream/h1-client.ts';
import type { RequestBody } from '../../../../src/platform/upstream/port.ts';
import { upstreamDefaults } from '../../../../src/platform/upstream/settings.ts';
import { get, post, settled, start, until } from './exchange-log.ts';
import { chunkedAnswer, lengthAnswer, onRequests, startRawBackend } from './raw-backend.ts';

const sockets: Socket[] = [];

function onSocket(message: unknown): void {
  // The channel's message is documented as `{ socket: net.Socket }`.
  sockets.push((message as { socket: Socket }).socket);
}

afterEach(() => {
  unsubscribe('net.client.socket', onSocket);
  sockets.length = 0;
});

function listeners(socket: Socket): Record<string, number> {
  return Object.fromEntries(socket.eventNames().map((name) => [String(name), socket.listenerCount(name)]));
}

/** A small generator with a printed seed, so that a failure can be run again. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe('500 exchanges, many of them aborted at random moments', () => {
  it('leave no busy connection, no listener and no call behind', async () => {
    const seed = Number(process.env['WARMLANE_FUZZ_SEED'] ?? Date.now() % 2 ** 31);
    console.log(`leak test: seed ${seed}`);
    const random = randomFrom(seed);
    const server = await startRawBackend((socket) =>
      onRequests(socket, ({ path }) => {
        const answer =
          path === '/short' ? lengthAnswer('ok') : chunkedAnswer(['data: a\n\n', 'data: b\n\n', 'x'.repeat(9000)]);
        const cut = Math.floor(random() * answer.length);
        socket.write(answer.slice(0, cut));
        setTimeout(() => (path === '/cut' ? socket.destroy() : socket.write(answer.slice(cut))), random() * 3);
      }),
    );
    subscribe('net.client.socket', onSocket);
    const client = createH1Client(upstreamDefaults, { clock: systemClock });
    const ended: Record<string, number> = { end: 0, fault: 0, aborted: 0 };
    const broken: string[] = [];

    const upload = (): RequestBody => ({
      kind: 'stream',
      bytes: undefined,
      start(sink) {
        for (let i = 0; i < 3; i += 1) sink.write(Buffer.alloc(random() * 40_000));
        if (random() < 0.1) sink.fail();
        else setTimeout(() => sink.end(), random() * 3);
      },
      drained() {},
    });

    async function one(): Promise<void> {
      const path = ['/short', '/short', '/stream', '/cut'][Math.floor(random() * 4)] ?? '/';
      const request = random() < 0.3 ? post(path, upload()) : get(path, { reuseAfterStream: random() < 0.5 });
      const running = start(client, server.target, request, {
        body(read) {
          if (random() < 0.3) read.retain();
          if (random() < 0.3) {
            running.exchange.pause();
            setTimeout(() => running.exchange.resume(), random() * 2);
          }
        },
      });
      const leavesMs = random() < 0.5 ? random() * 6 : 1000;
      const left = new Promise<'aborted'>((resolve) => void setTimeout(() => resolve('aborted'), leavesMs));
      const how = await Promise.race([running.done.then(({ fault }) => (fault === undefined ? 'end' : 'fault')), left]);
      if (how === 'aborted') running.exchange.abort();
      ended[how] = (ended[how] ?? 0) + 1;
      broken.push(...running.log.broken);
    }

    for (let i = 0; i < 500; i += 25) await Promise.all(Array.from({ length: 25 }, one));

    expect(broken).toEqual([]);
    expect(client.stats().busy).toBe(0);
    expect(Math.min(ended['end'] ?? 0, ended['fault'] ?? 0, ended['aborted'] ?? 0)).toBeGreaterThan(10);
    const alive = sockets.filter((socket) => !socket.destroyed);
    expect(alive).toHaveLength(client.stats().idle);
    expect(alive.length).toBeGreaterThan(0);

    // A connection that served many exchanges has the listeners of one that served one.
    const fresh = start(client, server.target, get('/short', { fresh: true }));
    await fresh.done;
    const newest = sockets.at(-1);
    for (const socket of alive) expect(listeners(socket)).toEqual(newest === undefined ? {} : listeners(newest));

    client.close();
    await until(() => server.open() === 0, 'every connection is closed');
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
    await server.close();
  });
});

describe('a waiting connection', () => {
  it('does not keep the process alive, a busy one does', async () => {
    const server = await startRawBackend((socket) =>
      onRequests(socket, () => void setTimeout(() => socket.write(lengthAnswer('ok')), 20)),
    );
    subscribe('net.client.socket', onSocket);
    const client = createH1Client(upstreamDefaults, { clock: systemClock });
    const held = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
    const before = held();
    for (let i = 0; i < 2; i += 1) {
      const running = start(client, server.target, get('/'));
      await until(() => running.log.calls.includes('sent'), 'sent');
      // Both ends are in this process.
      expect(held() - before).toBe(2);
      await running.done;
      expect(held() - before).toBe(1);
      await settled();
    }
    expect(sockets).toHaveLength(1);
    client.close();
    await server.close();
  });
});
