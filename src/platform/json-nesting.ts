/**
 * Which containers are open while JSON is walked: one bit a level, so that a document nested a million levels deep
 * costs 128 KiB and no recursion. Owns the bits only; what may follow what is decided in `json-walk.ts`.
 */

export interface JsonNesting {
  /** Enters a container. False: the bound is reached, nothing was entered. */
  enter(isObject: boolean): boolean;
  /** Leaves the innermost container and tells whether the one around it is an object. Depth must be at least 1. */
  leave(): boolean;
}

/** Levels whose bits lie in one number: nearly all documents are flatter, and an array is dear to make for each. */
const shallow = 30;

export function createJsonNesting(maxDepth: number): JsonNesting {
  return new Nesting(maxDepth);
}

class Nesting implements JsonNesting {
  readonly #maxDepth: number;
  #depth = 0;
  /** Of the first levels. */
  #low = 0;
  /** Of the levels below. */
  #bits: Uint8Array | undefined;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  enter(isObject: boolean): boolean {
    const depth = this.#depth;
    if (depth >= this.#maxDepth) return false;
    this.#depth = depth + 1;
    if (depth < shallow) {
      const mask = 1 << depth;
      this.#low = isObject ? this.#low | mask : this.#low & ~mask;
    } else this.#enterDeep(depth - shallow, isObject);
    return true;
  }

  leave(): boolean {
    this.#depth -= 1;
    const around = this.#depth - 1;
    if (around < 0) return false;
    if (around < shallow) return (this.#low & (1 << around)) !== 0;
    const deep = around - shallow;
    return ((this.#bits?.[deep >> 3] ?? 0) & (1 << (deep & 7))) !== 0;
  }

  #enterDeep(deep: number, isObject: boolean): void {
    const at = deep >> 3;
    let bits = this.#bits ?? new Uint8Array(64);
    if (at >= bits.length) {
      const wider = new Uint8Array(bits.length * 2);
      wider.set(bits);
      bits = wider;
    }
    this.#bits = bits;
    const mask = 1 << (deep & 7);
    const byte = bits[at] ?? 0;
    bits[at] = isObject ? byte | mask : byte & ~mask;
  }
}
