/**
 * KV exhaustion: the cache that holds running requests' context is full, so others wait, are dropped, or break. Pure.
 * vLLM and SGLang tell its usage. llama.cpp has no such gauge any more: there the contexts of warmlane's own requests are
 * summed against slots × context, beside the requests that it defers; with `-kvu` all slots share one context, and
 * answers break off in it (R08).
 */
import type { EnginePoint } from '../engines/engine-point.ts';
import type { BackendFacts, Sighting } from './finding.ts';
import { lastDigests, lastPoints, round, sumOf, tokensPerSecond, type Window } from './window.ts';

const fullFrom = 0.95;
/** Once named, it holds until the cache is this empty again. */
const fullUntil = 0.85;
/** So many readings in a row, unless the engine says it by preempting. */
const leastReadings = 2;
const lookBackMs = 10_000;
const rateBeforeMs = 120_000;
/** The prompts of broken answers are estimates. */
const nearContext = 0.8;

export function findKvExhaustion(window: Window): Sighting | undefined {
  const recent = lastPoints(window, lookBackMs);
  const preemptions = sumOf(recent, ({ deltas }) => deltas.preemptions);
  const lastOther = recent.findLastIndex((point) => !isFull(point, window));
  const fullReadings = recent.length - 1 - lastOther;
  const holds = preemptions > 0 || fullReadings >= (window.was ? 1 : leastReadings);
  return holds ? sighting(window, recent, preemptions) : brokenContext(window);
}

/** Full, and somebody waits for it. */
function isFull(point: EnginePoint, { facts, was, oldestOwnMs }: Window): boolean {
  const usage = usageOf(point, facts, oldestOwnMs);
  return usage !== undefined && usage >= (was ? fullUntil : fullFrom) && (point.waiting ?? 0) > 0;
}

/** @returns share in use; undefined where it can't be known (yet) */
function usageOf(point: EnginePoint, facts: BackendFacts, oldestOwnMs: number): number | undefined {
  if (point.kvUsage !== undefined) return point.kvUsage;
  const { slots, contextTokens, engine } = facts;
  if (engine !== 'llama-server' || slots === undefined || contextTokens === undefined) return undefined;
  // Requests that still run have told nothing yet.
  return oldestOwnMs <= point.toMs ? undefined : point.own.contextTokens / (slots * contextTokens);
}

function sighting(window: Window, recent: readonly EnginePoint[], preemptions: number): Sighting {
  const usages = recent.map((point) => usageOf(point, window.facts, window.oldestOwnMs) ?? 0);
  const usage = Math.max(...usages);
  const waiting = Math.max(...recent.map((point) => point.waiting ?? 0));
  const before = lastPoints(window, rateBeforeMs).filter((point) => (point.kvUsage ?? 0) < fullUntil && isBusy(point));
  const usualRate = tokensPerSecond(before);
  const rate = tokensPerSecond(recent);
  const falling = usualRate !== undefined && rate !== undefined && rate < 0.8 * usualRate;
  const how = preemptions > 0 ? `, it preempted ${preemptions} times` : '';
  const slower = falling ? `; ${round(rate)} tokens/s instead of ${round(usualRate)}` : '';
  return {
    weight: usage + waiting + preemptions,
    says: `the KV cache is full (${round(100 * usage)} %): ${waiting} requests wait${how}${slower}`,
    evidence: {
      kvUsedPercent: round(100 * usage, 1),
      waiting,
      preemptions,
      ...(rate === undefined ? {} : { tokensPerSecond: round(rate, 1) }),
      ...(usualRate === undefined ? {} : { tokensPerSecondBefore: round(usualRate, 1) }),
    },
  };
}

function isBusy({ running }: EnginePoint): boolean {
  return (running ?? 0) > 0;
}

/** Answers that broke off while the own contexts together had come near the whole context of a llama-server. */
function brokenContext(window: Window): Sighting | undefined {
  const { facts } = window;
  if (facts.engine !== 'llama-server' || facts.contextTokens === undefined) return undefined;
  const broken = lastDigests(window, 60_000).filter(({ brokeOff }) => brokeOff);
  const contexts = broken.map((one) => contextOf(one.requestId, window));
  const most = Math.max(0, ...contexts);
  if (broken.length === 0 || most < nearContext * facts.contextTokens) return undefined;
  return {
    weight: broken.length,
    says: `${broken.length} answers broke off while all contexts together had come to about ${round(most)} of ${facts.contextTokens} tokens`,
    evidence: { brokenAnswers: broken.length, contextTokens: round(most), contextLimitTokens: facts.contextTokens },
  };
}

/** Of all requests that ran when this one broke off. */
function contextOf(requestId: string, { digests }: Window): number {
  const one = digests.find(({ digest }) => digest.requestId === requestId)?.digest;
  if (one === undefined) return 0;
  const beside = digests.filter(({ digest }) => digest.fromMs <= one.endMs && digest.endMs >= one.endMs);
  return sumOf(beside, ({ digest }) => digest.contextTokens);
}
