/**
 * How fast a backend computes prompts: the slope of the time to the first token over the prompt tokens that had to be
 * computed. Robust: medians of bins, then the median slope between these, so that requests which queued don't bend it.
 * Bounded to the latest requests; older ones weigh less. Says how far it can be believed. Pure state, time is given.
 */
import type { RequestRecord } from '../../domain/record.ts';
import { promptOf } from './request-cost.ts';
import { weightedMedian, type Weighted } from './weighted-median.ts';

export interface PrefillRate {
  /** Prompt tokens computed in a second, for the next token of a prompt; what the fixed part takes comes on top. */
  readonly tokensPerSecond: number;
  /** What even the shortest prompt takes: network, queue, one step. May come out below 0 where long prompts are dearer. */
  readonly fixedMs: number;
  /** TPOT × rate: prompt tokens that take one stream as long as one of its output tokens; absent without a TPOT. */
  readonly inputTokensPerOutputToken?: number;
  /** The same by the engine's time: a step is shared with what decodes beside. */
  readonly inputTokensPerSharedOutputToken?: number;
  readonly confidence: 'good' | 'fair' | 'poor';
}

export interface PrefillEvidence {
  readonly requests: number;
  /** Share of the variance that the line explains; absent without a line. */
  readonly rSquared?: number;
  /** Fewest and most computed prompt tokens among them. */
  readonly fromTokens?: number;
  readonly toTokens?: number;
  /** `split`: the engine's queue is left out; `joint`: it can't be told apart; `mixed`: of some. */
  readonly timing?: 'split' | 'joint' | 'mixed';
  /** Share of requests whose engine didn't say what came from its cache: their prompts count as computed whole. */
  readonly cachedUnknownShare?: number;
}

export interface PrefillView extends PrefillEvidence {
  readonly rate?: PrefillRate;
  /** Why there is no rate. */
  readonly missing?: 'too_few_requests' | 'prompts_too_alike' | 'no_rise';
}

export interface PrefillLine {
  /** @returns whether it says anything of the rate */
  add(record: RequestRecord, nowMs: number): boolean;
  view(nowMs: number): PrefillView;
}

interface Seen {
  readonly atMs: number;
  readonly tokens: number;
  readonly ms: number;
  readonly split: boolean;
  readonly cachedKnown: boolean;
  readonly tpotMs: number | undefined;
  readonly concurrency: number | undefined;
}

const maxSeen = 256;
const windowMs = 3_600_000;
const halfLifeMs = 600_000;
const leastRequests = 12;
/** The bins' ends must be so far apart: below it the noise of a step is the slope. */
const leastSpreadTokens = 64;
const leastSpreadShare = 0.25;
const mostBins = 12;
const binRequests = 3;

export function createPrefillLine(): PrefillLine {
  const ring: (Seen | undefined)[] = [];
  let next = 0;
  return {
    add(record, nowMs) {
      const seen = seenOf(record, nowMs);
      if (seen === undefined) return false;
      ring[next] = seen;
      next = (next + 1) % maxSeen;
      return true;
    },
    view(nowMs) {
      const seen = ring.filter((one): one is Seen => one !== undefined && nowMs - one.atMs <= windowMs);
      return fit(seen, nowMs);
    },
  };
}

function seenOf(record: RequestRecord, atMs: number): Seen | undefined {
  const { figures, warmth, streamed, tokens } = record;
  if (!streamed || warmth === 'cold_start' || warmth === 'replayed') return undefined;
  const split = figures.prefillKind === 'split';
  const ms = split ? figures.prefillMs : figures.upstreamTtftMs;
  const prompt = promptOf(record);
  if (ms === undefined || prompt === undefined || prompt.computed < 1) return undefined;
  return {
    atMs,
    tokens: prompt.computed,
    ms,
    split,
    cachedKnown: tokens.cached !== undefined,
    tpotMs: figures.tpotMs,
    concurrency: record.assessment?.decodeConcurrency,
  };
}

function fit(seen: readonly Seen[], nowMs: number): PrefillView {
  const evidence = evidenceOf(seen);
  if (seen.length < leastRequests) return { ...evidence, missing: 'too_few_requests' };
  const points = seen.map((one) => ({ ...one, weight: weightOf(one, nowMs) })).toSorted((a, b) => a.tokens - b.tokens);
  const bins = binsOf(points);
  const low = bins[0]?.tokens ?? 0;
  const high = bins.at(-1)?.tokens ?? 0;
  if (high - low < Math.max(leastSpreadTokens, leastSpreadShare * high))
    return { ...evidence, missing: 'prompts_too_alike' };
  const slope = slopeOf(bins, (high - low) / mostBins);
  if (slope === undefined || slope <= 0) return { ...evidence, missing: 'no_rise' };
  const fixedMs = weightedMedian(points.map(({ tokens, ms, weight }) => ({ value: ms - slope * tokens, weight }))) ?? 0;
  const rSquared = explained(points, (tokens) => fixedMs + slope * tokens);
  const tokensPerSecond = 1000 / slope;
  return {
    ...evidence,
    rSquared,
    rate: {
      tokensPerSecond,
      fixedMs,
      ...weightsOf(points, tokensPerSecond),
      confidence: confidenceOf(evidence, rSquared),
    },
  };
}

interface Point extends Seen {
  readonly weight: number;
}

function weightOf({ atMs }: Seen, nowMs: number): number {
  return 2 ** -((nowMs - atMs) / halfLifeMs);
}

interface Bin {
  readonly tokens: number;
  readonly ms: number;
  readonly weight: number;
}

/** Bins of equally many requests, in the order of their prompts, each with its medians. */
function binsOf(points: readonly Point[]): Bin[] {
  const count = Math.max(2, Math.min(mostBins, Math.floor(points.length / binRequests)));
  return Array.from({ length: count }, (_, bin) => {
    const part = points.slice(
      Math.floor((bin * points.length) / count),
      Math.floor(((bin + 1) * points.length) / count),
    );
    const median = (pick: (point: Point) => number): number =>
      weightedMedian(part.map((point): Weighted => ({ value: pick(point), weight: point.weight }))) ?? 0;
    return {
      tokens: median(({ tokens }) => tokens),
      ms: median(({ ms }) => ms),
      weight: part.reduce((sum, { weight }) => sum + weight, 0),
    };
  });
}

/** Theil and Sen's median of the slopes between all pairs, each weighing by its distance. @returns ms per token */
function slopeOf(bins: readonly Bin[], leastApart: number): number | undefined {
  const slopes: Weighted[] = [];
  for (const [index, a] of bins.entries()) {
    for (const b of bins.slice(index + 1)) {
      const apart = b.tokens - a.tokens;
      if (apart < leastApart || apart <= 0) continue;
      slopes.push({ value: (b.ms - a.ms) / apart, weight: apart * Math.min(a.weight, b.weight) });
    }
  }
  return weightedMedian(slopes);
}

function explained(points: readonly Point[], line: (tokens: number) => number): number {
  const total = points.reduce((sum, { weight }) => sum + weight, 0);
  const mean = points.reduce((sum, { ms, weight }) => sum + ms * weight, 0) / total;
  const around = points.reduce((sum, { ms, weight }) => sum + weight * (ms - mean) ** 2, 0);
  const left = points.reduce((sum, { tokens, ms, weight }) => sum + weight * (ms - line(tokens)) ** 2, 0);
  return around === 0 ? 0 : 1 - left / around;
}

function evidenceOf(seen: readonly Seen[]): PrefillEvidence {
  if (seen.length === 0) return { requests: 0 };
  const splits = seen.filter(({ split }) => split).length;
  const tokens = seen.map((one) => one.tokens);
  return {
    requests: seen.length,
    fromTokens: Math.min(...tokens),
    toTokens: Math.max(...tokens),
    timing: splits === seen.length ? 'split' : splits === 0 ? 'joint' : 'mixed',
    cachedUnknownShare: seen.filter(({ cachedKnown }) => !cachedKnown).length / seen.length,
  };
}

function confidenceOf(
  { requests, cachedUnknownShare = 0 }: PrefillEvidence,
  rSquared: number,
): PrefillRate['confidence'] {
  if (rSquared < 0.5 || cachedUnknownShare > 0.5) return 'poor';
  return rSquared >= 0.8 && requests >= 30 && cachedUnknownShare === 0 ? 'good' : 'fair';
}

function weightsOf(
  points: readonly Point[],
  tokensPerSecond: number,
): Pick<PrefillRate, 'inputTokensPerOutputToken' | 'inputTokensPerSharedOutputToken'> {
  const median = (pick: (point: Point) => number | undefined): number | undefined =>
    weightedMedian(
      points.flatMap((point): Weighted[] => {
        const value = pick(point);
        return value === undefined ? [] : [{ value, weight: point.weight }];
      }),
    );
  const tpotMs = median((point) => point.tpotMs);
  const sharedMs = median(({ tpotMs: own, concurrency }) =>
    own === undefined || concurrency === undefined ? undefined : own / Math.max(1, concurrency),
  );
  return {
    ...(tpotMs === undefined ? {} : { inputTokensPerOutputToken: (tpotMs / 1000) * tokensPerSecond }),
    ...(sharedMs === undefined ? {} : { inputTokensPerSharedOutputToken: (sharedMs / 1000) * tokensPerSecond }),
  };
}
