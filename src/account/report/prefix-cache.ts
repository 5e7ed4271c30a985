/**
 * Reusable, captured and delivered prompt tokens of a log, and why the rest was missed: the sums of `/cache` over the same
 * answers, those that told their cached tokens and whose prompt was known to routing. Bounded; rates are made of sums.
 */
import { generates, type Row } from './row.ts';
import { otherName, ownText, Tally } from './tally.ts';

export interface PrefixCacheResult {
  readonly all: PrefixCacheSums;
  readonly byBackend: Readonly<Record<string, PrefixCacheSums>>;
  /** where prompts differed from the nearest one seen: tokens that no backend held, by place, the largest first */
  readonly divergences: readonly DivergenceSum[];
}

export interface PrefixCacheSums {
  readonly answers: number;
  readonly promptTokens: number;
  readonly reusableTokens: number;
  readonly capturedTokens: number;
  readonly deliveredTokens: number;
  /** predicted and not delivered; delivered and not predicted */
  readonly falseHitTokens: number;
  readonly falseMissTokens: number;
  /** shares of `promptTokens`; absent without any */
  readonly reusable?: number;
  readonly captured?: number;
  readonly delivered?: number;
  readonly bias?: number;
  readonly error?: number;
  /** tokens by cause */
  readonly missed: Readonly<Record<string, number>>;
}

export interface DivergenceSum {
  readonly place: string;
  readonly requests: number;
  readonly lostTokens: number;
}

export interface PrefixCacheAccount {
  add(row: Row): void;
  result(): PrefixCacheResult;
}

const mostBackends = 64;
const mostPlaces = 10;

export function createPrefixCacheAccount(): PrefixCacheAccount {
  const all = new Sums();
  const byBackend = new Map<string, Sums>();
  const requestsAt = new Tally();
  const lostAt = new Tally();

  function ofBackend(name: string): Sums {
    const key = byBackend.has(name) || byBackend.size < mostBackends ? name : otherName;
    const known = byBackend.get(key);
    if (known !== undefined) return known;
    const made = new Sums();
    byBackend.set(ownText(key), made);
    return made;
  }

  return {
    add(row) {
      if (!generates(row) || row.warmth === 'replayed' || row.marks.includes('warm_up')) return;
      const { promptTokens, cachedTokens, predictedTokens, reusableTokens, divergedAt, backend } = row;
      if (divergedAt !== undefined && promptTokens !== undefined) {
        requestsAt.add(divergedAt);
        lostAt.add(divergedAt, Math.max(0, promptTokens - (reusableTokens ?? 0)));
      }
      if (promptTokens === undefined || cachedTokens === undefined || predictedTokens === undefined) return;
      const predicted = Math.min(predictedTokens, promptTokens);
      const told = {
        prompt: promptTokens,
        delivered: Math.min(cachedTokens, promptTokens),
        predicted,
        reusable: Math.min(Math.max(reusableTokens ?? predicted, predicted), promptTokens),
        missed: row.missed ?? [],
      };
      all.add(told);
      if (backend !== undefined) ofBackend(backend).add(told);
    },
    result: () => ({
      all: all.result(),
      byBackend: Object.fromEntries([...byBackend].map(([name, sums]) => [name, sums.result()])),
      divergences: lostAt
        .entries()
        .slice(0, mostPlaces)
        .map(({ name, count }) => ({ place: name, requests: requestsAt.get(name), lostTokens: count })),
    }),
  };
}

interface Told {
  readonly prompt: number;
  readonly delivered: number;
  readonly predicted: number;
  readonly reusable: number;
  readonly missed: NonNullable<Row['missed']>;
}

class Sums {
  #answers = 0;
  #prompt = 0;
  #reusable = 0;
  #captured = 0;
  #delivered = 0;
  #falseHit = 0;
  #falseMiss = 0;
  readonly #missed = new Tally(20);

  add({ prompt, delivered, predicted, reusable, missed }: Told): void {
    this.#answers += 1;
    this.#prompt += prompt;
    this.#reusable += reusable;
    this.#captured += predicted;
    this.#delivered += delivered;
    this.#falseHit += Math.max(0, predicted - delivered);
    this.#falseMiss += Math.max(0, delivered - predicted);
    for (const { cause, tokens } of missed) this.#missed.add(cause, tokens);
  }

  result(): PrefixCacheSums {
    const prompt = this.#prompt;
    const [falseHit, falseMiss] = [this.#falseHit, this.#falseMiss];
    return {
      answers: this.#answers,
      promptTokens: prompt,
      reusableTokens: this.#reusable,
      capturedTokens: this.#captured,
      deliveredTokens: this.#delivered,
      falseHitTokens: falseHit,
      falseMissTokens: falseMiss,
      ...(prompt === 0
        ? {}
        : {
            reusable: this.#reusable / prompt,
            captured: this.#captured / prompt,
            delivered: this.#delivered / prompt,
            bias: (falseHit - falseMiss) / prompt,
            error: (falseHit + falseMiss) / prompt,
          }),
      missed: this.#missed.toJson(),
    };
  }
}
