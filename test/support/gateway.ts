/** A small reverse proxy with one bad habit at choice, to stand before a simulated engine. */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';

export interface GatewayHabits {
  /** Gathers each answer before it passes it on; `length` says how long it is. */
  readonly buffers?: 'chunked' | 'length';
  /** Gathers this many reads at a time. */
  readonly gathers?: number;
  /** Reads the engine's answer to its end although the client left. */
  readonly swallowsAborts?: boolean;
  readonly dropsKeepAlive?: boolean;
  readonly compresses?: boolean;
  /** Paths that it doesn't pass. */
  readonly hides?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Gateway {
  readonly url: string;
  close(): Promise<void>;
}

export async function startGateway(backendPort: number, habits: GatewayHabits): Promise<Gateway> {
  const server = createServer((request, response) => pass(request, response, { backendPort, habits }));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function pass(
  request: IncomingMessage,
  response: ServerResponse,
  { backendPort, habits }: { readonly backendPort: number; readonly habits: GatewayHabits },
): void {
  const path = request.url ?? '/';
  if (habits.hides?.includes(path) === true) {
    request.resume();
    response.writeHead(404, { 'content-length': '0' }).end();
    return;
  }
  const { connection: _, ...headers } = request.headers;
  const upstream = httpRequest({
    port: backendPort,
    host: '127.0.0.1',
    path,
    method: request.method ?? 'GET',
    headers,
  });
  request.pipe(upstream);
  if (habits.swallowsAborts !== true) response.on('close', () => upstream.destroy());
  upstream.on('error', () => response.destroy());
  upstream.on('response', (answer) => {
    const { 'transfer-encoding': _chunked, 'content-length': length, connection: _hop, ...kept } = answer.headers;
    const zips = habits.compresses === true && request.headers['accept-encoding']?.includes('gzip') === true;
    const head = {
      ...kept,
      ...habits.headers,
      ...(habits.dropsKeepAlive === true ? { connection: 'close' } : {}),
      ...(zips ? { 'content-encoding': 'gzip' } : {}),
    };
    const whole = habits.buffers !== undefined || zips || length !== undefined;
    const most = habits.gathers ?? 1;
    let pieces: Buffer[] = [];
    if (!whole) response.writeHead(answer.statusCode ?? 502, head);
    answer.on('data', (piece: Buffer) => {
      pieces.push(piece);
      if (whole || pieces.length < most) return;
      response.write(Buffer.concat(pieces));
      pieces = [];
    });
    answer.on('end', () => {
      const rest = zips ? gzipSync(Buffer.concat(pieces)) : Buffer.concat(pieces);
      const framing = habits.buffers === 'chunked' ? {} : { 'content-length': String(rest.length) };
      if (whole) response.writeHead(answer.statusCode ?? 502, { ...head, ...framing });
      response.end(rest);
    });
    answer.on('error', () => response.destroy());
  });
}
