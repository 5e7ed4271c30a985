/**
 * Generators of HTTP/1.1 responses for property tests: valid ones that every parser must read alike, and broken ones.
 */
import fc from 'fast-check';

interface MadeResponse {
  readonly bytes: Buffer;
  readonly method: string;
  readonly status: number;
  readonly reason: string;
  /** Names and values in turn, framing fields included. */
  readonly headers: readonly string[];
  readonly body: Buffer;
  readonly trailers: readonly string[];
}

const tokenCharacters = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".split('');
const token = fc.string({ unit: fc.constantFrom(...tokenCharacters), minLength: 1, maxLength: 12 });
const visible = fc.integer({ min: 0x21, max: 0xff }).filter((code) => code !== 0x7f);
const valueCode: fc.Arbitrary<number> = fc.oneof(visible, visible, visible, fc.constantFrom(0x20, 0x09));
const valueUnit = valueCode.map((code) => String.fromCharCode(code));
const value = fc.string({ unit: valueUnit, maxLength: 30 }).map((text) => text.replace(/^[ \t]+|[ \t]+$/g, ''));
const reserved =
  /^(content-length|transfer-encoding|connection|keep-alive|upgrade|proxy-connection|set-cookie|trailer|host|te|expect)$/i;
const field = fc
  .tuple(fc.oneof(token, fc.constantFrom('Content-Type', 'X-Request-Id', 'server')), value)
  .filter(([name]) => !reserved.test(name));
const blanks = fc.constantFrom('', ' ', ' ', ' ', '  ', '\t', ' \t ');

/** One field line with optional blanks around its value, as written. */
const fieldLine = fc.tuple(field, blanks, blanks).map(([[name, text], before, after]) => ({
  pair: [name, text],
  line: `${name}:${before}${text}${text === '' ? '' : after}\r\n`,
}));

const quoted = fc
  .string({ unit: fc.constantFrom(...tokenCharacters, ' ', ';', '=', ','), maxLength: 8 })
  .map((text) => `"${text}"`);
const extension = fc.oneof(
  fc.constant(''),
  fc.constant(''),
  token.map((name) => `;${name}`),
  fc.tuple(token, token).map(([name, text]) => `;${name}=${text}`),
  fc.tuple(token, quoted).map(([name, text]) => `;${name}=${text}`),
);

const bodyBytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.uint8Array({ minLength: 200, maxLength: 400 }),
  fc.constant(Buffer.from('data: {"choices":[{"delta":{"content":"x"}}]}\n\n')),
);

function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

const chunk = fc
  .record({ data: bodyBytes, extension, zeros: fc.constantFrom('', '', '', '0', '000'), upper: fc.boolean() })
  .filter(({ data }) => data.length > 0)
  .map(({ data, extension: ext, zeros, upper }) => {
    const hex = data.length.toString(16);
    const size = `${zeros}${upper ? hex.toUpperCase() : hex}${ext}\r\n`;
    return { data: Buffer.from(data), wire: Buffer.concat([latin1(size), data, latin1('\r\n')]) };
  });

interface MadeBody {
  readonly body: Buffer;
  readonly wire: Buffer;
  readonly framing: readonly string[];
  readonly trailers: readonly string[];
}

const chunkedBody: fc.Arbitrary<MadeBody> = fc
  .record({
    chunks: fc.array(chunk, { maxLength: 6 }),
    trailers: fc.array(fieldLine, { maxLength: 2 }),
    last: extension,
  })
  .map(({ chunks, trailers, last }) => ({
    body: Buffer.concat(chunks.map(({ data }) => data)),
    wire: Buffer.concat([
      ...chunks.map(({ wire }) => wire),
      latin1(`0${last}\r\n${trailers.map(({ line }) => line).join('')}\r\n`),
    ]),
    framing: ['Transfer-Encoding', 'chunked'],
    trailers: trailers.flatMap(({ pair }) => pair),
  }));

const lengthBody: fc.Arbitrary<MadeBody> = bodyBytes.map((data) => ({
  body: Buffer.from(data),
  wire: Buffer.from(data),
  framing: ['Content-Length', String(data.length)],
  trailers: [],
}));

const closeBody: fc.Arbitrary<MadeBody> = bodyBytes.map((data) => ({
  body: Buffer.from(data),
  wire: Buffer.from(data),
  framing: [],
  trailers: [],
}));

const finalStatus = fc.constantFrom(200, 200, 200, 201, 206, 404, 429, 500, 503, 204, 304);

/** Valid responses; with `interim` some have 1xx responses before them. A body that runs to the close needs the FIN. */
export function arbitraryResponse(options: { readonly interim: boolean }): fc.Arbitrary<MadeResponse> {
  return fc
    .record({
      status: finalStatus,
      method: fc.constantFrom('GET', 'GET', 'GET', 'POST', 'HEAD'),
      reason: fc.constantFrom('OK', '', 'Not Found', 'Caf\u00e9 au lait'),
      fields: fc.array(fieldLine, { maxLength: 6 }),
      close: fc.boolean(),
      made: fc.oneof(chunkedBody, chunkedBody, lengthBody, closeBody),
      interim: options.interim ? fc.array(fc.constantFrom(102, 103), { maxLength: 2 }) : fc.constant<number[]>([]),
    })
    .map(({ status, method, reason, fields, close, made, interim }) => {
      const bodiless = method === 'HEAD' || status === 204 || status === 304;
      const framing = bodiless ? [] : made.framing;
      const connection = close || (!bodiless && framing.length === 0) ? ['Connection', 'close'] : [];
      const own = [...framing, ...connection];
      const ownLines = own.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('');
      const interims = interim.map((code) => `HTTP/1.1 ${code} Wait\r\nLink: </a>\r\n\r\n`).join('');
      const head = `HTTP/1.1 ${status} ${reason}\r\n${fields.map(({ line }) => line).join('')}${ownLines}\r\n`;
      return {
        bytes: Buffer.concat([latin1(interims + head), bodiless ? Buffer.alloc(0) : made.wire]),
        method,
        status,
        reason,
        headers: [...fields.flatMap(({ pair }) => pair), ...own],
        body: bodiless ? Buffer.alloc(0) : made.body,
        trailers: bodiless ? [] : made.trailers,
      };
    });
}

/** Texts whose presence decides framing, to be put where they don't belong. */
const poison = [
  'Content-Length: 5\r\n',
  'Content-Length: 0\r\n',
  'content-length: +5\r\n',
  'Content-Length: 5, 5\r\n',
  'Content-Length:\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: gzip, chunked\r\n',
  'transfer-encoding: Chunked \r\n',
  'Transfer-Encoding: identity\r\n',
  'Transfer-Encoding : chunked\r\n',
  'Connection: close\r\n',
  'Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\n',
  'HTTP/1.1 200 OK\r\n\r\n',
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  'HTTP/1.0 ',
  'x',
  '7',
  'Keep-Alive: timeout=5\r\n',
  'Trailer: X-Sum\r\n',
  'X-Empty:\r\n',
  'X-Blank: \t \r\n',
  ': no name\r\n',
  'no colon\r\n',
  '0\r\n\r\n',
  '\r\n',
  '\n',
  '\r',
  ' ',
  '\t',
  '\0',
  ';',
  ';a="',
  '\r\n x: folded\r\n',
  'ffffffffffffffff\r\n',
  '-1\r\n',
  '0x5\r\n',
];

type Mutation =
  | { readonly kind: 'flip'; readonly at: number; readonly bit: number }
  | { readonly kind: 'delete'; readonly at: number; readonly bytes: number }
  | { readonly kind: 'insert'; readonly at: number; readonly text: string }
  | { readonly kind: 'repeat'; readonly at: number; readonly bytes: number }
  | { readonly kind: 'line'; readonly at: number; readonly text: string }
  | { readonly kind: 'truncate'; readonly at: number };

/** Share of the way through the bytes; 2 is the end. */
const place = fc.oneof(
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.double({ min: 0, max: 0.3, noNaN: true }),
  fc.constant(2),
);

const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: fc.constant('flip' as const), at: place, bit: fc.integer({ min: 0, max: 7 }) }),
  fc.record({ kind: fc.constant('delete' as const), at: place, bytes: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ kind: fc.constant('insert' as const), at: place, text: fc.constantFrom(...poison) }),
  fc.record({ kind: fc.constant('repeat' as const), at: place, bytes: fc.integer({ min: 1, max: 30 }) }),
  fc.record({ kind: fc.constant('line' as const), at: place, text: fc.constantFrom(...poison) }),
  fc.record({ kind: fc.constant('truncate' as const), at: place }),
);

function mutate(bytes: Buffer, change: Mutation): Buffer {
  const at = Math.min(bytes.length, Math.floor(change.at * bytes.length));
  const before = bytes.subarray(0, at);
  switch (change.kind) {
    case 'flip': {
      const flipped = Buffer.from(bytes);
      const index = Math.min(at, flipped.length - 1);
      if (flipped.length > 0) flipped.writeUInt8(flipped.readUInt8(index) ^ (1 << change.bit), index);
      return flipped;
    }
    case 'delete':
      return Buffer.concat([before, bytes.subarray(at + change.bytes)]);
    case 'insert':
      return Buffer.concat([before, latin1(change.text), bytes.subarray(at)]);
    case 'repeat':
      return Buffer.concat([bytes.subarray(0, at + change.bytes), bytes.subarray(at)]);
    case 'line': {
      const border = bytes.indexOf('\r\n', at);
      const to = border === -1 ? 0 : border + 2;
      return Buffer.concat([bytes.subarray(0, to), latin1(change.text), bytes.subarray(to)]);
    }
    case 'truncate':
      return Buffer.from(before);
  }
}

/** Responses with one thing wrong or a few, or by luck still right. */
export function arbitraryBrokenResponse(): fc.Arbitrary<{ readonly bytes: Buffer; readonly method: string }> {
  const changes = fc.oneof(
    { weight: 3, arbitrary: fc.tuple(mutation) },
    { weight: 1, arbitrary: fc.array(mutation, { minLength: 2, maxLength: 3 }) },
  );
  return fc
    .tuple(arbitraryResponse({ interim: true }), changes)
    .map(([made, list]) => ({ bytes: list.reduce<Buffer>(mutate, made.bytes), method: made.method }));
}
