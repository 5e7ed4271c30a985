/**
 * What warm-ups have brought where, until it is used: so that the time they saved can be told. Pure but for its own state.
 *
 * Saved seconds of one warm-up: of the first online request behind it that begins with its prompt, the cached tokens that
 * the engine told, as far as they lie within what the warm-up computed, at the pace at which it was computed. Later requests
 * count nothing: without the warm-up the first one would have warmed the prompt for them. A request that finds nothing, or
 * whose engine doesn't tell, ends the matter with nothing saved.
 */
import type { PrefixChain } from '../domain/prefix.ts';

export interface WarmedPrompt {
  /** Last chunk of the warmed beginning: its place and its key. */
  readonly chunk: number;
  readonly key: number;
  /** Tokens that were cached there before, and tokens of the whole. */
  readonly fromTokens: number;
  readonly toTokens: number;
  readonly tokensPerSecond: number;
}

export interface Warmed {
  add(backend: string, prompt: WarmedPrompt): void;
  /** An online request has had its prompt computed there. @returns seconds that it did not wait; undefined: it met no warm-up */
  used(backend: string, chain: PrefixChain, cachedTokens: number | undefined): number | undefined;
  /** Nothing of it is there any more. */
  forget(backend: string): void;
}

/** @param maxPrompts of one backend */
export function createWarmed(maxPrompts: number): Warmed {
  const byBackend = new Map<string, WarmedPrompt[]>();

  return {
    add(backend, prompt) {
      const prompts = (byBackend.get(backend) ?? []).filter(({ key }) => key !== prompt.key);
      prompts.push(prompt);
      byBackend.set(backend, prompts.slice(-maxPrompts));
    },
    used(backend, chain, cachedTokens) {
      const prompts = byBackend.get(backend);
      if (prompts === undefined) return undefined;
      const met = prompts.filter(({ chunk, key }) => chain.keys[chunk] === key);
      if (met.length === 0) return undefined;
      byBackend.set(
        backend,
        prompts.filter((prompt) => !met.includes(prompt)),
      );
      // One may lie within another: the longest has it all.
      const seconds = met.map((prompt) => savedSeconds(prompt, cachedTokens ?? 0));
      return Math.max(...seconds);
    },
    forget(backend) {
      byBackend.delete(backend);
    },
  };
}

function savedSeconds({ fromTokens, toTokens, tokensPerSecond }: WarmedPrompt, cachedTokens: number): number {
  return Math.max(0, Math.min(cachedTokens, toTokens) - fromTokens) / tokensPerSecond;
}
