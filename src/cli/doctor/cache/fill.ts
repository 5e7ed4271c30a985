/**
 * Fills a cache to find its size (`--fill`): is a prompt still found after so many tokens of others? Doubles until it is
 * not, then halves the gap. The choice of the next step is pure; the asking is below it.
 */
import type { Asker } from '../asker.ts';
import { finding, type Finding } from '../finding.ts';
import type { Seen } from '../wire.ts';
import { createPromptMaker } from './prompts.ts';

export interface FillRound {
  /** Tokens of other prompts that were sent in between. */
  readonly tokens: number;
  readonly kept: boolean;
}

/** Halved until the borders are this near. */
const nearEnough = 1.3;

/** @returns tokens to send next; undefined: near enough, or past `most` */
export function nextFill(rounds: readonly FillRound[], firstTokens: number, mostTokens: number): number | undefined {
  const kept = Math.max(0, ...rounds.filter((round) => round.kept).map(({ tokens }) => tokens));
  const lost = Math.min(Number.POSITIVE_INFINITY, ...rounds.filter((round) => !round.kept).map(({ tokens }) => tokens));
  if (lost === Number.POSITIVE_INFINITY) {
    const next = kept === 0 ? firstTokens : kept * 2;
    return next <= mostTokens ? next : undefined;
  }
  if (lost <= kept * nearEnough || lost - kept <= firstTokens) return undefined;
  return Math.round((kept + lost) / 2);
}

/** All rounds together, at worst: doubling up to twice the size, then halving the last gap. */
export function fillCost(
  mostTokens: number,
  longTokens: number,
): { readonly requests: number; readonly promptTokens: number } {
  const promptTokens = Math.ceil(mostTokens * 5);
  return { promptTokens, requests: Math.ceil(promptTokens / longTokens) + 40 };
}

export async function fillCache(
  asker: Asker,
  { longTokens, mostTokens }: { readonly longTokens: number; readonly mostTokens: number },
): Promise<Finding> {
  const prompts = createPromptMaker(asker);
  const rounds: FillRound[] = [];
  const send = (prompt: ReturnType<typeof prompts.fresh>): Promise<Seen | undefined> =>
    asker.chat({ messages: prompt.messages, maxTokens: 1, stream: true, promptTokens: prompt.words + 30 });
  const check = 'cache.fill';
  for (
    let next = nextFill(rounds, longTokens, mostTokens);
    next !== undefined;
    next = nextFill(rounds, longTokens, mostTokens)
  ) {
    const anchor = prompts.fresh(longTokens);
    const first = await send(anchor);
    if (first?.status !== 200)
      return finding(check, 'unknown', 'not finished: the budget is spent, or a request failed');
    prompts.learn(anchor, first.usage?.prompt);
    for (let sent = 0; sent < next; sent += longTokens) {
      const other = await send(prompts.fresh(longTokens));
      if (other?.status !== 200)
        return finding(check, 'unknown', 'not finished: the budget is spent, or a request failed');
    }
    const again = await send(anchor);
    const cached = again?.usage?.cached ?? again?.timings?.cached;
    if (cached === undefined)
      return finding(check, 'unknown', 'hits are not reported, so filling the cache shows nothing');
    // Its tail goes first: half of it gone is gone.
    rounds.push({ tokens: next, kept: cached >= longTokens / 2 });
  }
  return judgeFill(rounds);
}

export function judgeFill(rounds: readonly FillRound[]): Finding {
  const kept = Math.max(0, ...rounds.filter((round) => round.kept).map(({ tokens }) => tokens));
  const lost = rounds.filter((round) => !round.kept).map(({ tokens }) => tokens);
  if (rounds.length === 0) return finding('cache.fill', 'unknown', 'not tried');
  return lost.length === 0
    ? finding('cache.fill', 'ok', `holds more than ${kept} tokens: filled no further`)
    : finding('cache.fill', 'ok', `holds between ${kept} and ${Math.min(...lost)} tokens of other prompts`);
}
