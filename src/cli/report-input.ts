/**
 * Log files as parsed lines, a batch at a time: plain or gzip by their first bytes, `-` for stdin. Holds one piece of a file
 * and the rest of one line, never more. What can't be read is a value, not an error.
 */
import { createReadStream } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { createGunzip } from 'node:zlib';

import { readRow, type Row } from '../account/report/row.ts';
import { type LogLine, parseLogLine } from '../platform/log-line.ts';

export interface LineCounts {
  lines: number;
  requests: number;
  /** warmlane's other lines */
  others: number;
  /** begun as a line of warmlane, and not readable as one: cut off, mixed up, too long */
  malformed: number;
  /** of other programs */
  foreign: number;
}

export interface LogItem {
  readonly line: LogLine;
  /** absent: another line than a request's */
  readonly row?: Row;
}

const pieceBytes = 256 * 1024;
const longestLine = 1024 * 1024;

export type OpenLog = (path: string) => AsyncIterable<Uint8Array>;

/** @param stdin what `-` stands for */
export function createOpenLog(stdin: () => AsyncIterable<Uint8Array>): OpenLog {
  return (path) => (path === '-' ? stdin() : createReadStream(path, { highWaterMark: pieceBytes }));
}

/** @throws the system's or zlib's error, or one with a message for people, when the file can't be read (further) */
export async function* readItems(source: AsyncIterable<Uint8Array>, counts: LineCounts): AsyncGenerator<LogItem[]> {
  for await (const lines of readLines(await unpacked(source), counts)) {
    const items: LogItem[] = [];
    for (const text of lines) {
      const item = itemOf(text, counts);
      if (item !== undefined) items.push(item);
    }
    if (items.length > 0) yield items;
  }
}

function itemOf(text: string, counts: LineCounts): LogItem | undefined {
  if (text.trim() === '') return undefined;
  counts.lines += 1;
  const line = parseLogLine(text);
  if (line === 'foreign' || line === 'malformed') {
    counts[line] += 1;
    return undefined;
  }
  if (line.message !== 'request') {
    counts.others += 1;
    return { line };
  }
  const row = readRow(line);
  if (row === undefined) counts.malformed += 1;
  else counts.requests += 1;
  return row === undefined ? undefined : { line, row };
}

/** Lines of text, a batch at a time; one that is longer than a MiB is left out and counted as malformed. */
export async function* readLines(
  source: AsyncIterable<Uint8Array>,
  counts: Pick<LineCounts, 'lines' | 'malformed'>,
): AsyncGenerator<string[]> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  let skipping = false;
  for await (const piece of source) {
    const lines = (rest + decoder.write(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength))).split('\n');
    rest = lines.pop() ?? '';
    if (skipping && lines.length > 0) {
      lines.shift();
      skipping = false;
    }
    if (rest.length > longestLine) {
      if (!skipping) countTooLong(counts);
      skipping = true;
      rest = '';
    }
    if (lines.length > 0) yield lines;
  }
  rest += decoder.end();
  if (rest !== '' && !skipping) yield [rest];
}

function countTooLong(counts: Pick<LineCounts, 'lines' | 'malformed'>): void {
  counts.lines += 1;
  counts.malformed += 1;
}

/** @param command that could read it from stdin @throws when it is packed in a way that isn't read here */
export async function unpacked(
  source: AsyncIterable<Uint8Array>,
  command = 'report',
): Promise<AsyncIterable<Uint8Array>> {
  const iterator = source[Symbol.asyncIterator]();
  const first = await iterator.next();
  const head: Uint8Array = first.done === true ? new Uint8Array() : first.value;
  const whole = from(head, iterator);
  if (startsWith(head, [0x1f, 0x8b])) {
    const gunzip = createGunzip({ chunkSize: pieceBytes });
    // An error on either side ends the reading of `gunzip` with it.
    pipeline(Readable.from(whole), gunzip, () => {});
    return gunzip;
  }
  const packer = packers.find(({ magic }) => startsWith(head, magic));
  if (packer !== undefined)
    throw new Error(`is packed by ${packer.name}, which isn't read here: ${packer.cat} FILE | warmlane ${command} -`);
  return whole;
}

const packers = [
  { name: 'zstd', cat: 'zstdcat', magic: [0x28, 0xb5, 0x2f, 0xfd] },
  { name: 'xz', cat: 'xzcat', magic: [0xfd, 0x37, 0x7a, 0x58] },
  { name: 'bzip2', cat: 'bzcat', magic: [0x42, 0x5a, 0x68] },
];

function startsWith(bytes: Uint8Array, magic: readonly number[]): boolean {
  return magic.every((byte, at) => bytes[at] === byte);
}

async function* from(head: Uint8Array, iterator: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    if (head.length > 0) yield head;
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value;
  } finally {
    // Also closes the file.
    await iterator.return?.();
  }
}
