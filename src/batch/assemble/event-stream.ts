/**
 * Cuts the bytes of a streamed answer into its events, for lines of batches, which nobody reads as they come. Holds one event at
 * most, up to a bound. Knows nothing of what an event says. The relay has a scanner of its own that neither copies nor decodes.
 */
import { StringDecoder } from 'node:string_decoder';

export interface EventStream {
  push(chunk: Buffer): void;
  /** No more bytes: an event without its last blank line is told. */
  end(): void;
  /** An event was longer than the bound; no more are told. */
  readonly tooLong: boolean;
}

/** @param onEvent its name ('' without one) and its data lines, joined by LF */
export function createEventStream(maxEventChars: number, onEvent: (name: string, data: string) => void): EventStream {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  let name = '';
  let data: string | undefined;
  let tooLong = false;
  let isFirst = true;

  function line(text: string): void {
    if (text === '') {
      if (data !== undefined) onEvent(name, data);
      data = undefined;
      name = '';
      return;
    }
    const colon = text.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    const from = text[colon + 1] === ' ' ? colon + 2 : colon + 1;
    const value = colon < 0 ? '' : text.slice(from);
    if (field === 'event') name = value;
    else if (field === 'data') data = data === undefined ? value : `${data}\n${value}`;
    if ((data?.length ?? 0) > maxEventChars) tooLong = true;
  }

  function take(text: string): void {
    if (tooLong) return;
    rest += isFirst && text.startsWith('\u{feff}') ? text.slice(1) : text;
    if (text !== '') isFirst = false;
    let from = 0;
    for (;;) {
      const lf = rest.indexOf('\n', from);
      if (lf < 0 || tooLong) break;
      line(rest.slice(from, rest[lf - 1] === '\r' && lf > from ? lf - 1 : lf));
      from = lf + 1;
    }
    rest = rest.slice(from);
    if (rest.length > maxEventChars) tooLong = true;
  }

  return {
    push: (chunk) => take(decoder.write(chunk)),
    end() {
      take(decoder.end());
      if (rest !== '') take('\n');
      if (!tooLong) line('');
    },
    get tooLong() {
      return tooLong;
    },
  };
}
