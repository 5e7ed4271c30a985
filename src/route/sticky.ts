/**
 * Where stateful answers live, and whose they are: response id → backend and tenant, so that a follow-up goes back to where it
 * began (decision 9) and is answered to nobody else. Bounded; the least recently used id is forgotten.
 */
import { LRUCache } from 'lru-cache';

const maxIds = 100_000;
const longestId = 512;

export interface Home {
  readonly backend: string;
  /** Absent: nobody knows whose it is, or everybody is one. */
  readonly tenant?: string;
}

export interface Sticky {
  /** What is somebody else's already stays theirs. @param tenant undefined: nobody's in particular */
  remember(id: string, backend: string, tenant: string | undefined): void;
  find(id: string | undefined): Home | undefined;
}

export function createSticky(): Sticky {
  const homes = new LRUCache<string, Home>({ max: maxIds });
  return {
    remember(id, backend, tenant) {
      if (id === '' || id.length > longestId) return;
      const known = homes.get(id);
      if (known !== undefined && known.tenant !== tenant) return;
      homes.set(id, tenant === undefined ? { backend } : { backend, tenant });
    },
    find: (id) => (id === undefined ? undefined : homes.get(id)),
  };
}
