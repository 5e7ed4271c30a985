/**
 * How long after a step batch costs online users anything: the same arrivals with batch and without it, moment by moment. Pure.
 *
 * A user is *behind* at a moment when it has waited for its first token for longer than the bound, or its stream (of 8 tokens and more)
 * has run slower since its first token than its bound allows: the objective's own figures, as they stand just then. What is *lost* is
 * the share of users who are behind, less that of online alone; and of the requests that came then the share that missed a bound in the
 * end, less that of online alone. A moment counts where too much is lost in it and in a whole second around it, since it has few users.
 *
 * `pooled`: all steps of a play together, at most 1 point lost: what batch may cost on steady traffic, and that is what follows a step.
 * `perStep`: one step has some 17 users at once, so at most 5 points, what batch may cost in bursts: less than one user for that second.
 * What begins later than five seconds after a step is what batch costs all the time, whatever the step did: `later` is how often.
 */
import type { Arrival, Moment } from './recovery.ts';
import { step } from './settings.ts';

/** Of what may be lost, as shares of 1. */
export const tolerance = { pooled: 0.01, perStep: 0.05 } as const;

export const binMs = 250;
const bins = step.onMs / binMs;
const windowBins = 1000 / binMs;
/** As for spells of pressure (`recovery.ts`). */
const beginsBins = 5000 / binMs;
const joinedBins = 1000 / binMs;
/** Shares are differences of quotients. */
const rounding = 1e-9;

export interface Paired {
  /** ms after a step until no more than the tolerance is lost to its end, of all steps together */
  readonly pooled: Lost<number>;
  /** By step: ms to the end of its first spell of too many users behind; 0: there was none. */
  readonly perStep: readonly number[];
  /** Of all later moments of all steps, the share in which too many are. */
  readonly later: number;
  /** lost in each 250 ms after a step, all steps together; below 0: fewer than alone */
  readonly lost: Lost<readonly number[]>;
}

export interface Lost<Figure> {
  /** by when requests came */
  readonly requests: Figure;
  /** of those who are there, waiting or reading */
  readonly users: Figure;
}

export interface PairedLived {
  readonly moments: readonly Moment[];
  readonly arrivals: readonly Arrival[];
}

/** How many there were in each bin, and how many of them were badly off. */
interface Counts {
  readonly all: readonly number[];
  readonly bad: readonly number[];
}

/** @param steps when they begin, ms since the play began */
export function pairedOf(lived: PairedLived, alone: PairedLived, steps: readonly number[]): Paired {
  const requests = [lived, alone].map(({ arrivals }) =>
    countsOf(
      arrivals.map(({ atMs, inside }) => ({ atMs, all: 1, bad: inside ? 0 : 1 })),
      steps,
    ),
  );
  const users = [lived, alone].map(({ moments }) =>
    countsOf(
      moments.map(({ atMs, users: all, behind: bad }) => ({ atMs, all, bad })),
      steps,
    ),
  );
  const pooled = { requests: requests.map(sumOf), users: users.map(sumOf) };
  const perStep = steps.map((_, index) => {
    const [own = none, usual = none] = users.map((counts) => counts[index]);
    return overOf(own, usual, tolerance.perStep);
  });
  const later = perStep.flatMap((over) => over.slice(beginsBins));
  return {
    pooled: { requests: withinFrom(pooled.requests), users: withinFrom(pooled.users) },
    perStep: perStep.map(spellOf),
    later: later.filter(Boolean).length / Math.max(1, later.length),
    lost: { requests: lostIn(pooled.requests), users: lostIn(pooled.users) },
  };
}

const none: Counts = { all: [], bad: [] };

interface Counted {
  readonly atMs: number;
  readonly all: number;
  readonly bad: number;
}

/** For each step, by bins. */
function countsOf(counted: readonly Counted[], steps: readonly number[]): readonly Counts[] {
  return steps.map((fromMs) => {
    const all = Array.from({ length: bins }, () => 0);
    const bad = Array.from({ length: bins }, () => 0);
    for (const { atMs, all: more, bad: moreBad } of counted) {
      const bin = Math.floor((atMs - fromMs) / binMs);
      if (bin < 0 || bin >= bins) continue;
      all[bin] = (all[bin] ?? 0) + more;
      bad[bin] = (bad[bin] ?? 0) + moreBad;
    }
    return { all, bad };
  });
}

function sumOf(counts: readonly Counts[]): Counts {
  const sum = (pick: (one: Counts) => readonly number[]) =>
    Array.from({ length: bins }, (_, bin) => counts.reduce((total, one) => total + (pick(one)[bin] ?? 0), 0));
  return { all: sum(({ all }) => all), bad: sum(({ bad }) => bad) };
}

function lostIn([own = none, usual = none]: readonly Counts[]): readonly number[] {
  return lostOf(own, usual, 1);
}

/** @param width of the window that begins with each bin; the last ones are cut off by the step's end */
function lostOf(own: Counts, usual: Counts, width: number): readonly number[] {
  return Array.from({ length: bins }, (_, bin) => shareOf(own, bin, width) - shareOf(usual, bin, width));
}

function shareOf({ all, bad }: Counts, from: number, width: number): number {
  const sum = (counts: readonly number[]) => counts.slice(from, from + width).reduce((total, one) => total + one, 0);
  return sum(bad) / Math.max(1, sum(all));
}

/** In which bins more is lost than is allowed, in themselves and in a window that they are part of. */
function overOf(own: Counts, usual: Counts, allowed: number): readonly boolean[] {
  const isOver = (share: number) => share > allowed + rounding;
  const windows = lostOf(own, usual, windowBins).map(isOver);
  return lostOf(own, usual, 1).map(
    (share, bin) => isOver(share) && windows.slice(Math.max(0, bin - windowBins + 1), bin + 1).includes(true),
  );
}

function withinFrom([own = none, usual = none]: readonly Counts[]): number {
  return (overOf(own, usual, tolerance.pooled).lastIndexOf(true) + 1) * binMs;
}

function spellOf(over: readonly boolean[]): number {
  let end: number | undefined;
  for (const [bin, isLost] of over.entries())
    if (isLost && (end === undefined ? bin < beginsBins : bin - end <= joinedBins)) end = bin;
  return end === undefined ? 0 : (end + 1) * binMs;
}
