/**
 * Percentiles over the last 1, 5 and 60 minutes for each population (model, backend, lane, warmth), with the requests by
 * outcome beside. A record is added once, to the slice of ten seconds under way; slices are joined into slices of 30 s
 * and these into slices of 5 minutes. Pure state with the moment given. Bounded: populations past their number are one
 * called `other`; past `maxBytes` the oldest slices go, and the answer says how far back it reaches.
 */
import type { Lane, Warmth } from '../domain/names.ts';
import type { RequestRecord } from '../domain/record.ts';
import { type WindowName, windowLengths } from './window-lengths.ts';
import { bytesOf, closedTally, type ClosedTally, Tally } from './windows-figures.ts';

export interface Population {
  readonly model: string;
  readonly backend: string;
  readonly lane: Lane;
  readonly warmth: Warmth;
}

export interface WindowsSettings {
  /** In one slice of time. */
  readonly maxPopulations: number;
  /** Of all closed slices together. */
  readonly maxBytes: number;
}

export interface Windows {
  add(record: RequestRecord, model: string, nowMs: number): void;
  read(window: WindowName, wanted: Partial<Population>, nowMs: number): WindowView;
}

export interface WindowView {
  /** how far back it reaches: the window to whole slices, less where warmlane is younger or slices had to go */
  readonly coveredMs: number;
  readonly populations: readonly Population[];
  /** What there is of one of them, summed up anew: so that a caller may take them one by one. */
  tally(population: Population): Tally;
}

interface Slice<Kind> {
  readonly fromMs: number;
  readonly populations: Map<string, { readonly population: Population; readonly tally: Kind }>;
}

interface Level {
  readonly window: WindowName;
  readonly windowMs: number;
  readonly sliceMs: number;
  open: Slice<Tally>;
  /** nothing before this moment is known any more */
  knownFromMs: number;
  /** oldest first */
  readonly closed: Slice<ClosedTally>[];
}

const otherPopulation = 'other';

export function createWindows({ maxPopulations, maxBytes }: WindowsSettings, startMs: number): Windows {
  const level = (window: WindowName, sliceMs: number): Level => ({
    window,
    windowMs: windowLengths[window],
    sliceMs,
    open: sliceAt(startMs, sliceMs),
    knownFromMs: startMs,
    closed: [],
  });
  const fine = level('1m', 10_000);
  const middle = level('5m', 30_000);
  const coarse = level('60m', 300_000);
  const levels = [fine, middle, coarse];
  let bytes = 0;

  function tallyOf(slice: Slice<Tally>, population: Population): Tally {
    const key = keyOf(population);
    const found = slice.populations.get(key);
    if (found !== undefined) return found.tally;
    if (slice.populations.size >= maxPopulations && population.model !== otherPopulation) {
      const { lane, warmth } = population;
      return tallyOf(slice, { model: otherPopulation, backend: otherPopulation, lane, warmth });
    }
    const tally = new Tally();
    slice.populations.set(key, { population, tally });
    return tally;
  }

  /** Closes the slices whose time is over, from the finest up, and lets go of what no window reaches. */
  function advance(nowMs: number): void {
    for (const [at, { sliceMs, windowMs, closed }] of levels.entries()) {
      const now = levels[at];
      if (now === undefined || nowMs < now.open.fromMs + sliceMs) continue;
      const ended = now.open;
      now.open = sliceAt(nowMs, sliceMs);
      const above = levels[at + 1];
      if (ended.populations.size > 0) {
        if (above !== undefined) joinInto(above.open, ended);
        closed.push(close(ended));
      }
      while (closed[0] !== undefined && closed[0].fromMs + sliceMs <= nowMs - windowMs - sliceMs) drop(closed);
    }
    while (bytes > maxBytes) dropOldest();
  }

  function joinInto(above: Slice<Tally>, { populations }: Slice<Tally>): void {
    for (const { population, tally } of populations.values()) tallyOf(above, population).join(tally);
  }

  function close({ fromMs, populations }: Slice<Tally>): Slice<ClosedTally> {
    const closed: Slice<ClosedTally> = { fromMs, populations: new Map() };
    for (const [key, { population, tally }] of populations) {
      const kept = closedTally(tally);
      bytes += bytesOf(kept);
      closed.populations.set(key, { population, tally: kept });
    }
    return closed;
  }

  function drop(closed: Slice<ClosedTally>[]): void {
    for (const { tally } of closed.shift()?.populations.values() ?? []) bytes -= bytesOf(tally);
  }

  /** The longest window loses its oldest part first. */
  function dropOldest(): void {
    const longest = levels.toReversed().find(({ closed }) => closed.length > 0);
    const oldest = longest?.closed[0];
    if (longest === undefined || oldest === undefined) {
      bytes = 0;
      return;
    }
    longest.knownFromMs = oldest.fromMs + longest.sliceMs;
    drop(longest.closed);
  }

  return {
    add(record, model, nowMs) {
      advance(nowMs);
      const { backend = 'none', lane, warmth } = record;
      tallyOf(fine.open, { model, backend, lane, warmth }).add(record);
    },
    read(window, wanted, nowMs) {
      advance(nowMs);
      const upTo = levels.findIndex((each) => each.window === window);
      const { closed, sliceMs, windowMs, knownFromMs } = levels[upTo] ?? coarse;
      const fromMs = nowMs - windowMs;
      const within = () => closed.filter((slice) => slice.fromMs + sliceMs > fromMs);
      // What has not come up yet to the slices of this window stands in the open ones from here down. They are looked up
      // anew each time: between two tallies one may have come up, and would be counted in both.
      const slices = () => [...within(), ...levels.slice(0, upTo + 1).map(({ open }) => open)];
      const populations = new Map<string, Population>();
      for (const slice of slices())
        for (const [key, { population }] of slice.populations)
          if (matches(population, wanted)) populations.set(key, population);
      return {
        coveredMs: nowMs - Math.max(Math.min(fromMs, within()[0]?.fromMs ?? fromMs), knownFromMs),
        populations: [...populations.values()],
        tally(population) {
          const key = keyOf(population);
          const sum = new Tally();
          for (const slice of slices()) {
            const part = slice.populations.get(key);
            if (part !== undefined) sum.join(part.tally);
          }
          return sum;
        },
      };
    },
  };
}

function sliceAt(nowMs: number, sliceMs: number): Slice<Tally> {
  return { fromMs: Math.floor(nowMs / sliceMs) * sliceMs, populations: new Map() };
}

function keyOf({ model, backend, lane, warmth }: Population): string {
  return `${model}\u0000${backend}\u0000${lane}\u0000${warmth}`;
}

function matches(population: Population, wanted: Partial<Population>): boolean {
  return (
    (wanted.model === undefined || wanted.model === population.model) &&
    (wanted.backend === undefined || wanted.backend === population.backend) &&
    (wanted.lane === undefined || wanted.lane === population.lane) &&
    (wanted.warmth === undefined || wanted.warmth === population.warmth)
  );
}
