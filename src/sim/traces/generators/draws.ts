/** Seeded draws that generators share: lengths, numbers of turns, arrival times. Pure but for their chance. */
import { exponential, type Random } from '../../seeded-random.ts';

/** Log-normal: half are below `median`; `sigma` is the spread of the logarithm. Whole, within the bounds. */
export function logNormal(
  random: Random,
  {
    median,
    sigma,
    least,
    most,
  }: { readonly median: number; readonly sigma: number; readonly least: number; readonly most: number },
): number {
  const value = median * Math.exp(sigma * normal(random));
  return Math.round(Math.min(most, Math.max(least, value)));
}

/** Box and Muller's transform. */
function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** A geometric number from 1 on, with this mean. */
export function turnsOf(random: Random, { mean, most }: { readonly mean: number; readonly most: number }): number {
  let turns = 1;
  while (turns < most && random() > 1 / mean) turns += 1;
  return turns;
}

const windowMs = 10_000;

/**
 * Arrivals whose rate changes every ten seconds.
 * @param sigma spread of the rate's logarithm; 0: a Poisson process
 * @returns endless moments in ms, ascending
 */
export function* arrivals(
  random: Random,
  { ratePerSecond, sigma = 0 }: { readonly ratePerSecond: number; readonly sigma?: number },
) {
  for (let startMs = 0; ; startMs += windowMs) {
    // The mean of a log-normal is above its median by half its variance.
    const rate = ratePerSecond * Math.exp(sigma * normal(random) - (sigma * sigma) / 2);
    for (
      let atMs = startMs + exponential(random, 1000 / rate);
      atMs < startMs + windowMs;
      atMs += exponential(random, 1000 / rate)
    )
      yield atMs;
  }
}
