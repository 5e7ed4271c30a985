/**
 * A trace's prompt as warmlane's classifier would see it: the chain of hashes over its canonical bytes, taken as four bytes a token.
 * The trace's ids stand in for the text: chunk borders fall on theirs.
 */
import type { PrefixChain } from '../../domain/prefix.ts';
import { chainKey, pushToken, startChain, type HashedPrompt } from '../prompt.ts';

const bytesPerToken = 4;
/** Chunks that the classifier keeps at most. */
const mostChunks = 1024;

/** Chunks grow with the place, as the classifier's do: tokens of a chunk that begins at this token. A multiple of any finer id. */
function chunkTokens(atTokens: number): number {
  if (atTokens < 1024) return 64;
  return atTokens < 16_384 ? 128 : 256;
}

export function promptChain({ tokenCount, hashIds, hashTokens }: HashedPrompt): PrefixChain {
  const keys: number[] = [];
  const ends: number[] = [];
  const hash = startChain(0);
  let startTokens = 0;
  for (const [index, id] of hashIds.entries()) {
    if (index * hashTokens >= tokenCount || keys.length >= mostChunks) break;
    pushToken(hash, id);
    const endTokens = Math.min(tokenCount, (index + 1) * hashTokens);
    if (endTokens - startTokens < chunkTokens(startTokens) && endTokens < tokenCount) continue;
    keys.push(chainKey(hash));
    ends.push(endTokens * bytesPerToken);
    startTokens = endTokens;
  }
  return {
    keys: Float64Array.from(keys),
    ends: Float64Array.from(ends),
    parts: new Int32Array(keys.length),
    bytes: tokenCount * bytesPerToken,
    wideBytes: 0,
  };
}
