/**
 * What hit accounting finds amiss, as sightings for the ledger: prompts that change near their start, prefixes too short for
 * a block of the cache, engines that don't tell their cached tokens, predictions that drift. Pure.
 */
import type { FindingName, Observation } from '../findings/finding.ts';
import { round } from '../findings/window.ts';
import type { DivergenceRow } from './divergence-table.ts';
import type { HitSums } from './hit-sums.ts';
import { type HitReading, joined } from './hit-windows.ts';
import { placeText, remedyText } from './place-text.ts';

export const hitFindingNames = [
  'unstable_prompt_start',
  'prefix_too_short_for_block',
  'cached_tokens_untold',
  'prediction_drift',
] as const satisfies readonly FindingName[];

/** What was seen of all backends in the last five minutes. */
export interface HitsSeen {
  readonly nowMs: number;
  readonly readings: readonly HitReading[];
  /** for how long warmlane has been looking */
  readonly sinceMs: number;
  readonly divergences: readonly DivergenceRow[];
  /** tokens of a block of the backend's cache, if it has such */
  readonly blockTokens: (backend: string) => number | undefined;
  readonly holds: (finding: FindingName, backend: string) => boolean;
}

/** In the place of a backend's name where a finding is about prompts, whoever gets them. */
export const everyBackend = 'all';

const unstableMs = 600_000;
/** Beside the first one, from which they differ. */
const leastUnstable = 4;
const leastShort = 5;
/** Of the prompt tokens of a backend: a few short prompts among long ones cost nothing. */
const leastShortShare = 0.5;
const leastUntold = 20;
const leastDriftAnswers = 20;
const driftMs = 300_000;
const driftFrom = 0.1;
/** Once named, it holds until the bias is this small. */
const driftHeldBy = 0.07;

/** @returns only what is sighted now */
export function findInHits(seen: HitsSeen): readonly Observation[] {
  const found: (Observation | undefined)[] = [findUnstableStart(seen)];
  for (const backend of new Set(seen.readings.map((reading) => reading.backend))) {
    const sums = joined(seen.readings.filter((reading) => reading.backend === backend).map((reading) => reading.sums));
    found.push(findTooShort(backend, sums, seen), findUntold(backend, sums), findDrift(backend, sums, seen));
  }
  return found.filter((one) => one !== undefined);
}

/** C149: the place where most is lost; how many there are is said beside it. */
function findUnstableStart({ divergences, nowMs }: HitsSeen): Observation | undefined {
  const places = divergences.flatMap((row) => {
    const early = row.early.filter(({ atMs }) => atMs > nowMs - unstableMs);
    if (early.length < leastUnstable) return [];
    const promptTokens = early.reduce((sum, one) => sum + one.promptTokens, 0);
    const lostTokens = early.reduce((sum, one) => sum + one.lostTokens, 0);
    return [{ row, prompts: early.length, promptTokens, lostTokens }];
  });
  const worst = places.toSorted((a, b) => b.lostTokens - a.lostTokens)[0];
  if (worst === undefined) return undefined;
  const { row, prompts, promptTokens, lostTokens } = worst;
  const lostPercent = round((100 * lostTokens) / promptTokens, 1);
  return {
    finding: 'unstable_prompt_start',
    backend: everyBackend,
    sighting: {
      weight: lostTokens,
      says:
        `the last ${prompts} long prompts for ${row.model} changed near their start before text that was seen already, and ` +
        `${lostPercent} % of them can come from no cache; ${remedyText(row.place)}`,
      evidence: {
        model: row.model,
        place: placeText(row.place),
        prompts,
        promptTokens,
        lostTokens,
        lostPercent,
        places: places.length,
        ...(row.examples.length === 0 ? {} : { examples: row.examples.join(' ') }),
      },
    },
  };
}

/** C152: no hit, rightly: what these prompts share is shorter than a block. */
function findTooShort(backend: string, sums: HitSums, { blockTokens }: HitsSeen): Observation | undefined {
  const { tooShortAnswers, tooShortTokens, promptTokens } = sums;
  if (tooShortAnswers < leastShort || tooShortTokens < leastShortShare * promptTokens) return undefined;
  const block = blockTokens(backend);
  const size = block === undefined ? 'one block of its cache' : `one block of its cache (${block} tokens)`;
  return {
    finding: 'prefix_too_short_for_block',
    backend,
    sighting: {
      weight: tooShortTokens,
      says: `${tooShortAnswers} answers had no hit though their prompts began like earlier ones: what they share is shorter than ${size}`,
      evidence: {
        answers: tooShortAnswers,
        promptTokens: tooShortTokens,
        ...(block === undefined ? {} : { blockTokens: block }),
      },
    },
  };
}

/** C153: nothing is known, which is not a miss. */
function findUntold(backend: string, { untoldAnswers, toldAnswers, unpredictedAnswers }: HitSums) {
  if (toldAnswers + unpredictedAnswers > 0 || untoldAnswers < leastUntold) return undefined;
  return {
    finding: 'cached_tokens_untold',
    backend,
    sighting: {
      weight: untoldAnswers,
      says:
        `none of the last ${untoldAnswers} answers told how much of its prompt was cached: whether the prefix cache works ` +
        'is not known (vLLM: --enable-prompt-tokens-details; SGLang: --enable-cache-report)',
      evidence: { untoldAnswers },
    },
  } as const;
}

function findDrift(backend: string, sums: HitSums, { sinceMs, holds }: HitsSeen): Observation | undefined {
  const { bias, error } = sums;
  if (bias === undefined || error === undefined || sinceMs < driftMs) return undefined;
  const least = holds('prediction_drift', backend) ? driftHeldBy : driftFrom;
  if (sums.toldAnswers < leastDriftAnswers || Math.abs(bias) <= least) return undefined;
  const points = round(100 * bias, 1);
  const which =
    bias > 0
      ? 'more is predicted to be cached than the engine delivers: it has less room than is believed, or somebody else fills it'
      : 'the engine delivers more than is predicted: it has more room than is believed, or somebody else warms it';
  return {
    finding: 'prediction_drift',
    backend,
    sighting: {
      weight: Math.abs(bias),
      says: `predicted cached tokens are off by ${points > 0 ? '+' : ''}${points} points of the prompt tokens over five minutes; ${which}`,
      evidence: {
        biasPoints: points,
        errorPoints: round(100 * error, 1),
        answers: sums.toldAnswers,
        promptTokens: sums.promptTokens,
      },
    },
  };
}
