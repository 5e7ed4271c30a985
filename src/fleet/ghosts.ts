/**
 * Slots of one llama-server that may still work on a request that nobody waits for any more (R10): its prefill stops only
 * between two batches, and a request that isn't streamed may run to its end. They count as busy until the server shows
 * otherwise, or for a bounded time. Keeps no timers; the caller says when.
 */

interface Ghost {
  readonly sinceMs: number;
  readonly endMs: number;
  readonly slots: number;
}

export interface Ghosts {
  /** @param maxMs counts at most so long */
  add(slots: number, nowMs: number, maxMs: number): void;
  count(): number;
  /** When the youngest was added; 0 when there is none. */
  youngestMs(): number;
  /** The server showed so many busy slots to a question asked at `askedMs`; `ownSlots` of them are held by our own permits. */
  seen(busySlots: number, ownSlots: number, askedMs: number): void;
  /** A request sent at `sentMs` got a slot: at least that one of `slots` is no ghost's. */
  answered(sentMs: number, slots: number | undefined): void;
  expire(nowMs: number): void;
  /** When the next one expires. */
  nextEndMs(): number | undefined;
  clear(): void;
}

/** An add past it drops the oldest: no server has so many slots. */
const maxGhosts = 1024;

export function createGhosts(): Ghosts {
  let ghosts: readonly Ghost[] = [];

  /** Keeps at most `slots` among the ghosts older than `beforeMs`, the youngest of them. */
  function keepOld(slots: number, beforeMs: number): void {
    let left = Math.max(0, slots);
    const kept: Ghost[] = [];
    for (const ghost of ghosts.toReversed()) {
      const keeps = ghost.sinceMs >= beforeMs ? ghost.slots : Math.min(left, ghost.slots);
      if (ghost.sinceMs < beforeMs) left -= keeps;
      if (keeps > 0) kept.unshift(keeps === ghost.slots ? ghost : { ...ghost, slots: keeps });
    }
    ghosts = kept;
  }

  return {
    add(slots, nowMs, maxMs) {
      if (slots > 0) ghosts = [...ghosts, { slots, sinceMs: nowMs, endMs: nowMs + maxMs }].slice(-maxGhosts);
    },
    count: () => sum(ghosts),
    youngestMs: () => ghosts.at(-1)?.sinceMs ?? 0,
    seen(busySlots, ownSlots, askedMs) {
      const young = sum(ghosts.filter((ghost) => ghost.sinceMs >= askedMs));
      keepOld(busySlots - ownSlots - young, askedMs);
    },
    answered(sentMs, slots) {
      if (slots !== undefined) keepOld(slots - 1, sentMs);
    },
    expire(nowMs) {
      ghosts = ghosts.filter((ghost) => ghost.endMs > nowMs);
    },
    nextEndMs: () => (ghosts.length === 0 ? undefined : Math.min(...ghosts.map((ghost) => ghost.endMs))),
    clear() {
      ghosts = [];
    },
  };
}

function sum(ghosts: readonly Ghost[]): number {
  return ghosts.reduce((total, ghost) => total + ghost.slots, 0);
}
