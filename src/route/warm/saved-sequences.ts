/**
 * llama-server's prompt cache in RAM as it is believed to be: sequences in the order in which they were saved, the oldest
 * evicted first. Its size is told in MiB only, so that how many tokens fit is learnt: what was wanted and missing lay past
 * the end, what was there lay before it. What lies past the end is kept a while, since that belief may be wrong.
 * Source: the server's README (`--cache-ram`).
 */
import { contains, tokensOf, type Sequence } from './slot-sequence.ts';

export interface SavedSequences {
  /** The oldest first. */
  readonly list: readonly Sequence[];
  /** The first key of each, side by side: most are of no interest, and are told by it without being touched. */
  readonly heads: Float64Array;
  /** From this one on they are believed to be there; those before it to have been evicted. */
  readonly heldFrom: number;
  readonly heldTokens: number;
  add(sequence: Sequence): void;
  /** @returns whether it was there */
  remove(sequence: Sequence): boolean;
  /** Tokens from this one to the newest: what there must be room for, if this one is there. */
  depthOf(sequence: Sequence): number;
  noteThere(depthTokens: number): void;
  noteMissing(depthTokens: number, tokens: number): void;
  /** Its size is not known any more. */
  relearn(): void;
  clear(): void;
}

export interface SavedBounds {
  readonly sequences: number;
  /** of all sequences together: memory */
  readonly keys: number;
}

const provenKeep = 0.99;
const mistakenKeep = 0.9;

export function createSavedSequences(bounds: SavedBounds): SavedSequences {
  const list: Sequence[] = [];
  const heads = new Float64Array(bounds.sequences);
  let keys = 0;
  let heldFrom = 0;
  let heldTokens = 0;
  let roomTokens = Infinity;
  /** deepest that was there; fades, since another server may have less room under the same name */
  let provenTokens = 0;
  /** nearest that was missing, with nothing as deep found since */
  let doubtedTokens = Infinity;

  function drop(index: number): void {
    const [dropped] = list.splice(index, 1);
    keys -= dropped?.chunks ?? 0;
  }

  function measure(): void {
    list.forEach((sequence, index) => (heads[index] = sequence.keys[0] ?? 0));
    heldTokens = 0;
    heldFrom = list.length;
    while (heldFrom > 0) {
      const tokens = tokensOf(list[heldFrom - 1] ?? nothing);
      // The newest is kept whatever its size.
      if (heldFrom < list.length && heldTokens + tokens > roomTokens) return;
      heldTokens += tokens;
      heldFrom -= 1;
    }
  }

  return {
    list,
    heads,
    get heldFrom() {
      return heldFrom;
    },
    get heldTokens() {
      return heldTokens;
    },
    add(sequence) {
      for (let index = list.length - 1; index >= 0; index -= 1) {
        const other = list[index] ?? nothing;
        if (index >= heldFrom && contains(other, sequence)) return;
        if (contains(sequence, other)) drop(index);
      }
      list.push(sequence);
      keys += sequence.chunks;
      while (list.length > bounds.sequences || (keys > bounds.keys && list.length > 1)) drop(0);
      measure();
    },
    remove(sequence) {
      const index = list.indexOf(sequence);
      if (index < 0) return false;
      drop(index);
      measure();
      return true;
    },
    depthOf(sequence) {
      let tokens = 0;
      for (let index = list.length - 1; index >= 0; index -= 1) {
        tokens += tokensOf(list[index] ?? nothing);
        if (list[index] === sequence) return tokens;
      }
      return Infinity;
    },
    noteThere(depthTokens) {
      provenTokens = Math.max(provenTokens * provenKeep, depthTokens);
      roomTokens = Math.max(roomTokens, depthTokens);
      if (depthTokens >= doubtedTokens) doubtedTokens = Infinity;
      measure();
    },
    noteMissing(depthTokens, tokens) {
      // Nearer than others that were there: one of both was mistaken.
      provenTokens *= depthTokens <= provenTokens ? mistakenKeep : provenKeep;
      const most = Math.max(provenTokens, Math.min(roomTokens, depthTokens - tokens / 2, doubtedTokens));
      // A single one may never have been saved.
      if (doubtedTokens < Infinity) roomTokens = most;
      doubtedTokens = Math.min(doubtedTokens, depthTokens);
      measure();
    },
    relearn() {
      roomTokens = Infinity;
      provenTokens = 0;
      doubtedTokens = Infinity;
      measure();
    },
    clear() {
      list.length = 0;
      keys = 0;
      measure();
    },
  };
}

const nothing: Sequence = { keys: new Float64Array(0), chunks: 0, whole: false, promptTokens: 0, answerTokens: 0 };
