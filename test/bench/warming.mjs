/**
 * How long a proxy is warmed before anything is measured. A proxy serves for weeks; a runtime that compiles as it goes would
 * else be measured while it compiles, which takes Node some 10,000 requests. Rounds of mixed load, the same for every
 * candidate, until two in a row cost at least 95 % of the last one that was clearly cheaper.
 */

/** A round that takes less than this share of the last one that did so was still getting cheaper. */
const stillFalling = 0.95;
/** So many rounds in a row must bring nothing. */
const idleRounds = 2;

/**
 * @param {readonly number[]} costs CPU per answer in each round, in any unit
 * @returns {boolean} the next round would bring nothing more
 */
export function isWarm(costs) {
  let reference = Number.POSITIVE_INFINITY;
  let idle = 0;
  for (const cost of costs) {
    const isGain = cost < stillFalling * reference;
    // Small gains add up: they are held against the last large one.
    if (isGain) reference = cost;
    idle = isGain ? 0 : idle + 1;
  }
  return idle >= idleRounds;
}

/**
 * Each kind of answer must be level: of two that cost very differently, a sum would hear one only.
 * @param {number} mostRounds
 * @param {() => Promise<readonly number[]>} round runs one and tells its CPU per answer, for each kind of answer
 * @returns {Promise<(readonly number[])[]>} what each round took
 */
export async function warmUntilLevel(mostRounds, round) {
  /** @type {(readonly number[])[]} */
  const rounds = [];
  const level = () => (rounds[0] ?? []).every((_, kind) => isWarm(rounds.map((costs) => costs[kind] ?? 0)));
  while (rounds.length < mostRounds && (rounds.length === 0 || !level())) rounds.push(await round());
  return rounds;
}
