/**
 * The bounds of the waiting room: how many jobs and prompt tokens of a lane may wait, for how long, and who is told at the
 * door that waiting would be in vain (decision 15). Values in, refusals out.
 */
import type { Job } from '../domain/job.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { Forecast } from './forecast.ts';
import type { LaneQueue } from './lane-queue.ts';
import type { LaneSettings } from './lane-settings.ts';
import type { Ask } from './owner.ts';
import { queueFull, queueTimeout, waitTooLong } from './refusals.ts';
import type { AdmitSettings } from './settings.ts';
import type { Waiter } from './waiter.ts';

export interface WaitingBounds {
  /** Why it may not wait. @param lane its own; it may stand in it already */
  refusalOf(waiter: Waiter, lane: LaneQueue): Refusal | undefined;
  /** How long it may wait; 0: for ever. */
  limitMs(ask: Ask): number;
  /** What it is told after that. */
  lateRefusal(waiter: Waiter, lane: LaneQueue): Refusal;
}

export function createWaitingBounds(
  settings: AdmitSettings,
  { lanes, forecast }: { readonly lanes: () => LaneSettings; readonly forecast: Forecast },
): WaitingBounds {
  function boundsOf({ lane }: Job): { readonly jobs: number; readonly tokens: number } {
    if (lane !== 'batch') return { jobs: settings.maxQueuedJobs, tokens: lanes().maxQueuedTokens };
    const { maxQueuedJobs, maxQueuedTokens } = lanes().batch;
    return { jobs: maxQueuedJobs, tokens: maxQueuedTokens };
  }

  function fullRefusal(waiter: Waiter, lane: LaneQueue): Refusal | undefined {
    const { job, again } = waiter.ask;
    // Its place was taken back, and no more of those can come than were let in before.
    if (again && job.lane === 'batch') return undefined;
    const bounds = boundsOf(job);
    const isIn = waiter.line !== undefined;
    const jobs = lane.jobs - (isIn ? 1 : 0);
    const tokens = lane.tokens - (isIn ? waiter.tokens : 0);
    const placeMs = () => forecast.placeMs(waiter.wants);
    if (jobs >= bounds.jobs) return queueFull(`${bounds.jobs} requests wait`, placeMs());
    // Alone it may wait, however long it is: else it would never be served while others run.
    if (jobs > 0 && tokens + waiter.tokens > bounds.tokens)
      return queueFull(`prompts of about ${tokens} tokens wait`, placeMs());
    return undefined;
  }

  function hopelessRefusal(waiter: Waiter, lane: LaneQueue): Refusal | undefined {
    const { ask, holds } = waiter;
    const { refuseBeyond } = lanes();
    const { ttftBoundMs } = ask;
    if (ttftBoundMs === undefined || refuseBeyond === 0 || ask.again || holds || ask.job.lane === 'batch')
      return undefined;
    const waitMs = forecast.waitMs(lane, waiter);
    if (waitMs === undefined || waitMs <= refuseBeyond * ttftBoundMs) return undefined;
    return waitTooLong(waitMs, { ttftBoundMs, refuseBeyond });
  }

  return {
    refusalOf: (waiter, lane) => fullRefusal(waiter, lane) ?? hopelessRefusal(waiter, lane),
    limitMs({ job, patient }) {
      if (job.lane !== 'batch') return settings.queueTimeoutMs;
      return patient === true ? 0 : lanes().batch.queueTimeoutMs;
    },
    lateRefusal(waiter, lane) {
      const isBatch = waiter.ask.job.lane === 'batch';
      const limitMs = isBatch ? lanes().batch.queueTimeoutMs : settings.queueTimeoutMs;
      const key = isBatch ? 'lanes.batch.timeoutMs' : 'queue.timeoutMs';
      return queueTimeout(limitMs, { key, waitMs: forecast.waitMs(lane, waiter) });
    },
  };
}
