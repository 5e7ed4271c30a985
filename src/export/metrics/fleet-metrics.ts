/** Who is in the fleet, how often backends restarted or were ejected, and reloads, read when somebody collects. */
import type { FleetSnapshot } from '../../domain/fleet.ts';
import type { Meter } from './meter.ts';

export interface FleetMetricsDeps {
  readonly meter: Pick<Meter, 'gauge' | 'counterFrom'>;
  readonly fleet: () => FleetSnapshot;
  readonly ejections: () => Iterable<readonly [backend: string, count: number]>;
  readonly reloads: () => { readonly ok: number; readonly failed: number };
}

export function registerFleetMetrics({ meter, fleet, ejections, reloads }: FleetMetricsDeps): void {
  meter.counterFrom('warmlane.config.reloads', () => {
    const { ok, failed } = reloads();
    return [
      { labels: { result: 'ok' }, value: ok },
      { labels: { result: 'failed' }, value: failed },
    ];
  });
  meter.gauge('warmlane.fleet.backends', () =>
    fleet().backends.map(({ source }) => ({ labels: { source: source ?? 'config' }, value: 1 })),
  );
  meter.counterFrom('warmlane.backend.restarts', () =>
    fleet().backends.map(({ name, engine, restarts }) => ({ labels: { backend: name, engine }, value: restarts ?? 0 })),
  );
  meter.counterFrom('warmlane.backend.ejections', () =>
    Array.from(ejections(), ([backend, value]) => ({ labels: { backend }, value })),
  );
}
