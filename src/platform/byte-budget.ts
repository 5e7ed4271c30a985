/** A shared bound on bytes held at once (decision 13): taken as they arrive, given back when let go. */
export interface ByteBudget {
  /** @returns false, taking nothing, when the bound would be passed */
  take(bytes: number): boolean;
  give(bytes: number): void;
  readonly taken: number;
}

export function createByteBudget(maxBytes: number): ByteBudget {
  let taken = 0;
  return {
    take(bytes) {
      if (taken + bytes > maxBytes) return false;
      taken += bytes;
      return true;
    },
    give(bytes) {
      taken -= bytes;
    },
    get taken() {
      return taken;
    },
  };
}
