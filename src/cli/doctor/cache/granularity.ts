/**
 * In which portions a cache gives hits: single tokens, or blocks of so many. From what was reported for prompts that
 * share different numbers of tokens with an earlier one. Pure.
 */

export interface HitPair {
  readonly cached: number;
  /** Tokens that could have been hit; absent: not known. */
  readonly shared?: { readonly tokens: number; readonly exact: boolean };
}

export type Granularity =
  | { readonly kind: 'tokens' }
  | { readonly kind: 'blocks'; readonly tokens: number }
  /** `atMost`: every hit is a multiple of it */
  | { readonly kind: 'unclear'; readonly atMost?: number };

/** Smaller ones are called single tokens: no engine has such blocks, and template and tokeniser blur them. */
const smallestBlock = 8;
/** llama-server leaves the last token of a match to be computed. */
const slack = 1;

export function granularityOf(pairs: readonly HitPair[]): Granularity {
  const hits = pairs.filter(({ cached }) => cached > 0);
  const sizes = new Set(hits.map(({ cached }) => cached));
  const divisor = [...sizes].reduce(greatestDivisor, 0);
  if (divisor === 0) return { kind: 'unclear' };
  const exact = hits.filter(({ shared }) => shared?.exact === true);
  const followed = exact.filter(({ cached, shared }) => (shared?.tokens ?? 0) - cached <= slack);
  if (exact.length >= 2 && followed.length === exact.length && divisor < largestCommon(exact))
    return { kind: 'tokens' };
  if (sizes.size < 2) return { kind: 'unclear', atMost: divisor };
  if (divisor < smallestBlock) {
    // Blocks would give a common divisor; where the shared length is known, hits must follow it closely as well.
    return exact.length === 0 || followed.length === exact.length
      ? { kind: 'tokens' }
      : { kind: 'unclear', atMost: divisor };
  }
  const fits = exact.every(({ cached, shared }) => {
    const left = (shared?.tokens ?? 0) - cached;
    return left >= 0 && left < divisor;
  });
  return fits ? { kind: 'blocks', tokens: divisor } : { kind: 'unclear', atMost: divisor };
}

/** Past this a divisor of hits that follow the shared length to the token can't be chance. */
function largestCommon(exact: readonly HitPair[]): number {
  const all = exact.every(({ cached, shared }) => (shared?.tokens ?? 0) === cached);
  return all ? Number.POSITIVE_INFINITY : 2 * smallestBlock;
}

function greatestDivisor(a: number, b: number): number {
  let [larger, smaller] = [a, b];
  while (smaller > 0) [larger, smaller] = [smaller, larger % smaller];
  return larger;
}
