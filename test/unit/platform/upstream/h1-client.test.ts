import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type net from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../src/platform/clock.ts';
import { createH1Client } from '../../../../src/platform/upstream/h1-client.ts';
import type { BodySink, RequestBody, UpstreamClient, UpstreamTarget } from '../../../../src/platform/upstream/port.ts';
import { upstreamDefaults } from '../../../../src/platform/upstream/settings.ts';
import { parseTarget } from '../../../../src/platform/upstream/target.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';
import { bodyText, get, held, post, run, settled, start, until } from './exchange-log.ts';
import {
  chunkedAnswer,
  lengthAnswer,
  onRequests,
  type RawBackend,
  startRawBackend,
  startTalkingBackend,
} from './raw-backend.ts';

const open: { close(): void | Promise<void> }[] = [];

afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each.close();
});

function keep<T extends { close(): void | Promise<void> }>(each: T): T {
  open.push(each);
  return each;
}

function newClient(settings: Partial<typeof upstreamDefaults> = {}, clock = systemClock): UpstreamClient {
  return keep(createH1Client({ ...upstreamDefaults, ...settings }, { clock }));
}

async function backend(serve: (socket: net.Socket, index: number) => void): Promise<RawBackend> {
  return keep(await startRawBackend(serve));
}

/** In a thread of its own: reads nothing, answers after 10 ms and closes; what lies there unread makes its kernel send a reset. */
async function startEarlyBackend(answer: string): Promise<{ target: UpstreamTarget; close(): Promise<void> }> {
  const worker = new Worker(
    `const net = require('node:net');
     const { parentPort, workerData } = require('node:worker_threads');
     const server = net.createServer({ pauseOnConnect: true }, (socket) => {
       socket.on('error', () => {});
       setTimeout(() => socket.write(workerData, () => setTimeout(() => socket.destroy(), 2)), 10);
     });
     server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
    { eval: true, workerData: answer },
  );
  const port = await new Promise<number>((resolve) => void worker.once('message', resolve));
  return {
    target: parseTarget(`http://127.0.0.1:${port}`),
    async close() {
      await worker.terminate();
    },
  };
}

describe('one exchange', () => {
  it('sends the request and tells the response in order', async () => {
    const seen: string[] = [];
    const server = await backend((socket) =>
      onRequests(socket, ({ head, body }) => {
        seen.push(head, body.toString());
        socket.write(chunkedAnswer(['one', 'two'], 'X-Up: yes\r\n'));
      }),
    );
    const log = await run(newClient(), server.target, post('/v1/x?y=1', held('{"a":', '1}')));
    expect(seen).toEqual([
      `POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\nConnection: keep-alive\r\nX-Test: 1\r\nContent-Length: 7`,
      '{"a":1}',
    ]);
    expect(log.calls).toEqual(['connected', 'sent', 'head', 'body', 'end']);
    expect(log).toMatchObject({ reused: false, address: `127.0.0.1:${server.port}`, broken: [], verbatim: [true] });
    expect(bodyText(log)).toBe('onetwo');
  });

  it('C022 survives a pause at every byte of the framing and keeps the connection', async () => {
    const payload = 'data: {"a":"b"}\n\ndata: [DONE]\n';
    const pieces = [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r',
      '\n1',
      'e;ext=1\r',
      '\n',
      payload,
      '\r\n0\r',
      '\n\r',
      '\n',
    ];
    const server = await backend((socket) =>
      onRequests(socket, () => {
        pieces.forEach((piece, i) => void setTimeout(() => socket.write(piece), i * 5));
      }),
    );
    const client = newClient();
    for (const reused of [false, true]) {
      const log = await run(client, server.target, get('/'));
      expect(bodyText(log)).toBe(payload);
      expect(log).toMatchObject({ fault: undefined, reused, broken: [] });
      await settled();
    }
    expect(server.accepted).toHaveLength(1);
  });

  it('C090 faults on double framing, drops the connection and serves the next request', async () => {
    const server = await backend((socket) =>
      onRequests(socket, ({ path }) => {
        const both =
          'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n';
        socket.write(path === '/both' ? both : lengthAnswer('fine'));
      }),
    );
    const client = newClient();
    const log = await run(client, server.target, get('/both'));
    expect(log.calls).toEqual(['connected', 'sent', 'fault']);
    expect(log.fault).toMatchObject({
      kind: 'bad_response',
      detail: `127.0.0.1:${server.port} sent both Content-Length and Transfer-Encoding`,
      nothingSent: false,
      reused: false,
      responseStarted: true,
    });
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
    expect(bodyText(await run(client, server.target, get('/next')))).toBe('fine');
    expect(server.accepted).toHaveLength(2);
  });

  it('swallows interim responses', async () => {
    const server = keep(await startTalkingBackend(() => `HTTP/1.1 100 Continue\r\n\r\n${lengthAnswer('ok')}`));
    const log = await run(newClient(), server.target, get('/'));
    expect(log.calls).toEqual(['connected', 'sent', 'head', 'body', 'end']);
  });

  it('faults on a protocol switch that nobody asked for', async () => {
    const server = keep(await startTalkingBackend(() => 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n'));
    expect((await run(newClient(), server.target, get('/'))).fault?.kind).toBe('bad_response');
  });

  it('hands over memory that stays untouched once it was retained', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        let sent = 0;
        const next = () => {
          sent += 1;
          socket.write(sent > 40 ? '0\r\n\r\n' : `190\r\n${String(sent).padStart(4).repeat(100)}\r\n`);
          if (sent <= 40) setTimeout(next, 1);
        };
        next();
      }),
    );
    const kept: Buffer[] = [];
    const log = await run(newClient(), server.target, get('/'), {
      body(read) {
        for (let i = 0; i < read.count; i += 1) kept.push(read.wire.subarray(read.starts[i], read.ends[i]));
        read.retain();
      },
    });
    expect(log.fault).toBeUndefined();
    expect(Buffer.concat(kept).toString()).toBe(bodyText(log));
    expect(log.reads.length).toBeGreaterThan(10);
  });

  it('reads a long body in ever larger reads', async () => {
    const text = 'x'.repeat(3_000_000);
    const server = keep(await startTalkingBackend(() => lengthAnswer(text)));
    const log = await run(newClient(), server.target, get('/'));
    expect(bodyText(log)).toBe(text);
    expect(Math.max(...log.reads.map((read) => read.length))).toBeGreaterThan(32_768);
  });
});

describe('a request that the caller got wrong', () => {
  const target = parseTarget('http://127.0.0.1:1');
  it.each([
    ['a newline in a value', { headers: ['X', 'a\r\nY: b'] }],
    ['a bare CR in a value', { headers: ['X', 'a\rb'] }],
    ['a NUL in a value', { headers: ['X', 'a\0b'] }],
    ['a character that latin1 turns into a newline', { headers: ['X', 'a\u010ab'] }],
    ['a newline in a name', { headers: ['X\r\nY', 'a'] }],
    ['a blank in a name', { headers: ['X ', 'a'] }],
    ['a name without a value', { headers: ['X'] }],
    ['a Host of its own', { headers: ['hOst', 'a'] }],
    ['a Content-Length of its own', { headers: ['Content-Length', '1'] }],
    ['a Transfer-Encoding of its own', { headers: ['transfer-encoding', 'chunked'] }],
    ['a newline in the target', { target: '/ HTTP/1.1\r\nX: y' }],
    ['a blank in the target', { target: '/a b' }],
    ['an empty target', { target: '' }],
    ['a newline in the method', { method: 'GET /\r\n' }],
    ['CONNECT', { method: 'CONNECT' }],
    ['a body of another length', { body: { kind: 'held', chunks: [Buffer.from('abc')], bytes: 2 } as const }],
  ])('throws for %s', (_, overrides) => {
    expect(() => newClient().open(target, get('/', overrides), {} as never)).toThrow(RangeError);
  });
});

describe('faults', () => {
  it('C073 tries both addresses of a name, whichever the server listens on', async () => {
    for (const host of ['127.0.0.1', '::1']) {
      const server = keep(
        await startRawBackend((socket) => onRequests(socket, () => void socket.write(lengthAnswer('ok'))), { host }),
      );
      const lookup: net.LookupFunction = (_, __, done) =>
        done(null, [
          { address: '::1', family: 6 },
          { address: '127.0.0.1', family: 4 },
        ]);
      const client = keep(createH1Client(upstreamDefaults, { clock: systemClock, lookup }));
      const startedMs = performance.now();
      const log = await run(client, parseTarget(`http://localhost:${server.port}`), get('/'));
      expect(bodyText(log)).toBe('ok');
      expect(log.address).toBe(host === '::1' ? `[::1]:${server.port}` : `127.0.0.1:${server.port}`);
      expect(performance.now() - startedMs).toBeLessThan(300);
    }
  });

  it('C073 speaks to an IPv6 literal with its brackets in Host', async () => {
    const heads: string[] = [];
    const server = keep(
      await startRawBackend(
        (socket) =>
          onRequests(socket, ({ head }) => {
            heads.push(head);
            socket.write(lengthAnswer('ok'));
          }),
        { host: '::1' },
      ),
    );
    await run(newClient(), parseTarget(`http://[::1]:${server.port}`), get('/'));
    expect(heads[0]).toContain(`\r\nHost: [::1]:${server.port}\r\n`);
  });

  it('C073 names both addresses when both refuse', async () => {
    const server = await startRawBackend(() => {});
    await server.close();
    const lookup: net.LookupFunction = (_, __, done) =>
      done(null, [
        { address: '::1', family: 6 },
        { address: '127.0.0.1', family: 4 },
      ]);
    const client = keep(createH1Client(upstreamDefaults, { clock: systemClock, lookup }));
    const { fault, calls } = await run(client, parseTarget(`http://localhost:${server.port}`), get('/'));
    expect(calls).toEqual(['fault']);
    expect(fault).toMatchObject({ kind: 'refused', nothingSent: true, reused: false, responseStarted: false });
    expect(fault?.detail).toContain(`::1:${server.port}`);
    expect(fault?.detail).toContain(`127.0.0.1:${server.port}`);
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
  });

  it('tells a name that does not resolve', async () => {
    const lookup: net.LookupFunction = (host, _, done) =>
      done(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' }), '', 0);
    const client = keep(createH1Client(upstreamDefaults, { clock: systemClock, lookup }));
    const { fault } = await run(client, parseTarget('http://nowhere.invalid'), get('/'));
    expect(fault).toMatchObject({ kind: 'dns', nothingSent: true });
    expect(fault?.detail).toContain('nowhere.invalid');
  });

  it('tells a connection that does not come about in time', async () => {
    const clock = createFakeClock();
    const lookup: net.LookupFunction = () => {};
    const client = keep(createH1Client(upstreamDefaults, { clock, lookup }));
    const running = start(client, parseTarget('http://slow.invalid'), get('/', { connectTimeoutMs: 700 }));
    await settled();
    clock.advance(699);
    await settled();
    expect(running.log.calls).toEqual([]);
    clock.advance(1);
    const { fault } = await running.done;
    expect(fault).toMatchObject({ kind: 'connect_timeout', nothingSent: true });
    expect(fault?.detail).toContain('slow.invalid');
    expect(client.stats().busy).toBe(0);
  });

  it('C071 says that a request was sent when the connection is reset before any answer', async () => {
    const server = await backend((socket) => onRequests(socket, () => void socket.resetAndDestroy()));
    const { fault } = await run(newClient(), server.target, post('/', held('x')));
    expect(fault).toMatchObject({ kind: 'reset', nothingSent: false, reused: false, responseStarted: false });
  });

  it('C054 tells a body that is shorter than announced', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => void socket.end(`HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n${'x'.repeat(200)}`)),
    );
    const log = await run(newClient(), server.target, get('/'));
    expect(log.calls).toEqual(['connected', 'sent', 'head', 'body', 'fault']);
    expect(log.fault).toMatchObject({ kind: 'eof', responseStarted: true });
    expect(log.fault?.detail).toContain('300 bytes short');
  });

  it.each([
    ['before any byte', ''],
    ['inside the head', 'HTTP/1.1 200 OK\r\nX: '],
    ['inside a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab'],
    ['before the last chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n'],
    ['inside the last chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n'],
  ])('tells a connection that ends %s', async (_, text) => {
    const server = await backend((socket) => onRequests(socket, () => void socket.end(text)));
    const { fault } = await run(newClient(), server.target, get('/'));
    expect(fault).toMatchObject({ kind: 'eof', nothingSent: false, responseStarted: text !== '' });
  });

  it('takes the end of the connection for the end of a body that runs to it', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => void socket.end('HTTP/1.1 200 OK\r\n\r\nall of it')),
    );
    const client = newClient();
    const log = await run(client, server.target, get('/'));
    expect(log.calls).toEqual(['connected', 'sent', 'head', 'body', 'end']);
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
  });

  it('tells a reset inside a body that runs to the close', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\nhalf');
        setTimeout(() => socket.resetAndDestroy(), 10);
      }),
    );
    expect((await run(newClient(), server.target, get('/'))).fault).toMatchObject({
      kind: 'reset',
      responseStarted: true,
    });
  });
});

describe('the idle pool', () => {
  it('takes the connection again that was used last', async () => {
    const server = keep(await startTalkingBackend(() => lengthAnswer('ok')));
    const client = newClient();
    const pair = [run(client, server.target, get('/1')), run(client, server.target, get('/2'))];
    await Promise.all(pair);
    await settled();
    expect(client.stats()).toEqual({ idle: 2, busy: 0 });
    for (let i = 0; i < 3; i += 1) {
      expect((await run(client, server.target, get('/3'))).reused).toBe(true);
      await settled();
    }
    expect(server.accepted).toHaveLength(2);
  });

  it('is passed over by a request that asks for a fresh connection', async () => {
    const server = keep(await startTalkingBackend(() => lengthAnswer('ok')));
    const client = newClient();
    await run(client, server.target, get('/'));
    await settled();
    expect((await run(client, server.target, get('/', { fresh: true }))).reused).toBe(false);
  });

  it.each([
    ['Connection: close', lengthAnswer('ok', 'Connection: close\r\n')],
    ['HTTP/1.0', lengthAnswer('ok').replace('1.1', '1.0')],
    ['bytes behind the answer', `${lengthAnswer('ok')}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`],
    ['one byte behind the last chunk', `${chunkedAnswer(['ok'])}\n`],
    ['Keep-Alive: timeout=1', lengthAnswer('ok', 'Keep-Alive: timeout=1\r\n')],
    ['Keep-Alive: max=1', lengthAnswer('ok', 'Keep-Alive: timeout=5, max=1\r\n')],
    ['a 204 with a length', 'HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n'],
  ])('never sees a connection again after %s', async (_, text) => {
    const server = keep(await startTalkingBackend(() => text));
    const client = newClient();
    expect((await run(client, server.target, get('/'))).fault).toBeUndefined();
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
    await until(() => server.open() === 0, 'the connection is closed');
  });

  it('drops a waiting connection at once that receives a byte, and takes nothing from it', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write(lengthAnswer('ok'));
        setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'), 5);
      }),
    );
    const client = newClient({ idleMs: 60_000 });
    await run(client, server.target, get('/'));
    expect(client.stats().idle).toBe(1);
    await until(() => client.stats().idle === 0, 'it is dropped');
    expect(bodyText(await run(client, server.target, get('/')))).toBe('ok');
  });

  it('does not take bytes that came right behind an answer for the next answer', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write(lengthAnswer('ok'));
        // A segment of its own, before the client's next request can be here.
        setImmediate(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'));
      }),
    );
    const client = newClient({ idleMs: 60_000 });
    for (let i = 0; i < 50; i += 1) {
      const log = await run(client, server.target, get('/'));
      expect(bodyText(log)).toBe('ok');
    }
  });

  it('drops a waiting connection at once that its server closes or resets', async () => {
    const server = await backend((socket, index) =>
      onRequests(socket, () => {
        socket.write(lengthAnswer('ok'));
        setTimeout(() => (index === 0 ? socket.end() : socket.resetAndDestroy()), 5);
      }),
    );
    const client = newClient({ idleMs: 60_000 });
    for (const accepted of [1, 2]) {
      await run(client, server.target, get('/'));
      expect(client.stats().idle).toBe(1);
      await until(() => client.stats().idle === 0, 'it is dropped');
      expect(server.accepted).toHaveLength(accepted);
    }
  });

  it('R02 drops waiting connections before their server would: one second before what it announced, else after 4 s', async () => {
    const server = keep(
      await startTalkingBackend((path) => lengthAnswer('ok', path === '/told' ? 'Keep-Alive: timeout=10\r\n' : '')),
    );
    const clock = createFakeClock();
    const client = newClient({}, clock);
    await Promise.all([run(client, server.target, get('/told')), run(client, server.target, get('/untold'))]);
    clock.advance(3999);
    expect(client.stats().idle).toBe(2);
    clock.advance(1);
    expect(client.stats().idle).toBe(1);
    clock.advance(4999);
    expect(client.stats().idle).toBe(1);
    clock.advance(1);
    expect(client.stats().idle).toBe(0);
    await until(() => server.open() === 0, 'both are closed');
  });

  it('R02 does not take a connection whose time was over while the event loop was late', async () => {
    const server = keep(await startTalkingBackend(() => lengthAnswer('ok')));
    const fake = createFakeClock();
    let aheadMs = 0;
    const client = newClient({}, { ...fake, nowMs: () => fake.nowMs() + aheadMs });
    await run(client, server.target, get('/'));
    await settled();
    aheadMs = 4000;
    expect((await run(client, server.target, get('/'))).reused).toBe(false);
  });

  it('is bounded per target and in all', async () => {
    const servers = [
      keep(await startTalkingBackend(() => lengthAnswer('ok'))),
      keep(await startTalkingBackend(() => lengthAnswer('ok'))),
    ];
    const client = newClient({ maxIdlePerTarget: 2, maxIdleTotal: 3 });
    await Promise.all(servers.flatMap(({ target }) => [1, 2, 3, 4].map(() => run(client, target, get('/')))));
    await settled();
    expect(client.stats().idle).toBeLessThanOrEqual(3);
    await until(() => servers.reduce((sum, server) => sum + server.open(), 0) <= 3, 'the others are closed');
    const none = newClient({ maxIdlePerTarget: 0 });
    await run(none, servers[0]?.target ?? parseTarget('http://x'), get('/'));
    expect(none.stats()).toEqual({ idle: 0, busy: 0 });
  });

  it('keeps connections apart that differ in trust', async () => {
    const server = keep(await startTalkingBackend(() => lengthAnswer('ok')));
    const client = newClient();
    await run(client, server.target, get('/'));
    await settled();
    const other = { ...server.target, tls: { verify: false } };
    expect((await run(client, other, get('/'))).reused).toBe(false);
    expect((await run(client, { ...server.target }, get('/'))).reused).toBe(true);
  });

  it('is emptied by close, and busy connections close when their exchange ends', async () => {
    const server = await backend((socket) =>
      onRequests(
        socket,
        ({ path }) => void setTimeout(() => socket.write(lengthAnswer('ok')), path === '/slow' ? 20 : 0),
      ),
    );
    const client = newClient();
    await run(client, server.target, get('/'));
    const slow = start(client, server.target, get('/slow', { fresh: true }));
    await until(() => slow.log.calls.includes('sent'), 'the request is sent');
    client.close();
    expect(client.stats()).toEqual({ idle: 0, busy: 1 });
    expect((await slow.done).fault).toBeUndefined();
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
    await until(() => server.open() === 0, 'all are closed');
  });

  it('R01 never keeps a connection after a stream or an error answer where that is forbidden', async () => {
    const server = keep(
      await startTalkingBackend((path) => {
        if (path === '/error') return lengthAnswer('no').replace('200 OK', '400 Bad');
        return path === '/stream' ? chunkedAnswer(['a']) : lengthAnswer('ok');
      }),
    );
    const client = newClient();
    for (const [path, idle] of [
      ['/stream', 0],
      ['/error', 0],
      ['/short', 1],
    ] as const) {
      await run(client, server.target, get(path, { reuseAfterStream: false, fresh: true }));
      expect(client.stats().idle, path).toBe(idle);
    }
    await run(client, server.target, get('/stream', { fresh: true }));
    expect(client.stats().idle).toBe(2);
  });

  it('R01 of 200 short and streamed requests in turn none fails, though the server closes after each stream', async () => {
    const keepAlive = 'Keep-Alive: timeout=5, max=100\r\n';
    const server = await backend((socket) =>
      onRequests(socket, ({ path }) => {
        if (path === '/short') socket.write(lengthAnswer('ok', keepAlive));
        else socket.end(chunkedAnswer(['data: a\n\n', 'data: b\n\n'], keepAlive));
      }),
    );
    for (const reuseAfterStream of [false, true]) {
      const client = newClient();
      let retries = 0;
      for (let i = 0; i < 200; i += 1) {
        const request = get(i % 2 === 0 ? '/short' : '/stream', { reuseAfterStream });
        let log = await run(client, server.target, request);
        if (log.fault !== undefined) {
          expect(log.fault).toMatchObject({ reused: true, responseStarted: false });
          expect(['eof', 'reset']).toContain(log.fault.kind);
          retries += 1;
          log = await run(client, server.target, { ...request, fresh: true });
        }
        expect(log.fault).toBeUndefined();
        expect(log.broken).toEqual([]);
      }
      if (!reuseAfterStream) expect(retries).toBe(0);
      expect(client.stats().busy).toBe(0);
    }
  });

  it('flags a request that met the server closing the waiting connection', async () => {
    // The server closes when it sees a second request: the race of R01 and R02, lost every time.
    const server = await backend((socket) => {
      let requests = 0;
      onRequests(socket, () => {
        requests += 1;
        if (requests === 1) socket.write(lengthAnswer('ok'));
        else socket.destroy();
      });
    });
    const client = newClient();
    await run(client, server.target, get('/'));
    await settled();
    const { fault } = await run(client, server.target, post('/', held('x')));
    expect(fault).toMatchObject({ kind: 'eof', reused: true, responseStarted: false, nothingSent: false });
  });
});

/** Its event loop stands still while answer and reset arrive: the second write meets a dead connection first. */
function uploadThatMeetsAReset(): RequestBody {
  return {
    kind: 'stream',
    bytes: undefined,
    start(sink) {
      sink.write(Buffer.alloc(100_000));
      const standsMs = performance.now() + 40;
      while (performance.now() < standsMs);
      sink.write(Buffer.alloc(100_000));
    },
    drained() {},
  };
}

describe('the request body', () => {
  function streamed(bytes: number | undefined): { body: RequestBody; sink: () => BodySink; drained: () => number } {
    let sink: BodySink | undefined;
    let drained = 0;
    return {
      body: {
        kind: 'stream',
        bytes,
        start(given) {
          sink = given;
        },
        drained() {
          drained += 1;
        },
      },
      sink() {
        if (sink === undefined) throw new Error('not started');
        return sink;
      },
      drained: () => drained,
    };
  }

  it('goes out whole when it is held, however large and in however many pieces', async () => {
    const server = await backend((socket) =>
      onRequests(socket, ({ body }) => void socket.write(lengthAnswer(String(body.length)))),
    );
    const client = newClient();
    for (const bytes of [0, 1, 16_000, 20_000, 5_000_000]) {
      const chunks = [Buffer.alloc(Math.floor(bytes / 2)), Buffer.alloc(Math.ceil(bytes / 2))];
      const log = await run(client, server.target, post('/', { kind: 'held', chunks, bytes }));
      expect(bodyText(log)).toBe(String(bytes));
      expect(log.calls).toEqual(['connected', 'sent', 'head', 'body', 'end']);
    }
  });

  it('is streamed by length, and its end is told only when the last byte was handed over', async () => {
    const server = await backend((socket) =>
      onRequests(socket, ({ head, body }) => void socket.write(lengthAnswer(`${head}|${body.toString()}`))),
    );
    const upload = streamed(6);
    const running = start(newClient(), server.target, post('/', upload.body), {
      connected: () => setImmediate(() => upload.sink().write(Buffer.from('abc'))),
    });
    await until(() => running.log.calls.includes('connected'), 'connected');
    await settled();
    expect(running.log.calls).not.toContain('sent');
    upload.sink().write(Buffer.from('def'));
    upload.sink().end();
    const log = await running.done;
    expect(log.calls).toEqual(['connected', 'sent', 'head', 'body', 'end']);
    expect(bodyText(log)).toMatch(/\r\nContent-Length: 6\|abcdef$/);
  });

  it('is streamed in chunks when its length is not known', async () => {
    const server = await backend((socket) =>
      onRequests(socket, ({ head, body }) => void socket.write(lengthAnswer(`${head}|${body.toString()}`))),
    );
    const upload = streamed(undefined);
    const client = newClient();
    const running = start(client, server.target, post('/', upload.body), {
      connected: () =>
        setImmediate(() => {
          for (const piece of ['hello', '', ' world']) upload.sink().write(Buffer.from(piece));
          upload.sink().end();
        }),
    });
    const log = await running.done;
    expect(bodyText(log)).toMatch(/\r\nTransfer-Encoding: chunked\|5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n$/);
    expect(client.stats().idle).toBe(1);
  });

  it.each([
    ['longer', ['abcd'], true],
    ['shorter', ['ab'], true],
    ['broken off', ['ab'], false],
  ])('aborts the exchange when its source is %s than announced', async (_, pieces, ends) => {
    let closed = false;
    const server = await backend((socket) => {
      socket.resume();
      socket.on('close', () => (closed = true));
    });
    const upload = streamed(3);
    const client = newClient();
    const running = start(client, server.target, post('/', upload.body));
    await until(() => running.log.calls.includes('connected'), 'connected');
    for (const piece of pieces) upload.sink().write(Buffer.from(piece));
    if (ends) upload.sink().end();
    else upload.sink().fail();
    expect(running.log.fault).toBeUndefined();
    expect((await running.done).fault?.kind).toBe('aborted');
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
    await until(() => closed, 'the server sees the close');
    expect(upload.sink().write(Buffer.from('more'))).toBe(true);
  });

  it('makes its source wait while the backend does not read', async () => {
    let letGo: () => void = () => {};
    const server = await backend((socket) => {
      let bytes = 0;
      socket.on('data', (piece) => {
        bytes += piece.length;
        if (bytes > 8_000_000) socket.write(lengthAnswer('ok'));
      });
      socket.pause();
      letGo = () => void socket.resume();
    });
    const upload = streamed(8_000_000);
    const running = start(newClient(), server.target, post('/', upload.body));
    await until(() => running.log.calls.includes('connected'), 'connected');
    let written = 0;
    const piece = Buffer.alloc(100_000);
    while (written < 8_000_000) {
      written += piece.length;
      if (!upload.sink().write(piece)) break;
    }
    expect(written).toBeLessThan(8_000_000);
    await settled();
    expect(upload.drained()).toBe(0);
    letGo();
    while (written < 8_000_000) {
      const before = upload.drained();
      await until(() => upload.drained() > before, 'drained');
      while (written < 8_000_000) {
        written += piece.length;
        if (!upload.sink().write(piece)) break;
      }
    }
    upload.sink().end();
    expect((await running.done).fault).toBeUndefined();
  });

  it.each(['held', 'streamed by length', 'streamed in chunks'])(
    'C116 an early 413 is told although the upload (%s) can no longer be written',
    async (kind) => {
      const json = '{"error":{"message":"too large"}}';
      const server = await backend((socket) => {
        socket.once('data', () => {
          socket.pause();
          socket.write(
            `HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: ${json.length}\r\n\r\n${json}`,
            () =>
              // Unread bytes make the kernel send a reset.
              setTimeout(() => socket.destroy(), 5),
          );
        });
      });
      const client = newClient();
      for (let round = 0; round < 10; round += 1) {
        const upload = streamed(kind === 'streamed in chunks' ? undefined : 30_000_000);
        const large = { kind: 'held', chunks: [Buffer.alloc(30_000_000)], bytes: 30_000_000 } as const;
        const running = start(client, server.target, post('/', kind === 'held' ? large : upload.body));
        if (kind !== 'held') {
          await until(() => running.log.calls.includes('connected'), 'connected');
          let written = 0;
          const pump = setInterval(() => {
            if (written < 30_000_000) upload.sink().write(Buffer.alloc(100_000));
            written += 100_000;
          }, 1);
          await running.done.finally(() => clearInterval(pump));
        }
        const log = await running.done;
        expect(log.fault).toBeUndefined();
        expect(log.head?.status).toBe(413);
        expect(bodyText(log)).toBe(json);
        expect(log.broken).toEqual([]);
        expect(client.stats()).toEqual({ idle: 0, busy: 0 });
      }
    },
  );

  it('C116 reads what lies in the receive buffer when the write already fails', async () => {
    const server = keep(await startEarlyBackend('HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno'));
    const client = newClient();
    for (let round = 0; round < 10; round += 1) {
      const log = await run(client, server.target, post('/', uploadThatMeetsAReset()));
      expect(log.fault).toBeUndefined();
      expect(log.head?.status).toBe(401);
      expect(bodyText(log)).toBe('no');
    }
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
  });

  it('C116 reads an answer that was there, with the end behind it, before the request was written', async () => {
    const server = keep(await startEarlyBackend('HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno'));
    for (let round = 0; round < 5; round += 1) {
      const log = await run(newClient({}, createFakeClock()), server.target, post('/', uploadThatMeetsAReset()), {
        connected() {
          const standsMs = performance.now() + 30;
          while (performance.now() < standsMs);
        },
      });
      expect(log.fault).toBeUndefined();
      expect(log.head?.status).toBe(503);
    }
  });

  it('C116 tells the reset without waiting when nothing lies in the receive buffer', async () => {
    const server = keep(await startEarlyBackend(''));
    const client = newClient({}, createFakeClock());
    const { fault } = await run(client, server.target, post('/', uploadThatMeetsAReset()));
    expect(fault).toMatchObject({ kind: 'reset', nothingSent: false, responseStarted: false });
    expect(client.stats()).toEqual({ idle: 0, busy: 0 });
  });

  it('C116 tells a body that runs to the close as cut when a reset ends it', async () => {
    const server = keep(await startEarlyBackend('HTTP/1.1 401 No\r\n\r\nno'));
    const log = await run(newClient(), server.target, post('/', uploadThatMeetsAReset()));
    expect(bodyText(log)).toBe('no');
    expect(log.fault).toMatchObject({ kind: 'reset', responseStarted: true });
  });

  it('C116 waits 200 ms at most for what a backend may have said before a write to it failed', async () => {
    const sockets: net.Socket[] = [];
    const onSocket = (message: unknown) => void sockets.push((message as { socket: net.Socket }).socket);
    subscribe('net.client.socket', onSocket);
    const server = await backend((socket) => void socket.resume());
    const clock = createFakeClock();
    const running = start(newClient({}, clock), server.target, post('/', held('x')));
    await until(() => running.log.calls.includes('sent'), 'sent');
    unsubscribe('net.client.socket', onSocket);
    sockets[0]?.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }));
    clock.advance(199);
    await settled();
    expect(running.log.calls).toEqual(['connected', 'sent']);
    clock.advance(1);
    expect((await running.done).fault).toMatchObject({ kind: 'reset', responseStarted: false });
  });

  it('C117 lets a waiting source run on after an early answer', async () => {
    const server = await backend((socket) => {
      socket.once('data', () => {
        socket.pause();
        socket.write(lengthAnswer('early'));
      });
    });
    let drained = 0;
    let kept: BodySink | undefined;
    const body: RequestBody = {
      kind: 'stream',
      bytes: 50_000_000,
      start(sink) {
        kept = sink;
        for (let i = 0; i < 49 && sink.write(Buffer.alloc(1_000_000)); i += 1);
      },
      drained: () => (drained += 1),
    };
    const log = await run(newClient(), server.target, post('/', body));
    expect(bodyText(log)).toBe('early');
    expect(drained).toBe(1);
    expect(kept?.write(Buffer.alloc(1_000_000))).toBe(true);
  });
});

describe('pause and resume', () => {
  it('holds the backend back and loses nothing', async () => {
    const total = 20_000_000;
    let written = 0;
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`);
        const piece = Buffer.alloc(100_000, 'abcdefghij');
        const pump = () => {
          while (written < total) {
            written += piece.length;
            if (!socket.write(piece)) return void socket.once('drain', pump);
          }
          return undefined;
        };
        pump();
      }),
    );
    let paused = false;
    let bytesWhilePaused = 0;
    let pauses = 0;
    const running = start(newClient(), server.target, get('/'), {
      body(read) {
        if (paused) bytesWhilePaused += read.payloadBytes;
        pauses += 1;
        if (pauses > 5) return;
        paused = true;
        running.exchange.pause();
        setTimeout(() => {
          paused = false;
          running.exchange.resume();
        }, 30);
      },
    });
    await until(() => pauses === 3, 'paused');
    expect(written).toBeLessThan(total);
    const log = await running.done;
    expect(bytesWhilePaused).toBe(0);
    expect(log.broken).toEqual([]);
    expect(bodyText(log)).toBe('abcdefghij'.repeat(total / 10));
  });

  it('works before the head, and tells end and fault only after what came before', async () => {
    for (const text of [
      lengthAnswer('hello'),
      'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello',
      'HTTP/1.1 200 OK\r\n\r\nhello',
    ]) {
      const server = await backend((socket) => onRequests(socket, () => void socket.end(text)));
      for (const when of ['at once', 'connected', 'sent'] as const) {
        const running = start(newClient(), server.target, get('/'), {
          connected: () => void (when === 'connected' && running.exchange.pause()),
          sent: () => void (when === 'sent' && running.exchange.pause()),
        });
        if (when === 'at once') running.exchange.pause();
        await until(() => running.log.calls.includes('sent'), 'sent');
        await new Promise((resolve) => void setTimeout(resolve, 20));
        expect(running.log.calls).toEqual(['connected', 'sent']);
        running.exchange.resume();
        const log = await running.done;
        expect(log.calls.slice(2)).toEqual(['head', 'body', text.includes('9') ? 'fault' : 'end']);
      }
    }
  });

  it('does not hand a paused connection to the next exchange', async () => {
    const server = keep(await startTalkingBackend(() => lengthAnswer('ok')));
    const client = newClient();
    for (let i = 0; i < 3; i += 1) {
      const running = start(client, server.target, get('/'), { body: () => running.exchange.pause() });
      const log = await running.done;
      expect(log).toMatchObject({ reused: i > 0, fault: undefined });
      running.exchange.pause();
      await settled();
    }
  });
});

describe('abort', () => {
  it('closes the connection at once and calls nothing more, at every moment', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        const pump = setInterval(() => socket.write('3\r\nabc\r\n'), 1);
        socket.on('close', () => clearInterval(pump));
      }),
    );
    const client = newClient();
    for (const when of ['at once', 'connected', 'sent', 'head', 'body'] as const) {
      const running = start(client, server.target, get('/'), {
        ...(when === 'at once' ? {} : { [when]: () => running.exchange.abort() }),
      });
      if (when === 'at once') running.exchange.abort();
      await until(() => when === 'at once' || running.log.calls.at(-1) === when, when);
      const { length } = running.log.calls;
      await new Promise((resolve) => void setTimeout(resolve, 10));
      expect(running.log.calls).toHaveLength(length);
      expect(running.log.broken).toEqual([]);
      running.exchange.abort();
      expect(client.stats()).toEqual({ idle: 0, busy: 0 });
      await until(() => server.open() === 0, 'the server sees the close');
    }
    expect(server.accepted).toHaveLength(4);
  });

  it('R11 closes both directions: the server meets a reset when it goes on writing', async () => {
    let code: unknown;
    const serve = (socket: net.Socket) => {
      socket.on('error', (error) => (code = 'code' in error ? error.code : undefined));
      onRequests(socket, () => {
        socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
        const pump = setInterval(() => socket.write('3\r\nabc\r\n'), 1);
        socket.on('close', () => clearInterval(pump));
      });
    };
    const server = keep(await startRawBackend(serve, { allowHalfOpen: true }));
    const running = start(newClient(), server.target, get('/'), { body: () => running.exchange.abort() });
    await until(() => code !== undefined, 'the server cannot write any more');
    expect(['EPIPE', 'ECONNRESET']).toContain(code);
  });

  it('while connecting leaves nothing behind', async () => {
    const lookup: net.LookupFunction = () => {};
    const client = keep(createH1Client(upstreamDefaults, { clock: systemClock, lookup }));
    const running = start(client, parseTarget('http://slow.invalid'), get('/'));
    await settled();
    expect(client.stats().busy).toBe(1);
    running.exchange.abort();
    expect(client.stats().busy).toBe(0);
    await settled();
    expect(running.log.calls).toEqual([]);
  });
});
