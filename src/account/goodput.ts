/**
 * What the last 1, 5 and 60 minutes brought, by profile, model, backend, lane and warmth: requests and tokens, how many of
 * them met their objective, what was of use. Pure state with the time given, bounded in cells and in time. Rates are for
 * `goodput-view.ts`.
 *
 * Each window is a ring that covers the slot under way and the 12 before it, so between 12 and 13 slots.
 */
import type { SloBound, SloPhase, SloVerdict } from '../domain/assessment.ts';
import type { Lane, Warmth } from '../domain/names.ts';
import type { RequestRecord } from '../domain/record.ts';
import { addRecord, type GoodputSums, joinSums, noSums } from './goodput-sums.ts';
import { createTimeRing } from './time-ring.ts';
import { type WindowName, windowLengths } from './window-lengths.ts';

/** What a sum is of. `''` where there is none: no profile applies, no model was named, no backend was reached. */
export interface GoodputKey {
  readonly profile: string;
  readonly model: string;
  readonly backend: string;
  readonly lane: Lane;
  readonly warmth: Warmth;
}

export interface GoodputCell extends GoodputKey {
  readonly sums: GoodputSums;
}

/** What missed requests failed by. `failed`: by no bound, but by not being answered whole. */
export interface Missed {
  readonly profile: string;
  readonly warmth: Warmth;
  readonly bound: SloBound | 'failed';
  readonly phase: SloPhase;
  requests: number;
}

export interface GoodputWindow {
  readonly window: WindowName;
  /** Time that the sums are of. */
  readonly coveredMs: number;
  readonly cells: readonly GoodputCell[];
  readonly missed: readonly Missed[];
}

export interface Goodput {
  /** @param model its label, bounded; `''` where none was named */
  add(record: RequestRecord, model: string, nowMs: number): void;
  read(window: WindowName, nowMs: number): GoodputWindow;
  /** Requests whose model was booked under `other`, since there were too many combinations. */
  readonly overflowed: number;
}

export interface GoodputSettings {
  /**
   * Different combinations of profile, model, backend, lane and warmth within an hour. Models of further ones count as
   * `other`; past twice as many their backends do too, and what is left is as many as profiles, lanes and warmths.
   */
  readonly maxCells: number;
}

const slotsPerWindow = 12;
/** The name under which models and backends past the bound are booked. */
export const otherName = 'other';

interface Slot {
  /** By the key itself: there is one object for each combination, so that a slot holds little more than numbers. */
  readonly cells: Map<GoodputKey, GoodputSums>;
  readonly missed: Map<string, Missed>;
}

const emptySlot = (): Slot => ({ cells: new Map(), missed: new Map() });

/** @param startMs now: nothing was counted before */
export function createGoodput({ maxCells }: GoodputSettings, startMs: number): Goodput {
  const ringOf = (window: WindowName) => {
    const slotMs = windowLengths[window] / slotsPerWindow;
    const ring = createTimeRing({ slotMs, slots: slotsPerWindow + 1 }, startMs, emptySlot);
    return { ...ring, slotMs, spanMs: windowLengths[window] + slotMs };
  };
  const rings = { '1m': ringOf('1m'), '5m': ringOf('5m'), '60m': ringOf('60m') };
  const all = Object.values(rings);
  const longest = rings['60m'];
  /** The combinations of the last hour. */
  const known = new Map<string, GoodputKey>();
  let knownSlot = -1;
  let overflowed = 0;

  /** What is gone from all windows makes room. */
  function forget(nowMs: number): void {
    const slotNumber = Math.floor(nowMs / longest.slotMs);
    if (slotNumber === knownSlot) return;
    knownSlot = slotNumber;
    const held = new Set(longest.within(nowMs, longest.spanMs).flatMap(({ cells }) => [...cells.keys()]));
    for (const [id, key] of known) if (!held.has(key)) known.delete(id);
  }

  function boundedKey(wanted: GoodputKey): GoodputKey {
    const found = known.get(idOf(wanted));
    if (found !== undefined) return found;
    const key = withinBound(wanted, known.size, maxCells);
    if (key !== wanted) overflowed += 1;
    const id = idOf(key);
    const kept = known.get(id) ?? key;
    known.set(id, kept);
    return kept;
  }

  return {
    add(record, model, nowMs) {
      forget(nowMs);
      const key = boundedKey(keyOf(record, model));
      const verdict = record.assessment?.slo;
      for (const ring of all) {
        const slot = ring.at(nowMs);
        if (slot === undefined) continue;
        let sums = slot.cells.get(key);
        if (sums === undefined) slot.cells.set(key, (sums = noSums()));
        addRecord(sums, record);
        if (verdict?.met === false) joinMissed(slot.missed, missedBy(record, verdict));
      }
    },
    read(window, nowMs) {
      const { spanMs, within, coveredMs } = rings[window];
      const cells = new Map<GoodputKey, GoodputSums>();
      const missed = new Map<string, Missed>();
      for (const slot of within(nowMs, spanMs).toReversed()) {
        for (const [key, sums] of slot.cells) joinCell(cells, key, sums);
        for (const one of slot.missed.values()) joinMissed(missed, one);
      }
      return {
        window,
        coveredMs: coveredMs(nowMs, spanMs),
        cells: Array.from(cells, ([key, sums]) => ({ ...key, sums })),
        missed: [...missed.values()].toSorted((a, b) => b.requests - a.requests),
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
  return {
    profile: verdict.profile,
    warmth: record.warmth,
    bound: worst?.bound ?? 'failed',
    phase: worst?.phase ?? record.phase ?? 'receiving',
    requests: 1,
  };
}

function joinCell(cells: Map<GoodputKey, GoodputSums>, key: GoodputKey, sums: GoodputSums): void {
  const to = cells.get(key);
  if (to === undefined) cells.set(key, { ...sums });
  else joinSums(to, sums);
}

function joinMissed(sum: Map<string, Missed>, one: Missed): void {
  const id = `${one.profile}\n${one.warmth}\n${one.bound}\n${one.phase}`;
  const to = sum.get(id);
  if (to === undefined) sum.set(id, { ...one });
  else to.requests += one.requests;
}

function keyOf({ backend = '', lane, warmth, assessment }: RequestRecord, model: string): GoodputKey {
  return { profile: assessment?.slo?.profile ?? '', model, backend, lane, warmth };
}

function withinBound(key: GoodputKey, known: number, maxCells: number): GoodputKey {
  if (known < maxCells) return key;
  return known < 2 * maxCells ? { ...key, model: otherName } : { ...key, model: otherName, backend: otherName };
}

function idOf({ profile, model, backend, lane, warmth }: GoodputKey): string {
  return `${profile}\n${lane}\n${warmth}\n${backend}\n${model}`;
}
