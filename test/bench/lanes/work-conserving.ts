/** What every rule that is compared has in common: batch has all places while nobody was online for ten seconds, and its rule's number else. */
import type { BatchCap, CapSignals, CapState } from '../../../src/admit/batch-cap.ts';

/** @returns jobs of batch that may run from now on; a real number */
export type Rule = (nowMs: number, signals: CapSignals) => number;

/** Places of a backend, where it tells no number: as the shipped default has it. */
export const mostJobs = 64;
const idleMs = 10_000;

/** @param firstJobs what the rule begins with */
export function workConserving(beganMs: number, firstJobs: number, rule: Rule): BatchCap {
  let cap = firstJobs;
  let onlineMs = -Infinity;
  let state: CapState = { cap: mostJobs, reserveSlots: 0, cause: 'no_online', sinceMs: beganMs, pressures: {} };
  const show = (nowMs: number) => {
    const isIdle = nowMs - onlineMs >= idleMs;
    state = { ...state, cap: isIdle ? mostJobs : Math.floor(cap), cause: isIdle ? 'no_online' : 'growing' };
    return state;
  };
  return {
    tick(nowMs, signals) {
      if (signals.running.online > 0 || signals.onlineWaiting > 0) onlineMs = nowMs;
      cap = rule(nowMs, signals);
      return show(nowMs);
    },
    onlineArrived(nowMs) {
      onlineMs = nowMs;
      show(nowMs);
    },
    reclaimed() {},
    busy() {},
    state: () => state,
  };
}
