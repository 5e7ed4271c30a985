/**
 * A backend that takes one kind of request, a handshake, on a bare socket: hands head and socket to the test, and answers
 * probes like an OpenAI-compatible server, each on a connection that it closes.
 */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

export interface Handshake {
  readonly head: string;
  readonly socket: Socket;
  /** Bytes that came behind the head so far. */
  received(): string;
  header(name: string): string | undefined;
}

export interface UpgradeBackend {
  readonly url: string;
  readonly port: number;
  /** Handshakes so far, probes left out. */
  readonly handshakes: readonly Handshake[];
  /** Connections that are open. */
  readonly open: number;
  close(): Promise<void>;
}

export interface UpgradeBackendOptions {
  readonly model?: string;
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Called with each whole head. */
  readonly onHandshake: (handshake: Handshake) => void;
}

export async function createUpgradeBackend(options: UpgradeBackendOptions): Promise<UpgradeBackend> {
  const handshakes: Handshake[] = [];
  const sockets = new Set<Socket>();
  const serve = (socket: Socket) => {
    let received = Buffer.alloc(0);
    let head: string | undefined;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      const end = received.indexOf('\r\n\r\n');
      if (head !== undefined || end < 0) return;
      const text = received.toString('latin1', 0, end + 4);
      head = text;
      received = received.subarray(end + 4);
      const header = (name: string) => new RegExp(`\r\n${name}: *(.*)\r\n`, 'i').exec(text)?.[1];
      if (header('user-agent') === 'warmlane') return void socket.end(probeAnswer(options.model ?? 'm'));
      const handshake = { head: text, socket, header, received: () => received.toString('latin1') };
      handshakes.push(handshake);
      options.onHandshake(handshake);
    });
  };
  const server = options.tls === undefined ? createServer(serve) : createTlsServer(options.tls, serve);
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `${options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    handshakes,
    get open() {
      return sockets.size;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

function probeAnswer(model: string): string {
  const body = JSON.stringify({ object: 'list', data: [{ id: model, object: 'model', owned_by: 'test' }] });
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`;
}

export const switching =
  'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Odd: 1\r\n\r\n';

/** What a WebSocket client sends, with its key from RFC 6455. */
export function handshakeBytes(target: string, headers: Readonly<Record<string, string>> = {}): string {
  const fields = {
    Host: 'test',
    Upgrade: 'websocket',
    Connection: 'keep-alive, Upgrade',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version': '13',
    ...headers,
  };
  return `GET ${target} HTTP/1.1\r\n${Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`;
}
