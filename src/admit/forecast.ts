/**
 * How long a job would wait: how many come before it, and how fast places become free where it may go, from how long permits
 * lasted there of late (Little's law: permits out / their mean length). Says nothing where it knows too little.
 */
import type { LaneQueue, Line } from './lane-queue.ts';
import type { Held, Loads } from './load.ts';
import type { RankedTarget } from './owner.ts';
import { isBatchLine, type Waiter } from './waiter.ts';

export interface Forecast {
  /** Until the job would get a place, if it queued now; ms. Undefined: not known. */
  waitMs(lane: LaneQueue, waiter: Waiter): number | undefined;
  /** Until the next place becomes free where it may go; ms. Undefined: not known. */
  placeMs(wants: readonly RankedTarget[]): number | undefined;
}

const learning = 0.1;
/** Fewer permits than that tell nothing. */
const leastSamples = 8;

/** @param heldMs how long a permit of a generating job lasted that ended by itself */
export function learnPlace(held: Held, heldMs: number): void {
  held.samples += 1;
  // A plain mean at first, so that the first few weigh alike.
  held.heldMs += (heldMs - held.heldMs) * Math.max(learning, 1 / held.samples);
}

export function createForecast({
  loads,
  reclaims,
}: {
  readonly loads: Loads;
  readonly reclaims: () => boolean;
}): Forecast {
  /** Places per ms. */
  function rate(wants: readonly RankedTarget[]): number | undefined {
    let sum = 0;
    for (const { backend } of wants) {
      // Without a number of places nobody waits for one.
      if (backend.slots === undefined) return undefined;
      const held = loads.held(backend.name);
      if (held === undefined || held.generating === 0) continue;
      if (held.samples < leastSamples || held.heldMs <= 0) return undefined;
      sum += held.generating / held.heldMs;
    }
    return sum > 0 ? sum : undefined;
  }

  /** Batch jobs on the way out, and those that would be told to leave. */
  function soonFree(wants: readonly RankedTarget[]): number {
    let sum = 0;
    for (const { backend } of wants) {
      const held = loads.held(backend.name);
      if (held !== undefined) sum += held.leavingJobs + (reclaims() ? held.takeable.size : 0);
    }
    return sum;
  }

  return {
    waitMs(lane, waiter) {
      const { wants } = waiter;
      const perMs = rate(wants);
      if (perMs === undefined) return undefined;
      return Math.max(0, jobsBefore(lane, waiter) + 1 - soonFree(wants)) / perMs;
    },
    placeMs(wants) {
      const perMs = rate(wants);
      return perMs === undefined ? undefined : 1 / perMs;
    },
  };
}

/**
 * Of its own tenant all of its kind that wait for the same backends; of its tenant's others (lines of batches, or requests that a
 * client waits for) and of each other tenant no more than would be served in turn with them.
 */
function jobsBefore({ lines, again }: LaneQueue, { wants, tenant, ask }: Waiter): number {
  const names = new Set(wants.map(({ backend }) => backend.name));
  const concerns = ({ first }: Line) => first?.wants.some(({ backend }) => names.has(backend.name)) === true;
  let own = 0;
  const others = new Map<object, number>();
  for (const line of lines) {
    const { first } = line;
    if (first === undefined || !concerns(line)) continue;
    if (first.tenant === tenant && isBatchLine(first.ask) === isBatchLine(ask)) own += line.jobs;
    else others.set(first.tenant, (others.get(first.tenant) ?? 0) + line.jobs);
  }
  let before = own + (concerns(again) ? again.jobs : 0);
  for (const jobs of others.values()) before += Math.min(jobs, own + 1);
  return before;
}
