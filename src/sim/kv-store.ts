/**
 * Where an engine keeps what it computed: the port that both caches implement. A store holds places and tokens; when to admit,
 * drop or abort is the engine's business.
 */
import type { SimPrompt } from './prompt.ts';
import type { Sequence } from './sequence.ts';

export interface SlotView {
  readonly id: number;
  readonly busy: boolean;
  /** Tokens in it: those of the running sequence, or of the last one. */
  readonly tokens: number;
}

export interface KvStore {
  /** Prompt tokens that a request would find now; touches nothing. */
  peek(prompt: SimPrompt): number;
  /**
   * Takes places for a request's sequences and room for the first `stepTokens` tokens of its prompt that are not there.
   * Sets `computedTokens` (and slot or blocks). All or nothing.
   */
  admit(sequences: readonly Sequence[], stepTokens: number): boolean;
  /** Could this request ever be admitted, were nothing else running? */
  fits(sequences: readonly Sequence[]): boolean;
  /** Makes room for `tokens` more computed tokens of a running sequence. */
  grow(sequence: Sequence, tokens: number): boolean;
  /** Longest a sequence may get, prompt and answer. */
  readonly maxSequenceTokens: number;
  /** What was computed may now be found by others. */
  offer(sequence: Sequence): void;
  /** Gives the place up; what it holds stays to be found until it is evicted. */
  release(sequence: Sequence): void;
  /** Forgets everything that no running sequence holds. */
  clear(): void;
  /** Share of the memory that running sequences hold, 0 to 1. */
  readonly usage: number;
  /** Tokens that are held for reuse or in use. */
  readonly heldTokens: number;
  /** Empty for a block store. */
  readonly slots: readonly SlotView[];
}
