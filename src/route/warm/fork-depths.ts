/**
 * Where prompts part: after which chunk, and how many tokens they truly had in common there. A chunk ends before the tokens
 * do, and what its bytes let expect is an estimate; the place where many prompts leave the same system prompt is known to
 * the token once an answer told it. Bounded, least recently used first out.
 */
import { LRUCache } from 'lru-cache';

export interface ForkDepths {
  /** @param key of the last chunk in common */
  tokensAt(key: number): number | undefined;
  note(key: number, tokens: number): void;
  readonly bytes: number;
}

const maxForks = 4096;
/** An entry of the map; measured in Node 20. */
const bytesEach = 140;
/** Two questions after the same system prompt may begin alike by chance: the mean over so many. */
const mostTold = 8;

export function createForkDepths(): ForkDepths {
  const depths = new LRUCache<number, { tokens: number; told: number }>({ max: maxForks });
  return {
    tokensAt: (key) => depths.get(key)?.tokens,
    note(key, tokens) {
      const known = depths.get(key);
      if (known === undefined) {
        depths.set(key, { tokens, told: 1 });
        return;
      }
      known.told = Math.min(known.told + 1, mostTold);
      known.tokens += (tokens - known.tokens) / known.told;
    },
    get bytes() {
      return depths.size * bytesEach;
    },
  };
}
