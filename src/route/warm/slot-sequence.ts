/**
 * What one slot of llama-server has: a prompt and the answer behind it; and how much of another prompt that is. Pure. Keys
 * are chained, so that equal keys at one place mean equal chunks up to there.
 */
import { answerSentBack, type PromptView } from './prompt-view.ts';

export interface Sequence {
  readonly keys: Float64Array;
  /** leading chunks that it has */
  readonly chunks: number;
  /** it has its prompt as a whole, and that ends where its last chunk does */
  readonly whole: boolean;
  readonly promptTokens: number;
  /** computed behind the prompt */
  readonly answerTokens: number;
}

export function sequenceOf(
  { chain, promptTokens, tokensAt }: PromptView,
  told: { readonly promptTokens?: number | undefined; readonly outputTokens?: number | undefined },
): Sequence {
  const { keys, ends, bytes } = chain;
  const last = keys.length - 1;
  // Of a prompt with more chunks than are kept, what lies behind them is not compared.
  if (ends[last] !== bytes)
    return { keys, chunks: keys.length, whole: false, promptTokens: Math.round(tokensAt[last] ?? 0), answerTokens: 0 };
  return {
    keys,
    chunks: keys.length,
    whole: true,
    promptTokens: told.promptTokens ?? promptTokens,
    // The last token is sampled, and never computed.
    answerTokens: Math.max(0, (told.outputTokens ?? 0) - 1),
  };
}

/** Its first `chunks` chunks, of so many tokens. */
export function beginningOf({ keys }: Sequence, chunks: number, tokens: number): Sequence | undefined {
  return chunks === 0 ? undefined : { keys, chunks, whole: false, promptTokens: tokens, answerTokens: 0 };
}

export function tokensOf({ promptTokens, answerTokens }: Sequence): number {
  return promptTokens + answerTokens;
}

/** Chunks in common. @param known so many are in common for sure */
export function commonChunks(sequence: Sequence, keys: Float64Array, known = 0): number {
  let low = known;
  let high = Math.min(sequence.chunks, keys.length);
  // Nearly all have either nothing more in common, or everything.
  if (low < high && sequence.keys[low] !== keys[low]) return low;
  if (low < high && sequence.keys[high - 1] === keys[high - 1]) return high;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sequence.keys[middle - 1] === keys[middle - 1]) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Tokens in common, where so many chunks are. */
export function commonTokens(sequence: Sequence, view: PromptView, chunks: number): number {
  if (chunks === 0) return 0;
  const { chain, tokensAt, promptTokens } = view;
  const most = Math.min(tokensOf(sequence), promptTokens);
  if (chunks === chain.keys.length && chain.ends[chunks - 1] === chain.bytes) return most;
  if (chunks < sequence.chunks) {
    const tokens = view.forks.tokensAt(chain.keys[chunks - 1] ?? 0) ?? tokensAt[chunks - 1] ?? 0;
    return Math.min(most, Math.round(tokens));
  }
  if (!sequence.whole) return most;
  const answer = view.answersKept ? answerSentBack(view, chunks, sequence.answerTokens) : 0;
  return Math.min(most, sequence.promptTokens + answer);
}

/** Everything that `inner` has is in `outer` too: the same prompt, or one that goes on behind it. */
export function contains(outer: Sequence, inner: Sequence): boolean {
  if (inner.chunks > outer.chunks || inner.keys[inner.chunks - 1] !== outer.keys[inner.chunks - 1]) return false;
  return inner.chunks < outer.chunks || tokensOf(inner) <= tokensOf(outer);
}
