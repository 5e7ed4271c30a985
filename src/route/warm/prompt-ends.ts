/**
 * Prompts that were answered, by the key of their last chunk: how long they and their answers truly were, and where.
 * A longer prompt that goes through such an end is counted from there, not from its bytes. Bounded, least recently used
 * first out.
 */
import { LRUCache } from 'lru-cache';

import type { PrefixChain } from '../../domain/prefix.ts';

export interface PromptEnd {
  /** absent: not told */
  readonly promptTokens?: number;
  readonly outputTokens?: number;
  /** who answered it last, and the stamp of the answer's last token there */
  readonly owner: number;
  readonly stamp: number;
}

export interface FoundEnd {
  readonly chunk: number;
  readonly end: PromptEnd;
}

export interface PromptEnds {
  note(chain: PrefixChain, end: PromptEnd): void;
  /** The longest beginning of this prompt, itself included, whose length was told. */
  lastTold(chain: PrefixChain): FoundEnd | undefined;
  /** The longest prompt answered by `owner` that this one goes through as a whole, within its first `chunks` chunks. */
  lastOf(owner: number, chain: PrefixChain, chunks: number): FoundEnd | undefined;
  readonly bytes: number;
}

/** Ends are looked for at the ends of so many messages, from the last one back. */
const maxTries = 32;
/** An entry of the map with its object; measured in Node 20. */
const bytesEach = 180;

export function createPromptEnds(maxEnds: number): PromptEnds {
  const ends = new LRUCache<number, PromptEnd>({ max: maxEnds });

  function search(chain: PrefixChain, from: number, accept: (end: PromptEnd) => boolean): FoundEnd | undefined {
    const { keys, parts } = chain;
    let tries = 0;
    for (let chunk = from; chunk >= 0 && tries < maxTries; chunk -= 1) {
      if (chunk + 1 < keys.length && parts[chunk + 1] === parts[chunk]) continue;
      tries += 1;
      const end = ends.get(keys[chunk] ?? 0);
      if (end !== undefined && accept(end)) return { chunk, end };
    }
    return undefined;
  }

  return {
    note(chain, end) {
      const last = chain.keys.length - 1;
      // A prompt with more chunks than are kept has no chunk where it ends.
      if (last < 0 || chain.ends[last] !== chain.bytes) return;
      ends.set(chain.keys[last] ?? 0, end);
    },
    lastTold: (chain) => search(chain, chain.keys.length - 1, (end) => end.promptTokens !== undefined),
    lastOf: (owner, chain, chunks) =>
      search(chain, Math.min(chunks, chain.keys.length) - 1, (end) => end.owner === owner),
    get bytes() {
      return ends.size * bytesEach;
    },
  };
}
