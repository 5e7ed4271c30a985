import { getEventListeners } from 'node:events';
import http, { type RequestListener } from 'node:http';
import https from 'node:https';
import net, { type AddressInfo, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createProbeFetch, maxProbeBytes } from '../../../src/fleet/probe-fetch.ts';
import { isFailure, type ProbeTarget } from '../../../src/fleet/probe-port.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { createFakeClock } from '../../support/fake-clock.ts';
import { cert, key } from './self-signed.ts';

const open: Server[] = [];
const sockets = new Set<net.Socket>();

async function listen(server: Server): Promise<number> {
  open.push(server);
  server.on('connection', (socket: net.Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port; // A TCP server's address is no string.
}

const serve = async (listener: RequestListener) => `http://127.0.0.1:${await listen(http.createServer(listener))}`;

afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await Promise.all(open.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

function probe(target: Partial<ProbeTarget> & { url: string }, path = '/health', timeoutMs = 2000) {
  return createProbeFetch(target, systemClock)(path, { timeoutMs });
}

describe('an answer', () => {
  it('comes with status, headers in lower case, and body', async () => {
    const url = await serve((_, response) => {
      response.writeHead(503, { Server: 'llama.cpp' });
      response.end('Loading é');
    });
    const answer = await probe({ url });
    expect(answer).toMatchObject({ status: 503, body: 'Loading é' });
    expect(isFailure(answer) ? '' : answer.headers['server']).toBe('llama.cpp');
  });

  it('C069 is asked for with the key, beneath the path prefix of the URL, on a connection of its own', async () => {
    const seen: (string | undefined)[][] = [];
    const url = await serve((request, response) => {
      const { authorization, connection } = request.headers;
      seen.push([request.method, request.url, authorization, connection]);
      response.end('ok');
    });
    await probe({ url: `${url}/team/a`, apiKey: 'k1' }, '/v1/models');
    await createProbeFetch({ url: `${url}/` }, systemClock)('/slots?x=1', { timeoutMs: 2000, method: 'HEAD' });
    expect(seen).toEqual([
      ['GET', '/team/a/v1/models', 'Bearer k1', 'close'],
      ['HEAD', '/slots?x=1', undefined, 'close'],
    ]);
    expect(sockets.size).toBe(0);
  });

  it('C073 of a server that listens on IPv4 alone is found under localhost', async () => {
    const url = await serve((_, response) => response.end('ok'));
    expect(await probe({ url: url.replace('127.0.0.1', 'localhost') })).toMatchObject({ status: 200 });
  });

  it('leaves neither a timer nor a listener behind', async () => {
    const clock = createFakeClock();
    const { signal } = new AbortController();
    const url = await serve((_, response) => response.end('ok'));
    expect(await createProbeFetch({ url }, clock)('/', { timeoutMs: 500, signal })).toMatchObject({ status: 200 });
    expect(clock.pending()).toBe(0);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('a redirect is an answer, not followed', async () => {
    const url = await serve((_, response) => {
      response.writeHead(302, { location: '/elsewhere' });
      response.end();
    });
    expect(await probe({ url })).toMatchObject({ status: 302 });
  });
});

describe('a failure', () => {
  it('is refused when nothing listens', async () => {
    const server = net.createServer();
    const port = await listen(server);
    await new Promise((resolve) => server.close(resolve));
    open.length = 0;
    expect(await probe({ url: `http://127.0.0.1:${port}` })).toMatchObject({ failure: 'refused' });
    expect(await probe({ url: `http://localhost:${port}` })).toMatchObject({ failure: 'refused' });
  });

  it('is a time-out when it connects and is silent, or when its body never ends', async () => {
    const silent = await serve(() => {});
    expect(await probe({ url: silent }, '/', 60)).toMatchObject({ failure: 'timeout' });
    const endless = await serve((_, response) => void response.write('a'));
    expect(await probe({ url: endless }, '/', 60)).toMatchObject({ failure: 'timeout' });
  });

  it('is another when no connection came about in time', async () => {
    const clock = createFakeClock();
    const url = await serve((_, response) => response.end('ok'));
    const answer = createProbeFetch({ url }, clock)('/', { timeoutMs: 500 });
    clock.advance(500);
    expect(await answer).toEqual({ failure: 'connect_timeout', detail: 'no connection within 500 ms' });
    expect(clock.pending()).toBe(0);
  });

  it('is a reset when the connection breaks before or in the answer', async () => {
    const before = await listen(net.createServer((socket) => socket.once('data', () => socket.resetAndDestroy())));
    expect(await probe({ url: `http://127.0.0.1:${before}` })).toMatchObject({ failure: 'reset' });
    const amid = await serve((_, response) => {
      response.write('a');
      setImmediate(() => response.socket?.destroy());
    });
    expect(await probe({ url: amid })).toMatchObject({ failure: 'reset' });
  });

  it('is dns when the name can not be one', async () => {
    expect(await probe({ url: `http://${'a'.repeat(64)}.test:80` })).toMatchObject({ failure: 'dns' });
  });

  it('is other when what answers speaks no HTTP, or more than the bound', async () => {
    const port = await listen(net.createServer((socket) => socket.end('SSH-2.0-x\r\n')));
    expect(await probe({ url: `http://127.0.0.1:${port}` })).toMatchObject({ failure: 'other' });
    const long = await serve((_, response) => response.end(Buffer.alloc(maxProbeBytes + 1)));
    expect(await probe({ url: long })).toEqual({
      failure: 'other',
      detail: `answer longer than ${maxProbeBytes} bytes`,
    });
    const full = await serve((_, response) => response.end(Buffer.alloc(maxProbeBytes, 'a')));
    expect(await probe({ url: full })).toMatchObject({ status: 200 });
  });

  it('is a value too when the key can not stand in a header, and does not show it', async () => {
    const answer = await probe({ url: 'http://127.0.0.1:1', apiKey: 'k1\nsecret' });
    expect(answer).toMatchObject({ failure: 'other' });
    expect(JSON.stringify(answer)).not.toContain('secret');
  });

  it('is other when it is called off, before and amid', async () => {
    const url = await serve(() => {});
    const controller = new AbortController();
    const fetch = createProbeFetch({ url }, systemClock);
    const amid = fetch('/', { timeoutMs: 5000, signal: controller.signal });
    controller.abort();
    expect(await amid).toEqual({ failure: 'other', detail: 'called off' });
    expect(await fetch('/', { timeoutMs: 5000, signal: controller.signal })).toEqual({
      failure: 'other',
      detail: 'called off',
    });
  });
});

describe('TLS', () => {
  const listenTls = () => listen(https.createServer({ cert, key }, (_, response) => response.end('ok')));

  it('an unknown authority, or a certificate for another name, is a failure of TLS', async () => {
    const url = `https://127.0.0.1:${await listenTls()}`;
    expect(await probe({ url })).toMatchObject({ failure: 'tls' });
    expect(await probe({ url, tls: { ca: cert, verify: true } })).toMatchObject({ failure: 'tls' });
  });

  it('passes with the right authority and name, and unverified only when asked for', async () => {
    const url = `https://127.0.0.1:${await listenTls()}`;
    expect(await probe({ url, tls: { ca: cert, serverName: 'model.test', verify: true } })).toMatchObject({
      status: 200,
    });
    expect(await probe({ url, tls: { verify: false } })).toMatchObject({ status: 200 });
  });

  it('a plain server behind https:// is a failure of TLS', async () => {
    const url = await serve((_, response) => response.end('ok'));
    expect(await probe({ url: url.replace('http:', 'https:') })).toMatchObject({ failure: 'tls' });
  });
});
