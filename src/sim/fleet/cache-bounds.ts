/**
 * What to measure routers by: the hits of one cache that sees every prompt in the order in which they come, and computes each at once.
 * Infinite, which no router can beat; or of the size of all engines' caches together, least recently used parts going first,
 * which several caches pass by chance where all are far too small.
 */
import { chainKey, pushToken, startChain, type HashedPrompt } from '../prompt.ts';

export interface CacheBound {
  /** reuse is by whole blocks of so many tokens, never the last token of a prompt */
  readonly blockTokens: number;
  /** Infinity: nothing is ever dropped */
  readonly capacityTokens: number;
}

/** Share of all prompt tokens that would be found, 0 to 1. */
export function pooledHitShare(prompts: Iterable<HashedPrompt>, { blockTokens, capacityTokens }: CacheBound): number {
  /** Tokens of each part, in order of last use, oldest first. A part is what one id of a trace stands for. */
  const held = new Map<number, number>();
  let heldTokens = 0;
  let total = 0;
  let found = 0;
  for (const prompt of prompts) {
    const parts = partsOf(prompt);
    let hits = 0;
    for (const { key, tokens } of parts) {
      if (!held.has(key)) break;
      hits += tokens;
    }
    total += prompt.tokenCount;
    found += Math.floor(Math.min(hits, prompt.tokenCount - 1) / blockTokens) * blockTokens;
    // From the end, so that of one prompt the end is dropped first.
    for (const { key, tokens } of parts.toReversed()) {
      if (!held.has(key)) heldTokens += tokens;
      else if (capacityTokens !== Infinity) held.delete(key);
      held.set(key, tokens);
    }
    for (const [key, tokens] of held) {
      if (heldTokens <= capacityTokens) break;
      held.delete(key);
      heldTokens -= tokens;
    }
  }
  return total === 0 ? 0 : found / total;
}

function partsOf({ hashIds, hashTokens, tokenCount }: HashedPrompt) {
  const chain = startChain(0);
  const parts: { readonly key: number; readonly tokens: number }[] = [];
  for (let start = 0, index = 0; start < tokenCount; start += hashTokens, index += 1) {
    pushToken(chain, hashIds[index] ?? 0);
    parts.push({ key: chainKey(chain), tokens: Math.min(hashTokens, tokenCount - start) });
  }
  return parts;
}
