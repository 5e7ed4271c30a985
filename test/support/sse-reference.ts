/**
 * A slow, plain reading of a whole event stream, to judge the scanner by: it sees all bytes at once and keeps no state.
 */
export interface FoundEvent {
  /** One character per byte. */
  readonly data: string;
  readonly name: string;
  /** Offsets into the whole stream. */
  readonly rawStart: number;
  readonly rawEnd: number;
}

interface Line {
  readonly start: number;
  readonly end: number;
  /** Where the next line begins; equal to `end` when the line was not ended. */
  readonly next: number;
}

export function readEventStream(bytes: Buffer, maxEventBytes: number): { events: FoundEvent[]; gaveUp: boolean } {
  const events: FoundEvent[] = [];
  let gaveUp = false;
  let block: Line[] = [];
  const flush = (rawEnd: number, countedEnd: number) => {
    const rawStart = block[0]?.start ?? rawEnd;
    if (block.length > 0 && countedEnd - rawStart > maxEventBytes) gaveUp = true;
    else {
      const fields = block.map((line) => field(bytes.subarray(line.start, line.end)));
      const data = fields.filter(([name]) => name === 'data').map(([, value]) => value);
      const name = Buffer.from(fields.findLast(([key]) => key === 'event')?.[1] ?? '', 'latin1').toString('utf8');
      if (data.length > 0) events.push({ data: data.join('\n'), name, rawStart, rawEnd });
    }
    block = [];
  };
  for (const line of linesOf(bytes)) {
    if (line.end === line.start && line.next > line.end) flush(line.next, line.end + 1);
    else if (block.length > 0 || bytes[line.start] !== 0x3a) block.push(line);
  }
  flush(bytes.length, bytes.length);
  return { events, gaveUp };
}

/** The next byte after `bytes` begins a new event or comment, as far as `bytes` alone can say. */
export function standsAtBoundary(bytes: Buffer): boolean {
  const mark = Buffer.from([0xef, 0xbb, 0xbf]);
  if (bytes.length === 1 || bytes.length === 2) {
    if (mark.subarray(0, bytes.length).equals(bytes)) return false;
  }
  let open = false;
  for (const line of linesOf(bytes)) {
    if (line.next === line.end) return false;
    if (line.end === line.start) open = false;
    else if (bytes[line.start] !== 0x3a) open = true;
  }
  if (open) return false;
  const lastIsCr = bytes.at(-1) === 0x0d;
  return !lastIsCr || /\r[^\n]/s.test(bytes.toString('latin1'));
}

function linesOf(bytes: Buffer): Line[] {
  const lines: Line[] = [];
  const marked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  for (let start = marked ? 3 : 0; start < bytes.length;) {
    let end = start;
    while (end < bytes.length && bytes[end] !== 0x0a && bytes[end] !== 0x0d) end += 1;
    const pair = bytes[end] === 0x0d && bytes[end + 1] === 0x0a;
    const next = end === bytes.length ? end : end + (pair ? 2 : 1);
    lines.push({ start, end, next });
    start = next;
  }
  return lines;
}

function field(line: Buffer): readonly [string, string] {
  const text = line.toString('latin1');
  const at = text.indexOf(':');
  if (at === -1) return [text, ''];
  const value = text.slice(at + 1);
  return [text.slice(0, at), value.startsWith(' ') ? value.slice(1) : value];
}
