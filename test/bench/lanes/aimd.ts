/**
 * The plain rule on one signal, to compare with: above .7 of its bound the cap is halved at each look, below it grows by up to one
 * job, the less the nearer it is; it doesn't grow while batch uses less than half of it. Nobody online for ten seconds: all.
 */
import type { BatchCap, CapState, OnlineFeel } from '../../../src/admit/batch-cap.ts';

const threshold = 0.7;
const most = 64;
const idleMs = 10_000;

export function createAimd(pick: (feel: OnlineFeel) => number | undefined): (beganMs: number) => BatchCap {
  return (beganMs) => {
    let cap = 4;
    let onlineMs = -Infinity;
    let state: CapState = { cap: most, reserveSlots: 0, cause: 'no_online', sinceMs: beganMs, pressures: {} };
    const show = (nowMs: number) => {
      const isIdle = nowMs - onlineMs >= idleMs;
      state = { ...state, cap: isIdle ? most : Math.floor(cap), cause: isIdle ? 'no_online' : 'growing' };
      return state;
    };
    return {
      tick(nowMs, { feel, running, onlineWaiting }) {
        if (running.online > 0 || onlineWaiting > 0) onlineMs = nowMs;
        const pressure = pick(feel) ?? 0;
        if (pressure > threshold) cap *= 0.5;
        else if (cap < 1 || running.batch >= cap / 2) cap = Math.min(most, cap + 1 - pressure / threshold);
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
  };
}
