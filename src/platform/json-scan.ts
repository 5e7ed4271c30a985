/**
 * Finds a few top-level members of one JSON object while its bytes arrive, for request bodies and for answers:
 * where each stands, and a copy of its value up to a bound. Never parses the whole, never copies it, never recurses,
 * so that a body of any size costs its streams nothing to speak of. Grammar and its tolerances: `json-walk.ts`.
 */
import { createByteCapture } from './byte-capture.ts';
import { createJsonWalk, type JsonKind, type JsonSink } from './json-walk.ts';

/** What stands in a top-level array, without keeping it: `["a","b"]` is 2 and 0, `[1,2,3]` is 3 and 3. */
export interface JsonElements {
  readonly count: number;
  /** How many of them are numbers. */
  readonly numbers: number;
}

/** One wanted member. Offsets are bytes from the start of the body; `end` is one past the last. */
export interface JsonField {
  /** The key's opening quote. */
  readonly keyStart: number;
  readonly start: number;
  readonly end: number;
  readonly kind: JsonKind;
  /** The value's raw bytes, quotes included; absent when longer than the key's bound. */
  readonly value?: Buffer;
  /** Present when the value is an array. */
  readonly elements?: JsonElements;
}

export interface JsonScanResult {
  /** The bytes are one JSON object; otherwise `fields` is empty and nothing is known of them. */
  readonly readable: boolean;
  /** What was wrong and at which byte, never the bytes themselves. */
  readonly problem?: string;
  /** By key, unescaped. A key that came twice: its last value, as nearly all readers take it. */
  readonly fields: ReadonlyMap<string, JsonField>;
  /** Wanted keys that came more than once, or beside one that differs only in case (which Go's reader takes for the same). */
  readonly duplicates: readonly string[];
  /** Offset of the opening brace, −1 without one. */
  readonly objectStart: number;
  /** The object has no members. */
  readonly empty: boolean;
  readonly bytes: number;
}

export interface JsonScan {
  push(chunk: Buffer): void;
  /** No more bytes: the result. */
  end(): JsonScanResult;
}

export interface JsonScanSettings {
  /** Wanted top-level keys, each with the most bytes of its value that are kept; 0: only its place and kind. */
  readonly keys: ReadonlyMap<string, number>;
}

export function createJsonScan(settings: JsonScanSettings): JsonScan {
  let chunk: Buffer = Buffer.alloc(0);
  let bytes = 0;
  const members = createMembers(settings.keys, () => ({ chunk, base: bytes }));
  const walk = createJsonWalk(members.sink);
  return {
    push(next) {
      chunk = next;
      walk.push(next);
      members.carry();
      bytes += next.length;
    },
    end() {
      const problem = walk.end();
      const common = { objectStart: members.objectStart(), empty: members.isEmpty(), bytes };
      if (problem !== undefined) return { readable: false, problem, fields: new Map(), duplicates: [], ...common };
      return { readable: true, fields: members.fields, duplicates: members.duplicates(), ...common };
    },
  };
}

/** Scans bytes that are all there, for example the kept value of a nested object. */
export function scanJson(bytes: Buffer, keys: ReadonlyMap<string, number>): JsonScanResult {
  const scan = createJsonScan({ keys });
  scan.push(bytes);
  return scan.end();
}

interface Members {
  readonly sink: JsonSink;
  readonly fields: ReadonlyMap<string, JsonField>;
  carry(): void;
  duplicates(): string[];
  objectStart(): number;
  isEmpty(): boolean;
}

/** The member being read, if its key is wanted. */
interface OpenField {
  readonly key: string;
  readonly maxBytes: number;
  kind: JsonKind;
  start: number;
}

function createMembers(keys: ReadonlyMap<string, number>, here: () => { chunk: Buffer; base: number }): Members {
  const fields = new Map<string, JsonField>();
  const repeated = new Set<string>();
  const caseTwins = new Set<string>();
  const { byFolded, maxKeyBytes } = prepareKeys(keys);
  const capture = createByteCapture();
  let objectStart = -1;
  let keyStart = 0;
  let anyKey = false;
  let open: OpenField | undefined;

  const sink: JsonSink = {
    objectBegin(at) {
      objectStart = here().base + at;
    },
    keyBegin(at) {
      anyKey = true;
      keyStart = here().base + at;
      capture.begin(at + 1, maxKeyBytes);
    },
    keyEnd(at) {
      open = undefined;
      const raw = capture.end(here().chunk, at);
      if (raw === undefined) return undefined;
      const key = unescapeKey(raw);
      if (key === undefined) return 'malformed key';
      const maxBytes = keys.get(key);
      if (maxBytes !== undefined) open = { key, maxBytes, kind: 'null', start: 0 };
      else noteCaseTwin(key);
      return undefined;
    },
    valueBegin(kind, at) {
      if (open === undefined) return;
      open.kind = kind;
      open.start = here().base + at;
      capture.begin(at, open.maxBytes);
    },
    valueEnd(at, elements, numbers) {
      if (open === undefined) return;
      const { key, kind, start } = open;
      const value = capture.end(here().chunk, at);
      if (fields.has(key)) repeated.add(key);
      fields.set(key, {
        keyStart,
        start,
        end: here().base + at,
        kind,
        ...(value === undefined ? {} : { value }),
        ...(kind === 'array' ? { elements: { count: elements, numbers } } : {}),
      });
      open = undefined;
    },
  };

  function noteCaseTwin(key: string): void {
    const twin = byFolded.get(foldCase(key));
    if (twin !== undefined) caseTwins.add(twin);
  }

  return {
    sink,
    fields,
    carry: () => capture.carry(here().chunk),
    duplicates() {
      for (const key of caseTwins) if (fields.has(key)) repeated.add(key);
      return [...repeated];
    },
    objectStart: () => objectStart,
    isEmpty: () => objectStart >= 0 && !anyKey,
  };
}

interface PreparedKeys {
  readonly byFolded: ReadonlyMap<string, string>;
  readonly maxKeyBytes: number;
}

/** The same few key sets serve every request. */
const preparedKeys = new WeakMap<ReadonlyMap<string, number>, PreparedKeys>();

function prepareKeys(keys: ReadonlyMap<string, number>): PreparedKeys {
  const known = preparedKeys.get(keys);
  if (known !== undefined) return known;
  const names = [...keys.keys()];
  const prepared = {
    byFolded: new Map(names.map((key) => [foldCase(key), key])),
    // One UTF-16 unit of a key takes at most the six bytes of a \u escape: a longer key is none of the wanted.
    maxKeyBytes: Math.max(0, ...names.map((key) => key.length * 6)),
  };
  preparedKeys.set(keys, prepared);
  return prepared;
}

/** Upper case first: `ſ` and the Kelvin sign fold to `s` and `k` in Go's reader. */
function foldCase(key: string): string {
  return key.toUpperCase().toLowerCase();
}

/** The key that the bytes between the quotes stand for; undefined when an escape in it is malformed. */
function unescapeKey(raw: Buffer): string | undefined {
  const text = raw.toString('utf8');
  if (!text.includes('\\')) return text;
  try {
    const key: unknown = JSON.parse(`"${text}"`);
    return typeof key === 'string' ? key : undefined;
  } catch {
    return undefined;
  }
}
