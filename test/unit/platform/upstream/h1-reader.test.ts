import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { maxHeadBytes, maxInterimResponses, maxTrailerBytes } from '../../../../src/platform/upstream/h1-reader.ts';
import { arbitraryBrokenResponse, arbitraryResponse } from './arbitrary-response.ts';
import { readResponse } from './read-response.ts';

const runs = Number(process.env['WARMLANE_FUZZ_RUNS'] ?? 400);

function read(text: string, options: Parameters<typeof readResponse>[1] = {}) {
  return readResponse(Buffer.from(text, 'latin1'), options);
}

function everyByte(text: string): number[] {
  return Array.from({ length: text.length }, (_, i) => i);
}

const head = 'HTTP/1.1 200 OK\r\n';
const chunkedHead = `${head}Transfer-Encoding: chunked\r\n\r\n`;

describe('the last read of a body', () => {
  it('is told as such where its length or its last chunk says so, and only then', () => {
    const sized = `${head}Content-Length: 4\r\n\r\n`;
    expect(read(`${sized}abcd`, { cuts: [sized.length] }).lasts).toEqual([true]);
    expect(read(`${sized}abcd`, { cuts: [sized.length, sized.length + 3] }).lasts).toEqual([false, true]);
    expect(read(`${chunkedHead}2\r\nab\r\n0\r\n\r\n`).lasts).toEqual([true]);
    expect(read(`${chunkedHead}2\r\nab\r\n0\r\n\r\n`, { cuts: [chunkedHead.length + 7] }).lasts).toEqual([false]);
    expect(read(`${head}\r\nabcd`, { fin: true }).lasts).toEqual([false]);
  });
});

describe('the response head', () => {
  it('gives names and values as they came, in order, with case and duplicates', () => {
    const result = read(
      `${head}Content-Type:text/plain\r\nX-A:  one \t\r\nx-a: \u00fcber\r\nEmpty:\r\nContent-Length: 0\r\n\r\n`,
    );
    expect(result.head).toEqual({
      status: 200,
      reason: 'OK',
      rawHeaders: ['Content-Type', 'text/plain', 'X-A', 'one', 'x-a', '\u00fcber', 'Empty', '', 'Content-Length', '0'],
      httpVersion: '1.1',
      framing: 'length',
      contentLength: 0,
    });
    expect(result.outcome).toBe('ended');
  });

  it.each([
    ['HTTP/1.1 200\r\n', ''],
    ['HTTP/1.1 200 \r\n', ''],
    ['HTTP/1.1 200 Very  Good\r\n', 'Very  Good'],
  ])('takes the status line %j', (line, reason) => {
    expect(read(`${line}Content-Length: 0\r\n\r\n`).head).toMatchObject({ status: 200, reason });
  });

  it.each([
    'HTTP/1.1  200 OK\r\n',
    'HTTP/1.1 20 OK\r\n',
    'HTTP/1.1 2000 OK\r\n',
    'HTTP/1.1 099 OK\r\n',
    'HTTP/1.1 200OK\r\n',
    'HTTP/1.1\t200 OK\r\n',
    'HTTP/1.2 200 OK\r\n',
    'HTTP/2.0 200 OK\r\n',
    'http/1.1 200 OK\r\n',
    'HTTP/1.1 200 O\0K\r\n',
    ' HTTP/1.1 200 OK\r\n',
    '\r\nHTTP/1.1 200 OK\r\n',
    'ICY 200 OK\r\n',
    '\r\n',
  ])('refuses the status line %j', (line) => {
    expect(read(`${line}Content-Length: 0\r\n\r\n`)).toMatchObject({ outcome: 'bad', head: undefined });
  });

  it('refuses what is not HTTP before a whole line of it has come', () => {
    expect(read('SSH-2.0-OpenSSH').outcome).toBe('bad');
    expect(read('HTTQ').outcome).toBe('bad');
    expect(read('HTTP/1').outcome).toBe('more');
  });

  it.each([
    ['a folded line', 'X: a\r\n b\r\n'],
    ['a folded line after the status line', ' X: a\r\n'],
    ['a bare LF after a field', 'X: a\nY: b\r\n'],
    ['a bare LF that ends the head', 'X: a\r\n\n'],
    ['a bare CR inside a value', 'X: a\rb\r\n'],
    ['a blank before the colon', 'X : a\r\n'],
    ['a tab before the colon', 'X\t: a\r\n'],
    ['an empty name', ': a\r\n'],
    ['a line without a colon', 'X\r\n'],
    ['a name with a byte above 0x7f', 'X\u00e4: a\r\n'],
    ['a name with parentheses', 'X(y): a\r\n'],
    ['a NUL in a value', 'X: a\0b\r\n'],
    ['a DEL in a value', 'X: a\x7fb\r\n'],
    ['an escape in a value', 'X: a\x1bb\r\n'],
  ])('refuses %s', (_, lines) => {
    const result = read(`${head}${lines}Content-Length: 0\r\n\r\n`);
    expect(result).toMatchObject({ outcome: 'bad', head: undefined });
  });

  it('bounds its bytes and its fields', () => {
    const filler = 'x'.repeat(maxHeadBytes - head.length - 'X: \r\n\r\n'.length);
    expect(read(`${head}X: ${filler}\r\n\r\n`).head).toBeDefined();
    expect(read(`${head}X: ${filler}y\r\n\r\n`).outcome).toBe('bad');
    expect(read(`${head}X: ${filler}yyyyyyy`).outcome).toBe('bad');
    expect(read(`${head}${'A: b\r\n'.repeat(256)}\r\n`).head?.rawHeaders).toHaveLength(512);
    expect(read(`${head}${'A: b\r\n'.repeat(257)}\r\n`).outcome).toBe('bad');
  });

  it('stays bounded in time for a large head that comes byte by byte', () => {
    const text = `${head}X: ${'x'.repeat(maxHeadBytes - 100)}\r\nContent-Length: 0\r\n\r\n`;
    expect(read(text, { cuts: everyByte(text) }).outcome).toBe('ended');
  });
});

describe('interim responses', () => {
  it('are swallowed, each with its fields', () => {
    const interim = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n';
    const text = `${interim}${head}Content-Length: 2\r\n\r\nok`;
    for (const cuts of [[], everyByte(text)]) {
      const result = read(text, { cuts });
      expect(result).toMatchObject({ outcome: 'ended', head: { status: 200, rawHeaders: ['Content-Length', '2'] } });
      expect(result.body.toString()).toBe('ok');
    }
  });

  it('are bounded in number', () => {
    const interim = 'HTTP/1.1 102 Processing\r\n\r\n';
    const final = `${head}Content-Length: 0\r\n\r\n`;
    expect(read(interim.repeat(maxInterimResponses) + final).outcome).toBe('ended');
    expect(read(interim.repeat(maxInterimResponses + 1) + final).outcome).toBe('bad');
  });

  it('must not announce a body or the close, nor come in HTTP/1.0', () => {
    expect(read('HTTP/1.1 103 E\r\nContent-Length: 5\r\n\r\n').outcome).toBe('bad');
    expect(read('HTTP/1.1 100 C\r\nTransfer-Encoding: chunked\r\n\r\n').outcome).toBe('bad');
    expect(read('HTTP/1.1 100 C\r\nConnection: close\r\n\r\n').outcome).toBe('bad');
    expect(read('HTTP/1.0 102 Processing\r\n\r\n').outcome).toBe('bad');
  });

  it('may not switch protocols here', () => {
    expect(read('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n')).toMatchObject(
      {
        outcome: 'bad',
        head: undefined,
      },
    );
  });
});

describe('the framing of a body', () => {
  it('C090 refuses Content-Length beside Transfer-Encoding, in either order', () => {
    const body = '5\r\nhello\r\n0\r\n\r\n';
    const both = `${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n${body}`;
    expect(read(both)).toMatchObject({
      outcome: 'bad',
      head: undefined,
      problem: 'both Content-Length and Transfer-Encoding',
    });
    expect(read(`${head}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n${body}`).outcome).toBe('bad');
    expect(read(both, { method: 'HEAD' }).outcome).toBe('bad');
  });

  it.each(['5x', '', '-5', '+5', '5, 5', '5 5', '0x5', '1e3', '99999999999999999', '9007199254740993', '\u0665'])(
    'refuses the Content-Length %j',
    (value) => {
      expect(read(`${head}Content-Length: ${value}\r\n\r\nhello`)).toMatchObject({ outcome: 'bad', head: undefined });
    },
  );

  it('refuses a second Content-Length, equal or not', () => {
    expect(read(`${head}Content-Length: 5\r\ncontent-length: 6\r\n\r\nhello`).outcome).toBe('bad');
    expect(read(`${head}Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello`).outcome).toBe('bad');
  });

  it.each([
    'gzip, chunked',
    'chunked, gzip',
    'identity',
    '',
    'chunked, chunked',
    'xchunked',
    'chunked;q=1',
    '"chunked"',
  ])('refuses the Transfer-Encoding %j', (value) => {
    expect(read(`${head}Transfer-Encoding: ${value}\r\n\r\n0\r\n\r\n`).outcome).toBe('bad');
  });

  it('takes chunked in any case, once', () => {
    expect(read(`${head}TRANSFER-encoding: CHUNKED\r\n\r\n0\r\n\r\n`).outcome).toBe('ended');
    const twice = 'Transfer-Encoding: chunked\r\n'.repeat(2);
    expect(read(`${head}${twice}\r\n0\r\n\r\n`).outcome).toBe('bad');
  });

  it('refuses Transfer-Encoding in an HTTP/1.0 response', () => {
    expect(read('HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n').outcome).toBe('bad');
  });

  it('knows the responses that have no body whatever they say', () => {
    const withLength = (status: number) => `HTTP/1.1 ${status} X\r\nContent-Length: 5\r\n\r\n`;
    expect(read(withLength(304))).toMatchObject({ outcome: 'ended', persistent: true, head: { framing: 'none' } });
    expect(read(withLength(200), { method: 'HEAD' })).toMatchObject({ outcome: 'ended', persistent: true });
    expect(read('HTTP/1.1 204 X\r\n\r\n')).toMatchObject({ outcome: 'ended', persistent: true });
  });

  it('does not trust a connection after a 204 that announces a body', () => {
    expect(read('HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n')).toMatchObject({ outcome: 'ended', persistent: false });
    expect(read('HTTP/1.1 204 X\r\nTransfer-Encoding: chunked\r\n\r\n')).toMatchObject({ persistent: false });
    expect(read('HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n')).toMatchObject({ persistent: false });
  });

  it('reads a body by length to its last byte and no further', () => {
    const text = `${head}Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n`;
    for (const cuts of [[], everyByte(text)]) {
      const result = read(text, { cuts });
      expect(result).toMatchObject({ outcome: 'ended', taken: text.indexOf('hello') + 5 });
      expect(result.body.toString()).toBe('hello');
      expect(result.verbatim).not.toContain(true);
    }
  });

  it('reads a body without length to the end of the connection', () => {
    const text = `${head}\r\nall of it`;
    expect(read(text)).toMatchObject({ outcome: 'more', head: { framing: 'close' } });
    expect(read(text, { fin: true })).toMatchObject({ outcome: 'ended', persistent: false });
  });

  it('does not take the end of the connection for the end of any other body', () => {
    for (const text of [
      head,
      `${head}Content-Length: 5\r\n\r\nhell`,
      `${chunkedHead}5\r\nhello\r\n`,
      `${chunkedHead}5\r\nhello\r\n0\r\n`,
      'HTTP/1.1 100 Continue\r\n\r\n',
    ]) {
      expect(read(text, { fin: true }).outcome, text).toBe('more');
    }
  });
});

describe('whether the connection may serve again', () => {
  it.each([
    ['', true],
    ['Connection: keep-alive\r\n', true],
    ['Connection: close\r\n', false],
    ['Connection: x, CLOSE\r\n', false],
    ['Connection: keep-alive\r\nConnection: close\r\n', false],
    ['Connection: closed\r\n', true],
  ])('with %j it is %s', (lines, persistent) => {
    expect(read(`${head}${lines}Content-Length: 0\r\n\r\n`).persistent).toBe(persistent);
  });

  it('is never so after HTTP/1.0', () => {
    expect(read('HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n').persistent).toBe(false);
  });

  it('R02 learns how long the server keeps it from Keep-Alive', () => {
    const withKeepAlive = (value: string) => read(`${head}Keep-Alive: ${value}\r\nContent-Length: 0\r\n\r\n`);
    expect(withKeepAlive('timeout=5, max=100')).toMatchObject({ keepAliveMs: 5000, keepAliveMax: 100 });
    expect(withKeepAlive('max=7,Timeout = 12')).toMatchObject({ keepAliveMs: 12_000, keepAliveMax: 7 });
    expect(withKeepAlive('timeout=0')).toMatchObject({ keepAliveMs: 0, keepAliveMax: undefined });
    expect(withKeepAlive('xtimeout=5')).toMatchObject({ keepAliveMs: undefined });
    expect(withKeepAlive('nonsense')).toMatchObject({ keepAliveMs: undefined, keepAliveMax: undefined });
  });
});

describe('chunked bodies', () => {
  it('C022 are read the same when the CR of a chunk header is the last byte of a read', () => {
    const payload = 'data: {"a":"b"}\n\ndata: [DONE]\n';
    const text = `${chunkedHead}1e;ext=1\r\n${payload}\r\n0\r\n\r\n`;
    const places = ['\r\n1e', '\ne;ext', '\n\r\n'].map((part) => text.indexOf(part));
    for (let at = 0; at < text.length; at += 1) places.push(at);
    for (const at of places) {
      const result = read(text, { cuts: [at, at + 1, at + 2] });
      expect(result.body.toString()).toBe(payload);
      expect(result).toMatchObject({ outcome: 'ended', taken: text.length });
    }
  });

  it('are verbatim when a read is whole plain chunks', () => {
    const chunks = '3\r\nabc\r\nA\r\n0123456789\r\n';
    const text = `${chunkedHead}${chunks}0\r\n\r\n`;
    const from = chunkedHead.length;
    expect(read(text, { cuts: [from, from + chunks.length] }).verbatim).toEqual([true]);
    expect(read(text, { cuts: [from, from + 8] }).verbatim).toEqual([true, true]);
  });

  it('are verbatim up to a last chunk in the same read, which is not part of the wire range', () => {
    const text = `${chunkedHead}3\r\nabc\r\n0\r\n\r\n`;
    const result = read(text);
    expect(result).toMatchObject({ outcome: 'ended', calls: ['head', 'body'], verbatim: [true] });
    expect(result.body.toString()).toBe('abc');
  });

  it('are not verbatim when a read cuts a chunk or holds an extension', () => {
    const from = chunkedHead.length;
    expect(read(`${chunkedHead}3\r\nabc\r\n`, { cuts: [from + 4] }).verbatim).toEqual([false, false]);
    expect(read(`${chunkedHead}3;x\r\nabc\r\n`).verbatim).toEqual([false]);
    expect(read(`${chunkedHead}3\r\nabc\r\n3;x\r\nabc\r\n0\r\n\r\n`).verbatim).toEqual([false]);
    expect(read(`${chunkedHead}3\r\nabc\r\n3\r\nab`).verbatim).toEqual([false]);
    expect(read(`${chunkedHead}3\r\nabc\r\n3`).verbatim).toEqual([false]);
    expect(read(`${chunkedHead}00000003\r\nabc\r\n`).verbatim).toEqual([false]);
  });

  it('hand over what came of a chunk at once', () => {
    const result = read(`${chunkedHead}ffff\r\nfirst token`);
    expect(result.body.toString()).toBe('first token');
    expect(result.outcome).toBe('more');
  });

  it.each([
    ['no digits', '\r\nabc'],
    ['a sign', '+3\r\nabc\r\n'],
    ['a blank before', ' 3\r\nabc\r\n'],
    ['a blank behind', '3 \r\nabc\r\n'],
    ['a prefix', '0x3\r\nabc\r\n'],
    ['a bare LF', '3\nabc\r\n'],
    ['a CR with something behind', '3\r\r\nabc'],
    ['a size above 2^48', '1000000000001\r\n'],
    ['more digits than a size has', `${'0'.repeat(16)}3\r\nabc\r\n`],
    ['data longer than its size', '3\r\nabcd\r\n'],
    ['data that ends in a bare LF', '3\r\nabc\n'],
    ['data that ends in a blank and LF', '3\r\nabc \n'],
    ['data that ends in CR and something', '3\r\nabc\rx'],
    ['an empty extension', '3;\r\nabc\r\n'],
    ['an extension value without a name', '3;=x\r\nabc\r\n'],
    ['an extension with an empty value', '3;a=\r\nabc\r\n'],
    ['an unclosed quote', '3;a="x\r\nabc\r\n'],
    ['an extension with a NUL', '3;a\0\r\nabc\r\n'],
    ['an extension with a bare LF', '3;a\nabc\r\n'],
    ['an extension without end', `3;${'a'.repeat(5000)}`],
  ])('refuse %s', (_, chunk) => {
    const text = `${chunkedHead}2\r\nok\r\n${chunk}`;
    const result = read(text);
    expect(result.outcome).toBe('bad');
    expect(result.body.toString().startsWith('ok')).toBe(true);
    expect(read(text, { cuts: everyByte(text) })).toMatchObject({ outcome: 'bad', body: result.body });
  });

  it('ignore well-formed extensions', () => {
    const text = `${chunkedHead}3;a;b=c;d="q;\\""\r\nabc\r\n`;
    expect(read(text).body.toString()).toBe('abc');
  });

  it('take a size up to 2^48', () => {
    expect(read(`${chunkedHead}1000000000000\r\nabc`)).toMatchObject({ outcome: 'more', body: Buffer.from('abc') });
  });

  it('deliver their trailers', () => {
    const text = `${chunkedHead}3\r\nabc\r\n0\r\nX-Sum: 1\r\nx-sum:2 \r\n\r\nnext`;
    for (const cuts of [[], everyByte(text)]) {
      expect(read(text, { cuts })).toMatchObject({
        outcome: 'ended',
        trailers: ['X-Sum', '1', 'x-sum', '2'],
        taken: text.length - 4,
      });
    }
  });

  it.each([
    ['framing fields among them', 'Content-Length: 3\r\n'],
    ['a coding among them', 'transfer-encoding: chunked\r\n'],
    ['a folded line', 'X: a\r\n b\r\n'],
    ['a bare LF', 'X: a\n'],
    ['too many bytes', `X: ${'x'.repeat(maxTrailerBytes)}\r\n`],
    ['too many fields', 'A: b\r\n'.repeat(65)],
  ])('refuse trailers with %s', (_, lines) => {
    expect(read(`${chunkedHead}0\r\n${lines}\r\n`).outcome).toBe('bad');
  });
});

describe('any bytes, cut anywhere', () => {
  const cutsOf = (bytes: Buffer) => fc.array(fc.integer({ min: 0, max: bytes.length }), { maxLength: 12 });

  it('a valid response gives what it says, cut or not', () => {
    fc.assert(
      fc.property(
        arbitraryResponse({ interim: true }).chain((made) => fc.tuple(fc.constant(made), cutsOf(made.bytes))),
        ([made, cuts]) => {
          for (const where of [[], cuts, Array.from(made.bytes, (_, i) => i)]) {
            const result = readResponse(made.bytes, { method: made.method, cuts: where, fin: true });
            expect(result.problem).toBe('');
            expect(result.outcome).toBe('ended');
            expect(result.head).toMatchObject({ status: made.status, reason: made.reason, rawHeaders: made.headers });
            expect(result.body.equals(made.body)).toBe(true);
            expect(result.trailers).toEqual(made.trailers);
            expect(result.taken).toBe(made.bytes.length);
          }
        },
      ),
      { numRuns: runs },
    );
  }, 600_000);

  it('a broken response is read or refused the same, cut or not', () => {
    fc.assert(
      fc.property(
        arbitraryBrokenResponse().chain((made) => fc.tuple(fc.constant(made), cutsOf(made.bytes))),
        ([made, cuts]) => {
          const {
            calls: _,
            verbatim: __,
            lasts: ____,
            taken,
            ...whole
          } = readResponse(made.bytes, { method: made.method });
          for (const where of [cuts, Array.from(made.bytes, (___, i) => i)]) {
            const result = readResponse(made.bytes, { method: made.method, cuts: where });
            expect(result).toMatchObject(whole);
            if (whole.outcome === 'ended') expect(result.taken).toBe(taken);
          }
        },
      ),
      { numRuns: runs },
    );
  }, 600_000);
});
