/**
 * The lines of a response head and of trailers: status line and field lines, each given without its CRLF.
 * Owns the character tables. Pure; strict by RFC 9110 section 5 and RFC 9112 sections 4 and 5. Must not decide framing.
 * A `!` after a table or buffer read here means: the index lies within the bounds that the caller gave.
 */

export const CR = 13;
export const LF = 10;

/** 1 for each byte that a token (RFC 9110 section 5.6.2) may hold. */
export const tokenBytes = byteTable("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

/** 1 for each byte that a field value or reason phrase may hold: HTAB, SP, visible, 0x80–0xff. */
export const textBytes = new Uint8Array(256).map((_, byte) => (byte === 9 || (byte >= 32 && byte !== 127) ? 1 : 0));

function byteTable(characters: string): Uint8Array {
  const table = new Uint8Array(256);
  for (let i = 0; i < characters.length; i += 1) table[characters.charCodeAt(i)] = 1;
  return table;
}

export interface StatusLine {
  readonly httpVersion: '1.0' | '1.1';
  readonly status: number;
  readonly reason: string;
}

const statusPrefix = Buffer.from('HTTP/1.');

/** Whether a line of which only `[start, end)` has come can still become a status line. */
export function mayBeStatusLine(bytes: Buffer, start: number, end: number): boolean {
  const length = Math.min(end - start, statusPrefix.length);
  for (let i = 0; i < length; i += 1) if (bytes[start + i] !== statusPrefix[i]) return false;
  return true;
}

/** @returns undefined when it is not `HTTP/1.0` or `HTTP/1.1`, a blank, three digits from 100, and a blank before any reason */
export function parseStatusLine(bytes: Buffer, start: number, end: number): StatusLine | undefined {
  if (end - start < 12 || !mayBeStatusLine(bytes, start, end) || bytes[start + 8] !== 32) return undefined;
  const minor = bytes[start + 7]! - 48;
  const hundreds = bytes[start + 9]! - 48;
  const tens = bytes[start + 10]! - 48;
  const ones = bytes[start + 11]! - 48;
  if ((minor !== 0 && minor !== 1) || hundreds < 1 || hundreds > 9 || !isDigit(tens) || !isDigit(ones))
    return undefined;
  if (end - start > 12 && bytes[start + 12] !== 32) return undefined;
  for (let i = start + 12; i < end; i += 1) if (textBytes[bytes[i]!] === 0) return undefined;
  return {
    httpVersion: minor === 0 ? '1.0' : '1.1',
    status: hundreds * 100 + tens * 10 + ones,
    reason: bytes.toString('latin1', Math.min(start + 13, end), end),
  };
}

function isDigit(value: number): boolean {
  return value >= 0 && value <= 9;
}

/**
 * Appends name and value, the value without blanks around it.
 * @returns false for anything but `token ":" OWS value OWS`: folded lines and a blank before the colon among them
 */
export function parseFieldLine(bytes: Buffer, start: number, end: number, into: string[]): boolean {
  let colon = start;
  while (colon < end && tokenBytes[bytes[colon]!] === 1) colon += 1;
  if (colon === start || colon === end || bytes[colon] !== 58) return false;
  let from = colon + 1;
  let to = end;
  while (from < to && isBlank(bytes[from]!)) from += 1;
  while (to > from && isBlank(bytes[to - 1]!)) to -= 1;
  for (let i = from; i < to; i += 1) if (textBytes[bytes[i]!] === 0) return false;
  into.push(bytes.toString('latin1', start, colon), bytes.toString('latin1', from, to));
  return true;
}

function isBlank(byte: number): boolean {
  return byte === 32 || byte === 9;
}
