/**
 * Walks JSON text as it arrives: checks its grammar and reports the keys and values of the outermost object.
 * One pass, no recursion, any cut; the inside of strings is skipped with a native search and not checked
 * (escapes, control characters and UTF-8 there are the backend's matter). `NaN`, `Infinity` and `-Infinity`
 * pass as numbers, as Python's reader takes them. Keeps no byte: `json-scan.ts` keeps what it wants.
 */
import { createJsonNesting, type JsonNesting } from './json-nesting.ts';
import { Digits, isNumber, nextDigits } from './json-number.ts';
import { findStringEnd, openEscape } from './json-string.ts';

export type JsonKind = 'object' | 'array' | 'string' | 'number' | 'true' | 'false' | 'null';

/** Told of the outermost object's members. Every `at` is an index into the chunk being pushed. */
export interface JsonSink {
  objectBegin(at: number): void;
  /** Opening quote of a key. */
  keyBegin(at: number): void;
  /** Closing quote of that key. Returns a problem if the key can't be read. */
  keyEnd(at: number): string | undefined;
  /** First byte of the value that belongs to the last key. */
  valueBegin(kind: JsonKind, at: number): void;
  /**
   * One past the value's last byte; may be 0 when the value ended with the chunk before.
   * @param elements how many the value has itself, if it is an array, and how many of them are numbers
   */
  valueEnd(at: number, elements: number, numbers: number): void;
}

/** Is told of what lies inside one member's value, while the walk has it as its `watch`. */
export interface JsonWatch {
  /** A value directly inside the member's array begins; only while `watchDepth` is 2. */
  elementBegin(kind: JsonKind, at: number): void;
  /** A value inside `watchDepth` containers ends. @param at one past its last byte; may be 0, as for `valueEnd` */
  innerEnd(at: number): void;
  /**
   * A key inside the member's value ends. What began in an earlier chunk has a negative index.
   * @param keyAt its opening quote @param fromAt the comma before it; `keyAt` where there is none @param quoteAt its closing quote
   */
  innerKey(keyAt: number, fromAt: number, quoteAt: number): void;
}

export interface JsonWalk {
  push(chunk: Buffer): void;
  /** No more bytes. Returns what is wrong with the text, or undefined. */
  end(): string | undefined;
  /** Absent for nearly all that is walked: then it costs a comparison for each inner value and key. */
  watch: JsonWatch | undefined;
  /** At which number of open containers ends are told; 0: none. */
  watchDepth: number;
  /** Open containers. */
  readonly depth: number;
  /** What is wrong with the text so far: the rest of it is not read. */
  readonly problem: string | undefined;
  /**
   * Where, in bytes of the whole text, the member of an inner object begins whose key is not whole yet: at its comma, or at
   * its quote if it is the first. −1: no such member has begun.
   */
  unnamedFrom(): number;
}

/** Deeper nesting is refused; engines give up far earlier. */
const maxDepth = 1_048_576;

const Expect = {
  start: 0,
  keyOrClose: 1,
  key: 2,
  colon: 3,
  value: 4,
  valueOrClose: 5,
  commaOrClose: 6,
  end: 7,
} as const;
const Mode = { structure: 0, string: 1, number: 2, literal: 3, failed: 4 } as const;

const literals = {
  true: Buffer.from('true'),
  false: Buffer.from('false'),
  null: Buffer.from('null'),
  nan: Buffer.from('NaN'),
  infinity: Buffer.from('Infinity'),
} as const;

export function createJsonWalk(sink: JsonSink): JsonWalk {
  return new Walk(sink);
}

/** A class, and no closures: one is made for each request. The functions below are its steps. */
class Walk implements JsonWalk {
  readonly sink: JsonSink;
  readonly nesting: JsonNesting = createJsonNesting(maxDepth);
  expect: number = Expect.start;
  mode: number = Mode.structure;
  /** Open containers. */
  depth = 0;
  /** The innermost of them is an object. */
  inObject = false;
  /** Counted in the outermost object's current value. */
  elements = 0;
  numbers = 0;
  inKey = false;
  /** Of the whole text: the last key's opening quote, the last comma in front of a key; only the latest are of use. */
  keyFrom = 0;
  commaFrom = 0;
  /** The last key is its object's first. */
  firstKey = false;
  watch: JsonWatch | undefined;
  watchDepth = 0;
  /** The string's last chunk ended in an odd run of backslashes. */
  escaped = false;
  numberState = 0;
  literal: Buffer = literals.null;
  literalAt = 0;
  /** Bytes of the chunks before this one. */
  base = 0;
  problem: string | undefined;

  constructor(sink: JsonSink) {
    this.sink = sink;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.mode === Mode.structure) at = readStructure(this, chunk, at);
      else if (this.mode === Mode.string) at = skipString(this, chunk, at);
      else if (this.mode === Mode.number) at = skipNumber(this, chunk, at);
      else if (this.mode === Mode.literal) at = matchLiteral(this, chunk, at);
      else break;
    }
    this.base += chunk.length;
  }

  end(): string | undefined {
    if (this.problem !== undefined) return this.problem;
    if (this.expect === Expect.end) return undefined;
    return this.expect === Expect.start ? 'no JSON object' : 'ends too early';
  }

  unnamedFrom(): number {
    if (!this.inObject || this.depth < 2) return -1;
    if (this.expect === Expect.key) return this.commaFrom;
    return this.expect === Expect.keyOrClose && this.mode === Mode.string ? this.keyFrom : -1;
  }
}

/** An index past every chunk: the walk stops reading. */
const stopped = Number.MAX_SAFE_INTEGER;

function fail(walk: Walk, at: number, what: string): number {
  walk.problem = `${what} at byte ${walk.base + at}`;
  walk.mode = Mode.failed;
  return stopped;
}

function readStructure(walk: Walk, chunk: Buffer, from: number): number {
  let at = from;
  while (at < chunk.length && walk.mode === Mode.structure) {
    switch (chunk[at]) {
      case 0x20:
      case 0x0a:
      case 0x0d:
      case 0x09:
        at += 1;
        break;
      case 0x22:
        at = openString(walk, at);
        if (at < chunk.length) at = skipString(walk, chunk, at);
        break;
      case 0x2c: // ,
        if (walk.expect !== Expect.commaOrClose) return fail(walk, at, 'unexpected comma');
        walk.commaFrom = walk.base + at;
        walk.expect = walk.inObject ? Expect.key : Expect.value;
        at += 1;
        break;
      case 0x3a: // :
        if (walk.expect !== Expect.colon) return fail(walk, at, 'unexpected colon');
        walk.expect = Expect.value;
        at += 1;
        break;
      case 0x7b:
        at = openContainer(walk, true, at);
        break;
      case 0x5b:
        at = openContainer(walk, false, at);
        break;
      case 0x7d:
        at = closeContainer(walk, true, at);
        break;
      case 0x5d:
        at = closeContainer(walk, false, at);
        break;
      default:
        at = openScalar(walk, chunk, at);
    }
  }
  return at;
}

function beginValue(walk: Walk, kind: JsonKind, at: number): void {
  if (walk.depth > 2) return;
  if (walk.depth === 2) {
    walk.elements += 1;
    if (kind === 'number') walk.numbers += 1;
    if (walk.watchDepth === 2 && walk.watch !== undefined) walk.watch.elementBegin(kind, at);
    return;
  }
  walk.elements = 0;
  walk.numbers = 0;
  walk.sink.valueBegin(kind, at);
}

function endValue(walk: Walk, at: number): void {
  walk.expect = Expect.commaOrClose;
  walk.mode = Mode.structure;
  if (walk.depth === 1) walk.sink.valueEnd(at, walk.elements, walk.numbers);
  else if (walk.depth === walk.watchDepth && walk.watch !== undefined) walk.watch.innerEnd(at);
}

function openContainer(walk: Walk, isObject: boolean, at: number): number {
  if (walk.expect === Expect.start) {
    if (!isObject) return fail(walk, at, 'not an object');
    walk.sink.objectBegin(at);
  } else if (walk.expect === Expect.value || walk.expect === Expect.valueOrClose) {
    beginValue(walk, isObject ? 'object' : 'array', at);
  } else {
    return fail(walk, at, 'unexpected bracket');
  }
  if (!walk.nesting.enter(isObject)) return fail(walk, at, 'nested too deeply');
  walk.depth += 1;
  walk.inObject = isObject;
  walk.expect = isObject ? Expect.keyOrClose : Expect.valueOrClose;
  return at + 1;
}

function closeContainer(walk: Walk, isObject: boolean, at: number): number {
  const closes =
    walk.expect === Expect.commaOrClose || walk.expect === (isObject ? Expect.keyOrClose : Expect.valueOrClose);
  if (!closes || walk.inObject !== isObject) return fail(walk, at, 'unexpected bracket');
  walk.inObject = walk.nesting.leave();
  walk.depth -= 1;
  if (walk.depth === 0) walk.expect = Expect.end;
  else endValue(walk, at + 1);
  return at + 1;
}

function openString(walk: Walk, at: number): number {
  if (walk.expect === Expect.key || walk.expect === Expect.keyOrClose) {
    walk.inKey = true;
    walk.firstKey = walk.expect === Expect.keyOrClose;
    walk.keyFrom = walk.base + at;
    if (walk.depth === 1) walk.sink.keyBegin(at);
  } else if (walk.expect === Expect.value || walk.expect === Expect.valueOrClose) {
    walk.inKey = false;
    beginValue(walk, 'string', at);
  } else {
    return fail(walk, at, 'unexpected string');
  }
  walk.mode = Mode.string;
  walk.escaped = false;
  return at + 1;
}

function skipString(walk: Walk, chunk: Buffer, from: number): number {
  const end = findStringEnd(chunk, from, walk.escaped);
  if (end >= 0) return closeString(walk, end);
  walk.escaped = end === openEscape;
  return chunk.length;
}

function closeString(walk: Walk, quote: number): number {
  if (!walk.inKey) {
    endValue(walk, quote + 1);
    return quote + 1;
  }
  walk.expect = Expect.colon;
  walk.mode = Mode.structure;
  if (walk.depth === 1) {
    const problem = walk.sink.keyEnd(quote);
    if (problem !== undefined) return fail(walk, quote, problem);
  } else if (walk.watch !== undefined) {
    const keyAt = walk.keyFrom - walk.base;
    walk.watch.innerKey(keyAt, walk.firstKey ? keyAt : walk.commaFrom - walk.base, quote);
  }
  return quote + 1;
}

function openScalar(walk: Walk, chunk: Buffer, at: number): number {
  const byte = chunk[at];
  if (walk.expect !== Expect.value && walk.expect !== Expect.valueOrClose) return fail(walk, at, 'unexpected byte');
  if (byte !== undefined && byte > 0x30 && byte <= 0x39) return openNumber(walk, Digits.whole, chunk, at);
  if (byte === 0x2d) return openNumber(walk, Digits.minus, chunk, at);
  if (byte === 0x30) return openNumber(walk, Digits.zero, chunk, at);
  if (byte === 0x74) return openLiteral(walk, 'true', literals.true, at);
  if (byte === 0x66) return openLiteral(walk, 'false', literals.false, at);
  if (byte === 0x6e) return openLiteral(walk, 'null', literals.null, at);
  if (byte === 0x4e) return openLiteral(walk, 'number', literals.nan, at);
  if (byte === 0x49) return openLiteral(walk, 'number', literals.infinity, at);
  return fail(walk, at, 'unexpected byte');
}

function openNumber(walk: Walk, state: number, chunk: Buffer, at: number): number {
  beginValue(walk, 'number', at);
  walk.numberState = state;
  walk.mode = Mode.number;
  return skipNumber(walk, chunk, at + 1);
}

function openLiteral(walk: Walk, kind: JsonKind, literal: Buffer, at: number): number {
  beginValue(walk, kind, at);
  walk.literal = literal;
  walk.literalAt = 1;
  walk.mode = Mode.literal;
  return at + 1;
}

function skipNumber(walk: Walk, chunk: Buffer, from: number): number {
  let state = walk.numberState;
  let at = from;
  for (; at < chunk.length; at += 1) {
    const byte = chunk[at] ?? 0;
    if (state === Digits.whole && byte >= 0x30 && byte <= 0x39) continue;
    const next = nextDigits(state, byte);
    if (next < 0) break;
    state = next;
  }
  walk.numberState = state;
  if (at === chunk.length) return at;
  if (state === Digits.minus && chunk[at] === 0x49) {
    walk.literal = literals.infinity;
    walk.literalAt = 0;
    walk.mode = Mode.literal;
    return at;
  }
  if (!isNumber(state)) return fail(walk, at, 'malformed number');
  endValue(walk, at);
  return at;
}

function matchLiteral(walk: Walk, chunk: Buffer, from: number): number {
  let at = from;
  while (at < chunk.length && walk.literalAt < walk.literal.length) {
    if (chunk[at] !== walk.literal[walk.literalAt]) return fail(walk, at, 'unknown word');
    walk.literalAt += 1;
    at += 1;
  }
  if (walk.literalAt === walk.literal.length) endValue(walk, at);
  return at;
}
