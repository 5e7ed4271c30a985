/**
 * From a block's key to its number: what a `Map` does, without a heap number for each key. A cache of a hundred thousand blocks that
 * all change within a minute of simulated time is most of what a simulation costs. Open addressing, at most half full.
 */

export interface KeyTable {
  readonly size: number;
  /** @returns undefined when it isn't there */
  get(key: number): number | undefined;
  has(key: number): boolean;
  /** @throws when it would hold more than it was made for */
  set(key: number, value: number): void;
  delete(key: number): void;
}

/** @param most entries that it must hold @throws for a key that is NaN only by never finding it */
export function createKeyTable(most: number): KeyTable {
  const bits = Math.max(3, Math.ceil(Math.log2(most * 2 + 1)));
  const room = 2 ** bits;
  const mask = room - 1;
  /** NaN: free. */
  const keys = new Float64Array(room).fill(Number.NaN);
  const values = new Int32Array(room);
  let size = 0;

  /** Where a key belongs: the upper bits of its upper 32, mixed. */
  const homeOf = (key: number) => Math.imul(Math.floor(key / 2_097_152) ^ key, 0x9e3779b1) >>> (32 - bits);

  /** @returns its place, or the free one where it would go */
  function placeOf(key: number): number {
    let at = homeOf(key);
    for (;;) {
      const held = keys[at] ?? Number.NaN;
      // Only NaN differs from itself.
      if (held === key || held !== held) return at;
      at = (at + 1) & mask;
    }
  }

  return {
    get size() {
      return size;
    },
    get(key) {
      const at = placeOf(key);
      return keys[at] === key ? values[at] : undefined;
    },
    has: (key) => keys[placeOf(key)] === key,
    set(key, value) {
      const at = placeOf(key);
      if (keys[at] !== key) {
        if (size >= most) throw new Error(`a table for ${most} keys is full`);
        size += 1;
        keys[at] = key;
      }
      values[at] = value;
    },
    delete(key) {
      let hole = placeOf(key);
      if (keys[hole] !== key) return;
      size -= 1;
      // Those behind it that the hole would cut off from their home move up.
      for (let at = (hole + 1) & mask; ; at = (at + 1) & mask) {
        const held = keys[at] ?? Number.NaN;
        if (held !== held) break;
        const home = homeOf(held);
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        keys[hole] = held;
        values[hole] = values[at] ?? 0;
        hole = at;
      }
      keys[hole] = Number.NaN;
    },
  };
}
