/**
 * One coarse timer for all running relays, instead of one per stream or per token: each is asked ten times a second
 * whether a deadline of its own is over. Runs only while there is something to ask.
 */
import { Bag, type Place } from '../platform/bag.ts';
import type { Clock, Timer } from '../platform/clock.ts';

export const tickMs = 100;

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
  const run = () => {
    const nowMs = clock.nowMs();
    try {
      all.forEach((ticked) => ticked.tick(nowMs));
    } finally {
      // Whatever was thrown: the others keep their deadlines.
      timer = all.size > 0 ? clock.timer(tickMs, run) : undefined;
    }
  };
  return {
    add(ticked) {
      timer ??= clock.timer(tickMs, run);
      return all.add(ticked);
    },
    remove(place) {
      all.remove(place);
    },
  };
}
