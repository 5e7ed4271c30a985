/** How a request met the prefix cache. Pure. */
import type { Warmth } from '../domain/names.ts';
import type { TokenCounts } from '../domain/record.ts';

/**
 * `prefix_hit` when at least the given share of the prompt came from the cache, `resident` when less did, `unknown` when
 * the engine didn't say: absent is not zero.
 */
export function warmthOf(
  tokens: TokenCounts,
  how: { readonly coldStart: boolean; readonly prefixHitShare: number },
): Warmth {
  if (how.coldStart) return 'cold_start';
  const { prompt, cached } = tokens;
  if (prompt === undefined || cached === undefined || prompt.value === 0) return 'unknown';
  return cached.value / prompt.value >= how.prefixHitShare ? 'prefix_hit' : 'resident';
}
