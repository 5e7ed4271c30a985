/** How fast lines get done, from what a server said at each look. Pure; bounded: the looks of the last minute. */

export interface Pace {
  /** @param doneLines of the whole batch @returns lines a second; undefined until two looks lie a second apart */
  look(nowMs: number, doneLines: number): number | undefined;
}

interface Look {
  readonly atMs: number;
  readonly done: number;
}

const windowMs = 60_000;
/** Enough for the shortest time between two looks. */
const mostLooks = 240;

export function createPace(): Pace {
  const looks: Look[] = [];
  return {
    look(atMs, done) {
      const last = looks.at(-1);
      // Counts that fall belong to another try: what was before says nothing of it.
      if (last !== undefined && done < last.done) looks.length = 0;
      looks.push({ atMs, done });
      // The one just outside the window stays: the rate is then of the whole window.
      while (looks.length > mostLooks || (looks[1]?.atMs ?? atMs) <= atMs - windowMs) looks.shift();
      const first = looks[0];
      if (first === undefined || atMs - first.atMs < 1000) return undefined;
      return ((done - first.done) * 1000) / (atMs - first.atMs);
    },
  };
}
