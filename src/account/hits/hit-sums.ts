/**
 * Hits and misses of many answers, as sums of tokens. Rates are made of the sums, never of other rates: a long prompt
 * counts for what it is. Numbers only; knows no time.
 */
import type { MissedTokens } from '../../domain/assessment.ts';
import type { MissCause } from '../../domain/routing.ts';
import type { AnswerHit } from './answer-hit.ts';
import { missCauses } from './miss-causes.ts';

/** What is said of an answer beside its tokens. */
export interface AnswerNotes {
  readonly missed: readonly MissedTokens[];
  /** its beginning was seen before, and is shorter than a block of the cache: nothing of it can ever be a hit */
  readonly tooShort: boolean;
}

export class HitSums {
  /** answers that told their cached tokens, of prompts that routing had read; all tokens here but the last two are of these */
  toldAnswers = 0;
  promptTokens = 0;
  reusableTokens = 0;
  capturedTokens = 0;
  deliveredTokens = 0;
  /** predicted and not delivered; delivered and not predicted */
  falseHitTokens = 0;
  falseMissTokens = 0;
  /** by the place of the cause in `missCauses` */
  readonly missed = new Float64Array(missCauses.length);
  /** answers that reported more cached tokens than their prompt has */
  clampedAnswers = 0;
  tooShortAnswers = 0;
  tooShortTokens = 0;
  /** whole answers that didn't tell */
  untoldAnswers = 0;
  /** answers that told, of prompts that nobody had read before they were sent */
  unpredictedAnswers = 0;
  unpredictedPromptTokens = 0;
  unpredictedDeliveredTokens = 0;

  add(hit: AnswerHit, { missed, tooShort }: AnswerNotes): void {
    if (hit.kind === 'untold') {
      this.untoldAnswers += 1;
      return;
    }
    const { promptTokens, deliveredTokens } = hit;
    if (hit.kind === 'unpredicted') {
      this.unpredictedAnswers += 1;
      this.unpredictedPromptTokens += promptTokens;
      this.unpredictedDeliveredTokens += deliveredTokens;
      return;
    }
    const { predictedTokens } = hit;
    this.toldAnswers += 1;
    this.promptTokens += promptTokens;
    this.reusableTokens += hit.reusableTokens;
    this.capturedTokens += predictedTokens;
    this.deliveredTokens += deliveredTokens;
    this.falseHitTokens += Math.max(0, predictedTokens - deliveredTokens);
    this.falseMissTokens += Math.max(0, deliveredTokens - predictedTokens);
    for (const { cause, tokens } of missed) {
      const at = missCauses.indexOf(cause);
      this.missed[at] = (this.missed[at] ?? 0) + tokens;
    }
    if (hit.clamped) this.clampedAnswers += 1;
    if (!tooShort) return;
    this.tooShortAnswers += 1;
    this.tooShortTokens += promptTokens;
  }

  join(other: HitSums): void {
    this.toldAnswers += other.toldAnswers;
    this.promptTokens += other.promptTokens;
    this.reusableTokens += other.reusableTokens;
    this.capturedTokens += other.capturedTokens;
    this.deliveredTokens += other.deliveredTokens;
    this.falseHitTokens += other.falseHitTokens;
    this.falseMissTokens += other.falseMissTokens;
    for (let at = 0; at < this.missed.length; at += 1)
      this.missed[at] = (this.missed[at] ?? 0) + (other.missed[at] ?? 0);
    this.clampedAnswers += other.clampedAnswers;
    this.tooShortAnswers += other.tooShortAnswers;
    this.tooShortTokens += other.tooShortTokens;
    this.untoldAnswers += other.untoldAnswers;
    this.unpredictedAnswers += other.unpredictedAnswers;
    this.unpredictedPromptTokens += other.unpredictedPromptTokens;
    this.unpredictedDeliveredTokens += other.unpredictedDeliveredTokens;
  }

  missedBy(cause: MissCause): number {
    return this.missed[missCauses.indexOf(cause)] ?? 0;
  }

  /** All causes, those of no token too. */
  *missedByCause(): Generator<readonly [MissCause, number], void> {
    for (const cause of missCauses) yield [cause, this.missedBy(cause)];
  }

  /** Answers of which it is known, or could be, how much of them was cached. */
  get answers(): number {
    return this.toldAnswers + this.unpredictedAnswers + this.untoldAnswers;
  }

  /** Share of them that told; undefined without any. */
  get coverage(): number | undefined {
    return ratio(this.toldAnswers + this.unpredictedAnswers, this.answers);
  }

  /** Predicted less delivered, as a share of the prompt tokens: above 0 it promises too much. */
  get bias(): number | undefined {
    return ratio(this.falseHitTokens - this.falseMissTokens, this.promptTokens);
  }

  /** Mean size of that difference, likewise. */
  get error(): number | undefined {
    return ratio(this.falseHitTokens + this.falseMissTokens, this.promptTokens);
  }
}

/** @returns undefined where there is nothing to divide by: never NaN (C158) */
export function ratio(part: number, of: number): number | undefined {
  return of > 0 ? part / of : undefined;
}
