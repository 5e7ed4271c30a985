/**
 * The warm index's memory: (key, owner) → stamp, in open addressing over typed arrays. It grows by one small segment at a
 * time (extendible hashing) and is trimmed a few slots per insertion, oldest use first, so that no call takes long.
 * It knows neither prompts nor engines; what a stamp means is its callers' business.
 *
 * Use is counted in epochs, each a small share of the table. A trim first raises the cut: what was last used at or before
 * it is absent from that moment on, all at once, so that a chain whose head is used whenever its tail is never has a gap.
 * The slots are freed after that, little by little.
 *
 * A slot is 24 bytes: key and stamp (two floats), epoch and owner (two 32-bit numbers). Owner 0: free.
 */

/** Not there. Older than every stamp. */
export const absent = -Infinity;

export interface StampTable {
  /** All that is touched from now on until the next call counts as used at the same moment: one prompt, head to tail. */
  open(): void;
  /** @returns `absent` when it isn't there */
  stampOf(key: number, owner: number): number;
  /**
   * Marks it as used now; its stamp never falls.
   * @returns the stamp before, `absent` when it is new; NaN when there was no room for it
   */
  touch(key: number, owner: number, stamp: number): number;
  remove(key: number, owner: number): void;
  /** Pairs of this owner, those that a trim has given up and not yet freed included. */
  entriesOf(owner: number): number;
  readonly entries: number;
  readonly bytes: number;
  /** Pairs that had to make room. */
  readonly trimmed: number;
}

const slotBits = 11;
const slots = 1 << slotBits;
const slotMask = slots - 1;
const slotBytes = 24;
/** A segment with more pairs is split; linear probing stays short below. */
const splitAbove = Math.floor(slots * 0.75);
const maxDepth = 20;
/** Ring of counts by epoch. What wasn't used for so many epochs is given up, whether there is room or not. */
const epochRing = 4096;
const epochsPerTable = 64;

/** Segments lie in pages, so that the few large arrays stay in the processor's cache; a page's memory is real once written to. */
const pageBits = 6;
const pageSegments = 1 << pageBits;
const pageMask = pageSegments - 1;

/** @param maxEntries hard bound on pairs, those not freed yet included */
export function createStampTable(maxEntries: number): StampTable {
  /** Per page: key, stamp, and a float's width of marks, three floats a slot; and the same memory in 32-bit steps. */
  const wordPages: Float64Array[] = [];
  const markPages: Uint32Array[] = [];
  let segments = 0;
  /** Of each segment: leading bits of the hash that all its pairs share, and how many pairs. */
  let depths = new Uint8Array(pageSegments);
  let used = new Int32Array(pageSegments);
  let directoryDepth = 1;
  let directory = Int32Array.of(addSegment(1), addSegment(1));
  let entries = 0;
  let trimmed = 0;
  const owned = new Map<number, { entries: number }>();

  let epoch = 1;
  let cut = 0;
  let insertsInEpoch = 0;
  let touchesInEpoch = 0;
  const usedIn = new Int32Array(epochRing);
  const epochInserts = Math.max(1, Math.floor(maxEntries / epochsPerTable));
  /** A trim begins this far below the bound, and frees about as many. */
  const reserve = Math.max(1, Math.floor(maxEntries / 8));
  let sweeping = false;
  let handSegment = 0;
  let handSlot = 0;
  let slotsPerInsert = 0;

  /** Where `find` stands: the page of the segment, and the segment's first slot there. */
  let words: Float64Array = new Float64Array(0);
  let marks: Uint32Array = new Uint32Array(0);
  let base = 0;

  function addSegment(depth: number): number {
    const segment = segments;
    segments += 1;
    if (segment >> pageBits === wordPages.length) {
      const memory = new ArrayBuffer(pageSegments * slots * slotBytes);
      wordPages.push(new Float64Array(memory));
      markPages.push(new Uint32Array(memory));
    }
    if (segment === depths.length) {
      depths = enlarged(depths, new Uint8Array(segment * 2));
      used = enlarged(used, new Int32Array(segment * 2));
    }
    depths[segment] = depth;
    return segment;
  }

  function stand(segment: number): void {
    words = wordPages[segment >> pageBits] ?? words;
    marks = markPages[segment >> pageBits] ?? marks;
    base = (segment & pageMask) << slotBits;
  }

  const segmentOf = (hash: number): number => directory[hash >>> (32 - directoryDepth)] ?? 0;

  /** In the segment stood at. @returns the pair's place in the page, or the complement (below 0) of the free one for it */
  function find(key: number, owner: number, hash: number): number {
    for (let slot = hash & slotMask; ; slot = (slot + 1) & slotMask) {
      const place = base + slot;
      const standing = marks[place * 6 + 5];
      if (standing === 0) return ~place;
      if (standing === owner && words[place * 3] === key) return place;
    }
  }

  function nextEpoch(): void {
    epoch += 1;
    insertsInEpoch = 0;
    touchesInEpoch = 0;
    if (epoch - cut > epochRing) cut = epoch - epochRing;
    usedIn[epoch & (epochRing - 1)] = 0;
  }

  /** Gives up the oldest epochs with at least `reserve` pairs, never the present one: that would cut a chain's head off. */
  function beginTrim(): void {
    let freed = 0;
    while (cut < epoch - 1 && freed < reserve) {
      cut += 1;
      freed += usedIn[cut & (epochRing - 1)] ?? 0;
    }
    sweeping = freed > 0;
    handSegment = 0;
    handSlot = 0;
    slotsPerInsert = Math.ceil((2 * segments * slots) / reserve);
  }

  function sweep(budget: number): void {
    let left = budget;
    while (left > 0) {
      if (handSegment >= segments) {
        sweeping = false;
        return;
      }
      stand(handSegment);
      const stop = Math.min(slots, handSlot + left);
      left -= stop - handSlot;
      while (handSlot < stop) {
        const at = (base + handSlot) * 6;
        // A pair that moves up into the freed slot is looked at next.
        if (marks[at + 5] !== 0 && (marks[at + 4] ?? 0) <= cut) free(handSegment, base + handSlot);
        else handSlot += 1;
      }
      if (handSlot === slots) {
        handSegment += 1;
        handSlot = 0;
      }
    }
  }

  function countUse(usedAt: number, change: 1 | -1): void {
    if (epoch - usedAt < epochRing) usedIn[usedAt & (epochRing - 1)] = (usedIn[usedAt & (epochRing - 1)] ?? 0) + change;
  }

  function uncount(segment: number, usedAt: number, owner: number): void {
    entries -= 1;
    used[segment] = (used[segment] ?? 0) - 1;
    countUse(usedAt, -1);
    if (usedAt <= cut) trimmed += 1;
    const count = owned.get(owner);
    if (count === undefined) return;
    count.entries -= 1;
    if (count.entries === 0) owned.delete(owner);
  }

  /** Frees a place of the segment stood at and closes the gap, so that no search ends too early. */
  function free(segment: number, place: number): void {
    uncount(segment, marks[place * 6 + 4] ?? 0, marks[place * 6 + 5] ?? 0);
    let hole = place - base;
    for (let next = (hole + 1) & slotMask; ; next = (next + 1) & slotMask) {
      const owner = marks[(base + next) * 6 + 5] ?? 0;
      if (owner === 0) break;
      const home = hashOf(words[(base + next) * 3] ?? 0, owner) & slotMask;
      if (((next - home) & slotMask) < ((next - hole) & slotMask)) continue;
      words.copyWithin((base + hole) * 3, (base + next) * 3, (base + next) * 3 + 3);
      hole = next;
    }
    marks[(base + hole) * 6 + 5] = 0;
  }

  function split(segment: number): void {
    const depth = (depths[segment] ?? 0) + 1;
    if (depth > directoryDepth) {
      const half = directory;
      directory = Int32Array.from({ length: half.length * 2 }, (_, index) => half[index >> 1] ?? 0);
      directoryDepth += 1;
    }
    stand(segment);
    const old = words.slice(base * 3, (base + slots) * 3);
    const oldMarks = new Uint32Array(old.buffer);
    words.fill(0, base * 3, (base + slots) * 3);
    depths[segment] = depth;
    const sibling = addSegment(depth);
    for (let index = 0; index < directory.length; index += 1)
      if (directory[index] === segment && (index >>> (directoryDepth - depth)) & 1) directory[index] = sibling;
    for (let slot = 0; slot < slots; slot += 1) {
      const usedAt = oldMarks[slot * 6 + 4] ?? 0;
      const owner = oldMarks[slot * 6 + 5] ?? 0;
      if (owner === 0) continue;
      if (usedAt <= cut) {
        uncount(segment, usedAt, owner);
        continue;
      }
      const key = old[slot * 3] ?? 0;
      const hash = hashOf(key, owner);
      if ((hash >>> (32 - depth)) & 1) {
        stand(sibling);
        used[segment] = (used[segment] ?? 0) - 1;
        used[sibling] = (used[sibling] ?? 0) + 1;
      } else stand(segment);
      put(~find(key, owner, hash), { key, owner, stamp: old[slot * 3 + 1] ?? 0, usedAt });
    }
  }

  function put(place: number, pair: { key: number; owner: number; stamp: number; usedAt: number }): void {
    words[place * 3] = pair.key;
    words[place * 3 + 1] = pair.stamp;
    marks[place * 6 + 4] = pair.usedAt;
    marks[place * 6 + 5] = pair.owner;
  }

  /** @returns the segment that a pair of this hash may be put into, with room; below 0: there is none */
  function roomFor(hash: number): number {
    let segment = segmentOf(hash);
    while ((used[segment] ?? 0) >= splitAbove) {
      if ((depths[segment] ?? 0) >= maxDepth) return -1;
      split(segment);
      segment = segmentOf(hash);
    }
    return segment;
  }

  function insert(key: number, owner: number, stamp: number): number {
    if (!sweeping && entries >= maxEntries - reserve) beginTrim();
    if (sweeping) sweep(slotsPerInsert);
    const hash = hashOf(key, owner);
    const segment = entries < maxEntries ? roomFor(hash) : -1;
    if (segment < 0) return Number.NaN;
    stand(segment);
    put(~find(key, owner, hash), { key, owner, stamp, usedAt: epoch });
    used[segment] = (used[segment] ?? 0) + 1;
    entries += 1;
    countUse(epoch, 1);
    const count = owned.get(owner);
    if (count === undefined) owned.set(owner, { entries: 1 });
    else count.entries += 1;
    insertsInEpoch += 1;
    return absent;
  }

  return {
    open() {
      if (insertsInEpoch >= epochInserts || touchesInEpoch >= maxEntries) nextEpoch();
    },
    stampOf(key, owner) {
      const hash = hashOf(key, owner);
      stand(segmentOf(hash));
      const place = find(key, owner, hash);
      if (place < 0 || (marks[place * 6 + 4] ?? 0) <= cut) return absent;
      return words[place * 3 + 1] ?? absent;
    },
    touch(key, owner, stamp) {
      const hash = hashOf(key, owner);
      stand(segmentOf(hash));
      const place = find(key, owner, hash);
      if (place < 0) return insert(key, owner, stamp);
      const usedAt = marks[place * 6 + 4] ?? 0;
      const before = usedAt <= cut ? absent : (words[place * 3 + 1] ?? absent);
      if (stamp > before) words[place * 3 + 1] = stamp;
      if (usedAt !== epoch) {
        marks[place * 6 + 4] = epoch;
        countUse(usedAt, -1);
        countUse(epoch, 1);
      }
      touchesInEpoch += 1;
      return before;
    },
    remove(key, owner) {
      const hash = hashOf(key, owner);
      const segment = segmentOf(hash);
      stand(segment);
      const place = find(key, owner, hash);
      if (place >= 0) free(segment, place);
    },
    entriesOf: (owner) => owned.get(owner)?.entries ?? 0,
    get entries() {
      return entries;
    },
    get bytes() {
      return segments * slots * slotBytes + usedIn.byteLength;
    },
    get trimmed() {
      return trimmed;
    },
  };
}

function enlarged<Numbers extends Uint8Array | Int32Array>(from: Numbers, into: Numbers): Numbers {
  into.set(from);
  return into;
}

/** 32 well mixed bits of a 53-bit key and its owner: the leading ones choose the segment, the last ones the slot. */
function hashOf(key: number, owner: number): number {
  const low = key >>> 0;
  const high = (key / 4_294_967_296) >>> 0;
  let hash = Math.imul(low ^ Math.imul(owner, 0x9e3779b1), 0x85ebca6b);
  hash ^= hash >>> 15;
  hash = Math.imul(hash ^ high, 0xc2b2ae35);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0x27d4eb2f);
  return (hash ^ (hash >>> 16)) >>> 0;
}
