/**
 * What the port promises, asked of both its implementations by the same test body over real sockets.
 */
import type net from 'node:net';
import tls from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../../src/platform/clock.ts';
import { createH1Client } from '../../../../src/platform/upstream/h1-client.ts';
import type { BodySink, RequestBody, UpstreamClient, UpstreamTarget } from '../../../../src/platform/upstream/port.ts';
import { upstreamDefaults } from '../../../../src/platform/upstream/settings.ts';
import { parseTarget } from '../../../../src/platform/upstream/target.ts';
import { createUndiciClient } from '../../../../src/platform/upstream/undici-client.ts';
import { certificatePem, keyPem } from '../../config/certificate.ts';
import { bodyText, get, held, post, run, settled, start, until } from './exchange-log.ts';
import {
  chunkedAnswer,
  lengthAnswer,
  onRequests,
  type RawBackend,
  startRawBackend,
  startTalkingBackend,
} from './raw-backend.ts';

type Make = (lookup?: net.LookupFunction) => UpstreamClient;

const clients: readonly (readonly [string, Make])[] = [
  [
    'the own client',
    (lookup) => createH1Client(upstreamDefaults, { clock: systemClock, ...(lookup ? { lookup } : {}) }),
  ],
  ['undici', (lookup) => createUndiciClient(upstreamDefaults, { clock: systemClock, ...(lookup ? { lookup } : {}) })],
];

const open: { close(): void | Promise<void> }[] = [];

afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each.close();
});

function keep<T extends { close(): void | Promise<void> }>(each: T): T {
  open.push(each);
  return each;
}

async function backend(serve: (socket: net.Socket, index: number) => void): Promise<RawBackend> {
  return keep(await startRawBackend(serve));
}

function bothAddresses(): net.LookupFunction {
  return (_, __, done) =>
    done(null, [
      { address: '::1', family: 6 },
      { address: '127.0.0.1', family: 4 },
    ]);
}

async function waitMs(ms: number): Promise<void> {
  await new Promise((resolve) => void setTimeout(resolve, ms));
}

describe.each(clients)('%s', (name, make) => {
  const client = (lookup?: net.LookupFunction) => keep(make(lookup));

  it.each([
    ['chunked', 'GET', chunkedAnswer(['one', 'two']), 'chunked', 'onetwo', []],
    ['length', 'GET', lengthAnswer('onetwo'), 'length', 'onetwo', []],
    ['length 0', 'GET', lengthAnswer(''), 'length', '', []],
    ['none, for HEAD', 'HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n', 'none', '', []],
    ['none, for 204', 'GET', 'HTTP/1.1 204 No Content\r\n\r\n', 'none', '', []],
    // undici takes a 304 with a Content-Length for a truncated answer, so there is none here.
    ['none, for 304', 'GET', 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n', 'none', '', []],
    ['trailers', 'GET', chunkedAnswer(['one']).replace(/\r\n$/, 'X-Sum: 1\r\n\r\n'), 'chunked', 'one', ['X-Sum', '1']],
  ] as const)(
    'tells a response in order (%s) and keeps its connection',
    async (__, method, text, framing, body, trailers) => {
      const server = keep(await startTalkingBackend(() => text));
      const upstream = client();
      // undici keeps no connection after HEAD.
      const kept = name !== 'undici' || method !== 'HEAD';
      for (const reused of kept ? [false, true] : [false]) {
        const log = await run(upstream, server.target, get('/', { method }));
        expect(log.calls.filter((call, i, all) => call !== all[i - 1])).toEqual([
          'connected',
          'sent',
          'head',
          ...(body === '' ? [] : ['body']),
          'end',
        ]);
        expect(log).toMatchObject({
          reused,
          trailers,
          broken: [],
          address: `127.0.0.1:${server.port}`,
          head: { framing },
        });
        expect(bodyText(log)).toBe(body);
        expect(upstream.stats()).toEqual({ idle: 1, busy: 0 });
        await settled();
      }
    },
  );

  it('reads a body that runs to the close', async () => {
    const server = await backend((socket) => onRequests(socket, () => void socket.end('HTTP/1.1 200 OK\r\n\r\nall')));
    const upstream = client();
    const log = await run(upstream, server.target, get('/'));
    expect(bodyText(log)).toBe('all');
    expect(log).toMatchObject({ head: { framing: 'close' }, fault: undefined });
    await until(() => upstream.stats().idle === 0, 'the connection is dropped');
  });

  it.each([
    ['eof', '', false, (socket: net.Socket) => socket.end()],
    ['reset', '', false, (socket: net.Socket) => socket.resetAndDestroy()],
    ['eof', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc', true, (socket: net.Socket) => socket.end()],
    ['eof', chunkedAnswer(['abc']).slice(0, -5), true, (socket: net.Socket) => socket.end()],
    ['reset', chunkedAnswer(['abc']).slice(0, -5), true, (socket: net.Socket) => socket.resetAndDestroy()],
    ['bad_response', 'SSH-2.0-OpenSSH\r\n', true, () => {}],
    ['bad_response', 'HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n', true, () => {}],
    ['bad_response', 'HTTP/1.1 101 Switch\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n', true, () => {}],
    ['bad_response', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}\r\n\r\n`, true, () => {}],
  ] as const)('tells %s after %j', async (kind, text, started, then) => {
    const server = await backend((socket) =>
      onRequests(socket, () => {
        if (text !== '') socket.write(text);
        setTimeout(() => then(socket), 10);
      }),
    );
    const upstream = client();
    const { fault, broken } = await run(upstream, server.target, post('/', held('x')));
    expect(fault).toMatchObject({ kind, nothingSent: false, reused: false });
    // undici begins a message only with a valid status line.
    if (kind !== 'bad_response') expect(fault?.responseStarted).toBe(started);
    expect(broken).toEqual([]);
    expect(upstream.stats()).toEqual({ idle: 0, busy: 0 });
  });

  it('C073 names both addresses when both refuse, and says that nothing was sent', async () => {
    const server = await startRawBackend(() => {});
    await server.close();
    const { fault, calls } = await run(
      client(bothAddresses()),
      parseTarget(`http://localhost:${server.port}`),
      get('/'),
    );
    expect(calls).toEqual(['fault']);
    expect(fault).toMatchObject({ kind: 'refused', nothingSent: true, responseStarted: false });
    expect(fault?.detail).toContain(`::1:${server.port}`);
    expect(fault?.detail).toContain(`127.0.0.1:${server.port}`);
  });

  it('C073 reaches a name that resolves to both while only one listens', async () => {
    for (const host of ['127.0.0.1', '::1']) {
      const server = keep(
        await startRawBackend((socket) => onRequests(socket, () => void socket.write(lengthAnswer('ok'))), { host }),
      );
      for (const target of [parseTarget(`http://localhost:${server.port}`), server.target]) {
        const log = await run(client(bothAddresses()), target, get('/'));
        expect(bodyText(log)).toBe('ok');
      }
    }
  });

  it('tells a name that does not resolve, and a connection that takes too long', async () => {
    const failing: net.LookupFunction = (host, __, done) =>
      done(
        Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND', syscall: 'getaddrinfo' }),
        '',
        0,
      );
    const dns = await run(client(failing), parseTarget('http://nowhere.invalid'), get('/'));
    expect(dns.fault).toMatchObject({ kind: 'dns', nothingSent: true });
    const slow = await run(
      client(() => {}),
      parseTarget('http://slow.invalid'),
      get('/', { connectTimeoutMs: 50 }),
    );
    expect(slow.fault).toMatchObject({ kind: 'connect_timeout', nothingSent: true });
  });

  it('R01 keeps no connection after a stream or an error answer where that is forbidden', async () => {
    const server = keep(
      await startTalkingBackend((path) => {
        if (path === '/error') return lengthAnswer('no').replace('200 OK', '400 Bad');
        return path === '/stream' ? chunkedAnswer(['a']) : lengthAnswer('ok');
      }),
    );
    const upstream = client();
    for (const [path, idle] of [
      ['/stream', 0],
      ['/error', 0],
      ['/short', 1],
    ] as const) {
      await run(upstream, server.target, get(path, { reuseAfterStream: false, fresh: true }));
      expect(upstream.stats().idle, path).toBe(idle);
    }
  });

  it('R02 drops a waiting connection that its server closes', async () => {
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write(lengthAnswer('ok'));
        setTimeout(() => socket.end(), 20);
      }),
    );
    const upstream = client();
    await run(upstream, server.target, get('/'));
    expect(upstream.stats().idle).toBe(1);
    await until(() => upstream.stats().idle === 0, 'it is dropped');
    expect((await run(upstream, server.target, get('/'))).reused).toBe(false);
  });

  it('R02 says what it knows of a request that met a connection just closed by the server', async () => {
    const server = keep(await startTalkingBackend(() => lengthAnswer('ok')));
    const upstream = client();
    await run(upstream, server.target, get('/'));
    await settled();
    server.accepted[0]?.destroy();
    const log = await run(upstream, server.target, get('/'));
    // undici looks at the socket before it writes, and may then go on with a new one; the own client has written by then.
    if (name === 'undici') expect(log).toMatchObject({ fault: undefined, reused: false });
    else expect(log.fault).toMatchObject({ kind: 'eof', reused: true, responseStarted: false, nothingSent: false });
    expect(log.broken).toEqual([]);
    expect(upstream.stats().busy).toBe(0);
  });

  it('throws for a header that would end a line', () => {
    expect(() =>
      client().open(parseTarget('http://127.0.0.1:1'), get('/', { headers: ['X', 'a\r\nb'] }), {} as never),
    ).toThrow(RangeError);
  });

  it.each(['at once', 'connected', 'sent', 'head', 'body'] as const)(
    'calls nothing after an abort (%s)',
    async (when) => {
      const server = await backend((socket) =>
        onRequests(socket, () => {
          socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
          const pump = setInterval(() => socket.write('3\r\nabc\r\n'), 1);
          socket.on('close', () => clearInterval(pump));
        }),
      );
      const upstream = client();
      const running = start(upstream, server.target, get('/'), {
        ...(when === 'at once' ? {} : { [when]: () => running.exchange.abort() }),
      });
      if (when === 'at once') running.exchange.abort();
      await until(() => when === 'at once' || running.log.calls.at(-1) === when, when);
      const { length } = running.log.calls;
      await waitMs(10);
      expect(running.log.calls).toHaveLength(length);
      expect(running.log.broken).toEqual([]);
      expect(upstream.stats()).toEqual({ idle: 0, busy: 0 });
      await until(() => server.open() === 0, 'the server sees the close');
    },
  );

  it('holds the backend back while paused, and loses nothing', async () => {
    const total = 8_000_000;
    const server = await backend((socket) =>
      onRequests(socket, () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`);
        socket.write(Buffer.alloc(total, 'abcdefghij'));
      }),
    );
    let paused = false;
    let pauses = 0;
    const whilePaused: number[] = [];
    const running = start(client(), server.target, get('/'), {
      body(read) {
        if (paused) whilePaused.push(read.payloadBytes);
        pauses += 1;
        if (paused || pauses % 7 !== 1 || pauses > 30) return;
        paused = true;
        running.exchange.pause();
        setTimeout(() => {
          paused = false;
          running.exchange.resume();
        }, 5);
      },
    });
    const log = await running.done;
    expect(whilePaused).toEqual([]);
    expect(log.broken).toEqual([]);
    expect(bodyText(log)).toBe('abcdefghij'.repeat(total / 10));
  });

  it('may be paused before the head and resumed inside any call', async () => {
    const server = keep(await startTalkingBackend(() => chunkedAnswer(['one', 'two'])));
    const upstream = client();
    const running = start(upstream, server.target, get('/'), {
      head() {
        running.exchange.pause();
        running.exchange.resume();
        running.exchange.pause();
        setImmediate(() => running.exchange.resume());
      },
      body() {
        running.exchange.pause();
        running.exchange.resume();
      },
    });
    running.exchange.pause();
    setTimeout(() => running.exchange.resume(), 20);
    expect(bodyText(await running.done)).toBe('onetwo');
  });

  it.each([
    ['by length', 20_000_000],
    ['in chunks', undefined],
  ])('streams an upload %s with back-pressure', async (__, bytes) => {
    const server = await backend((socket) => {
      let received = 0;
      let head = '';
      socket.on('data', (piece) => {
        head += received < 1000 ? piece.toString('latin1', 0, 1000) : '';
        received += piece.length;
        const whole = /content-length: 20000000\r/i.test(head)
          ? received > 20_000_000
          : piece.toString('latin1').endsWith('\r\n0\r\n\r\n');
        if (whole) socket.write(lengthAnswer(/transfer-encoding: chunked\r/i.test(head) ? 'chunked' : 'length'));
      });
    });
    let waits = 0;
    let left = 100;
    let sink: BodySink | undefined;
    const pump = () => {
      while (left > 0) {
        left -= 1;
        if (sink?.write(Buffer.alloc(200_000)) === false) {
          waits += 1;
          return;
        }
      }
      sink?.end();
    };
    const body: RequestBody = {
      kind: 'stream',
      bytes,
      start(given) {
        sink = given;
        setImmediate(pump);
      },
      drained: pump,
    };
    const log = await run(client(), server.target, post('/', body));
    expect(log.fault).toBeUndefined();
    expect(bodyText(log)).toBe(bytes === undefined ? 'chunked' : 'length');
    expect(waits).toBeGreaterThan(0);
  });

  it('ends with the fault `aborted` when the upload breaks off', async () => {
    const server = await backend((socket) => void socket.resume());
    let sink: BodySink | undefined;
    const body: RequestBody = { kind: 'stream', bytes: 100, start: (given) => void (sink = given), drained() {} };
    const upstream = client();
    const running = start(upstream, server.target, post('/', body));
    await until(() => sink !== undefined, 'started');
    sink?.write(Buffer.from('abc'));
    sink?.fail();
    expect((await running.done).fault?.kind).toBe('aborted');
    expect(upstream.stats()).toEqual({ idle: 0, busy: 0 });
    await until(() => server.open() === 0, 'the server sees the close');
  });

  describe('over TLS', () => {
    async function secureBackend(answer: string): Promise<{ port: number; names: unknown[]; open(): number }> {
      const names: unknown[] = [];
      const sockets: tls.TLSSocket[] = [];
      const server = tls.createServer({ cert: certificatePem, key: keyPem }, (socket) => {
        names.push(socket.servername);
        sockets.push(socket);
        socket.on('error', () => {});
        onRequests(socket, () => void socket.write(answer));
      });
      server.on('tlsClientError', () => {});
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const address = server.address();
      keep({
        close() {
          for (const socket of sockets) socket.destroy();
          server.close();
        },
      });
      return {
        port: typeof address === 'object' && address !== null ? address.port : 0,
        names,
        open: () => sockets.filter((socket) => !socket.destroyed).length,
      };
    }

    const trusted = (port: number, more: Partial<NonNullable<UpstreamTarget['tls']>> = {}) =>
      parseTarget(`https://127.0.0.1:${port}`, { ca: certificatePem, verify: true, ...more });

    it('reads a long body whole, paused in between, and keeps the connection', async () => {
      const text = 'abcdefghij'.repeat(200_000);
      const server = await secureBackend(lengthAnswer(text));
      const upstream = client();
      const target = trusted(server.port);
      for (const reused of [false, true]) {
        let reads = 0;
        const running = start(upstream, target, get('/'), {
          body() {
            reads += 1;
            if (reads > 3) return;
            running.exchange.pause();
            setTimeout(() => running.exchange.resume(), 3);
          },
        });
        const log = await running.done;
        expect(log).toMatchObject({ fault: undefined, reused, broken: [] });
        expect(bodyText(log) === text).toBe(true);
        await settled();
      }
    });

    it('says the configured server name, and none for an address', async () => {
      const server = await secureBackend(lengthAnswer('ok'));
      expect(bodyText(await run(client(), trusted(server.port, { serverName: 'localhost' }), get('/')))).toBe('ok');
      expect(server.names).toEqual(['localhost']);
    });

    it.each([
      ['an authority that is not trusted', { ca: undefined, verify: true }, 'tls'],
      ['a name that the certificate does not hold', { serverName: 'wrong.test' }, 'tls'],
    ])('refuses %s and has sent nothing', async (__, settings, kind) => {
      const server = await secureBackend(lengthAnswer('ok'));
      const { ca, ...rest } = { ca: certificatePem, verify: true, ...settings };
      const target = parseTarget(`https://127.0.0.1:${server.port}`, ca === undefined ? rest : { ...rest, ca });
      const upstream = client();
      const { fault, calls } = await run(upstream, target, get('/'));
      expect(calls).toEqual(['fault']);
      expect(fault).toMatchObject({ kind, nothingSent: true, responseStarted: false });
      expect(upstream.stats()).toEqual({ idle: 0, busy: 0 });
    });

    it('takes any certificate when verification is off', async () => {
      const server = await secureBackend(lengthAnswer('ok'));
      const target = parseTarget(`https://127.0.0.1:${server.port}`, { verify: false });
      expect(bodyText(await run(client(), target, get('/')))).toBe('ok');
    });

    it('tells a server that does not speak TLS', async () => {
      const server = await backend((socket) => {
        socket.on('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
      });
      const { fault } = await run(client(), parseTarget(`https://127.0.0.1:${server.port}`), get('/'));
      expect(fault).toMatchObject({ kind: 'tls', nothingSent: true });
    });

    it('C073 reaches a name that resolves to both while only one listens', async () => {
      const server = await secureBackend(lengthAnswer('ok'));
      const target = parseTarget(`https://localhost:${server.port}`, { ca: certificatePem, verify: true });
      const log = await run(client(bothAddresses()), target, get('/'));
      expect(bodyText(log)).toBe('ok');
      expect(server.names).toEqual(['localhost']);
    });

    it('closes at once when aborted', async () => {
      const server = await secureBackend('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
      const upstream = client();
      const running = start(upstream, trusted(server.port), get('/'), { body: () => running.exchange.abort() });
      await until(() => running.log.calls.includes('body'), 'body');
      expect(upstream.stats()).toEqual({ idle: 0, busy: 0 });
      await until(() => server.open() === 0, 'the server sees the close');
      expect(running.log.calls.at(-1)).toBe('body');
    });
  });
});
