/**
 * Chains the hashes of a prompt's chunks: each key stands for all that comes before it, too. Two 32-bit lanes and integer
 * arithmetic; their 64 bits give a 53-bit key. Pure.
 */

/** One prompt's chain so far. */
export interface Lanes {
  low: number;
  high: number;
}

/** Goes on by one chunk's 64 bits. Different states or different chunks never give the same state. */
export function chainOn(lanes: Lanes, low: number, high: number): void {
  lanes.low = scatter(lanes.low ^ low);
  lanes.high = scatter((lanes.high ^ high) + lanes.low);
}

export function chainText(lanes: Lanes, text: string): void {
  for (let i = 0; i < text.length; i += 1) chainOn(lanes, text.charCodeAt(i), i);
}

/** 53 bits of the state, as a whole number. */
export function keyOf({ low, high }: Lanes): number {
  return looseKey(low, high);
}

/** 53 bits of one chunk's hash, whatever stands before it. */
export function looseKey(low: number, high: number): number {
  return (high >>> 11) * 4_294_967_296 + (low >>> 0);
}

/** MurmurHash3's finaliser for 32 bits (A. Appleby, public domain): a bijection in which each bit moves all others. */
function scatter(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x85eb_ca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2_ae35);
  return mixed ^ (mixed >>> 16);
}
