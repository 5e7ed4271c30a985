/**
 * What the last 1, 5 and 60 minutes brought, by profile, model, backend and lane: requests and tokens, how many of them met
 * their objective, what was of use. Pure state with the time given, bounded in cells and in time. Rates are for `goodput-view.ts`.
 *
 * Each window is a ring of 12 slots: it covers the slot under way and the 12 before it, so between 12 and 13 slots.
 */
import type { SloBound, SloPhase, SloVerdict } from '../domain/assessment.ts';
import type { Lane } from '../domain/names.ts';
import type { RequestRecord } from '../domain/record.ts';
import { addRecord, type GoodputSums, joinSums, noSums } from './goodput-sums.ts';

export const windowMinutes = [1, 5, 60] as const;
export type WindowMinutes = (typeof windowMinutes)[number];

/** What a sum is of. `''` where there is none: no profile applies, no model was named, no backend was reached. */
export interface GoodputKey {
  readonly profile: string;
  readonly model: string;
  readonly backend: string;
  readonly lane: Lane;
}

export interface GoodputCell extends GoodputKey {
  readonly sums: GoodputSums;
}

/** What missed requests failed by. `failed`: by no bound, but by not being answered whole. */
export interface Missed {
  readonly profile: string;
  readonly bound: SloBound | 'failed';
  readonly phase: SloPhase;
  requests: number;
}

export interface GoodputWindow {
  readonly minutes: WindowMinutes;
  /** Time that the sums are of. */
  readonly coveredMs: number;
  readonly cells: readonly GoodputCell[];
  readonly missed: readonly Missed[];
}

export interface Goodput {
  /** @param model its label, bounded; `''` where none was named */
  add(record: RequestRecord, model: string, nowMs: number): void;
  read(minutes: WindowMinutes, nowMs: number): GoodputWindow;
  /** Requests whose model was booked under `other`, since there were too many combinations. */
  readonly overflowed: number;
}

const slotsPerWindow = 12;
/** The name under which models past the bound are booked; backends are as many as the config has. */
export const otherName = 'other';

interface Slot {
  /** Its number since the clock's zero. */
  readonly number: number;
  readonly cells: Map<string, GoodputCell>;
  readonly missed: Map<string, Missed>;
}

export interface GoodputSettings {
  /** Different combinations of profile, model, backend and lane within an hour; models of further ones count as `other`. */
  readonly maxCells: number;
}

/** @param startMs now: nothing was counted before */
export function createGoodput({ maxCells }: GoodputSettings, startMs: number): Goodput {
  const rings = windowMinutes.map((minutes) => ({
    minutes,
    slotMs: (minutes * 60_000) / slotsPerWindow,
    slots: [] as Slot[],
  }));
  /** Cells of the last hour. */
  let known = new Set<string>();
  let knownSlot = -1;
  let overflowed = 0;

  /** Models past the bound share a cell for each profile, backend and lane. What is gone from all windows makes room. */
  function boundedKey(record: RequestRecord, model: string, nowMs: number): { id: string; key: GoodputKey } {
    const longest = rings.at(-1);
    const slotNumber = Math.floor(nowMs / (longest?.slotMs ?? 1));
    if (slotNumber !== knownSlot) {
      knownSlot = slotNumber;
      const kept = longest?.slots.filter(({ number }) => number >= slotNumber - slotsPerWindow) ?? [];
      known = new Set(kept.flatMap(({ cells }) => [...cells.keys()]));
    }
    const key = keyOf(record, model);
    const id = idOf(key);
    if (known.has(id)) return { id, key };
    if (known.size < maxCells) {
      known.add(id);
      return { id, key };
    }
    overflowed += 1;
    const other = { ...key, model: otherName };
    return { id: idOf(other), key: other };
  }

  return {
    add(record, model, nowMs) {
      const { id, key } = boundedKey(record, model, nowMs);
      for (const ring of rings) {
        const slot = slotAt(ring.slots, Math.floor(nowMs / ring.slotMs));
        let cell = slot.cells.get(id);
        if (cell === undefined) slot.cells.set(id, (cell = { ...key, sums: noSums() }));
        addRecord(cell.sums, record);
        const missed = record.assessment?.slo?.met === false ? missedBy(record, record.assessment.slo) : undefined;
        if (missed === undefined) continue;
        const missId = `${missed.profile}\n${missed.bound}\n${missed.phase}`;
        const before = slot.missed.get(missId);
        if (before === undefined) slot.missed.set(missId, missed);
        else before.requests += 1;
      }
    },
    read(minutes, nowMs) {
      const ring = rings.find((one) => one.minutes === minutes);
      const slotMs = ring?.slotMs ?? 1;
      const oldest = Math.floor(nowMs / slotMs) - slotsPerWindow;
      const slots = (ring?.slots ?? []).filter(({ number }) => number >= oldest);
      return {
        minutes,
        coveredMs: nowMs - Math.max(startMs, oldest * slotMs),
        cells: joinCells(slots),
        missed: joinMissed(slots),
      };
    },
    get overflowed() {
      return overflowed;
    },
  };
}

/** What a request that did not meet its profile is counted under: its worst bound, or that it failed. */
export function missedBy(record: RequestRecord, verdict: SloVerdict): Missed {
  const answered = record.outcome === 'ok' || record.outcome === 'client_abort';
  const [worst] = answered ? verdict.breaches : [];
  const { profile } = verdict;
  return {
    profile,
    bound: worst?.bound ?? 'failed',
    phase: worst?.phase ?? record.phase ?? 'receiving',
    requests: 1,
  };
}

/** The slot of that number, in order; older ones than the window needs go. */
function slotAt(slots: Slot[], number: number): Slot {
  const last = slots.at(-1);
  if (last !== undefined && last.number >= number) return last;
  const slot = { number, cells: new Map<string, GoodputCell>(), missed: new Map<string, Missed>() };
  slots.push(slot);
  while ((slots[0]?.number ?? number) < number - slotsPerWindow) slots.shift();
  return slot;
}

function joinCells(slots: readonly Slot[]): GoodputCell[] {
  const joined = new Map<string, GoodputCell>();
  for (const { cells } of slots) {
    for (const [id, cell] of cells) {
      const to = joined.get(id);
      if (to === undefined) joined.set(id, { ...cell, sums: { ...cell.sums } });
      else joinSums(to.sums, cell.sums);
    }
  }
  return [...joined.values()];
}

function joinMissed(slots: readonly Slot[]): Missed[] {
  const joined = new Map<string, Missed>();
  for (const { missed } of slots) {
    for (const [id, one] of missed) {
      const to = joined.get(id);
      if (to === undefined) joined.set(id, { ...one });
      else to.requests += one.requests;
    }
  }
  return [...joined.values()].toSorted((a, b) => b.requests - a.requests);
}

function keyOf({ backend = '', lane, assessment }: RequestRecord, model: string): GoodputKey {
  return { profile: assessment?.slo?.profile ?? '', model, backend, lane };
}

function idOf({ profile, model, backend, lane }: GoodputKey): string {
  return `${profile}\n${lane}\n${backend}\n${model}`;
}
