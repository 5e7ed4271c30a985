import { describe, expect, it } from 'vitest';
import type { UpstreamHead } from '../../../src/platform/upstream/port.ts';
import { answerHeader, clientHeaders, mediumOf, mediumOfBytes } from '../../../src/relay/response-head.ts';

function upstreamHead(rawHeaders: readonly string[], over: Partial<UpstreamHead> = {}): UpstreamHead {
  return { status: 200, reason: 'OK', httpVersion: '1.1', rawHeaders, framing: 'chunked', ...over };
}

function told(rawHeaders: readonly string[], stream: boolean, over: Partial<UpstreamHead> = {}): string[] {
  const headers = clientHeaders(upstreamHead(rawHeaders, over), stream, 'id-1');
  return headers.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${headers[i + 1]}`] : []));
}

const own = ['X-Request-Id: id-1', 'Via: 1.1 warmlane'];
const unbuffered = [
  'X-Request-Id: id-1',
  'Cache-Control: no-cache, no-transform',
  'X-Accel-Buffering: no',
  'Via: 1.1 warmlane',
];

describe('headers towards the client', () => {
  it('keep order, case and repetition of what goes end to end', () => {
    const raw = ['Server', 'uvicorn', 'set-cookie', 'a=1', 'Set-Cookie', 'b=2', 'X-Odd', ''];
    expect(told(raw, false)).toEqual(['Server: uvicorn', 'set-cookie: a=1', 'Set-Cookie: b=2', 'X-Odd: ', ...own]);
  });

  it('lose what belongs to the backend’s connection, and its framing', () => {
    const raw = [
      'Connection',
      'close, X-Hop',
      'Keep-Alive',
      'timeout=5',
      'X-Hop',
      '1',
      'Transfer-Encoding',
      'chunked',
      'Content-Length',
      '5',
      'Trailer',
      'X-Sum',
      'Upgrade',
      'h2c',
      'Proxy-Authenticate',
      'Basic',
    ];
    expect(told(raw, false)).toEqual(own);
  });

  it('keep the length of a body that isn’t sent', () => {
    expect(told(['Content-Length', '5'], false, { framing: 'none' })).toEqual(['Content-Length: 5', ...own]);
    expect(told(['Content-Length', '0'], false, { framing: 'none', status: 204 })).toEqual(own);
    expect(told(['Content-Length', '5'], false, { framing: 'length', contentLength: 5 })).toEqual(own);
  });

  it('C095 ask everyone between not to hold a stream back, and leave other answers alone', () => {
    expect(told(['Cache-Control', 'no-store'], false)).toEqual(['Cache-Control: no-store', ...own]);
    expect(told([], true)).toEqual(unbuffered);
  });

  it('C095 add to the backend’s own Cache-Control what is missing in it', () => {
    expect(told(['Cache-Control', 'no-cache'], true)).toContain('Cache-Control: no-cache, no-transform');
    expect(told(['cache-control', 'private', 'Cache-Control', 'No-Transform'], true)).toContain(
      'Cache-Control: private, No-Transform',
    );
    expect(told(['Cache-Control', ' '], true)).toContain('Cache-Control: no-cache, no-transform');
  });

  it('C095 keep the backend’s own X-Accel-Buffering', () => {
    expect(told(['X-Accel-Buffering', 'yes'], true).filter((line) => /^x-accel/i.test(line))).toEqual([
      'X-Accel-Buffering: yes',
    ]);
  });

  it('R25 keep the backend’s own request id', () => {
    expect(told(['x-request-id', 'theirs'], false)).toEqual(['x-request-id: theirs', 'Via: 1.1 warmlane']);
  });

  it('say which HTTP the backend spoke', () => {
    expect(told([], false, { httpVersion: '1.0' })).toContain('Via: 1.0 warmlane');
  });
});

describe('what an answer is', () => {
  it.each([
    ['text/event-stream', 'sse'],
    ['Text/Event-Stream; charset=utf-8', 'sse'],
    ['application/x-ndjson', 'ndjson'],
    ['application/ndjson', 'ndjson'],
    ['application/jsonl', 'ndjson'],
    ['application/json; charset=utf-8', 'json'],
    ['application/problem+json', 'opaque'],
    ['text/plain', 'opaque'],
    ['', 'opaque'],
  ])('is said by its type: %s', (type, medium) => {
    expect(mediumOf(upstreamHead(['Content-Type', type]))).toBe(medium);
  });

  it('is untold without one', () => {
    expect(mediumOf(upstreamHead([]))).toBe('untold');
  });

  it.each([
    ['{"a":1}', 'json'],
    ['data: x', 'sse'],
    ['data:', 'sse'],
    ['event: x', 'sse'],
    ['id: 1', 'sse'],
    ['retry: 1', 'sse'],
    [': ping', 'sse'],
    [':', 'sse'],
    ['database', 'opaque'],
    ['<html>', 'opaque'],
    ['d', 'opaque'],
  ])('C060 is guessed from its first bytes: %s', (text, medium) => {
    const padded = Buffer.from(`{${text}data: `);
    expect(mediumOfBytes(padded, 1, 1 + text.length)).toBe(medium);
  });

  it('is looked up by name, whatever its case', () => {
    const head = upstreamHead(['X-A', '1', 'x-a', '2']);
    expect(answerHeader(head, 'x-a')).toBe('1');
    expect(answerHeader(head, 'x-b')).toBeUndefined();
  });
});
