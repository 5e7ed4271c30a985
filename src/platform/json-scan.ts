/**
 * Finds a few top-level members of one JSON object while its bytes arrive, for request bodies and for answers:
 * where each stands, and a copy of its value up to a bound. Never parses the whole, never copies it, never recurses,
 * so that a body of any size costs its streams nothing to speak of. Grammar and its tolerances: `json-walk.ts`.
 */
import { createByteCapture } from './byte-capture.ts';
import { createJsonPieces, type JsonPieces, type PieceSink } from './json-pieces.ts';
import { createJsonWalk, type JsonKind, type JsonSink, type JsonWalk } from './json-walk.ts';

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
  /** Of `removable` keys: without these bytes the object is whole, and the member gone. Absent where it has no other member. */
  readonly removal?: { readonly start: number; readonly end: number };
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
  /**
   * Wanted top-level keys, each with the most bytes of its value that are kept; 0: only its place and kind; `removable`: the
   * same, and how to take it out; `forPieces`: it is no field.
   */
  readonly keys: ReadonlyMap<string, number>;
  /** Is given the bytes of the wanted members' values as they come. */
  readonly pieces?: PieceSink | undefined;
}

/** Of a wanted key whose value only the sink for pieces is to see. */
export const forPieces = -1;
/** Of a wanted key that may have to be taken out. */
export const removable = -2;

export function createJsonScan(settings: JsonScanSettings): JsonScan {
  return new Scan(settings);
}

/** Scans bytes that are all there, for example the kept value of a nested object. */
export function scanJson(bytes: Buffer, keys: ReadonlyMap<string, number>): JsonScanResult {
  const scan = createJsonScan({ keys });
  scan.push(bytes);
  return scan.end();
}

/** One class for all of a scan, and no closures: one is made for each request and each answer. */
class Scan implements JsonScan, JsonSink {
  readonly #keys: ReadonlyMap<string, number>;
  readonly #prepared: PreparedKeys;
  readonly #fields = new Map<string, JsonField>();
  readonly #capture = createByteCapture();
  readonly #walk: JsonWalk;
  readonly #pieces: JsonPieces | undefined;
  /** Wanted keys that came more than once, and those beside which a twin came; most bodies have none. */
  #repeated: string[] = noKeys;
  #caseTwins: string[] = noKeys;
  #chunk: Buffer = noBytes;
  /** Of the chunks before this one. */
  #bytes = 0;
  #objectStart = -1;
  #anyKey = false;
  #keyStart = 0;
  /** Where the key at hand begins in this chunk; −1: in an earlier one. */
  #keyAt = 0;
  /** The member being read, if its key is wanted. */
  #openKey: string | undefined;
  #openBound = 0;
  #openKind: JsonKind = 'null';
  #openStart = 0;
  /** Where the member before ended; −1: there was none. */
  #memberEnd = -1;
  /** It came first: what follows it goes with it. */
  #first: Writable<JsonField> | undefined;

  constructor({ keys, pieces }: JsonScanSettings) {
    this.#keys = keys;
    this.#prepared = prepareKeys(keys);
    this.#walk = createJsonWalk(this);
    this.#pieces = pieces === undefined ? undefined : createJsonPieces(this.#walk, pieces);
  }

  push(chunk: Buffer): void {
    this.#chunk = chunk;
    this.#pieces?.enter(chunk);
    this.#walk.push(chunk);
    this.#pieces?.leave();
    this.#capture.carry(chunk);
    this.#keyAt = -1;
    this.#bytes += chunk.length;
  }

  end(): JsonScanResult {
    const problem = this.#walk.end();
    this.#chunk = noBytes;
    const objectStart = this.#objectStart;
    const empty = objectStart >= 0 && !this.#anyKey;
    const bytes = this.#bytes;
    if (problem !== undefined)
      return { readable: false, problem, fields: new Map(), duplicates: noKeys, objectStart, empty, bytes };
    return { readable: true, fields: this.#fields, duplicates: this.#duplicates(), objectStart, empty, bytes };
  }

  objectBegin(at: number): void {
    this.#objectStart = this.#bytes + at;
  }

  keyBegin(at: number): void {
    this.#anyKey = true;
    this.#keyStart = this.#bytes + at;
    if (this.#first !== undefined) {
      this.#first.removal = { start: this.#first.keyStart, end: this.#keyStart };
      this.#first = undefined;
    }
    this.#keyAt = at + 1;
    this.#capture.begin(at + 1, this.#prepared.maxKeyBytes);
  }

  keyEnd(at: number): string | undefined {
    this.#openKey = undefined;
    const { plain, maxKeyBytes } = this.#prepared;
    if (plain !== undefined && this.#keyAt >= 0 && isPlain(this.#chunk, this.#keyAt, at, maxKeyBytes)) {
      this.#plainKey(plain[at - this.#keyAt], this.#keyAt);
      return undefined;
    }
    const raw = this.#capture.end(this.#chunk, at);
    if (raw === undefined) return undefined;
    const key = unescapeKey(raw);
    if (key === undefined) return 'malformed key';
    if (this.#keys.has(key)) this.#openKey = key;
    else {
      const twin = this.#prepared.byFolded.get(foldCase(key));
      if (twin !== undefined) this.#noteTwin(twin);
    }
    return undefined;
  }

  valueBegin(kind: JsonKind, at: number): void {
    if (this.#openKey === undefined) return;
    this.#openKind = kind;
    this.#openStart = this.#bytes + at;
    this.#openBound = this.#keys.get(this.#openKey) ?? 0;
    this.#capture.begin(at, this.#openBound);
    this.#pieces?.begin(this.#openKey, kind, at);
  }

  valueEnd(at: number, elements: number, numbers: number): void {
    const key = this.#openKey;
    const before = this.#memberEnd;
    this.#memberEnd = this.#bytes + at;
    if (key === undefined) return;
    const value = this.#capture.end(this.#chunk, at);
    this.#openKey = undefined;
    this.#pieces?.end(at);
    if (this.#openBound === forPieces) return;
    if (this.#fields.has(key)) this.#repeated = [...this.#repeated, key];
    const field: Writable<JsonField> = {
      keyStart: this.#keyStart,
      start: this.#openStart,
      end: this.#bytes + at,
      kind: this.#openKind,
    };
    if (value !== undefined) field.value = value;
    if (this.#openKind === 'array') field.elements = { count: elements, numbers };
    if (this.#openBound === removable) {
      if (before < 0) this.#first = field;
      else field.removal = { start: before, end: field.end };
    }
    this.#fields.set(key, field);
  }

  /** The key is not copied and no string is made of it. @param sameLength the wanted keys of its length */
  #plainKey(sameLength: readonly PlainKey[] | undefined, at: number): void {
    if (sameLength === undefined) return;
    let twin: string | undefined;
    for (const { key, folded } of sameLength) {
      if (!isFolded(this.#chunk, at, folded)) continue;
      if (isText(this.#chunk, at, key)) {
        this.#openKey = key;
        return;
      }
      twin = key;
    }
    if (twin !== undefined) this.#noteTwin(twin);
  }

  #noteTwin(key: string): void {
    this.#caseTwins = [...this.#caseTwins, key];
  }

  #duplicates(): readonly string[] {
    if (this.#repeated.length === 0 && this.#caseTwins.length === 0) return noKeys;
    return [...new Set([...this.#repeated, ...this.#caseTwins.filter((key) => this.#fields.has(key))])];
  }
}

type Writable<T> = { -readonly [key in keyof T]: T[key] };

const noKeys: string[] = [];
const noBytes = Buffer.alloc(0);

interface PlainKey {
  readonly key: string;
  /** Its letters in lower case. */
  readonly folded: Buffer;
}

interface PreparedKeys {
  readonly byFolded: ReadonlyMap<string, string>;
  readonly maxKeyBytes: number;
  /** By length; absent when not all wanted keys are plain ASCII, which alone can be compared byte by byte. */
  readonly plain: readonly (readonly PlainKey[])[] | undefined;
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
    plain: names.every((key) => /^[\w-]+$/.test(key)) ? byLength(names) : undefined,
  };
  preparedKeys.set(keys, prepared);
  return prepared;
}

function byLength(names: readonly string[]): PlainKey[][] {
  const lists: PlainKey[][] = [];
  for (const key of names) {
    while (lists.length <= key.length) lists.push([]);
    lists[key.length]?.push({ key, folded: Buffer.from(foldCase(key)) });
  }
  return lists;
}

/** Neither an escape nor a character beyond ASCII, and no longer than the bound. */
function isPlain(bytes: Buffer, from: number, to: number, mostBytes: number): boolean {
  if (to - from > mostBytes) return false;
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === 0x5c || byte >= 0x80) return false;
  }
  return true;
}

/** Plain bytes are the same as a text of their length, but for the case of letters. */
function isFolded(bytes: Buffer, from: number, folded: Buffer): boolean {
  for (let i = 0; i < folded.length; i += 1) {
    const byte = bytes[from + i] ?? 0;
    if ((byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte) !== folded[i]) return false;
  }
  return true;
}

function isText(bytes: Buffer, from: number, text: string): boolean {
  for (let i = 0; i < text.length; i += 1) if (bytes[from + i] !== text.charCodeAt(i)) return false;
  return true;
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
