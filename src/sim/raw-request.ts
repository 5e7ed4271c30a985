/**
 * Reads HTTP/1.1 requests out of raw bytes and keeps every byte of them, so that a test can look at what was really sent.
 * Stands in the scripted server only; it is strict about framing and answers nothing itself.
 */

/** One request as it came over the wire. Times are monotonic ms of the server's clock. */
export interface RawRequest {
  /** Counts all requests of the server from 0, in the order of their heads. */
  readonly number: number;
  readonly connectionId: number;
  readonly method: string;
  /** Path with query, as sent. */
  readonly target: string;
  readonly httpVersion: string;
  /** Names and values as sent, duplicates kept. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** First value under this name, whatever its case. */
  header(name: string): string | undefined;
  /** Request line and headers, with the blank line. */
  readonly rawHead: Buffer;
  /** Body bytes as sent, chunk framing included, as far as received. */
  readonly rawBody: Buffer;
  /** Head and body as sent, as far as received. */
  readonly raw: Buffer;
  /** Body without framing, as far as received. */
  readonly body: Buffer;
  text(): string;
  /** The body as JSON; throws on anything else. */
  json(): unknown;
  readonly complete: boolean;
  readonly firstByteMs: number;
  readonly headMs: number;
  /** When the last body byte came; undefined while it is incomplete. */
  readonly bodyMs: number | undefined;
}

export interface RawRequestReader {
  /** Takes one socket read; calls back for each head and each completed request in it. @throws on bad framing */
  push(bytes: Buffer, atMs: number): void;
}

export interface RawRequestCallbacks {
  nextNumber(): number;
  head(request: RawRequest): void;
  complete(request: RawRequest): void;
}

interface Reading {
  request: RawRequest & { complete: boolean; bodyMs: number | undefined };
  rawBody: Buffer[];
  body: Buffer[];
  framing: 'none' | 'length' | 'chunked';
  /** Bytes still wanted of the body or of the current chunk. */
  wanted: number;
  chunkState: 'size' | 'data' | 'data_end' | 'trailer';
}

const maxHeadBytes = 1 << 20;

export function createRawRequestReader(connectionId: number, callbacks: RawRequestCallbacks): RawRequestReader {
  let held: Buffer = Buffer.alloc(0);
  let firstByteMs: number | undefined;
  let reading: Reading | undefined;

  /** @returns false when more bytes are needed */
  function readHead(atMs: number): boolean {
    const end = held.indexOf('\r\n\r\n');
    if (end < 0) {
      if (held.length > maxHeadBytes) throw new Error(`request head exceeds ${maxHeadBytes} bytes`);
      return false;
    }
    const rawHead = held.subarray(0, end + 4);
    held = held.subarray(end + 4);
    reading = startReading(rawHead, {
      connectionId,
      number: callbacks.nextNumber(),
      firstByteMs: firstByteMs ?? atMs,
      headMs: atMs,
    });
    callbacks.head(reading.request);
    return true;
  }

  function finish(current: Reading, atMs: number): void {
    current.request.complete = true;
    current.request.bodyMs = atMs;
    reading = undefined;
    firstByteMs = held.length > 0 ? atMs : undefined;
    callbacks.complete(current.request);
  }

  return {
    push(bytes, atMs) {
      firstByteMs ??= atMs;
      held = held.length === 0 ? Buffer.from(bytes) : Buffer.concat([held, bytes]);
      for (;;) {
        if (reading === undefined && (held.length === 0 || !readHead(atMs))) return;
        const current = reading;
        if (current === undefined) return;
        const taken = takeBody(current, held);
        if (taken.bytes > 0) current.rawBody.push(held.subarray(0, taken.bytes));
        held = held.subarray(taken.bytes);
        if (!taken.done) return;
        finish(current, atMs);
      }
    },
  };
}

interface HeadFacts {
  readonly connectionId: number;
  readonly number: number;
  readonly firstByteMs: number;
  readonly headMs: number;
}

function startReading(rawHead: Buffer, facts: HeadFacts): Reading {
  const [requestLine = '', ...lines] = rawHead.toString('latin1', 0, rawHead.length - 4).split('\r\n');
  const [method = '', target = '', version = ''] = requestLine.split(' ');
  const headers = lines.map((line): readonly [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  const header = (name: string) => headers.find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1];
  const rawBody: Buffer[] = [];
  const body: Buffer[] = [];
  const chunked = /\bchunked\b/i.test(header('transfer-encoding') ?? '');
  const length = Number(header('content-length') ?? 0);
  return {
    rawBody,
    body,
    framing: chunked ? 'chunked' : length > 0 ? 'length' : 'none',
    wanted: chunked ? 0 : length,
    chunkState: 'size',
    request: {
      ...facts,
      method,
      target,
      httpVersion: version.replace('HTTP/', ''),
      headers,
      header,
      rawHead,
      get rawBody() {
        return Buffer.concat(rawBody);
      },
      get raw() {
        return Buffer.concat([rawHead, ...rawBody]);
      },
      get body() {
        return Buffer.concat(body);
      },
      text: () => Buffer.concat(body).toString(),
      json: (): unknown => JSON.parse(Buffer.concat(body).toString()),
      complete: false,
      bodyMs: undefined,
    },
  };
}

/** How many of `bytes` belong to the body, and whether it ends with them. */
function takeBody(reading: Reading, bytes: Buffer): { bytes: number; done: boolean } {
  if (reading.framing === 'none') return { bytes: 0, done: true };
  if (reading.framing === 'length') {
    const taken = Math.min(reading.wanted, bytes.length);
    reading.wanted -= taken;
    if (taken > 0) reading.body.push(bytes.subarray(0, taken));
    return { bytes: taken, done: reading.wanted === 0 };
  }
  return takeChunked(reading, bytes);
}

function takeChunked(reading: Reading, bytes: Buffer): { bytes: number; done: boolean } {
  let at = 0;
  for (;;) {
    if (reading.chunkState === 'data') {
      const taken = Math.min(reading.wanted, bytes.length - at);
      if (taken > 0) reading.body.push(bytes.subarray(at, at + taken));
      at += taken;
      reading.wanted -= taken;
      if (reading.wanted > 0) return { bytes: at, done: false };
      reading.chunkState = 'data_end';
    }
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return { bytes: at, done: false };
    const line = bytes.toString('latin1', at, lineEnd);
    at = lineEnd + 2;
    if (reading.chunkState === 'data_end') {
      if (line !== '') throw new Error('chunk data longer than its size');
      reading.chunkState = 'size';
    } else if (reading.chunkState === 'size') {
      const size = /^([0-9a-f]+)\s*(;.*)?$/i.exec(line)?.[1];
      if (size === undefined) throw new Error(`bad chunk size ${JSON.stringify(line)}`);
      reading.wanted = Number.parseInt(size, 16);
      reading.chunkState = reading.wanted === 0 ? 'trailer' : 'data';
    } else if (line === '') {
      return { bytes: at, done: true };
    }
  }
}
