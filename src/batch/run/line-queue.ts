/**
 * The lines of one batch that this process has in hand and that wait to be sent: those that were taken back first, then those whose
 * next try is due, then the others by rank. Bounded: the store has the rest, and is asked page by page. Pure but for its own state.
 */
import type { PendingLine } from '../batch.ts';

export interface QueuedLine extends Pick<PendingLine, 'line' | 'customId' | 'at' | 'bytes' | 'rank'> {
  /** as the store knows it */
  attempts: number;
  failures: number;
  crashes: number;
  reclaimed: number;
  promptsTaken: number;
  /** wall clock, ms since the epoch */
  notBeforeMs: number;
}

export interface LineQueue {
  /** A page from the store. @param isLast there are no more behind it */
  takePage(lines: readonly PendingLine[], isLast: boolean): void;
  /** It lost its place for no fault of its own. */
  first(line: QueuedLine): void;
  /** It is tried again when its time has come. */
  later(line: QueuedLine): void;
  /** @returns the line to send now, which is out of the queue then. @param mayTry leaves out of those that are tried again */
  next(nowMs: number, mayTry?: (line: QueuedLine) => boolean): QueuedLine | undefined;
  hasNext(nowMs: number, mayTry?: (line: QueuedLine) => boolean): boolean;
  /** When the next one is due, of those that must wait for their time; undefined: none must. */
  dueAfter(nowMs: number): number | undefined;
  /** Behind this one the store is to be asked; undefined: enough are here, or there are no more. */
  readonly wantsBehind: number | undefined;
  /** Nothing is here and nothing more in the store, but for what is under way. */
  readonly isEmpty: boolean;
  /** Those that were sent before and wait for another try: for its time, or behind that and after giving way for a place. */
  readonly backingOff: number;
}

/** @param most lines that wait for another try before new ones are begun: with so many failing it isn't their fault */
export function createLineQueue({ page, most }: { readonly page: number; readonly most: number }): LineQueue {
  const taken: QueuedLine[] = [];
  const retries: QueuedLine[] = [];
  let fresh: QueuedLine[] = [];
  let at = 0;
  let afterRank = -1;
  let isWhole = false;

  const left = () => fresh.length - at;

  function due(nowMs: number, mayTry?: (line: QueuedLine) => boolean): number {
    let best = -1;
    for (let i = 0; i < retries.length; i += 1) {
      const line = retries[i];
      if (line === undefined || line.notBeforeMs > nowMs || mayTry?.(line) === false) continue;
      if (best < 0 || line.rank < (retries[best]?.rank ?? 0)) best = i;
    }
    return best;
  }

  return {
    takePage(lines, isLast) {
      fresh = fresh.slice(at);
      at = 0;
      for (const line of lines) {
        const { attempts, notBeforeMs } = line;
        const queued = {
          ...line,
          attempts,
          failures: attempts,
          crashes: 0,
          reclaimed: 0,
          promptsTaken: 0,
          notBeforeMs,
        };
        if (notBeforeMs > 0) retries.push(queued);
        else fresh.push(queued);
      }
      afterRank = lines.at(-1)?.rank ?? afterRank;
      isWhole = isLast;
    },
    first: (line) => void taken.push(line),
    later: (line) => void retries.push(line),
    next(nowMs, mayTry) {
      const back = taken.shift();
      if (back !== undefined) return back;
      const index = due(nowMs, mayTry);
      if (index >= 0) return retries.splice(index, 1)[0];
      if (retries.length >= most) return undefined;
      const line = fresh[at];
      if (line !== undefined) at += 1;
      return line;
    },
    hasNext: (nowMs, mayTry) => taken.length > 0 || (retries.length < most && left() > 0) || due(nowMs, mayTry) >= 0,
    dueAfter(nowMs) {
      let leastMs = Infinity;
      for (const { notBeforeMs } of retries) if (notBeforeMs > nowMs) leastMs = Math.min(leastMs, notBeforeMs);
      return leastMs === Infinity ? undefined : leastMs;
    },
    get wantsBehind() {
      const isLow = left() < page / 2 && retries.length < most;
      return !isWhole && isLow ? afterRank : undefined;
    },
    get isEmpty() {
      return isWhole && taken.length === 0 && retries.length === 0 && left() === 0;
    },
    get backingOff() {
      return retries.length + taken.length;
    },
  };
}
