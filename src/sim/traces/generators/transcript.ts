/** A prompt that grows: what stands in it stays its beginning. */
import type { FreshIds } from '../trace.ts';

/** Tokens of one id in generated traces. */
export const hashTokens = 64;

export interface Transcript {
  readonly tokens: number;
  readonly ids: readonly number[];
}

/** Text that nobody else has. */
export function newText(tokens: number, fresh: FreshIds): Transcript {
  return { tokens, ids: fresh(tokens, hashTokens) };
}

/** More text behind it. The last id stood for fewer tokens than it could, so it is another one now. */
export function continued(before: Transcript, tokens: number, fresh: FreshIds): Transcript {
  const whole = Math.floor(before.tokens / hashTokens);
  const all = before.tokens + tokens;
  return { tokens: all, ids: [...before.ids.slice(0, whole), ...fresh(all - whole * hashTokens, hashTokens)] };
}
