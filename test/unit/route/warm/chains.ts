/** Prompts as tokens and as chains, for the tests of the warm index: equal beginnings give equal keys, and nothing else does. */
import type { BackendView } from '../../../../src/domain/fleet.ts';
import type { PrefixChain } from '../../../../src/domain/prefix.ts';
import { chainKey, pushToken, startChain } from '../../../../src/sim/prompt.ts';

/** One message: its token ids. */
export type Message = readonly number[];

export interface ChainShape {
  readonly bytesPerToken: number;
  /** tokens of a chunk in the first 1,024 tokens, and after */
  readonly chunkTokens: number;
  readonly laterChunkTokens: number;
}

export const usualShape: ChainShape = { bytesPerToken: 4, chunkTokens: 64, laterChunkTokens: 256 };

/** The chain of messages, its grid begun anew at each. */
export function chainOf(messages: readonly Message[], shape: ChainShape = usualShape): PrefixChain {
  const keys: number[] = [];
  const ends: number[] = [];
  const parts: number[] = [];
  const hash = startChain(0);
  let tokens = 0;
  messages.forEach((message, part) => {
    let chunkStart = 0;
    // A border between messages shows in the keys.
    pushToken(hash, 0xfffffff0);
    message.forEach((id, at) => {
      pushToken(hash, id);
      tokens += 1;
      const size = tokens <= 1024 ? shape.chunkTokens : shape.laterChunkTokens;
      if (at + 1 - chunkStart < size && at + 1 < message.length) return;
      keys.push(chainKey(hash));
      ends.push(Math.round(tokens * shape.bytesPerToken));
      parts.push(part);
      chunkStart = at + 1;
    });
  });
  return {
    keys: Float64Array.from(keys),
    ends: Float64Array.from(ends),
    parts: Int32Array.from(parts),
    bytes: Math.round(tokens * shape.bytesPerToken),
    wideBytes: 0,
  };
}

let ids = 0;

/** A message that shares no token with any other. */
export function freshMessage(tokens: number): Message {
  const first = (ids += tokens + 1);
  return Array.from({ length: tokens }, (_, index) => first + index);
}

/** A chain of so many chunks under a made-up name: chains share the chunks whose names are equal. */
export function namedChain(names: readonly number[], chunkBytes = 256): PrefixChain {
  const hash = startChain(7);
  return {
    keys: Float64Array.from(names, (name) => {
      pushToken(hash, name);
      return chainKey(hash);
    }),
    ends: Float64Array.from(names, (_, index) => (index + 1) * chunkBytes),
    parts: new Int32Array(names.length),
    bytes: names.length * chunkBytes,
    wideBytes: 0,
  };
}

export function backendView(name: string, more: Partial<BackendView> = {}): BackendView {
  return {
    name,
    url: `http://${name}`,
    engine: 'vllm',
    engineKnown: true,
    health: 'up',
    healthSinceMs: 1,
    models: [],
    ghostSlots: 0,
    advice: [],
    ...more,
  };
}
