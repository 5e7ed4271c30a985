/**
 * How long a step in the load is felt. Pure. What batch costs is `paired`: see there. Beside it:
 *
 * `absolute`: for each step the seconds from its first moment to the end of its first spell of pressure, whoever is to blame.
 * `excess`: that, less the same of online alone; below 0 where batch's play has the shorter spell.
 * `attributable`: the same of those moments only in which online alone, with the same arrivals, is not pressed: what batch adds.
 * A pressed moment is one in which a single stream among the first dozen is beyond its bound, and that comes at random, with a step and
 * without; so `late` says how often a spell like that begins in any later five seconds, and `arrivals` what came of the requests.
 */
import { type Paired, pairedOf } from './paired.ts';
import { step } from './settings.ts';

/** A look at all online users. Plays of the same arrivals are looked at in the same moments. */
export interface Moment {
  /** since the play began */
  readonly atMs: number;
  /** of what they feel, over its bound, on the backend where it is worst: p90 of running TPOT, the longest wait for a first token */
  readonly pressure: number;
  /** online users who wait or read, and those of them who are behind: see `paired.ts` */
  readonly users: number;
  readonly behind: number;
}

/** An online request: when it came, and whether its answer was inside both bounds in the end. */
export interface Arrival {
  readonly atMs: number;
  readonly inside: boolean;
}

export interface Lived {
  readonly moments: readonly Moment[];
  readonly arrivals: readonly Arrival[];
}

export interface Recovery {
  /** in the order of the steps; s */
  readonly absolute: readonly number[];
  readonly excess: readonly number[];
  readonly attributable: readonly number[];
  /** Of all stretches of five seconds later in the steps, the share with a pressed moment; 0 to 1. */
  readonly late: number;
  /** by `arrivalSeconds`: requests that came then, and those of them that were inside both bounds */
  readonly arrivals: readonly { readonly requests: number; readonly inside: number }[];
  readonly paired: Paired;
}

/** Where the groups of `arrivals` begin; seconds since the step. */
export const arrivalSeconds = [0, 1, 2, 5] as const;

/** Pressed again within so long, it is still the same spell. */
const joinedMs = 1000;
/** A spell that begins later isn't the step's. */
const beginsMs = 5000;

/** @param alone the same arrivals without batch, to compare with */
export function recoveryOf(lived: Lived, alone: Lived): Recovery {
  const { moments, arrivals } = lived;
  const usual = pressedOf(alone.moments);
  const pressed = pressedOf(moments);
  const byBatch = new Set([...pressed].filter((atMs) => !usual.has(atMs)));
  const steps = stepsWithin(moments.at(-1)?.atMs ?? 0);
  const spells = steps.flatMap((fromMs) => lateSpells(fromMs, pressed));
  const absolute = steps.map((fromMs) => spellOf([...pressed], fromMs));
  return {
    absolute,
    excess: steps.map((fromMs, index) => (absolute[index] ?? 0) - spellOf([...usual], fromMs)),
    attributable: steps.map((fromMs) => spellOf([...byBatch], fromMs)),
    late: spells.filter(Boolean).length / Math.max(1, spells.length),
    arrivals: arrivalSeconds.map((fromSeconds, index) => {
      const untilSeconds = arrivalSeconds[index + 1] ?? step.onMs / 1000;
      const came = arrivals.filter(({ atMs }) => {
        const seconds = sinceStep(atMs);
        return seconds !== undefined && seconds >= fromSeconds && seconds < untilSeconds;
      });
      return { requests: came.length, inside: came.filter(({ inside }) => inside).length };
    }),
    paired: pairedOf(lived, alone, steps),
  };
}

function pressedOf(moments: readonly Moment[]): ReadonlySet<number> {
  return new Set(moments.filter(({ pressure }) => pressure >= 1).map(({ atMs }) => atMs));
}

function stepsWithin(lastMs: number): readonly number[] {
  const steps: number[] = [];
  for (let fromMs: number = step.firstMs; fromMs + step.everyMs <= lastMs; fromMs += step.everyMs) steps.push(fromMs);
  return steps;
}

/** Seconds since the latest step; undefined before the first. */
function sinceStep(atMs: number): number | undefined {
  return atMs < step.firstMs ? undefined : ((atMs - step.firstMs) % step.everyMs) / 1000;
}

/** From a step to the end of its first spell of such moments; 0 where none began soon after it. s @param pressed in order */
function spellOf(pressed: readonly number[], fromMs: number): number {
  let endMs: number | undefined;
  for (const atMs of pressed) {
    if (atMs < fromMs || atMs >= fromMs + step.onMs) continue;
    if (endMs === undefined ? atMs < fromMs + beginsMs : atMs - endMs <= joinedMs) endMs = atMs;
  }
  return endMs === undefined ? 0 : (endMs - fromMs) / 1000;
}

/** Of each later stretch as long as that in which a step's spell may begin, whether somebody was pressed in it. */
function lateSpells(fromMs: number, pressed: ReadonlySet<number>): readonly boolean[] {
  const spells: boolean[] = [];
  for (let atMs = fromMs + beginsMs; atMs + beginsMs <= fromMs + step.onMs; atMs += beginsMs)
    spells.push([...pressed].some((one) => one >= atMs && one < atMs + beginsMs));
  return spells;
}
