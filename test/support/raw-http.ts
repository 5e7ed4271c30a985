/** An HTTP client on a bare socket: sends exactly these bytes, keeps what comes with its moments, judges the framing. */
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

export interface RawAnswer {
  readonly status: number;
  readonly reason: string;
  /** Names in lower case; values of repeated names joined by ', '. */
  readonly headers: Readonly<Record<string, string>>;
  readonly rawHead: string;
  /** Body without chunk framing. */
  readonly body: Buffer;
  /** Sizes of the HTTP chunks, under chunked coding. */
  readonly chunks: readonly number[];
  /** The body ended as its framing says. */
  readonly complete: boolean;
  /** Bytes after this answer. */
  readonly rest: Buffer;
}

export interface RawClient {
  readonly socket: Socket;
  send(bytes: string | Uint8Array): void;
  /** Everything received so far. */
  readonly received: Buffer;
  readonly receivedBytes: number;
  /** Moment (monotonic ms) and size of each read. */
  readonly reads: readonly { readonly atMs: number; readonly bytes: number; readonly text: string }[];
  readonly sentMs: number;
  /** How the connection ended, once it did. */
  readonly ended: 'no' | 'fin' | 'reset';
  /** Resolves with the answer when it is complete or the connection ended. */
  answer(timeoutMs?: number): Promise<RawAnswer>;
  /** Resolves when the condition holds. */
  until(holds: () => boolean, timeoutMs?: number): Promise<void>;
  /** FIN, reading on. */
  halfClose(): void;
  /** Closes as an ordinary client does when it goes away. */
  leave(): void;
  reset(): void;
}

export interface RawClientOptions {
  readonly host?: string;
  /** Speaks TLS, with this authority and name. */
  readonly tls?: { readonly ca: string; readonly servername?: string };
}

export async function rawClient(port: number, { host = '127.0.0.1', tls }: RawClientOptions = {}): Promise<RawClient> {
  const where = { port, host, allowHalfOpen: true, noDelay: true };
  const socket = tls === undefined ? connect(where) : connectTls({ ...where, ...tls });
  await new Promise<void>((resolve, reject) => {
    socket.once(tls === undefined ? 'connect' : 'secureConnect', resolve).once('error', reject);
  });
  const pieces: Buffer[] = [];
  const reads: { atMs: number; bytes: number; text: string }[] = [];
  let ended: 'no' | 'fin' | 'reset' = 'no';
  let sentMs = performance.now();
  socket.on('data', (data: Buffer) => {
    pieces.push(data);
    reads.push({ atMs: performance.now(), bytes: data.length, text: data.toString('latin1') });
  });
  socket.on('end', () => (ended = ended === 'no' ? 'fin' : ended));
  socket.on('error', () => (ended = 'reset'));
  /** Put together once, however often it is looked at. */
  const received = () => {
    if (pieces.length > 1) pieces.splice(0, pieces.length, Buffer.concat(pieces));
    return pieces[0] ?? Buffer.alloc(0);
  };

  async function until(holds: () => boolean, timeoutMs = 10_000): Promise<void> {
    const endMs = performance.now() + timeoutMs;
    while (!holds()) {
      if (performance.now() > endMs) {
        throw new Error(`not within ${timeoutMs} ms; received: ${received().toString('latin1').slice(0, 2000)}`);
      }
      await nextChange();
    }
  }

  /** The connection's next event, or a moment: the condition may be about something else. */
  function nextChange(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        for (const name of ['data', 'end', 'error', 'close']) socket.off(name, done);
        resolve();
      };
      const timer = setTimeout(done, 3);
      for (const name of ['data', 'end', 'error', 'close']) socket.once(name, done);
    });
  }

  return {
    socket,
    reads,
    send(bytes) {
      sentMs = performance.now();
      socket.write(bytes);
    },
    get received() {
      return received();
    },
    get receivedBytes() {
      return pieces.reduce((total, piece) => total + piece.length, 0);
    },
    get sentMs() {
      return sentMs;
    },
    get ended() {
      return ended;
    },
    until,
    async answer(timeoutMs = 10_000) {
      await until(() => ended !== 'no' || parseAnswer(received())?.complete === true, timeoutMs);
      const answer = parseAnswer(received(), ended !== 'no');
      if (answer === undefined)
        throw new Error(`no answer; connection: ${ended}; received: ${received().toString('latin1')}`);
      return answer;
    },
    halfClose: () => void socket.end(),
    leave: () => void socket.destroy(),
    reset: () => void socket.resetAndDestroy(),
  };
}

/** @param closed the connection has ended, which completes a close-delimited body */
export function parseAnswer(bytes: Buffer, closed = false): RawAnswer | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const rawHead = bytes.toString('latin1', 0, headEnd);
  const [statusLine = '', ...lines] = rawHead.split('\r\n');
  const [, status = '0', reason = ''] = /^HTTP\/1\.[01] (\d{3}) ?(.*)$/.exec(statusLine) ?? [];
  if (status.startsWith('1') && status !== '101') return parseAnswer(bytes.subarray(headEnd + 4), closed);
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  const head = { status: Number(status), reason, headers, rawHead };
  const after = bytes.subarray(headEnd + 4);
  if (headers['transfer-encoding']?.toLowerCase().includes('chunked') === true) return { ...head, ...unchunk(after) };
  const length = headers['content-length'];
  if (length !== undefined) {
    const body = after.subarray(0, Number(length));
    return { ...head, body, chunks: [], complete: body.length === Number(length), rest: after.subarray(body.length) };
  }
  const none = head.status === 204 || head.status === 304;
  return { ...head, body: after, chunks: [], complete: none || closed, rest: Buffer.alloc(0) };
}

function unchunk(bytes: Buffer): Pick<RawAnswer, 'body' | 'chunks' | 'complete' | 'rest'> {
  const pieces: Buffer[] = [];
  const chunks: number[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    const size = lineEnd < 0 ? Number.NaN : Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) break;
    if (size === 0) {
      const end =
        bytes.indexOf('\r\n', lineEnd + 2) === lineEnd + 2 ? lineEnd + 4 : bytes.indexOf('\r\n\r\n', lineEnd) + 4;
      if (end < lineEnd + 4 || end > bytes.length) break;
      return { body: Buffer.concat(pieces), chunks, complete: true, rest: bytes.subarray(end) };
    }
    const start = lineEnd + 2;
    pieces.push(bytes.subarray(start, Math.min(start + size, bytes.length)));
    if (start + size + 2 > bytes.length) break;
    chunks.push(size);
    at = start + size + 2;
  }
  return { body: Buffer.concat(pieces), chunks, complete: false, rest: Buffer.alloc(0) };
}

/** A request with a JSON body, as bytes. */
export function postBytes(path: string, body: string | object, headers: Readonly<Record<string, string>> = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const fields = {
    Host: 'test',
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(text)),
    ...headers,
  };
  return `POST ${path} HTTP/1.1\r\n${Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n${text}`;
}

/** A request as bytes: request line (`GET /x`, or with its version), headers as given after Host, body with its length. */
export function requestBytes(
  line: string,
  headers: Readonly<Record<string, string>> = {},
  body: string | Uint8Array = '',
): Buffer {
  const bytes = Buffer.from(body);
  const fields = {
    ...(headers['Host'] === undefined ? { Host: 'test' } : {}),
    ...headers,
    ...(bytes.length === 0 || headers['Transfer-Encoding'] !== undefined
      ? {}
      : { 'Content-Length': String(bytes.length) }),
  };
  const text = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([
    Buffer.from(`${/ HTTP\//.test(line) ? line : `${line} HTTP/1.1`}\r\n${text.join('')}\r\n`, 'latin1'),
    bytes,
  ]);
}

/** R0 and R1 of the bug cases. */
export const chatBody = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] };
export const R0 = postBytes('/v1/chat/completions', chatBody);
export const R1 = postBytes('/v1/chat/completions', { ...chatBody, stream_options: { include_usage: true } });
