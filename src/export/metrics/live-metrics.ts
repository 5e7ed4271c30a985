/** What runs and waits at this moment, and how the backends are, read when somebody collects. */
import type { FleetSnapshot } from '../../domain/fleet.ts';
import type { Phase } from '../../domain/names.ts';
import { methodLabel } from '../method-label.ts';
import type { Meter } from './meter.ts';
import { type ModelLabels, noLabel } from './model-labels.ts';

export interface RunningRequest {
  readonly method: string;
  readonly model?: string;
  readonly backend?: string;
  readonly phase: Phase;
}

export interface LiveMetricsDeps {
  readonly meter: Pick<Meter, 'gauge'>;
  readonly models: ModelLabels;
  readonly running: () => readonly RunningRequest[];
  readonly waiting: () => number;
  readonly fleet: () => FleetSnapshot;
}

export function registerLiveMetrics({ meter, models, running, waiting, fleet }: LiveMetricsDeps): void {
  meter.gauge('http.server.active_requests', () =>
    running().map(({ method }) => ({ labels: { method: methodLabel(method) }, value: 1 })),
  );
  meter.gauge('warmlane.requests.running', () =>
    running().map(({ model, backend, phase }) => ({
      labels: { model: models.labelOf(model), backend: backend ?? noLabel, phase },
      value: 1,
    })),
  );
  meter.gauge('warmlane.requests.queued', () => [{ labels: {}, value: waiting() }]);
  meter.gauge('warmlane.backend.health', () =>
    fleet().backends.map(({ name, engine, health }) => ({ labels: { backend: name, engine, health }, value: 1 })),
  );
}
