/**
 * Settings of the warm index. Types and defaults; nothing here acts.
 */
import type { CachePolicy } from './port.ts';

export interface WarmSettings {
  /** Most (chunk, backend) pairs that are kept. About 60 bytes each, 64 at most; memory grows as they come. */
  readonly maxEntries: number;
  /** Most prompts of which the exact length and the answer's are remembered. */
  readonly maxPromptEnds?: number;
  /** Of one llama-server: most sequences that are believed to be saved in its RAM. */
  readonly maxSaved?: number;
  /** What the config says of backends' caches, by name; the rest is taken from the engine. */
  readonly policies: Readonly<Record<string, Partial<CachePolicy>>>;
}

export const warmDefaults = { maxEntries: 1_000_000, maxPromptEnds: 16_384, maxSaved: 64 } as const;
