/**
 * The grammar of a JSON number as a table, one byte at a time (RFC 8259, section 6), so that a number may be cut anywhere.
 */

/** How far into a number the bytes are. */
export const Digits = {
  minus: 0,
  zero: 1,
  whole: 2,
  dot: 3,
  fraction: 4,
  exponent: 5,
  sign: 6,
  power: 7,
} as const;

/** Next state for `state * 128 + byte`; −1: the number can't go on. */
const moves = buildMoves();

function buildMoves(): Int8Array {
  const table = new Int8Array(8 * 128).fill(-1);
  const set = (state: number, bytes: string, next: number) => {
    for (const char of bytes) table[state * 128 + char.charCodeAt(0)] = next;
  };
  set(Digits.minus, '0', Digits.zero);
  set(Digits.minus, '123456789', Digits.whole);
  set(Digits.whole, '0123456789', Digits.whole);
  for (const state of [Digits.zero, Digits.whole]) set(state, '.', Digits.dot);
  for (const state of [Digits.dot, Digits.fraction]) set(state, '0123456789', Digits.fraction);
  for (const state of [Digits.zero, Digits.whole, Digits.fraction]) set(state, 'eE', Digits.exponent);
  set(Digits.exponent, '+-', Digits.sign);
  for (const state of [Digits.exponent, Digits.sign, Digits.power]) set(state, '0123456789', Digits.power);
  return table;
}

/** The state after one more byte, or −1 when the number ends before it. */
export function nextDigits(state: number, byte: number): number {
  return byte < 128 ? (moves[state * 128 + byte] ?? -1) : -1;
}

/** A number may end in this state. */
export function isNumber(state: number): boolean {
  return state === Digits.zero || state === Digits.whole || state === Digits.fraction || state === Digits.power;
}
