/**
 * Who left the fleet and who was started anew, told from one snapshot to the next. One that leaves is remembered for a minute:
 * under the same name and URL it may be back, as it was. Bounded by the fleet's names.
 */
import type { FleetSnapshot } from '../domain/fleet.ts';
import type { Clock, Timer } from '../platform/clock.ts';

const keptMs = 60_000;

export interface FleetChanges {
  /** The same snapshot twice costs nothing. */
  seen(snapshot: FleetSnapshot): void;
}

export interface FleetChangesDeps {
  readonly clock: Clock;
  readonly restarted: (backend: string) => void;
  /** It has been away for long, or another server has its name. */
  readonly removed: (backend: string) => void;
}

interface Known {
  readonly url: string;
  restarts: number;
  /** Set while it is away. */
  away: Timer | undefined;
}

export function createFleetChanges({ clock, restarted, removed }: FleetChangesDeps): FleetChanges {
  const known = new Map<string, Known>();
  let last: FleetSnapshot | undefined;

  function isHere(name: string): boolean {
    return last?.backends.some((backend) => backend.name === name) === true;
  }

  function goes(name: string, one: Known): void {
    one.away = clock.timer(keptMs, () => {
      one.away = undefined;
      if (isHere(name)) return;
      known.delete(name);
      removed(name);
    });
  }

  return {
    seen(snapshot) {
      if (snapshot === last) return;
      last = snapshot;
      const here = new Set<string>();
      for (const { name, url, restarts = 0 } of snapshot.backends) {
        here.add(name);
        const one = known.get(name);
        one?.away?.cancel();
        if (one?.url !== url) {
          known.set(name, { url, restarts, away: undefined });
          if (one !== undefined) removed(name);
          continue;
        }
        one.away = undefined;
        if (restarts > one.restarts) restarted(name);
        one.restarts = restarts;
      }
      for (const [name, one] of known) if (!here.has(name) && one.away === undefined) goes(name, one);
    },
  };
}
