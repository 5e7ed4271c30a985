/** Metrics of tracing itself: what was sent, what was lost, what waits. There only while tracing is on. Values only. */
import type { MetricSpec } from './metric-spec.ts';

export const traceMetrics = {
  'warmlane.spans.exported': {
    kind: 'counter',
    unit: '{span}',
    help: 'Spans that the collector took.',
    labels: [],
  },
  'warmlane.spans.dropped': {
    kind: 'counter',
    unit: '{span}',
    help: 'Spans lost: the queue was full (queue_full), an export failed (export_failed), the collector refused them (rejected), the process ended (shutdown).',
    labels: ['dropped'],
  },
  'warmlane.spans.queued': {
    kind: 'gauge',
    unit: '{span}',
    help: 'Spans that wait for export or are under way.',
    labels: [],
  },
  'warmlane.spans.queued_bytes': {
    kind: 'gauge',
    unit: 'By',
    help: 'Estimated size of the spans that wait for export or are under way.',
    labels: [],
  },
} as const satisfies Record<string, MetricSpec>;
