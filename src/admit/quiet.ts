/**
 * Which batch jobs wait for quiet, since online took their prompts back before (`batch-room.ts` says for how long): what a walk of the
 * queue asks of each that it comes to, so that a crowd of them costs a walk next to nothing and keeps nobody else waiting.
 */
import type { BackendView, FleetSnapshot } from '../domain/fleet.ts';
import type { Clock } from '../platform/clock.ts';
import { type BatchStand, firstQuietMs, isShort, quietMsOf, quietsIn } from './batch-room.ts';
import type { LaneSettings } from './lane-settings.ts';
import type { Ask } from './owner.ts';
import { modelOf, type Waiter } from './waiter.ts';

export interface Quiet {
  /** A walk begins, or goes on by another rule: what it found before may be no more. */
  begin(): void;
  /** @returns false when it is to wait until online has been quiet there for longer; then it is looked at again by then */
  isEnough(waiter: Waiter, stand: BatchStand): boolean;
  /**
   * It is quiet enough for it nowhere that it could go to: choosing for it would be in vain.
   * @param isShut nobody of batch starts there now
   * @param ifShort only what the minimum share guarantees is given out, which waits for no quiet
   */
  isTooSoon(waiter: Waiter, isShut: (backend: BackendView) => boolean, ifShort: boolean): boolean;
  /** It was tried in vain. @returns whether want of quiet kept it from a backend */
  failed(waiter: Waiter): boolean;
}

export interface QuietDeps {
  readonly clock: Clock;
  readonly fleet: () => FleetSnapshot;
  readonly lanes: () => LaneSettings;
  readonly standOf: (backend: BackendView) => BatchStand;
  readonly wakeIn: (ms: number) => void;
}

/** In one walk so many that want the same are chosen for in vain; the others are looked at soon. */
const mostTried = 16;

/** What a walk knows of all those that could go to the same backends. */
interface Calm {
  /** Since when the calmest of these has been quiet; -Infinity: always, or there are none. Absent: to be found. */
  sinceMs: number | undefined;
  /** Of those that were chosen for as many as quiet kept waiting after all. */
  tried: number;
}

export function createQuiet({ clock, fleet, lanes, standOf, wakeIn }: QuietDeps): Quiet {
  const calms = new Map<string, Calm>();

  /** Ms until it has waited for so long that it waits for no quiet any more. */
  function agesIn({ sinceMs }: Waiter): number {
    const { agingMs } = lanes().batch;
    return agingMs > 0 ? Math.max(0, sinceMs + agingMs - clock.nowMs()) : Infinity;
  }

  function leftMs(waiter: Waiter, stand: BatchStand): number {
    if (quietMsOf(waiter.ask) === 0 || agesIn(waiter) === 0) return 0;
    return quietsIn(waiter.ask, stand);
  }

  function wakeFor(waiter: Waiter, ms: number): void {
    wakeIn(Math.min(ms, agesIn(waiter)));
  }

  function calmOf(ask: Ask): Calm {
    const key = keyOf(ask);
    const known = calms.get(key);
    if (known !== undefined) return known;
    const made: Calm = { sinceMs: undefined, tried: 0 };
    calms.set(key, made);
    return made;
  }

  function findCalm(ask: Ask, isShut: (backend: BackendView) => boolean): number {
    let sinceMs = Infinity;
    for (const backend of ableOf(ask, fleet().backends)) {
      if (isShut(backend)) continue;
      const stand = standOf(backend);
      sinceMs = Math.min(sinceMs, isShort(stand) ? -Infinity : (stand.held?.disturbedMs ?? -Infinity));
    }
    // With nobody to go to it isn't quiet that it waits for.
    return sinceMs === Infinity ? -Infinity : sinceMs;
  }

  return {
    begin() {
      calms.clear();
    },
    isEnough(waiter, stand) {
      const ms = leftMs(waiter, stand);
      if (ms > 0) wakeFor(waiter, ms);
      return ms === 0;
    },
    isTooSoon(waiter, isShut, ifShort) {
      const quietMs = quietMsOf(waiter.ask);
      if (quietMs === 0 || agesIn(waiter) === 0) return false;
      const nowMs = clock.nowMs();
      const calm = calmOf(waiter.ask);
      const sinceMs = (calm.sinceMs ??= findCalm(waiter.ask, isShut));
      const untilMs = Math.max(sinceMs + quietMs, ifShort ? -Infinity : waiter.noisyUntilMs);
      const isOver = calm.tried >= mostTried;
      if (untilMs > nowMs) wakeFor(waiter, untilMs - nowMs);
      else if (isOver) wakeFor(waiter, firstQuietMs);
      return untilMs > nowMs || isOver;
    },
    failed(waiter) {
      const { ask, wants } = waiter;
      if (quietMsOf(ask) === 0) return false;
      // What it was let try for may be taken by now.
      const calm = calmOf(ask);
      calm.sinceMs = undefined;
      let noisy = 0;
      let leastMs = Infinity;
      for (const { backend } of wants) {
        const ms = leftMs(waiter, standOf(backend));
        if (ms === 0) continue;
        noisy += 1;
        leastMs = Math.min(leastMs, ms);
      }
      if (noisy === 0) return false;
      calm.tried += 1;
      if (noisy === wants.length) waiter.noisyUntilMs = Math.min(waiter.chosenUntilMs, clock.nowMs() + leastMs);
      return true;
    },
  };
}

function keyOf({ job, affinity = '', exclude }: Ask): string {
  return `${modelOf(job)}\n${affinity}\n${exclude.join('\n')}`;
}

/** Who could take it, as far as is known without choosing; more than could at most. */
function ableOf({ job, affinity, exclude }: Ask, backends: readonly BackendView[]): readonly BackendView[] {
  const remaining = exclude.length === 0 ? backends : backends.filter(({ name }) => !exclude.includes(name));
  const home = affinity === undefined ? undefined : remaining.find(({ name }) => name === affinity);
  if (home !== undefined) return [home];
  if (backends.length === 1) return remaining;
  const model = modelOf(job);
  const able = remaining.filter(({ models }) => model === '' || models.length === 0 || models.includes(model));
  // Those that take no work are the last resort.
  const working = able.filter(({ health }) => health === 'up' || health === 'unknown');
  return working.length > 0 ? working : able;
}
