/** Metrics of who is in the fleet and of the configuration behind it. Values only. */
import type { MetricSpec } from './metric-spec.ts';

export const fleetMetrics = {
  'warmlane.config.reloads': {
    kind: 'counter',
    unit: '{reload}',
    help: 'Times that a new configuration was read while running: ok, it holds now (as far as it can without a restart); failed, it was wrong and the old one holds.',
    labels: ['result'],
  },
  'warmlane.fleet.backends': {
    kind: 'gauge',
    unit: '{backend}',
    help: 'Backends in the fleet, by where they were named.',
    labels: ['source'],
    additive: true,
  },
  'warmlane.backend.restarts': {
    kind: 'counter',
    unit: '{restart}',
    help: "Restarts of a backend's process that were recognised; each flushes what was believed to be cached there. Begins anew when the backend leaves the fleet and returns.",
    labels: ['backend', 'engine'],
  },
  'warmlane.backend.ejections': {
    kind: 'counter',
    unit: '{ejection}',
    help: 'Times that a backend was left alone for a while because it failed at its work (breaker). Begins anew when the backend leaves the fleet and returns.',
    labels: ['backend'],
  },
} as const satisfies Record<string, MetricSpec>;
