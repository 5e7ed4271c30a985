/** Repeatable chance for tests that try many things: one seed, printed, gives the same choices again. */

export interface Chance {
  readonly seed: number;
  /** A whole number from 0 to below `limit`. */
  below(limit: number): number;
  /** One of them. */
  of<T>(choices: readonly T[]): T;
}

/** `WARMLANE_TEST_SEED` repeats a run; else each run has its own. */
export function createChance(): Chance {
  const given = process.env['WARMLANE_TEST_SEED'];
  const seed = given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
  console.info(`seed ${seed} (WARMLANE_TEST_SEED)`);
  let state = seed;
  /** mulberry32 */
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    seed,
    below,
    of(choices) {
      const choice = choices[below(choices.length)];
      if (choice === undefined) throw new Error('nothing to choose from');
      return choice;
    },
  };
}
