/**
 * How long backends take to come back: from unreachable or loading to up, and to the first token that they give then.
 * Knows backends of the fleet only, so it is bounded by their number. Pure state: told of each change and each record.
 */
import type { FleetSnapshot } from '../domain/fleet.ts';
import type { Engine } from '../domain/names.ts';
import type { RequestRecord } from '../domain/record.ts';

export interface BackendStart {
  readonly backend: string;
  readonly engine: Engine;
  /** `up`: it takes work again; `answered`: it gave a first token */
  readonly until: 'up' | 'answered';
  readonly from: 'down' | 'loading';
  readonly durationMs: number;
}

export interface BackendStarts {
  /** To be told of each change of the fleet. @returns what has come to its end by it */
  seen(fleet: FleetSnapshot): readonly BackendStart[];
  /** To be told of each finished request. */
  answered(record: RequestRecord): readonly BackendStart[];
}

interface Start {
  engine: Engine;
  /** monotonic ms; absent: it wasn't seen so */
  downMs?: number;
  loadingMs?: number;
  isUp: boolean;
}

export function createBackendStarts(): BackendStarts {
  const starts = new Map<string, Start>();

  return {
    seen({ backends }) {
      const ended: BackendStart[] = [];
      if (starts.size > backends.length) {
        const here = new Set(backends.map(({ name }) => name));
        for (const name of starts.keys()) if (!here.has(name)) starts.delete(name);
      }
      for (const { name, engine, health, healthReason, healthSinceMs } of backends) {
        const start = starts.get(name);
        // One that was left alone for failing has not been away.
        if (healthReason === 'ejected') continue;
        if (health === 'down' || health === 'loading') {
          const going: Start = start === undefined || start.isUp ? { engine, isUp: false } : start;
          going.engine = engine;
          if (health === 'down') going.downMs ??= healthSinceMs;
          else going.loadingMs ??= healthSinceMs;
          starts.set(name, going);
        } else if (health === 'up' && start !== undefined && !start.isUp) {
          start.isUp = true;
          start.engine = engine;
          ended.push(...endsOf(name, start, { until: 'up', atMs: healthSinceMs }));
        }
      }
      return ended;
    },
    answered({ backend, outcome, warmth, timeline }) {
      if (outcome !== 'ok' || warmth !== 'cold_start' || backend === undefined) return [];
      const start = starts.get(backend);
      const atMs = timeline.firstToken ?? timeline.end;
      if (start === undefined || !start.isUp || atMs === undefined) return [];
      starts.delete(backend);
      return endsOf(backend, start, { until: 'answered', atMs });
    },
  };
}

function endsOf(
  backend: string,
  { engine, downMs, loadingMs }: Start,
  { until, atMs }: { readonly until: BackendStart['until']; readonly atMs: number },
): BackendStart[] {
  const ended: BackendStart[] = [];
  const end = (from: BackendStart['from'], fromMs: number | undefined) => {
    if (fromMs !== undefined) ended.push({ backend, engine, until, from, durationMs: Math.max(0, atMs - fromMs) });
  };
  end('down', downMs);
  end('loading', loadingMs);
  return ended;
}
