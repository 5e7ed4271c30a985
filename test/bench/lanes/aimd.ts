/**
 * Additive increase, multiplicative decrease on one signal, to compare with. Its constants are those of the shipped rule, so that nothing
 * but the signal is compared: above .85 of its bound the cap is halved, not twice within a second; below it grows by up to one job a
 * look, the less the nearer it is, and not while batch uses less than half of it.
 */
import type { BatchCap, CapSignals } from '../../../src/admit/batch-cap.ts';
import { laneDefaults } from '../../../src/admit/lane-settings.ts';
import { mostJobs, workConserving } from './work-conserving.ts';

const { threshold, increase, decrease } = laneDefaults.control;
const cutPauseMs = 1000;
const firstJobs = 4;

/** @param pick one signal over its bound; undefined: nothing is known, which is no pressure */
export function createAimd(beganMs: number, pick: (signals: CapSignals) => number | undefined): BatchCap {
  let cap = firstJobs;
  let cutMs = -Infinity;
  return workConserving(beganMs, firstJobs, (nowMs, signals) => {
    const pressure = pick(signals) ?? 0;
    if (pressure > threshold) {
      if (nowMs - cutMs < cutPauseMs) return cap;
      cutMs = nowMs;
      cap *= decrease;
    } else if (cap < 1 || signals.running.batch >= cap / 2)
      cap = Math.min(mostJobs, cap + increase * (1 - pressure / threshold));
    return cap;
  });
}

/** As the shipped rule has it of what is wrong as soon as it is there. */
const pressed = 1.5;

/** Whether online requests wait, here or in the engine; its reading is acted on once, and held otherwise. */
export function createQueueSignal(): (signals: CapSignals) => number {
  let actedMs = -Infinity;
  return ({ engine, onlineWaiting }) => {
    if (onlineWaiting > 0) return pressed;
    if (engine === undefined) return 0;
    const isNews = engine.atMs > actedMs;
    actedMs = engine.atMs;
    // Just at its threshold it neither grows nor is cut.
    if ((engine.waiting ?? 0) === 0) return 0;
    return isNews ? pressed : threshold;
  };
}
