/**
 * A toy tokeniser: cuts text into words, pieces of long words, numbers and signs, about four bytes each, and numbers them by a hash.
 * Deterministic and memoryless, so that equal beginnings of texts give equal beginnings of tokens (but for the last one, which may
 * grow). No model's real vocabulary; ids are 32 bits wide, so that different pieces practically never meet.
 */

const letter = 0;
const digit = 1;
const blank = 2;
const sign = 3;
/** Anything past ASCII: one character a token. */
const wide = 4;
/** Longest piece of each kind, in characters, the blank before it not counted. */
const longest = [10, 3, 8, 3, 1] as const;
/** Longest special token, such as `<|im_start|>`. */
const longestMark = 32;

const kindOf = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[a-z]/i.test(character)) return letter;
  if (/[0-9]/.test(character)) return digit;
  return code <= 32 ? blank : sign;
});

/** Token ids of a text. */
export function encode(text: string): Uint32Array {
  let ids = new Uint32Array(Math.max(16, text.length >> 1));
  let count = 0;
  for (let at = 0; at < text.length;) {
    const end = pieceEnd(text, at);
    if (count === ids.length) {
      const larger = new Uint32Array(ids.length * 2);
      larger.set(ids);
      ids = larger;
    }
    ids[count] = hashRange(text, at, end);
    count += 1;
    at = end;
  }
  return ids.slice(0, count);
}

/** The pieces of a text, which joined give the text. */
export function splitPieces(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    const end = pieceEnd(text, at);
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

export function pieceId(piece: string): number {
  return hashRange(piece, 0, piece.length);
}

/** Remembers pieces by id, so that tokens can be turned back into text; the oldest are forgotten past the limit. */
export interface PieceBook {
  remember(text: string): Uint32Array;
  /** Unknown ids become the replacement character. */
  decode(ids: readonly number[]): string;
}

export function createPieceBook(maxPieces: number): PieceBook {
  const pieces = new Map<number, string>();
  return {
    remember(text) {
      return Uint32Array.from(splitPieces(text), (piece) => {
        const id = pieceId(piece);
        pieces.set(id, piece);
        if (pieces.size > maxPieces) pieces.delete(pieces.keys().next().value ?? 0);
        return id;
      });
    },
    decode: (ids) => ids.map((id) => pieces.get(id) ?? '\ufffd').join(''),
  };
}

function pieceEnd(text: string, start: number): number {
  const code = text.charCodeAt(start);
  if (code === 60) {
    const close = markEnd(text, start);
    if (close > 0) return close;
  }
  // One blank belongs to what follows it.
  const from = code === 32 && start + 1 < text.length && kindAt(text, start + 1) !== blank ? start + 1 : start;
  const kind = kindAt(text, from);
  if (from > start && kind === sign && markEnd(text, from) > 0) return from;
  if (kind === wide) return Math.min(text.length, from + (isHighSurrogate(text.charCodeAt(from)) ? 2 : 1));
  const limit = Math.min(text.length, from + (longest[kind] ?? 1));
  let end = from + 1;
  while (end < limit && kindAt(text, end) === kind) end += 1;
  // The last of several blanks is left to the word behind it.
  const leavesOne =
    kind === blank &&
    end - start > 1 &&
    end < text.length &&
    text.charCodeAt(end - 1) === 32 &&
    kindAt(text, end) !== blank;
  return leavesOne ? end - 1 : end;
}

/** End of the special token that begins here, or 0. */
function markEnd(text: string, start: number): number {
  if (text.charCodeAt(start) !== 60 || text.charCodeAt(start + 1) !== 124) return 0;
  const limit = Math.min(text.length, start + longestMark);
  let at = start + 2;
  while (at < limit && isMarkLetter(text.charCodeAt(at))) at += 1;
  const closes = at > start + 2 && text.charCodeAt(at) === 124 && text.charCodeAt(at + 1) === 62;
  return closes ? at + 2 : 0;
}

function kindAt(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code < 128 ? (kindOf[code] ?? sign) : wide;
}

/** a to z and the underscore. */
function isMarkLetter(code: number): boolean {
  return (code >= 97 && code <= 122) || code === 95;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

/** FNV-1a over UTF-16 units. */
function hashRange(text: string, from: number, to: number): number {
  let hash = 0x811c9dc5;
  for (let at = from; at < to; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
