/**
 * Which pieces of text prompts had before, wherever they stood: so that a prompt that changes near its start though most of
 * what follows is known can be told from one that is new. Holds hashes of chunks, no text. Bounded: a table of fixed size, in
 * which a later chunk takes the place of an earlier one.
 */
import { placeOf, type PrefixChain, type PromptPlace } from '../../domain/prefix.ts';
import type { RouteNote } from '../../domain/routing.ts';

export interface KnownText {
  /**
   * Where a prompt begins to be unlike all seen before though it goes on with text that was seen. Before it is learnt.
   * @returns undefined: it is new, or goes on as others did
   */
  unstableAt(chain: PrefixChain, note: Pick<RouteNote, 'cause' | 'divergence'>): PromptPlace | undefined;
  learn(chain: PrefixChain): void;
}

/** Eight bytes each. */
const slots = 16_384;
/** Of each prompt its first chunks: about 80 KiB of it. */
const mostChunks = 96;
/** Shorter ends of messages are alike by chance. */
const leastChunkBytes = 128;
/** Less known text than this is not worth a word. */
const leastKnownBytes = 1024;
const leastKnownShare = 0.5;

export function createKnownText(): KnownText {
  const table = new Float64Array(slots);
  const isKnown = (key: number) => table[key % slots] === key;

  return {
    unstableAt(chain, note) {
      const { loose, ends } = chain;
      const first = firstNew(chain, note);
      // Known text itself: what differs is the model, an adapter or a salt, or it was forgotten.
      if (loose === undefined || first === undefined || isKnown(loose[first] ?? 0)) return undefined;
      let bytes = 0;
      let knownBytes = 0;
      for (let i = first + 1; i < Math.min(loose.length, mostChunks); i += 1) {
        const chunkBytes = (ends[i] ?? 0) - (ends[i - 1] ?? 0);
        if (chunkBytes < leastChunkBytes) continue;
        bytes += chunkBytes;
        if (isKnown(loose[i] ?? 0)) knownBytes += chunkBytes;
      }
      return knownBytes >= Math.max(leastKnownBytes, leastKnownShare * bytes) ? placeOf(chain, first) : undefined;
    },
    learn({ loose }) {
      if (loose === undefined) return;
      for (let i = 0; i < Math.min(loose.length, mostChunks); i += 1) {
        const key = loose[i] ?? 0;
        table[key % slots] = key;
      }
    },
  };
}

/** The chunk that no prompt had before in this place; only among the first ones. */
function firstNew(
  chain: PrefixChain,
  { cause, divergence }: Pick<RouteNote, 'cause' | 'divergence'>,
): number | undefined {
  // Unlike all others from the first byte on.
  if (divergence === undefined) return cause === 'new' && chain.keys.length > 0 ? 0 : undefined;
  for (let i = 0; i < Math.min(chain.keys.length, mostChunks); i += 1) {
    if (chain.parts[i] !== divergence.part) continue;
    if (placeOf(chain, i).startBytes === divergence.startBytes) return i;
  }
  return undefined;
}
