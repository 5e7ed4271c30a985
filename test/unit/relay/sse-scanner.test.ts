import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSseScanner } from '../../../src/relay/sse-scanner.ts';
import { listRecorded, loadRecorded } from '../../support/recorded.ts';
import { everyByte, scan } from '../../support/scan.ts';
import { readEventStream, standsAtBoundary } from '../../support/sse-reference.ts';

const scanText = (text: string, cuts: readonly number[] = []) => scan(createSseScanner, Buffer.from(text), cuts);
const dataOf = (text: string) => scanText(text).events.map((event) => event.data);

describe('finding events', () => {
  it('C002 an all-CRLF stream, one byte at a time, gives each event once with name and data together', () => {
    const text = 'event: message\r\ndata: {"n":1}\r\n\r\n'.repeat(6);
    const { events } = scanText(text, everyByte(Buffer.from(text)));
    expect(events).toHaveLength(6);
    expect(events.every((event) => event.name === 'message' && event.data === '{"n":1}')).toBe(true);
    expect(events.at(-1)?.rawEnd).toBe(text.length);
  });

  it('C003 a CR-only stream gives every event, the last one too when its CR is the last byte', () => {
    const text = 'data: a\n\ndata: b\n\ndata: [DONE]\n\n'.replaceAll('\n', '\r');
    expect(dataOf(text)).toEqual(['a', 'b', '[DONE]']);
    expect(scanText(text, everyByte(Buffer.from(text))).events).toEqual(scanText(text).events);
  });

  it('C004 CRLF everywhere gives the same events as LF', () => {
    const text = 'data: 1\n\nevent: x\ndata: 2\n\n: c\n\ndata: 3\n\n';
    expect(dataOf(text.replaceAll('\n', '\r\n'))).toEqual(dataOf(text));
    expect(dataOf(text)).toEqual(['1', '2', '3']);
  });

  it('C009 stands at a boundary only between events, and not inside a comment line', () => {
    const at = (text: string) => scanText(text).boundaries[0];
    expect(at('data: {"a":1}\n\n')).toBe(true);
    expect(at(': ping\n')).toBe(true);
    expect(at('data: {"a"')).toBe(false);
    expect(at('data: {"a":1}\n')).toBe(false);
    expect(at(': pi')).toBe(false);
    expect(at('id: 7\n')).toBe(false);
  });

  it('C010 a bare colon line is no event', () => {
    expect(dataOf(':\n\n:\n\n:\n\ndata: x\n\n')).toEqual(['x']);
  });

  it('C011 the blank after the colon may be missing', () => {
    expect(dataOf('data:{"a":1}\n\ndata:[DONE]\n\n')).toEqual(['{"a":1}', '[DONE]']);
  });

  it('C012 one blank is stripped at most, and lines without colon are fields without value', () => {
    expect(dataOf('data:  {"a":" 42"}\n\ndata\n\nfoo: bar\n\ndata\n\ndata: [DONE]\n\n')).toEqual([
      ' {"a":" 42"}',
      '',
      '',
      '[DONE]',
    ]);
  });

  it('C014 several data lines are one event, joined by LF', () => {
    expect(dataOf('data: {"a":1}\ndata: {"b":2}\n\ndata: 3\n\n')).toEqual(['{"a":1}\n{"b":2}', '3']);
  });

  it.each(['', '\n', '\r\n', '\r'])(
    'C015 an event whose blank line is missing is told at the end (ends in %j)',
    (last) => {
      const text = `data: a\n\ndata: {"finish":1}${last}`;
      const { events } = scanText(text);
      expect(events.map((event) => event.data)).toEqual(['a', '{"finish":1}']);
      expect(events[1]).toMatchObject({ rawStart: 9, rawEnd: text.length });
    },
  );

  it('C017 id, event and retry lines beside data are no data', () => {
    const { events } = scanText('id: q-1\nevent: message\nretry: 3000\ndata: {"x":1}\n\ndata: [DONE]\n\n');
    expect(events.map(({ data, name }) => [data, name])).toEqual([
      ['{"x":1}', 'message'],
      ['[DONE]', ''],
    ]);
  });

  it('C020 empty data is told, so that its reader can say that it means nothing', () => {
    expect(
      scanText('event: ping\ndata: ""\n\ndata:\n\ndata: x\n\n').events.map(({ data, name }) => [data, name]),
    ).toEqual([
      ['""', 'ping'],
      ['', ''],
      ['x', ''],
    ]);
  });

  it('skips a byte order mark, even one that comes in three reads', () => {
    const bytes = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from('data: x\n\n')]);
    const expected = [{ data: 'x', name: '', rawStart: 3, rawEnd: 12 }];
    expect(scan(createSseScanner, bytes, []).events).toEqual(expected);
    expect(scan(createSseScanner, bytes, everyByte(bytes)).events).toEqual(expected);
  });

  it('says that an LF at the start of a push belongs to the event before', () => {
    const text = 'data: x\r\n\r\ndata: y\r\n\r\n';
    const { events } = scanText(text, [10]);
    expect(events.map(({ rawStart, rawEnd }) => [rawStart, rawEnd])).toEqual([
      [0, 11],
      [11, 22],
    ]);
  });
});

describe('bounds', () => {
  it('C019 gives up a line without end, holds nothing of it, and reads on after it', () => {
    let told = 0;
    let gaveUps = 0;
    const scanner = createSseScanner(
      { maxEventBytes: 1000 },
      () => (told += 1),
      () => (gaveUps += 1),
    );
    const piece = Buffer.alloc(65_536, 'x');
    scanner.push(Buffer.from('data: '), 0, 6);
    for (let i = 0; i < 4096; i += 1) {
      scanner.push(piece, 0, piece.length);
      expect(scanner.pendingBytes).toBe(0);
    }
    expect(gaveUps).toBe(1);
    expect(scanner.atBoundary).toBe(false);
    const rest = Buffer.from('\n\ndata: y\n\n');
    scanner.push(rest, 0, rest.length);
    expect(told).toBe(1);
    expect(scanner.atBoundary).toBe(true);
  });

  it('tells an event of exactly the bound and gives up one byte more, however it is cut', () => {
    const text = `data: ${'x'.repeat(20)}\n\n`;
    const bytes = Buffer.from(text);
    for (const cuts of [[], [5], everyByte(bytes)]) {
      expect(scan(createSseScanner, bytes, cuts, text.length)).toMatchObject({ gaveUps: 0, events: [{ rawEnd: 28 }] });
      expect(scan(createSseScanner, bytes, cuts, text.length - 1)).toMatchObject({ gaveUps: 1, events: [] });
    }
  });
});

/** Pieces of which streams are made, each likely to meet a line end of another kind. */
const piece = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('\n', '\r\n', '\r', '\n\n', '\r\n\r\n', '\r\r', '\n\r') },
  { weight: 4, arbitrary: fc.constantFrom('data: {"a":1}', 'data:x', 'data', 'data: ', 'data:  two', 'data: [DONE]') },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      'event: ping',
      'event:',
      'event',
      'event: error',
      'id: 7',
      'retry: 1',
      'dat',
      'eventx: 1',
    ),
  },
  { weight: 2, arbitrary: fc.constantFrom(':', ': c', ':data: no', '\ufeff', ' data: no') },
  { weight: 1, arbitrary: fc.string({ maxLength: 12, unit: 'binary' }) },
);
const stream = fc.oneof(
  { weight: 5, arbitrary: fc.array(piece, { maxLength: 24 }).map((pieces) => Buffer.from(pieces.join(''))) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)) },
);
const cutsOf = (bytes: Buffer, fractions: readonly number[]) =>
  [...new Set(fractions.map((fraction) => Math.floor(fraction * bytes.length)))].toSorted((a, b) => a - b);

describe('any bytes', () => {
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 });

  it('cut anywhere give the same events with the same extents, and no more than one event is held', () => {
    fc.assert(
      fc.property(stream, fractions, fc.constantFrom(8, 16, 40, 65_536), (bytes, where, maxEventBytes) => {
        const expected = readEventStream(bytes, maxEventBytes);
        for (const cuts of [[], cutsOf(bytes, where), everyByte(bytes)]) {
          const found = scan(createSseScanner, bytes, cuts, maxEventBytes);
          expect(found.events).toEqual(expected.events);
          expect(found.gaveUps).toBe(expected.gaveUp ? 1 : 0);
          expect(found.mostPending).toBeLessThanOrEqual(maxEventBytes);
        }
      }),
      { numRuns: 3000 },
    );
  });

  it('cut anywhere leave the scanner sure of whether it stands between events', () => {
    fc.assert(
      fc.property(stream, (bytes) => {
        const { boundaries } = scan(createSseScanner, bytes, everyByte(bytes));
        const expected = Array.from({ length: bytes.length }, (_, i) => standsAtBoundary(bytes.subarray(0, i + 1)));
        if (bytes.length > 0) expect(boundaries).toEqual(expected);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('recorded streams', () => {
  const streams = listRecorded()
    .map(({ server, name }) => loadRecorded(server, name))
    .filter((recorded) => recorded.headers.get('content-type')?.startsWith('text/event-stream'));

  it.each(streams)('$server/$name: whole, byte by byte and read by read give the same events', (recorded) => {
    const { events } = readEventStream(recorded.body, 65_536);
    expect(events.length).toBeGreaterThan(0);
    const readEnds: number[] = [];
    for (const read of recorded.reads) {
      for (const segment of read.segments) readEnds.push((readEnds.at(-1) ?? 0) + segment.length);
    }
    for (const cuts of [[], everyByte(recorded.body), readEnds.slice(0, -1)]) {
      expect(scan(createSseScanner, recorded.body, cuts).events).toEqual(events);
    }
  });
});
