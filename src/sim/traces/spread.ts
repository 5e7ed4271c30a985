/**
 * Times that a trace gives in coarse bins, spread evenly at random within them: thirty requests in one instant and then none for
 * three seconds is the recorder's doing, not the clients'. Times that are fine enough stay as they are.
 */
import type { Random } from '../seeded-random.ts';

/** Shorter bins than this are left alone. */
const shortestBinMs = 500;
/** Requests at one instant, on average, from which on the instants are taken for bins. */
const crowd = 1.5;

/** @param times ms, in any order @returns in the same order */
export function spread(times: readonly number[], random: Random): readonly number[] {
  const binMs = binOf(times);
  return binMs === undefined ? times : times.map((ms) => ms + random() * binMs);
}

/** The width of the bins, the median distance between neighbouring instants; undefined when there are none. */
function binOf(times: readonly number[]): number | undefined {
  const instants = [...new Set(times)].toSorted((a, b) => a - b);
  if (instants.length < 2 || times.length < instants.length * crowd) return undefined;
  const gaps = instants.slice(1).map((ms, index) => ms - (instants[index] ?? ms));
  const middle = gaps.toSorted((a, b) => a - b)[gaps.length >> 1] ?? 0;
  return middle >= shortestBinMs ? middle : undefined;
}
