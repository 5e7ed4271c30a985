/**
 * Finds the text fields `model` and `stream` of a multipart/form-data body while it streams through (RFC 7578).
 * Holds at most one part's headers and one small value, never a file. Where readers of such bodies are known to
 * disagree it gives up, with a problem, instead of guessing. Says also when a file began, since a field that has
 * not come by then may be 30 MB away (C119). It can be fed on after that.
 */
import { createByteCapture } from './byte-capture.ts';

export interface MultipartField {
  /** Bytes of the value: offsets from the start of the body, `end` one past the last. */
  readonly start: number;
  readonly end: number;
  /** Absent when longer than 4 KiB. */
  readonly value?: string;
}

export interface MultipartFields {
  readonly model?: MultipartField;
  readonly stream?: MultipartField;
  /** Names that came more than once so far. */
  readonly duplicates: readonly string[];
  /** A file part has begun. */
  readonly fileBegan: boolean;
  /** The closing delimiter was seen: what is not found now is not there. */
  readonly closed: boolean;
  /** Why nothing more will be found: not this format, or not to be read one way only. */
  readonly problem?: string;
}

export interface MultipartScan {
  push(chunk: Buffer): void;
  /** What is known so far. */
  readonly fields: MultipartFields;
}

const maxHeaderBytes = 16 * 1024;
const maxValueBytes = 4 * 1024;
/** RFC 2046 allows 70; some clients make longer ones. */
const maxBoundaryChars = 256;

type WantedName = 'model' | 'stream';

const Mode = { search: 0, afterBoundary: 1, headers: 2, done: 3 } as const;
const crlf = Buffer.from('\r\n');

/** @param contentType the request's Content-Type; without a usable boundary nothing is found */
export function createMultipartScan(contentType: string): MultipartScan {
  const boundary = readBoundary(contentType);
  const found: { model?: MultipartField; stream?: MultipartField } = {};
  const duplicates = new Set<string>();
  const capture = createByteCapture();
  const delimiters = createDelimiterSearch(Buffer.from(`\r\n--${boundary ?? ''}`, 'latin1'));
  const headers = createHeaderBlock();
  let mode: number = boundary === undefined ? Mode.done : Mode.search;
  let problem = boundary === undefined ? 'no boundary in Content-Type' : undefined;
  let fileBegan = false;
  let closed = false;
  let base = 0;
  let delimiterAt = 0;
  let afterBoundary = -1;
  let open: { name: WantedName; start: number } | undefined;

  function fail(what: string): void {
    problem = what;
    mode = Mode.done;
  }

  function search(chunk: Buffer, from: number): number {
    const hit = delimiters.find(chunk, from);
    if (hit === undefined) return chunk.length;
    delimiterAt = base + hit.at;
    afterBoundary = -1;
    mode = Mode.afterBoundary;
    return hit.next;
  }

  /** The two bytes that make a boundary string a delimiter: CRLF (a part follows) or `--` (the end). */
  function readAfterBoundary(chunk: Buffer, at: number): number {
    const byte = chunk[at] ?? 0;
    if (afterBoundary < 0 && (byte === 0x0d || byte === 0x2d)) {
      afterBoundary = byte;
      return at + 1;
    }
    if (afterBoundary === 0x0d && byte === 0x0a) {
      endField(chunk, at);
      mode = Mode.headers;
    } else if (afterBoundary === 0x2d && byte === 0x2d) {
      endField(chunk, at);
      closed = true;
      mode = Mode.done;
    } else if (afterBoundary < 0 && (byte === 0x20 || byte === 0x09)) {
      fail('blanks after a boundary');
    } else {
      // Only a line of data that begins like the boundary.
      mode = Mode.search;
      return at;
    }
    return at + 1;
  }

  function endField(chunk: Buffer, at: number): void {
    if (open === undefined) return;
    const { name, start } = open;
    open = undefined;
    const raw = capture.end(chunk, at)?.subarray(0, delimiterAt - start);
    if (found[name] !== undefined) duplicates.add(name);
    const fits = raw !== undefined && raw.length <= maxValueBytes;
    found[name] = { start, end: delimiterAt, ...(fits ? { value: raw.toString('utf8') } : {}) };
  }

  function readHeaders(chunk: Buffer, from: number): number {
    const block = headers.read(chunk, from);
    if (block.text !== undefined) beginPart(block.text, block.next);
    else if (block.next < chunk.length) fail('part headers too large');
    return block.next;
  }

  function beginPart(text: string, at: number): void {
    const part = readDisposition(text);
    if (part === undefined) {
      fail('part headers can be read in more than one way');
      return;
    }
    mode = Mode.search;
    if (part.isFile) fileBegan = true;
    else if (part.name === 'model' || part.name === 'stream') {
      open = { name: part.name, start: base + at };
      capture.begin(at, maxValueBytes + delimiters.bytes + 2);
    }
  }

  return {
    push(chunk) {
      let at = 0;
      while (at < chunk.length && mode !== Mode.done) {
        if (mode === Mode.search) at = search(chunk, at);
        else if (mode === Mode.afterBoundary) at = readAfterBoundary(chunk, at);
        else at = readHeaders(chunk, at);
      }
      capture.carry(chunk);
      base += chunk.length;
    },
    get fields() {
      const common = { ...found, duplicates: [...duplicates], fileBegan, closed };
      return problem === undefined ? common : { ...common, problem };
    },
  };
}

interface DelimiterSearch {
  readonly bytes: number;
  /** Where the next delimiter begins (negative: in an earlier chunk) and the index after it; undefined: not in here. */
  find(chunk: Buffer, from: number): { readonly at: number; readonly next: number } | undefined;
}

/** Looks for the delimiter over chunk borders, keeping less than its length. The body begins as after a line's end. */
function createDelimiterSearch(delimiter: Buffer): DelimiterSearch {
  let carried: Buffer = crlf;
  return {
    bytes: delimiter.length,
    find(chunk, from) {
      if (carried.length > 0) {
        const seam = Buffer.concat([carried, chunk.subarray(from, from + delimiter.length - 1)]);
        const hit = seam.indexOf(delimiter);
        if (hit >= 0) {
          const at = from + hit - carried.length;
          carried = Buffer.alloc(0);
          return { at, next: at + delimiter.length };
        }
      }
      const at = chunk.indexOf(delimiter, from);
      if (at >= 0) {
        carried = Buffer.alloc(0);
        return { at, next: at + delimiter.length };
      }
      const tail = chunk.subarray(Math.max(from, chunk.length - delimiter.length + 1));
      carried = Buffer.concat([carried, tail]).subarray(-(delimiter.length - 1));
      return undefined;
    },
  };
}

interface HeaderBlock {
  /** Reads on to the empty line that ends a part's headers: then `text` is there. Stops early when they are too large. */
  read(chunk: Buffer, from: number): { readonly next: number; readonly text?: string };
}

function createHeaderBlock(): HeaderBlock {
  let bytes = Buffer.alloc(0);
  let length = 0;

  /** An empty line was read, which may be the first: a part without headers. */
  function isComplete(): boolean {
    if (bytes[length - 1] !== 0x0a || bytes[length - 2] !== 0x0d) return false;
    return length === 2 || (bytes[length - 3] === 0x0a && bytes[length - 4] === 0x0d);
  }

  return {
    read(chunk, from) {
      if (bytes.length === 0) bytes = Buffer.allocUnsafe(maxHeaderBytes);
      for (let at = from; at < chunk.length; at += 1) {
        if (length === maxHeaderBytes) return { next: at };
        bytes[length] = chunk[at] ?? 0;
        length += 1;
        if (!isComplete()) continue;
        const text = bytes.toString('utf8', 0, length);
        length = 0;
        return { next: at + 1, text };
      }
      return { next: chunk.length };
    },
  };
}

/** Name of a form part and whether it is a file; undefined when two readers could differ on it. */
function readDisposition(headers: string): { readonly name?: string; readonly isFile: boolean } | undefined {
  const lines = headers.split('\r\n').filter((line) => /^content-disposition[ \t]*:/i.test(line));
  if (lines.length > 1 || /\r\n[ \t]/.test(headers)) return undefined;
  const parameters = readParameters(lines[0] ?? '');
  if (parameters === undefined) return undefined;
  const name = parameters.get('name');
  const isFile = parameters.has('filename') || parameters.has('filename*');
  return name === undefined ? { isFile } : { name, isFile };
}

/** The boundary of a Content-Type, quoted or not; undefined when there is none or it is no usable one. */
export function readBoundary(contentType: string): string | undefined {
  if (!/^\s*multipart\/form-data\s*;/i.test(contentType)) return undefined;
  const boundary = readParameters(contentType)?.get('boundary');
  return boundary === undefined || boundary === '' || boundary.length > maxBoundaryChars ? undefined : boundary;
}

/** Parameters after the first `;` by lower-case name; undefined when one comes twice. */
function readParameters(value: string): Map<string, string> | undefined {
  const parameters = new Map<string, string>();
  for (const match of value.matchAll(/;\s*([^=;\s]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))/g)) {
    const name = (match[1] ?? '').toLowerCase();
    if (parameters.has(name)) return undefined;
    parameters.set(name, match[2] === undefined ? (match[3] ?? '').trim() : match[2].replace(/\\(.)/g, '$1'));
  }
  return parameters;
}
