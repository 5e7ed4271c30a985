/**
 * Hit sums of each backend and model over the last minutes and since the start. Pure state with the moment given; bounded:
 * three rings of slots for each of at most so many pairs. Backends come and go: a pair that is in no window any more makes
 * room for a new one; where there is none, what comes past them is one pair called `other`.
 */
import { createTimeRing, type TimeRing } from '../time-ring.ts';
import { type WindowName, windowLengths } from '../window-lengths.ts';
import type { AnswerHit } from './answer-hit.ts';
import { type AnswerNotes, HitSums } from './hit-sums.ts';

/** `start`: since warmlane runs. */
export type HitWindow = WindowName | 'start';

export interface HitPopulation {
  readonly backend: string;
  readonly model: string;
}

export interface HitWindows {
  add(of: HitPopulation, hit: AnswerHit, how: { readonly notes: AnswerNotes; readonly nowMs: number }): void;
  /** Of those that match; without answers in the window they are left out. */
  read(window: HitWindow, wanted: Partial<HitPopulation>, nowMs: number): readonly HitReading[];
  /** Time that a window covers: less than its length while warmlane is younger. */
  coveredMs(window: HitWindow, nowMs: number): number;
}

export interface HitReading extends HitPopulation {
  readonly sums: HitSums;
}

interface Held {
  readonly of: HitPopulation;
  /** When it was added to. */
  lastMs: number;
  readonly whole: HitSums;
  readonly rings: Readonly<Record<WindowName, TimeRing<HitSums>>>;
}

/** Each window in slots of a tenth or twelfth of it, and the slot under way. */
const sizes = {
  '1m': { slotMs: 6_000, slots: 11 },
  '5m': { slotMs: 30_000, slots: 11 },
  '60m': { slotMs: 300_000, slots: 13 },
} as const satisfies Record<WindowName, { slotMs: number; slots: number }>;

const others: HitPopulation = { backend: 'other', model: 'other' };

export function createHitWindows(settings: { readonly maxPopulations: number }, startMs: number): HitWindows {
  const populations = new Map<string, Held>();
  const ringOf = (window: WindowName) => createTimeRing(sizes[window], startMs, () => new HitSums());
  const lengths: Readonly<Record<WindowName, TimeRing<HitSums>>> = {
    '1m': ringOf('1m'),
    '5m': ringOf('5m'),
    '60m': ringOf('60m'),
  };

  function at(of: HitPopulation, nowMs: number): Held {
    const key = `${of.backend}\u0000${of.model}`;
    const found = populations.get(key);
    if (found !== undefined) {
      found.lastMs = nowMs;
      return found;
    }
    const isFull = populations.size >= settings.maxPopulations && !makeRoom(nowMs);
    if (isFull && of !== others) return at(others, nowMs);
    const made: Held = {
      of,
      lastMs: nowMs,
      whole: new HitSums(),
      rings: { '1m': ringOf('1m'), '5m': ringOf('5m'), '60m': ringOf('60m') },
    };
    populations.set(key, made);
    return made;
  }

  /** @returns false when all of them are in a window still */
  function makeRoom(nowMs: number): boolean {
    let oldest: Held | undefined;
    for (const held of populations.values())
      if (held.of !== others && (oldest === undefined || held.lastMs < oldest.lastMs)) oldest = held;
    if (oldest === undefined || nowMs - oldest.lastMs <= windowLengths['60m']) return false;
    return populations.delete(`${oldest.of.backend}\u0000${oldest.of.model}`);
  }

  return {
    add(of, hit, { notes, nowMs }) {
      const { whole, rings } = at(of, nowMs);
      whole.add(hit, notes);
      rings['1m'].at(nowMs)?.add(hit, notes);
      rings['5m'].at(nowMs)?.add(hit, notes);
      rings['60m'].at(nowMs)?.add(hit, notes);
    },
    read(window, wanted, nowMs) {
      const readings: HitReading[] = [];
      for (const { of, whole, rings } of populations.values()) {
        if (wanted.backend !== undefined && wanted.backend !== of.backend) continue;
        if (wanted.model !== undefined && wanted.model !== of.model) continue;
        const sums = window === 'start' ? whole : joined(rings[window].within(nowMs, windowLengths[window]));
        if (sums.answers > 0) readings.push({ backend: of.backend, model: of.model, sums });
      }
      return readings;
    },
    coveredMs: (window, nowMs) =>
      window === 'start' ? nowMs - startMs : lengths[window].coveredMs(nowMs, windowLengths[window]),
  };
}

export function joined(all: Iterable<HitSums>): HitSums {
  const sums = new HitSums();
  for (const one of all) sums.join(one);
  return sums;
}
