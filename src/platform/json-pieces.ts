/**
 * Hands out the bytes of some top-level members' values while JSON is walked: part by part, in pieces as they lie in the
 * chunks, without the blanks and commas between an array's elements. One inner member (`cache_control`) is left out with its
 * comma, as if it had never been written. Copies nothing, but for a key that a chunk's end cuts. Same parts, and the same
 * bytes in each, whatever the cuts. Grammar: `json-walk.ts`; who is called when: `json-scan.ts`.
 */
import type { JsonKind, JsonWalk, JsonWatch } from './json-walk.ts';

export interface PieceSink {
  /**
   * A wanted member's value begins.
   * @returns how it is cut: as one part, or an array into its elements, consecutive numbers being one part; undefined: not at all
   */
  memberBegin(key: string, kind: JsonKind): 'whole' | 'elements' | undefined;
  partBegin(kind: JsonKind): void;
  /** Some more bytes of the part, maybe none, to be used before the call returns. @param last the part ends with them */
  piece(bytes: Buffer, from: number, to: number, last: boolean): void;
}

export interface JsonPieces {
  /** The chunk that is walked next. */
  enter(chunk: Buffer): void;
  /** It has been walked. */
  leave(): void;
  begin(key: string, kind: JsonKind, at: number): void;
  /** @param at one past the value; may be 0 when it ended with the chunk before */
  end(at: number): void;
}

export function createJsonPieces(walk: JsonWalk, sink: PieceSink): JsonPieces {
  return new Pieces(walk, sink);
}

/** Anthropic's breakpoints: clients move them each turn, and they say nothing of the prompt. */
const leftOutKey = Buffer.from('cache_control');
/** Shallower objects are no content block, tool or message. */
const leastDepth = 3;

const Skip = { none: 0, value: 1, toNextKey: 2 } as const;

const noBytes = Buffer.alloc(0);

class Pieces implements JsonPieces, JsonWatch {
  readonly #walk: JsonWalk;
  readonly #sink: PieceSink;
  #chunk: Buffer = noBytes;
  /** Of the chunks before this one. */
  #base = 0;
  #active = false;
  #byElements = false;
  #partOpen = false;
  /** The open part is a row of numbers. */
  #inNumbers = false;
  /** All before this index of the chunk was handed out or left out. */
  #done = 0;
  #skip: number = Skip.none;
  /** The member being left out is its object's first: the comma to go is the one behind it. */
  #skipsFirst = false;
  /** The last bytes before this chunk, from a comma or quote on, while a key is not whole. */
  #held: Buffer = noBytes;
  #heldBytes = 0;

  constructor(walk: JsonWalk, sink: PieceSink) {
    this.#walk = walk;
    this.#sink = sink;
  }

  enter(chunk: Buffer): void {
    this.#chunk = chunk;
    this.#done = 0;
  }

  leave(): void {
    const chunk = this.#chunk;
    this.#chunk = noBytes;
    const base = this.#base;
    this.#base += chunk.length;
    if (!this.#partOpen || this.#skip === Skip.value || this.#walk.problem !== undefined) return;
    const unnamedFrom = this.#walk.unnamedFrom();
    const holdAt = unnamedFrom < 0 ? chunk.length : Math.max(0, unnamedFrom - base);
    if (this.#skip === Skip.none && holdAt > this.#done) this.#sink.piece(chunk, this.#done, holdAt, false);
    if (holdAt < chunk.length) this.#hold(chunk, holdAt);
  }

  begin(key: string, kind: JsonKind, at: number): void {
    const cut = this.#sink.memberBegin(key, kind);
    if (cut === undefined) return;
    this.#active = true;
    this.#byElements = cut === 'elements' && kind === 'array';
    this.#walk.watch = this;
    this.#watchElements();
    if (!this.#byElements) this.#openPart(kind, at);
  }

  end(at: number): void {
    if (!this.#active) return;
    // A row of numbers goes up to the bracket.
    if (this.#partOpen) this.#closePart(this.#inNumbers ? at - 1 : at);
    this.#inNumbers = false;
    this.#active = false;
    this.#walk.watch = undefined;
    this.#walk.watchDepth = 0;
  }

  elementBegin(kind: JsonKind, at: number): void {
    if (this.#inNumbers) {
      if (kind === 'number') return;
      this.#closePart(at);
    }
    this.#inNumbers = kind === 'number';
    this.#openPart(kind, at);
  }

  innerEnd(at: number): void {
    if (this.#skip === Skip.value) {
      if (this.#skipsFirst) {
        this.#skip = Skip.toNextKey;
        // If no key follows, the object's own end is told.
        this.#walk.watchDepth = this.#walk.depth - 1;
        return;
      }
      this.#goOn(at);
      return;
    }
    if (this.#skip === Skip.toNextKey) this.#goOn(at - 1);
    if (this.#byElements && this.#walk.depth === 2 && !this.#inNumbers) this.#closePart(at);
  }

  innerKey(keyAt: number, fromAt: number, quoteAt: number): void {
    if (this.#skip === Skip.value) return;
    if (this.#skip === Skip.toNextKey) {
      this.#goOn(Math.max(0, keyAt));
      this.#releaseHeld(Math.min(0, keyAt));
      return;
    }
    if (this.#walk.depth < leastDepth || !this.#isLeftOut(keyAt, quoteAt)) {
      this.#releaseHeld(-this.#heldBytes);
      return;
    }
    if (fromAt >= 0) this.#sink.piece(this.#chunk, this.#done, fromAt, false);
    this.#heldBytes = 0;
    this.#skip = Skip.value;
    this.#skipsFirst = fromAt === keyAt;
    this.#walk.watchDepth = this.#walk.depth;
  }

  #openPart(kind: JsonKind, at: number): void {
    this.#partOpen = true;
    this.#done = at;
    this.#sink.partBegin(kind);
  }

  #closePart(at: number): void {
    this.#partOpen = false;
    this.#sink.piece(this.#chunk, this.#done, at, true);
  }

  #watchElements(): void {
    this.#walk.watchDepth = this.#byElements ? 2 : 0;
  }

  #goOn(at: number): void {
    this.#skip = Skip.none;
    this.#done = at;
    this.#watchElements();
  }

  #isLeftOut(keyAt: number, quoteAt: number): boolean {
    if (quoteAt - keyAt - 1 !== leftOutKey.length) return false;
    for (let i = 0; i < leftOutKey.length; i += 1) {
      const at = keyAt + 1 + i;
      const byte = at < 0 ? this.#held[this.#heldBytes + at] : this.#chunk[at];
      if (byte !== leftOutKey[i]) return false;
    }
    return true;
  }

  /** Hands out what is held from index `from` on, counted back from this chunk's start; the rest of it is gone. */
  #releaseHeld(from: number): void {
    if (from < 0) this.#sink.piece(this.#held, this.#heldBytes + from, this.#heldBytes, false);
    this.#heldBytes = 0;
  }

  #hold(chunk: Buffer, from: number): void {
    const bytes = this.#heldBytes + chunk.length - from;
    if (bytes > this.#held.length) {
      const wider = Buffer.allocUnsafe(Math.max(64, 2 * bytes));
      this.#held.copy(wider, 0, 0, this.#heldBytes);
      this.#held = wider;
    }
    chunk.copy(this.#held, this.#heldBytes, from);
    this.#heldBytes = bytes;
  }
}
