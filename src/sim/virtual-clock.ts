/**
 * A clock that jumps from timer to timer, so that hours of simulated time pass in seconds, the same way each time.
 * Timers due at the same moment fire in the order in which they were set. Nothing here waits or yields.
 */
import type { Clock, Timer } from '../platform/clock.ts';

export interface VirtualClock extends Clock {
  /** Timers set and neither fired nor cancelled. */
  readonly pending: number;
  /** Fires the next timer and moves to its moment. @returns false when there is none */
  step(): boolean;
  /** Fires all that is due up to `atMs`, then stands there. */
  runUntil(atMs: number): void;
  /** Fires until no timer is left. @throws after `maxFired` timers, since something then sets them for ever */
  runAll(maxFired?: number): void;
}

interface Entry {
  readonly atMs: number;
  readonly order: number;
  fire: (() => void) | undefined;
}

/** @param startMs monotonic start; 1 by default, because 0 is taken for "never" in too many places */
export function createVirtualClock(startMs = 1, wallStartMs = 1_780_000_000_000): VirtualClock {
  const heap: Entry[] = [];
  let nowMs = startMs;
  let orders = 0;
  let pending = 0;

  function next(): Entry | undefined {
    while (heap.length > 0 && heap[0]?.fire === undefined) popEntry(heap);
    return heap[0];
  }

  function step(): boolean {
    const entry = next();
    if (entry?.fire === undefined) return false;
    popEntry(heap);
    const { fire } = entry;
    entry.fire = undefined;
    pending -= 1;
    nowMs = Math.max(nowMs, entry.atMs);
    fire();
    return true;
  }

  return {
    nowMs: () => nowMs,
    wallMs: () => wallStartMs + nowMs - startMs,
    timer(delayMs, fire): Timer {
      const entry: Entry = { atMs: nowMs + Math.max(0, delayMs), order: orders++, fire };
      pushEntry(heap, entry);
      pending += 1;
      return {
        cancel() {
          if (entry.fire === undefined) return;
          entry.fire = undefined;
          pending -= 1;
        },
      };
    },
    get pending() {
      return pending;
    },
    step,
    runUntil(atMs) {
      for (let entry = next(); entry !== undefined && entry.atMs <= atMs; entry = next()) step();
      nowMs = Math.max(nowMs, atMs);
    },
    runAll(maxFired = 1_000_000_000) {
      for (let fired = 0; step(); fired += 1) {
        if (fired >= maxFired) throw new Error(`${maxFired} timers fired and more are set`);
      }
    },
  };
}

/**
 * Feeds arrivals to a simulation on a virtual clock, each at its own moment, and runs until nothing is left to do.
 * Arrivals must come in order of `atMs` (ms after the clock's present); they are taken one at a time, so the source may be endless if
 * `untilMs` bounds it.
 * @returns the clock's time at the end
 */
export function runVirtual<Arrival extends { readonly atMs: number }>(
  clock: VirtualClock,
  arrivals: Iterable<Arrival>,
  run: { readonly arrive: (arrival: Arrival) => void; readonly untilMs?: number },
): number {
  const source = arrivals[Symbol.iterator]();
  const beganMs = clock.nowMs();
  const endMs = run.untilMs === undefined ? Infinity : beganMs + run.untilMs;
  const takeNext = () => {
    const next = source.next();
    if (next.done === true) return;
    const { value } = next;
    if (beganMs + value.atMs > endMs) return;
    clock.timer(beganMs + value.atMs - clock.nowMs(), () => {
      run.arrive(value);
      takeNext();
    });
  };
  takeNext();
  if (endMs === Infinity) clock.runAll();
  else clock.runUntil(endMs);
  return clock.nowMs();
}

function isBefore(left: Entry, right: Entry): boolean {
  return left.atMs < right.atMs || (left.atMs === right.atMs && left.order < right.order);
}

function pushEntry(heap: Entry[], entry: Entry): void {
  let at = heap.length;
  heap.push(entry);
  while (at > 0) {
    const parentAt = (at - 1) >> 1;
    const parent = heap[parentAt];
    if (parent === undefined || !isBefore(entry, parent)) break;
    heap[at] = parent;
    at = parentAt;
  }
  heap[at] = entry;
}

function popEntry(heap: Entry[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    let childAt = 2 * at + 1;
    let child = heap[childAt];
    if (child === undefined) break;
    const right = heap[childAt + 1];
    if (right !== undefined && isBefore(right, child)) {
      childAt += 1;
      child = right;
    }
    if (!isBefore(child, last)) break;
    heap[at] = child;
    at = childAt;
  }
  heap[at] = last;
}
