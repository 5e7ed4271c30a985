import { describe, expect, it } from 'vitest';
import { createEventStream } from '../../../../src/batch/assemble/event-stream.ts';

function events(...chunks: readonly string[]): readonly (readonly [string, string])[] {
  const found: [string, string][] = [];
  const stream = createEventStream(1000, (name, data) => found.push([name, data]));
  for (const chunk of chunks) stream.push(Buffer.from(chunk));
  stream.end();
  return found;
}

describe('the events of a stream', () => {
  it('are found with their names, whatever their line ends', () => {
    expect(events('event: a\ndata: 1\n\n', 'data:2\r\n\r\n')).toEqual([
      ['a', '1'],
      ['', '2'],
    ]);
  });

  it('leave comments out and join several data lines', () => {
    expect(events(':\n\n: ping\ndata: a\ndata: b\nid: 7\n\n')).toEqual([['', 'a\nb']]);
  });

  it('may lack the last blank line, and begin with a byte order mark', () => {
    expect(events('\u{feff}data: a')).toEqual([['', 'a']]);
  });

  it('may be cut within a CRLF', () => {
    expect(events('data: a\r', '\n\r', '\ndata: b\r\n\r\n')).toEqual([
      ['', 'a'],
      ['', 'b'],
    ]);
  });

  it('without a data line are none', () => {
    expect(events('event: a\n\ndata: b\n\n')).toEqual([['', 'b']]);
  });
});
