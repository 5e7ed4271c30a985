/**
 * Reads recorded bytes as HTTP/1.1 messages and says when each part of them arrived. Works on what was recorded whole,
 * not as it comes; written apart from the product's own reader, so that the two can disagree.
 */
export interface Read {
  /** monotonic ms */
  readonly atMs: number;
  readonly bytes: Buffer;
}

export interface Message {
  /** `POST /v1/… HTTP/1.1` or `HTTP/1.1 200 OK` */
  readonly startLine: string;
  /** names in lower case; the last one of several with the same name */
  readonly headers: ReadonlyMap<string, string>;
  /** the body without chunk framing */
  readonly payload: Buffer;
  /** the framing said that the body has ended (for a close-delimited body: the connection was closed) */
  readonly complete: boolean;
  readonly headAtMs: number;
  /** arrival of the last byte that there is */
  readonly endAtMs: number;
  /** arrival of the payload byte before `offset` */
  arrivedAt(offset: number): number;
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** The messages of one direction of a connection, in order; the last one may be incomplete. 1xx responses are left out. */
export function parseMessages(reads: readonly Read[], closed: boolean): Message[] {
  const wire = Buffer.concat(reads.map((read) => read.bytes));
  const messages: Message[] = [];
  for (let at = 0; at < wire.length;) {
    const headEnd = wire.indexOf('\r\n\r\n', at);
    if (headEnd < 0) break;
    const [startLine = '', ...lines] = wire.toString('latin1', at, headEnd).split('\r\n');
    const headers = new Map(lines.map((line) => splitHeader(line)));
    const body = parseBody(wire, headEnd + 4, headers, startLine, closed);
    if (!startLine.startsWith('HTTP/1.1 1'))
      messages.push(createMessage(reads, startLine, headers, { wire, headEnd, ...body }));
    if (body.end <= at) break;
    at = body.end;
  }
  return messages;
}

function splitHeader(line: string): [string, string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}

interface Body {
  readonly spans: readonly Span[];
  readonly complete: boolean;
  readonly end: number;
}

function parseBody(
  wire: Buffer,
  start: number,
  headers: ReadonlyMap<string, string>,
  startLine: string,
  closed: boolean,
): Body {
  if (headers.get('transfer-encoding')?.toLowerCase() === 'chunked') return parseChunks(wire, start);
  const length = headers.get('content-length');
  if (length !== undefined) {
    const end = Math.min(wire.length, start + Number(length));
    return { spans: [{ start, end }], complete: end - start === Number(length), end };
  }
  const isResponse = startLine.startsWith('HTTP/');
  const hasBody = isResponse && !/^HTTP\/1\.1 (1\d\d|204|304)/.test(startLine);
  return hasBody
    ? { spans: [{ start, end: wire.length }], complete: closed, end: wire.length }
    : { spans: [], complete: true, end: start };
}

function parseChunks(wire: Buffer, start: number): Body {
  const spans: Span[] = [];
  for (let at = start; ;) {
    const lineEnd = wire.indexOf('\r\n', at);
    if (lineEnd < 0) return { spans, complete: false, end: wire.length };
    const size = Number.parseInt(wire.toString('latin1', at, lineEnd), 16);
    if (Number.isNaN(size)) throw new Error(`no chunk size at byte ${at}`);
    if (size === 0) {
      const end = wire.indexOf('\r\n\r\n', lineEnd);
      return { spans, complete: end >= 0, end: end < 0 ? wire.length : end + 4 };
    }
    const from = lineEnd + 2;
    spans.push({ start: from, end: Math.min(wire.length, from + size) });
    if (from + size + 2 > wire.length) return { spans, complete: false, end: wire.length };
    at = from + size + 2;
  }
}

function createMessage(
  reads: readonly Read[],
  startLine: string,
  headers: ReadonlyMap<string, string>,
  { wire, headEnd, spans, complete, end }: Body & { wire: Buffer; headEnd: number },
): Message {
  const wireArrivedAt = (offset: number): number => {
    let seen = 0;
    for (const read of reads) {
      seen += read.bytes.length;
      if (offset <= seen) return read.atMs;
    }
    return Number.NaN;
  };
  return {
    startLine,
    headers,
    payload: Buffer.concat(spans.map((span) => wire.subarray(span.start, span.end))),
    complete,
    headAtMs: wireArrivedAt(headEnd + 4),
    endAtMs: wireArrivedAt(end),
    arrivedAt(offset) {
      let passed = 0;
      for (const span of spans) {
        const size = span.end - span.start;
        if (offset <= passed + size) return wireArrivedAt(span.start + (offset - passed));
        passed += size;
      }
      return Number.NaN;
    },
  };
}

export function statusOf(response: Message): number {
  return Number(response.startLine.split(' ')[1]);
}
