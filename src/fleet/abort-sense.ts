/**
 * Whether ending a request at one backend frees its place there. Engines that are known to stop count as such until they are seen
 * not to: after an abort the engine's own count of requests, less warmlane's, must come down again. Others count as unknown, since
 * nothing of theirs would show it. Pure; `backend-watch.ts` brings aborts and readings.
 */
import type { EngineReading } from '../domain/engine-reading.ts';
import type { Engine } from '../domain/names.ts';

export interface AbortSense {
  /** undefined: nobody knows */
  works(engine: Engine): boolean | undefined;
  /** A request that the engine worked on was ended by us; so many places should be free soon. */
  aborted(slots: number, nowMs: number): void;
  /** @param ownSlots places that our own requests hold now @returns what is known is another thing now */
  read(reading: EngineReading, ownSlots: number): boolean;
  /** The process is gone. */
  forget(): void;
}

/** All of them drop a request whose connection closes; llama-server where it streams. */
const stopping: ReadonlySet<Engine> = new Set<Engine>(['vllm', 'sglang', 'llama-server']);

/** vLLM frees a place within a quarter of a second, llama-server looks for closed clients once a second. */
const settleMs = 1500;
/** A reading may fall between two of our own requests: only several of them tell against an engine. */
const enoughReadings = 3;
const longestMs = 60_000;

export function createAbortSense(): AbortSense {
  let seen: boolean | undefined;
  /** Requests there that aren't ours, when nothing was pending. */
  let others = 0;
  let pending: { sinceMs: number; slots: number; still: number } | undefined;

  return {
    works: (engine) => seen ?? (stopping.has(engine) ? true : undefined),
    aborted(slots, nowMs) {
      if (slots <= 0) return;
      // Each further one starts the waiting anew: what is still there may be its.
      pending = { sinceMs: nowMs, slots: slots + (pending?.slots ?? 0), still: 0 };
    },
    read({ atMs, gauges }, ownSlots) {
      const { running, waiting = 0 } = gauges;
      if (running === undefined) return false;
      const found = Math.max(0, running + waiting - ownSlots);
      if (pending === undefined) {
        others = found;
        return false;
      }
      if (atMs < pending.sinceMs + settleMs) return false;
      const before = seen;
      if (found <= others) {
        seen = true;
        pending = undefined;
      } else if (found >= others + pending.slots) {
        pending.still += 1;
        if (pending.still >= enoughReadings) {
          seen = false;
          pending = undefined;
        }
      }
      if (pending !== undefined && atMs - pending.sinceMs > longestMs) pending = undefined;
      return seen !== before;
    },
    forget() {
      seen = undefined;
      pending = undefined;
      others = 0;
    },
  };
}
