/**
 * One coarse timer for all running relays, instead of one per stream or per token: each is asked ten times a second
 * whether a deadline of its own is over. Runs only while there is something to ask.
 */
import { Bag, type Place } from '../platform/bag.ts';
import type { Clock, Timer } from '../platform/clock.ts';

export const tickMs = 100;
/**
 * So late, this process itself stood still (suspended, frozen, no CPU), and what came meanwhile is not read yet: it would be
 * taken for silence. It is read before the next tick.
 */
const lateMs = 500;

export interface Ticked {
  tick(nowMs: number): void;
}

export interface Ticker {
  /** @returns where it lies, to take it out again */
  add(ticked: Ticked): Place;
  remove(place: Place): void;
}

export function createTicker(clock: Clock): Ticker {
  const all = new Bag<Ticked>();
  let timer: Timer | undefined;
  let dueMs = 0;
  let wasLate = false;
  const run = () => {
    const nowMs = clock.nowMs();
    // Never twice: deadlines hold under load as well.
    wasLate = !wasLate && nowMs - dueMs > lateMs;
    try {
      if (!wasLate) all.forEach((ticked) => ticked.tick(nowMs));
    } finally {
      // Whatever was thrown: the others keep their deadlines.
      timer = all.size > 0 ? begin() : undefined;
    }
  };
  const begin = () => {
    dueMs = clock.nowMs() + tickMs;
    return clock.timer(tickMs, run);
  };
  return {
    add(ticked) {
      timer ??= begin();
      return all.add(ticked);
    },
    remove(place) {
      all.remove(place);
    },
  };
}
