/** How fast a batch comes along, and when it will be done at that pace. Pure but for its own counts. */

/** Lines that were done lately. */
export interface Pace {
  add(lines: number, nowMs: number): void;
  /** lines per second; undefined: nothing was done lately */
  perSecond(nowMs: number): number | undefined;
}

const slots = 60;
const slotMs = 1000;

/** Over the last minute, or the time since the first line if that is shorter. */
export function createPace(): Pace {
  const counts = new Float64Array(slots);
  /** Which second each slot counts. */
  const seconds = new Float64Array(slots).fill(-1);
  let firstMs: number | undefined;
  return {
    add(lines, nowMs) {
      firstMs ??= nowMs;
      const second = Math.floor(nowMs / slotMs);
      const slot = second % slots;
      if (seconds[slot] !== second) counts[slot] = 0;
      seconds[slot] = second;
      counts[slot] = (counts[slot] ?? 0) + lines;
    },
    perSecond(nowMs) {
      if (firstMs === undefined) return undefined;
      const since = Math.floor(nowMs / slotMs) - slots;
      let lines = 0;
      for (let slot = 0; slot < slots; slot += 1) if ((seconds[slot] ?? -1) > since) lines += counts[slot] ?? 0;
      const spanMs = Math.min(slots * slotMs, Math.max(slotMs, nowMs - firstMs));
      return lines === 0 ? undefined : (lines * 1000) / spanMs;
    },
  };
}

/** One batch that is under way here, for people: no contents. */
export interface BatchProgress {
  readonly id: string;
  /** lines that are with a backend or wait for a place */
  readonly inFlight: number;
  /** of these, that are with a backend */
  readonly running: number;
  /** lines that wait for another try */
  readonly backingOff: number;
  /** tries that were repeated, and lines that gave way to online work, since this process has it */
  readonly retries: number;
  readonly reclaimed: number;
  readonly linesPerSecond?: number;
  /** at that pace */
  readonly secondsLeft?: number;
  /** the pace doesn't do for its window */
  readonly isLate?: boolean;
}

export interface PaceFigures {
  readonly linesPerSecond?: number;
  readonly secondsLeft?: number;
  readonly isLate?: boolean;
}

export function paceFigures(
  perSecond: number | undefined,
  { linesLeft, secondsToExpiry }: { readonly linesLeft: number; readonly secondsToExpiry: number },
): PaceFigures {
  if (perSecond === undefined) return {};
  const secondsLeft = linesLeft / perSecond;
  return { linesPerSecond: perSecond, secondsLeft, isLate: secondsLeft > secondsToExpiry };
}
