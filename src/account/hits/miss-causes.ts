/**
 * Why prompt tokens did not come from a cache: each token that an engine computed has one cause, and the causes of an
 * answer add up to what it missed. Pure; `assess` notes the outcome on the record, and everything else reads it there.
 */
import type { MissedTokens } from '../../domain/assessment.ts';
import type { MissCause, RouteNote } from '../../domain/routing.ts';

/** In the order in which pages show them. A record, so that none can be forgotten. */
const causes: Readonly<Record<MissCause, true>> = {
  new: true,
  diverged: true,
  evicted: true,
  rerouted: true,
  restarted: true,
  unaligned: true,
  not_delivered: true,
};

// Every key of the table is one of its names.
export const missCauses = Object.keys(causes) as readonly MissCause[];

/** One answer that told its cached tokens, in tokens of its prompt: nothing in it is more than the prompt. */
export interface ToldAnswer {
  readonly promptTokens: number;
  /** best held anywhere, by what was believed at dispatch; at least `predictedTokens` */
  readonly reusableTokens: number;
  /** held where it was sent, likewise */
  readonly predictedTokens: number;
  /** what the engine reported */
  readonly deliveredTokens: number;
}

/**
 * First the tokens that no cache could have had: the last one, which is always computed, and what fills no block. Then
 * what was predicted and did not come; then what another backend held. The rest has the cause that the decision named.
 * @param blockTokens of the engine's cache; 1 where it reuses token by token, or is not known to have blocks
 */
export function missesOf(
  answer: ToldAnswer,
  note: Pick<RouteNote, 'cause' | 'divergence'>,
  blockTokens: number,
): readonly MissedTokens[] {
  const { promptTokens, reusableTokens, predictedTokens, deliveredTokens } = answer;
  let left = promptTokens - deliveredTokens;
  const misses: MissedTokens[] = [];
  const take = (cause: MissCause, most: number) => {
    const tokens = Math.min(left, most);
    if (tokens <= 0) return;
    left -= tokens;
    const before = misses.findIndex((miss) => miss.cause === cause);
    if (before < 0) misses.push({ cause, tokens });
    else misses[before] = { cause, tokens: tokens + (misses[before]?.tokens ?? 0) };
  };
  take('unaligned', tailOf(promptTokens, blockTokens));
  take('not_delivered', predictedTokens - deliveredTokens);
  take('rerouted', reusableTokens - Math.max(predictedTokens, deliveredTokens));
  take(restOf(note), left);
  return misses;
}

/** Tokens at a prompt's end that an engine computes whatever it holds. */
function tailOf(promptTokens: number, blockTokens: number): number {
  if (promptTokens <= 0) return 0;
  return promptTokens - Math.floor((promptTokens - 1) / blockTokens) * blockTokens;
}

/** What nobody held: a decision that was turned away from a warm backend says nothing of that part. */
function restOf({ cause, divergence }: Pick<RouteNote, 'cause' | 'divergence'>): MissCause {
  if (cause === undefined) return 'not_delivered';
  if (cause !== 'rerouted') return cause;
  return divergence === undefined ? 'evicted' : 'diverged';
}
