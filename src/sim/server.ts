/**
 * A simulated model server on a real socket: takes HTTP requests, reads their bodies, and leaves the rest to a dialect.
 * Keep-alive of 5 s and a half-close that counts as leaving, as both real servers have it. Loopback by default; never for real use.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { systemClock, type Clock } from '../platform/clock.ts';
import type { Dialect, ServerLife } from './dialect.ts';
import { createLlamaDialect } from './dialect-llama.ts';
import { createVllmDialect } from './dialect-vllm.ts';
import type { Engine } from './engine.ts';
import { createReply, readBody } from './reply.ts';
import type { SimServerSettings } from './server-settings.ts';

export interface SimServer {
  readonly url: string;
  readonly port: number;
  readonly settings: SimServerSettings;
  readonly engine: Engine;
  readonly openSockets: number;
  /** Goes on to another state of life, as a signal or a crash would make it. */
  enter(life: ServerLife): void;
  /** Closes the port and cuts every connection. */
  close(): Promise<void>;
}

export interface SimServerDeps {
  readonly clock?: Clock;
  readonly host?: string;
  /** 0 (default): any free one. */
  readonly port?: number;
}

const keepAliveMs = 5_000;

/** @throws when the port can't be had */
export async function createSimServer(settings: SimServerSettings, deps: SimServerDeps = {}): Promise<SimServer> {
  const clock = deps.clock ?? systemClock;
  const host = deps.host ?? '127.0.0.1';
  const dialect: Dialect =
    settings.dialect === 'vllm' ? createVllmDialect(settings, clock) : createLlamaDialect(settings, clock);
  const sockets = new Set<Socket>();
  const requestsOn = new WeakMap<Socket, number>();
  let closed = false;

  const server = createServer(
    { keepAliveTimeout: keepAliveMs, headersTimeout: 0, requestTimeout: 0, noDelay: true },
    (request, response) => {
      const number = (requestsOn.get(request.socket) ?? 0) + 1;
      requestsOn.set(request.socket, number);
      void serve(request, response, { dialect, number, maxBodyBytes: settings.maxBodyBytes });
    },
  );
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    // A client that ends its half has left, whatever it still hopes to read.
    socket.on('end', () => socket.destroy());
  });

  const listen = (port: number) =>
    new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, () => {
        server.removeListener('error', reject);
        resolve();
      });
    });
  const refuse = () => {
    if (server.listening) server.close();
  };
  await listen(deps.port ?? 0);
  // A server that listens on a TCP port has an address object.
  const port = (server.address() as AddressInfo).port;

  if (settings.loadingMs > 0) {
    if (settings.dialect === 'vllm') refuse();
    else dialect.enter('loading');
    clock.timer(settings.loadingMs, () => {
      if (closed) return;
      if (settings.dialect === 'vllm') void listen(port);
      else dialect.enter('ready');
    });
  }

  return {
    url: `http://${host}:${port}`,
    port,
    settings,
    engine: dialect.engine,
    get openSockets() {
      return sockets.size;
    },
    enter(life) {
      if (life === 'silent') refuse();
      dialect.enter(life);
    },
    async close() {
      closed = true;
      dialect.engine.freeze();
      const done = new Promise<void>((resolve) => (server.listening ? server.close(() => resolve()) : resolve()));
      for (const socket of sockets) socket.destroy();
      await done;
    },
  };
}

interface Serving {
  readonly dialect: Dialect;
  readonly number: number;
  readonly maxBodyBytes: number;
}

async function serve(request: IncomingMessage, response: ServerResponse, serving: Serving): Promise<void> {
  const reply = createReply(response);
  const body = await readBody(request, serving.maxBodyBytes);
  if (body === undefined || reply.over) return;
  if (body === 'too_large') {
    const text = 'Payload Too Large';
    return reply.whole({
      status: 413,
      headers: ['Content-Length', String(text.length), 'Connection', 'close'],
      body: text,
      close: true,
    });
  }
  const [path = '', query = ''] = (request.url ?? '').split('?', 2);
  serving.dialect.handle({
    method: request.method ?? '',
    path,
    query: new URLSearchParams(query),
    headers: request.headers,
    body,
    reply,
    numberOnConnection: serving.number,
  });
}
