/** Metrics of prefill ahead of time; there only where prompts are named or the hottest are remembered. */
import type { MetricSpec } from './metric-spec.ts';

export const warmUpMetrics = {
  'warmlane.warm_up.prompts': {
    kind: 'counter',
    unit: '{request}',
    help: 'Prompts sent ahead of time, by how that ended: done, failed, aborted (somebody wanted the place), given_up (its turn never came).',
    labels: ['backend', 'ending'],
  },
  'warmlane.warm_up.tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Prompt tokens computed for them, as the engine told; those it had in its cache already are not among them.',
    labels: ['backend'],
  },
  'warmlane.warm_up.used': {
    kind: 'counter',
    unit: '{request}',
    help: 'Warmed prompts whose first online request found tokens of them in the cache.',
    labels: ['backend'],
  },
  'warmlane.warm_up.saved': {
    kind: 'counter',
    unit: 's',
    help: "Prefill that these first requests did not wait for: cached tokens within the warmed beginning, at the pace of the warm-up's own prefill. Later requests count nothing: the first would have warmed it for them.",
    labels: ['backend'],
  },
  'warmlane.warm_up.remembered': {
    kind: 'gauge',
    unit: 'By',
    help: "Clients' text kept of the hottest beginnings. Bounded by warmUp.hottest.maxBytes.",
    labels: [],
    additive: true,
  },
} as const satisfies Record<string, MetricSpec>;
