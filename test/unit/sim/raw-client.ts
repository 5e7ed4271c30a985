/**
 * A client on raw TCP for the simulator's tests: sends bytes, keeps every read with its time, and takes HTTP answers apart
 * just far enough to look at their framing.
 */
import { connect, type Socket } from 'node:net';

export interface RawClient {
  readonly socket: Socket;
  /** Everything received so far. */
  readonly bytes: Buffer;
  readonly reads: readonly { readonly atMs: number; readonly bytes: Buffer }[];
  /** The server has ended or reset the connection. */
  readonly over: boolean;
  readonly errorCode: string | undefined;
  send(bytes: string | Uint8Array): void;
  /** Resolves once `seen` is true of what was received, or the connection is over. @throws after `timeoutMs` */
  until(seen: (text: string) => boolean, timeoutMs?: number): Promise<string>;
  untilOver(timeoutMs?: number): Promise<string>;
  close(): void;
}

export async function openRawClient(port: number, host = '127.0.0.1'): Promise<RawClient> {
  const socket = connect({ port, host, noDelay: true });
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  const reads: { atMs: number; bytes: Buffer }[] = [];
  let over = false;
  let errorCode: string | undefined;
  let wake = () => {};
  socket.on('data', (bytes: Buffer) => {
    reads.push({ atMs: performance.now(), bytes });
    wake();
  });
  const finish = () => {
    over = true;
    wake();
  };
  socket.on('end', finish);
  socket.on('close', finish);
  socket.on('error', (error: NodeJS.ErrnoException) => {
    errorCode = error.code;
  });
  const text = () => Buffer.concat(reads.map((read) => read.bytes)).toString();
  async function until(seen: (text: string) => boolean, timeoutMs = 5_000): Promise<string> {
    const deadlineMs = performance.now() + timeoutMs;
    while (!seen(text()) && !over) {
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) throw new Error(`nothing fitting within ${timeoutMs} ms; received: ${text().slice(-400)}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return text();
  }
  return {
    socket,
    reads,
    get bytes() {
      return Buffer.concat(reads.map((read) => read.bytes));
    },
    get over() {
      return over;
    },
    get errorCode() {
      return errorCode;
    },
    send: (bytes) => void socket.write(bytes),
    until,
    untilOver: (timeoutMs) => until(() => false, timeoutMs),
    close: () => socket.destroy(),
  };
}

export function postRequest(
  path: string,
  body: object | string,
  headers: Readonly<Record<string, string>> = {},
): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const extra = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${path} HTTP/1.1\r\nHost: sim\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n${extra.join('')}\r\n${text}`;
}

export function getRequest(path: string, headers: Readonly<Record<string, string>> = {}): string {
  const extra = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET ${path} HTTP/1.1\r\nHost: sim\r\n${extra.join('')}\r\n`;
}

export interface TakenApart {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  /** Payload of each HTTP chunk; one entry for a body with a length. */
  readonly chunks: readonly string[];
  readonly body: string;
  /** The framing says that nothing is missing. */
  readonly complete: boolean;
}

/** Takes one whole HTTP answer apart. */
export function takeApart(bytes: Buffer): TakenApart {
  const headEnd = bytes.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const headers = lines.map((line): readonly [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  const find = (name: string) => headers.find(([key]) => key.toLowerCase() === name)?.[1];
  const status = Number(statusLine.split(' ')[1]);
  let at = headEnd + 4;
  if (find('transfer-encoding') !== 'chunked') {
    const length = Number(find('content-length') ?? 0);
    const body = bytes.toString('utf8', at, at + length);
    return { status, headers, chunks: [body], body, complete: bytes.length >= at + length };
  }
  const chunks: string[] = [];
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return { status, headers, chunks, body: chunks.join(''), complete: false };
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (size === 0) return { status, headers, chunks, body: chunks.join(''), complete: true };
    chunks.push(bytes.toString('utf8', lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}

/** Values of the `data:` lines, in turn. */
export function dataOf(body: string): string[] {
  return body
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => line.slice(6));
}
