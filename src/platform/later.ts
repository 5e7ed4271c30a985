/**
 * What nobody waits for is done a little later, many at a time: its code and its tables are then fetched into the core's
 * caches once for all of them, and no client's bytes wait behind it. Bounded in time and number; keeps the order. Who reads
 * what comes of it calls `flush` first.
 */
import type { Clock, Timer } from './clock.ts';

export interface Later {
  /** `work` must not throw. */
  add(work: () => void): void;
  /** Does now all that was added. */
  flush(): void;
  /** The same, and from now on everything at once: nothing is left behind by a process that ends. */
  close(): void;
}

/** Too short for anyone who reads the log, long enough for several at some hundred a second. */
const withinMs = 20;
const most = 64;

/** None waits longer than 20 ms, and never so many as 64. */
export function createLater(clock: Pick<Clock, 'timer'>): Later {
  let waiting: (() => void)[] = [];
  let timer: Timer | undefined;
  let isClosed = false;

  function flush(): void {
    timer?.cancel();
    timer = undefined;
    // What they add in turn is theirs to have done, too.
    while (waiting.length > 0) {
      const works = waiting;
      waiting = [];
      for (const work of works) work();
    }
  }

  return {
    add(work) {
      waiting.push(work);
      if (isClosed || waiting.length >= most) flush();
      else timer ??= clock.timer(withinMs, flush);
    },
    flush,
    close() {
      isClosed = true;
      flush();
    },
  };
}
