/**
 * Decides beforehand what an answer will show with each of its tokens: where it ends, and which text a stop string holds back.
 * Pure; the engine only counts the tokens.
 */
import type { CannedAnswer } from './canned-text.ts';
import type { ChoicePlan } from './sequence.ts';

export interface OutputAsk {
  /** At least 1. */
  readonly maxTokens: number;
  readonly ignoreEnd: boolean;
  readonly stops: readonly string[];
  /**
   * How text is held back while it might still become a stop string: `always` the longest stop string's length less one
   * (vLLM), or only what `looks_like` the beginning of one (llama.cpp).
   */
  readonly holdBack: 'always' | 'looks_like';
}

export interface OutputPlan extends ChoicePlan {
  readonly output: CannedAnswer;
  /** Text shown with each token; empty when there is none. */
  readonly deltas: readonly string[];
  /** The last token is the end token, which has no text. */
  readonly endsByEndToken: boolean;
  /** The stop string that ended it. */
  readonly stopString?: string;
  /** All of it. */
  readonly text: string;
}

/** Id of the end token in lists of token ids. */
export const endTokenId = 2;

export function planOutput(answer: CannedAnswer, ask: OutputAsk): OutputPlan {
  // The end token counts as a token, so an answer of n tokens of text has n + 1.
  const endsByItself = !ask.ignoreEnd && answer.naturalTokens + 1 <= ask.maxTokens;
  const textTokens = endsByItself ? answer.naturalTokens : ask.maxTokens;
  if (ask.stops.length > 0) return planWithStops(answer, ask, { textTokens, endsByItself });
  const deltas = Array.from({ length: textTokens }, (_, index) => answer.pieceAt(index));
  const text = deltas.join('');
  if (endsByItself) deltas.push('');
  return {
    output: answer,
    outputTokens: deltas.length,
    endsBy: endsByItself ? 'stop' : 'length',
    deltas,
    endsByEndToken: endsByItself,
    text,
  };
}

interface TextEnd {
  readonly textTokens: number;
  readonly endsByItself: boolean;
}

function planWithStops(answer: CannedAnswer, ask: OutputAsk, end: TextEnd): OutputPlan {
  const deltas: string[] = [];
  let text = '';
  let shown = 0;
  for (let index = 0; index < end.textTokens; index += 1) {
    text += answer.pieceAt(index);
    const stop = firstStop(text, ask.stops, shown);
    if (stop !== undefined) {
      deltas.push(text.slice(shown, stop.at));
      return {
        output: answer,
        outputTokens: deltas.length,
        endsBy: 'stop',
        deltas,
        endsByEndToken: false,
        stopString: stop.text,
        text: text.slice(0, stop.at),
      };
    }
    const isLast = index === end.textTokens - 1 && !end.endsByItself;
    const visible = isLast ? text.length : text.length - heldBack(text, ask);
    deltas.push(text.slice(shown, Math.max(shown, visible)));
    shown = Math.max(shown, visible);
  }
  // What was held back comes with the end token.
  if (end.endsByItself) deltas.push(text.slice(shown));
  return {
    output: answer,
    outputTokens: deltas.length,
    endsBy: end.endsByItself ? 'stop' : 'length',
    deltas,
    endsByEndToken: end.endsByItself,
    text,
  };
}

function firstStop(text: string, stops: readonly string[], from: number): { at: number; text: string } | undefined {
  let first: { at: number; text: string } | undefined;
  for (const stop of stops) {
    const at = stop === '' ? -1 : text.indexOf(stop, from);
    if (at >= 0 && (first === undefined || at < first.at)) first = { at, text: stop };
  }
  return first;
}

/** Characters at the end that may not be shown yet. */
function heldBack(text: string, ask: OutputAsk): number {
  const longest = Math.max(...ask.stops.map((stop) => stop.length)) - 1;
  if (ask.holdBack === 'always') return Math.max(0, longest);
  for (let length = Math.min(longest, text.length); length > 0; length -= 1) {
    if (ask.stops.some((stop) => stop.startsWith(text.slice(-length)))) return length;
  }
  return 0;
}
