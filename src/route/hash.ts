/**
 * Small mixing of numbers and names for spreading jobs over backends: the same everywhere and at every start. Not for keys of
 * a cache: `platform/xxhash.ts` is for those.
 */

/** 32 bits of a text (FNV-1a, then mixed). */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mixed(hash);
}

/** 32 bits of a whole number of up to 53 bits and another of 32. */
export function mixKey(key: number, other: number): number {
  const high = Math.floor(key / 4294967296);
  return mixed(mixed(mixed(key >>> 0) ^ high) ^ other);
}

/** Above 0 and below 1. @param hash 32 bits */
export function unitOf(hash: number): number {
  return (hash + 0.5) / 4294967296;
}

/** Murmur3's last step: each bit of the input reaches each bit of the output. */
function mixed(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/**
 * A backend's part in a key, by weighted rendezvous hashing: of all backends the one with the largest has the key, and a key
 * moves only to or from a backend that comes, goes or changes weight.
 */
export function rendezvous(key: number, name: string, weight: number): number {
  return weight / -Math.log(unitOf(mixKey(key, hashText(name))));
}
