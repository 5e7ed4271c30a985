/**
 * Where stateful answers live: response id → backend, so that a follow-up goes back to where it began (decision 9).
 * Bounded; the least recently used id is forgotten, its follow-up is then routed like any other.
 */
import { LRUCache } from 'lru-cache';

const maxIds = 100_000;
const longestId = 512;

export interface Sticky {
  remember(id: string, backend: string): void;
  find(id: string | undefined): string | undefined;
}

export function createSticky(): Sticky {
  const homes = new LRUCache<string, string>({ max: maxIds });
  return {
    remember(id, backend) {
      if (id.length <= longestId) homes.set(id, backend);
    },
    find: (id) => (id === undefined ? undefined : homes.get(id)),
  };
}
