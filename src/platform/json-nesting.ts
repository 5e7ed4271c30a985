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

const firstBytes = 64;

export function createJsonNesting(maxDepth: number): JsonNesting {
  let bits = new Uint8Array(firstBytes);
  let depth = 0;

  function grow(): void {
    const wider = new Uint8Array(bits.length * 2);
    wider.set(bits);
    bits = wider;
  }

  return {
    enter(isObject) {
      if (depth >= maxDepth) return false;
      if (depth >> 3 >= bits.length) grow();
      const at = depth >> 3;
      const mask = 1 << (depth & 7);
      const byte = bits[at] ?? 0;
      bits[at] = isObject ? byte | mask : byte & ~mask;
      depth += 1;
      return true;
    },
    leave() {
      depth -= 1;
      const around = depth - 1;
      return around >= 0 && ((bits[around >> 3] ?? 0) & (1 << (around & 7))) !== 0;
    },
  };
}
