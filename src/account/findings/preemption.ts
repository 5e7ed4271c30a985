/**
 * Preemption: the engine's KV cache was full, so it dropped a running request and computed it again later. Its client sees
 * a long gap with no sign of why; the engine's counter and the gap's place in time name it. Pure.
 */
import type { EnginePoint } from '../engines/engine-point.ts';
import type { Gap } from './digest.ts';
import type { Sighting } from './finding.ts';
import { lastDigests, lastPoints, round, sumOf, type Window } from './window.ts';

/** A recomputation that takes less isn't felt. */
const leastGapMs = 500;
const timesUsual = 8;
/** The counter may lag the last token by a step. */
const lagMs = 1000;
/** A finding stays this long after the last preemption, and after each request was known that may have been its victim. */
const freshMs = 30_000;
const longestMs = 600_000;

export interface Victim {
  readonly requestId: string;
  readonly gap: Gap;
}

/** Requests that stood still longest when the engine preempted: of each interval the longest gaps, one for each preemption. */
export function victimsOf(window: Window): readonly Victim[] {
  const victims = new Map<string, Victim>();
  for (const point of preempting(window)) {
    const candidates: Victim[] = [];
    for (const { digest } of window.digests) {
      const { requestId, largestGap: gap, usualGapMs } = digest;
      // It was named for an earlier one: then others stood still, too.
      if (victims.has(requestId)) continue;
      if (gap === undefined || gap.gapMs < leastGapMs || gap.gapMs < timesUsual * (usualGapMs ?? 0)) continue;
      if (gap.atMs <= point.toMs && gap.atMs + gap.gapMs >= point.fromMs - lagMs) candidates.push({ requestId, gap });
    }
    candidates.sort((a, b) => b.gap.gapMs - a.gap.gapMs);
    for (const victim of candidates.slice(0, point.deltas.preemptions)) victims.set(victim.requestId, victim);
  }
  return [...victims.values()];
}

export function findPreemption(window: Window): Sighting | undefined {
  const points = preempting(window);
  const newest = points.at(-1);
  if (newest === undefined) return undefined;
  if (newest.toMs <= window.nowMs - freshMs && !mayHaveVictims(window, newest)) return undefined;
  const preemptions = sumOf(points, ({ deltas }) => deltas.preemptions);
  const victims = victimsOf(window);
  const worst = victims.toSorted((a, b) => b.gap.gapMs - a.gap.gapMs)[0];
  const felt =
    worst === undefined
      ? 'no stream of ours was seen to stand still by it'
      : `request ${worst.requestId} stood still for ${round(worst.gap.gapMs)} ms by it`;
  return {
    weight: preemptions + victims.length / (1 + victims.length),
    says: `the engine dropped running requests ${preemptions} times for want of KV cache and computed them again; ${felt}`,
    evidence: {
      preemptions,
      victims: victims.length,
      ...(worst === undefined
        ? {}
        : { victim: worst.requestId, gapMs: round(worst.gap.gapMs), gapAgoMs: round(window.nowMs - worst.gap.atMs) }),
      ...(newest.kvUsage === undefined ? {} : { kvUsedPercent: round(100 * newest.kvUsage, 1) }),
    },
  };
}

/** Requests of then that still run, or were heard of only now: who was preempted early may end minutes after. */
function mayHaveVictims(window: Window, newest: EnginePoint): boolean {
  if (Math.min(window.oldestOwnMs, window.oldestUnseenMs) < newest.toMs) return true;
  return lastDigests(window, freshMs).some(
    ({ fromMs, endMs }) => fromMs < newest.toMs && endMs > newest.fromMs - lagMs,
  );
}

/** Whether the engine preempted somebody at that time: gaps then have that cause. @param points those that are `preempting` */
export function preemptedWithin(points: readonly EnginePoint[], fromMs: number, toMs: number): boolean {
  return points.some((point) => fromMs <= point.toMs && toMs >= point.fromMs - lagMs);
}

/** The readings between which the engine preempted. */
export function preempting(window: Window): readonly EnginePoint[] {
  return lastPoints(window, longestMs).filter(({ deltas }) => (deltas.preemptions ?? 0) > 0);
}
