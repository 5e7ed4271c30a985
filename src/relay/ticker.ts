/**
 * One coarse timer for all running relays, instead of one per stream or per token: each is asked ten times a second
 * whether a deadline of its own is over. Runs only while there is something to ask.
 */
import type { Clock, Timer } from '../platform/clock.ts';

export const tickMs = 100;

export interface Ticked {
  tick(nowMs: number): void;
}

export interface Ticker {
  add(ticked: Ticked): void;
  remove(ticked: Ticked): void;
}

export function createTicker(clock: Clock): Ticker {
  const all = new Set<Ticked>();
  let timer: Timer | undefined;
  const run = () => {
    const nowMs = clock.nowMs();
    for (const ticked of all) ticked.tick(nowMs);
    timer = all.size > 0 ? clock.timer(tickMs, run) : undefined;
  };
  return {
    add(ticked) {
      all.add(ticked);
      timer ??= clock.timer(tickMs, run);
    },
    remove(ticked) {
      all.delete(ticked);
    },
  };
}
