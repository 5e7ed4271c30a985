/** Hit sums as the page `/cache` shows them: tokens, per cent of the one denominator, points. Absent is not 0. Pure. */
import type { MissCause } from '../../domain/routing.ts';
import { type HitSums, ratio } from './hit-sums.ts';

export function hitsView(sums: HitSums): object {
  const { coverage, untoldAnswers, unpredictedAnswers, toldAnswers } = sums;
  return {
    answers: {
      told: toldAnswers,
      untold: untoldAnswers,
      ...percent('coveragePercent', coverage),
    },
    ...(toldAnswers === 0 ? {} : toldView(sums)),
    ...(unpredictedAnswers === 0 ? {} : { unpredicted: unpredictedView(sums) }),
  };
}

function toldView(sums: HitSums): object {
  const { promptTokens, reusableTokens, capturedTokens, deliveredTokens, clampedAnswers } = sums;
  const of = (tokens: number) => ratio(tokens, promptTokens);
  return {
    promptTokens,
    reusableTokens,
    capturedTokens,
    deliveredTokens,
    ...percent('reusablePercent', of(reusableTokens)),
    ...percent('capturedPercent', of(capturedTokens)),
    ...percent('deliveredPercent', of(deliveredTokens)),
    avoidableMissTokens: reusableTokens - capturedTokens,
    prediction: {
      falseHitTokens: sums.falseHitTokens,
      falseMissTokens: sums.falseMissTokens,
      ...percent('biasPoints', sums.bias),
      ...percent('errorPoints', sums.error),
    },
    missedTokens: promptTokens - deliveredTokens,
    missed: missedView((cause) => sums.missedBy(cause)),
    ...(clampedAnswers === 0 ? {} : { clampedAnswers }),
  };
}

function unpredictedView(sums: HitSums): object {
  const { unpredictedAnswers, unpredictedPromptTokens, unpredictedDeliveredTokens } = sums;
  return {
    answers: unpredictedAnswers,
    promptTokens: unpredictedPromptTokens,
    deliveredTokens: unpredictedDeliveredTokens,
    ...percent('deliveredPercent', ratio(unpredictedDeliveredTokens, unpredictedPromptTokens)),
  };
}

/** Each by a name that has its unit. */
export function missedView(tokensOf: (cause: MissCause) => number): object {
  return {
    newTokens: tokensOf('new'),
    divergedTokens: tokensOf('diverged'),
    evictedTokens: tokensOf('evicted'),
    reroutedTokens: tokensOf('rerouted'),
    restartedTokens: tokensOf('restarted'),
    unalignedTokens: tokensOf('unaligned'),
    notDeliveredTokens: tokensOf('not_delivered'),
  };
}

function percent(key: string, share: number | undefined): object {
  return share === undefined ? {} : { [key]: 100 * share };
}
