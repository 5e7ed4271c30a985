/**
 * A backend made of a raw TCP socket, on loopback and port 0: a test decides every byte that it says.
 */
import net from 'node:net';
import type { UpstreamTarget } from '../../../../src/platform/upstream/port.ts';
import { parseTarget } from '../../../../src/platform/upstream/target.ts';

export interface RawBackend {
  readonly port: number;
  readonly target: UpstreamTarget;
  /** Connections accepted so far. */
  readonly accepted: net.Socket[];
  /** How many of them are still open on this side. */
  open(): number;
  close(): Promise<void>;
}

/** @param serve is called for each connection; errors of its socket are expected and ignored */
export async function startRawBackend(
  serve: (socket: net.Socket, index: number) => void,
  { host = '127.0.0.1', allowHalfOpen = false }: { readonly host?: string; readonly allowHalfOpen?: boolean } = {},
): Promise<RawBackend> {
  const accepted: net.Socket[] = [];
  const server = net.createServer({ noDelay: true, allowHalfOpen }, (socket) => {
    accepted.push(socket);
    socket.on('error', () => {});
    serve(socket, accepted.length - 1);
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const { port } = address;
  return {
    port,
    target: parseTarget(`http://${host.includes(':') ? `[${host}]` : host}:${port}`),
    accepted,
    open: () => accepted.filter((socket) => !socket.destroyed).length,
    close: () =>
      new Promise((resolve) => {
        for (const socket of accepted) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

/**
 * Calls `answer` with each whole request (head and body by Content-Length or chunked coding) that comes on the socket.
 */
export function onRequests(socket: net.Socket, answer: (request: RawRequest) => void): void {
  let pending = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    pending = Buffer.concat([pending, bytes]);
    for (let request = takeRequest(pending); request !== undefined; request = takeRequest(pending)) {
      pending = pending.subarray(request.wireBytes);
      answer(request);
    }
  });
}

interface RawRequest {
  readonly line: string;
  readonly path: string;
  readonly head: string;
  readonly body: Buffer;
  readonly wireBytes: number;
}

function takeRequest(bytes: Buffer): RawRequest | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const head = bytes.toString('latin1', 0, headEnd);
  const line = head.split('\r\n')[0] ?? '';
  const from = headEnd + 4;
  const base = { line, path: line.split(' ')[1] ?? '', head };
  if (/\r\ntransfer-encoding: chunked/i.test(head)) {
    const end = bytes.indexOf('0\r\n\r\n', from);
    if (end === -1) return undefined;
    return { ...base, body: bytes.subarray(from, end + 5), wireBytes: end + 5 };
  }
  const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
  if (bytes.length < from + length) return undefined;
  return { ...base, body: bytes.subarray(from, from + length), wireBytes: from + length };
}

/** A server that answers every request by `text(path)` on kept connections. */
export function startTalkingBackend(text: (path: string) => string): Promise<RawBackend> {
  return startRawBackend((socket) => onRequests(socket, ({ path }) => void socket.write(text(path), 'latin1')));
}

export function lengthAnswer(body: string, fields = ''): string {
  return `HTTP/1.1 200 OK\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

export function chunkedAnswer(chunks: readonly string[], fields = ''): string {
  const wire = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
  return `HTTP/1.1 200 OK\r\n${fields}Transfer-Encoding: chunked\r\n\r\n${wire}0\r\n\r\n`;
}
