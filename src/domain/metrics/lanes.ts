/** Metrics of the two lanes: who waits, what batch may have of each backend and why, what was taken back. Values only. */
import type { MetricSpec } from './metric-spec.ts';

export const laneMetrics = {
  'warmlane.lane.queue.jobs': {
    kind: 'gauge',
    unit: '{request}',
    help: 'Requests that wait in warmlane for a place.',
    labels: ['lane'],
    additive: true,
  },
  'warmlane.lane.queue.tokens': {
    kind: 'gauge',
    unit: '{token}',
    help: 'Prompt tokens of those, estimated from their bytes.',
    labels: ['lane'],
    additive: true,
  },
  'warmlane.lane.queue.oldest': {
    kind: 'gauge',
    unit: 's',
    help: 'How long the one has waited that waits longest; 0: nobody waits.',
    labels: ['lane'],
  },
  'warmlane.lane.running': {
    kind: 'gauge',
    unit: '{request}',
    help: 'Requests that hold a place on a backend.',
    labels: ['backend', 'lane'],
    additive: true,
  },
  'warmlane.batch.cap': {
    kind: 'gauge',
    unit: '{request}',
    help: 'Batch requests that may run on a backend at once; what holds it there is on the page /lanes.',
    labels: ['backend'],
  },
  'warmlane.batch.pressure': {
    kind: 'gauge',
    unit: '1',
    help: 'What online users and the engine feel, each signal over its bound; the cap is cut above control.threshold.',
    labels: ['backend', 'signal'],
  },
  'warmlane.batch.reclaimed': {
    kind: 'counter',
    unit: '{request}',
    help: 'Batch requests that were ended so that an online one got their place; they run again.',
    labels: ['backend'],
  },
  'warmlane.batch.wasted_tokens': {
    kind: 'counter',
    unit: '{token}',
    help: 'Tokens that are computed again for it: prompts, as far as they were not cached, and answers so far.',
    labels: ['backend'],
  },
} as const satisfies Record<string, MetricSpec>;
