/**
 * What a run may cost: requests, prompt tokens, time. Counts what is spent and refuses what would go beyond, so that the
 * budget that was stated before the start holds whatever happens.
 */
import type { Clock } from '../../platform/clock.ts';

export interface Budget {
  readonly requests: number;
  readonly promptTokens: number;
  readonly timeoutMs: number;
}

export interface Purse {
  /** Takes one generating request out of it; false: it is empty. */
  take(promptTokens: number): boolean;
  /** 0 when the time is over. */
  leftMs(): number;
  readonly spent: { readonly requests: number; readonly promptTokens: number; readonly ms: number };
}

export function createPurse(budget: Budget, clock: Clock): Purse {
  const startMs = clock.nowMs();
  let requests = 0;
  let promptTokens = 0;
  const leftMs = () => Math.max(0, budget.timeoutMs - (clock.nowMs() - startMs));
  return {
    take(tokens) {
      if (requests >= budget.requests || promptTokens + tokens > budget.promptTokens || leftMs() === 0) return false;
      requests += 1;
      promptTokens += tokens;
      return true;
    },
    leftMs,
    get spent() {
      return { requests, promptTokens, ms: Math.round(clock.nowMs() - startMs) };
    },
  };
}

/** A budget in words, for before the start. */
export function budgetText({ requests, promptTokens, timeoutMs }: Budget): string {
  const tokens = promptTokens.toLocaleString('en-GB');
  return `at most ${requests} generating requests, ${tokens} prompt tokens, ${Math.round(timeoutMs / 1000)} s`;
}
