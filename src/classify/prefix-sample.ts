/**
 * What a chunk of a prompt's JSON text weighs, guessed from at most 63 of its bytes, or a quarter where characters are escaped: how many bytes its text has as UTF-8, how
 * many of them are no ASCII, whether it lies inside base64 (an image, audio). Only for estimates of tokens: never part of a
 * hash. The same chunk weighs the same at any time.
 */

const Is = { lower: 1, upper: 2, digit: 4, base64Sign: 8, comma: 16, backslash: 32, plain: 64, wide: 128 } as const;

/** What each byte is. */
const kinds = new Uint8Array(256).map((_, byte) => {
  if (byte >= 0x80) return Is.wide;
  const char = String.fromCharCode(byte);
  if (/[a-z]/.test(char)) return Is.lower;
  if (/[A-Z]/.test(char)) return Is.upper;
  if (/[0-9]/.test(char)) return Is.digit;
  if (/[+/=_-]/.test(char)) return Is.base64Sign;
  return char === ',' ? Is.comma : char === '\\' ? Is.backslash : Is.plain;
});
const inBase64 = Is.lower | Is.upper | Is.digit | Is.base64Sign;
/** Compressed data has all of them in 32 characters (but for 1 row in 200); a row of equal letters has not. */
const mixture = Is.lower | Is.upper | Is.digit;

/** A byte costs about a nanosecond to look at. */
const leastSamples = 32;
/** What a token is taken for that the client gives by its number. */
const bytesPerTokenId = 4;

export interface Weight {
  /** Of the text as UTF-8: an escape counts as the bytes of its character. */
  bytes: number;
  wideBytes: number;
  /** Every byte looked at is of base64's alphabet. */
  isBase64: boolean;
  /** So it is, and they are as mixed as in compressed data. */
  isMixed: boolean;
}

const weight: Weight = { bytes: 0, wideBytes: 0, isBase64: false, isMixed: false };

/** @returns the weight of the text in `[from, to)`, overwritten by the next call */
export function weighText(bytes: Uint8Array, from: number, to: number): Readonly<Weight> {
  const length = to - from;
  const stride = length < 2 * leastSamples ? 1 : Math.floor(length / leastSamples);
  let seen = 0;
  let wide = 0;
  let escaped = false;
  for (let at = from; at < to; at += stride) {
    const kind = kinds[bytes[at] ?? 0] ?? 0;
    seen |= kind;
    if (kind < Is.backslash) continue;
    if (kind === Is.wide) wide += 1;
    else if (kind === Is.backslash && at + 1 < to && bytes[at + 1] === 0x75) escaped = true;
  }
  weight.bytes = length;
  weight.wideBytes = Math.min(length, wide * stride);
  weight.isBase64 = (seen & ~inBase64) === 0;
  weight.isMixed = weight.isBase64 && (seen & mixture) === mixture;
  if (escaped) addEscapes(bytes, from, to);
  return weight;
}

/** @returns likewise, of the inside of a list of token numbers: a token is taken for 4 bytes */
export function weighNumbers(bytes: Uint8Array, from: number, to: number): Readonly<Weight> {
  const length = to - from;
  const stride = length < 2 * leastSamples ? 1 : Math.floor(length / leastSamples);
  let commas = 0;
  for (let at = from; at < to; at += stride) if (bytes[at] === 0x2c) commas += 1;
  weight.bytes = Math.max(1, commas * stride * bytesPerTokenId);
  weight.wideBytes = 0;
  weight.isBase64 = false;
  weight.isMixed = false;
  return weight;
}

/** Of each 256 bytes these many are searched for escapes: where there is one, there are mostly many (a client that writes ASCII only). */
const searchedBytes = 64;
const searchedOf = 256;

function addEscapes(bytes: Uint8Array, from: number, to: number): void {
  if (to - from < searchedOf) return countEscapes(bytes, { from, to, times: 1 });
  for (let at = from; at + searchedOf <= to; at += searchedOf)
    countEscapes(bytes, { from: at, to: at + searchedBytes, times: searchedOf / searchedBytes });
  weight.bytes = Math.max(1, weight.bytes);
  weight.wideBytes = Math.min(weight.bytes, weight.wideBytes);
}

interface Searched {
  readonly from: number;
  readonly to: number;
  /** How many bytes each of them stands for. */
  readonly times: number;
}

/** Counts those that begin in the bytes given. */
function countEscapes(bytes: Uint8Array, { from, to, times }: Searched): void {
  for (let at = from; at < to; at += 1) {
    if (bytes[at] !== 0x5c) continue;
    // The bytes may begin behind the first half of an escaped backslash: what looks like an escape then has no digits.
    if (bytes[at + 1] === 0x75 && isHex(bytes, at + 2)) {
      const size = utf8Bytes(bytes[at + 2] ?? 0, bytes[at + 3] ?? 0, bytes[at + 4] ?? 0);
      weight.bytes -= (6 - size) * times;
      if (size > 1) weight.wideBytes += size * times;
      at += 5;
    } else at += 1;
  }
}

function isHex(bytes: Uint8Array, from: number): boolean {
  for (let at = from; at < from + 4; at += 1) {
    const byte = (bytes[at] ?? 0) | 0x20;
    if (!((byte >= 0x30 && byte <= 0x39) || (byte >= 0x61 && byte <= 0x66))) return false;
  }
  return true;
}

/** Of a UTF-16 unit, by its first three hexadecimal digits; half of a pair counts as half of its four bytes. */
function utf8Bytes(first: number, second: number, third: number): number {
  if (first === 0x30) {
    if (second > 0x37) return 3;
    return second === 0x30 && third < 0x38 ? 1 : 2;
  }
  const isHalfOfPair = (first | 0x20) === 0x64 && second >= 0x38;
  return isHalfOfPair ? 2 : 3;
}
