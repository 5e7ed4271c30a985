/**
 * Text of a wanted length whose words are one token each in most vocabularies. The same seed gives the same words, and
 * longer text begins with the shorter one. Pure.
 */

const common = (
  'time year people way day man thing woman life child world school state family student group country problem hand ' +
  'part place case week company system program question work government number night point home water room mother ' +
  'area money story fact month lot right study book eye job word business issue side kind head house service friend ' +
  'father power hour game line end member law car city community name president team minute idea body information'
).split(' ');

/** @param seed any text */
export function wordsOf(seed: string): (index: number) => string {
  let state = 0x811c9dc5;
  for (let index = 0; index < seed.length; index += 1) state = Math.imul(state ^ seed.charCodeAt(index), 0x01000193);
  const base = state >>> 0;
  return (index) => {
    // Mixed from the index alone, so that word 500 needs no 499 before it.
    let mixed = Math.imul(base ^ (index * 0x9e3779b1), 0x85ebca6b);
    mixed ^= mixed >>> 13;
    mixed = Math.imul(mixed, 0xc2b2ae35);
    return common[((mixed ^ (mixed >>> 16)) >>> 0) % common.length] ?? 'time';
  };
}

/** So many words, with a blank between them. */
export function fillerWords(seed: string, count: number): string {
  const word = wordsOf(seed);
  return Array.from({ length: Math.max(0, count) }, (_, index) => word(index)).join(' ');
}
