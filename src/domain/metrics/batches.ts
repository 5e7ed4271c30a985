/** Metrics of the Batch API; there only where it is on. Values only. */
import type { MetricSpec } from './metric-spec.ts';

export const batchMetrics = {
  'warmlane.batch.lines': {
    kind: 'counter',
    unit: '{line}',
    help: 'Lines of batches that came to their end in this process, by how: completed, failed, expired (the window was over), cancelled.',
    labels: ['result'],
  },
  'warmlane.batch.line.retries': {
    kind: 'counter',
    unit: '{line}',
    help: 'Tries of lines that are repeated: nobody could be reached, the backend was busy, or it failed.',
    labels: [],
  },
  'warmlane.batch.line.reclaimed': {
    kind: 'counter',
    unit: '{line}',
    help: 'Times that a line of a batch gave its place to online work and was put in front of the others.',
    labels: [],
  },
  'warmlane.batch.lines.in_flight': {
    kind: 'gauge',
    unit: '{line}',
    help: 'Lines that are with a backend or wait for a place. Bounded by batch.maxLinesInFlight.',
    labels: [],
    additive: true,
  },
  'warmlane.batch.lines.backing_off': {
    kind: 'gauge',
    unit: '{line}',
    help: 'Lines that were sent before and wait here for another try: their backend failed, was busy or not there, or they gave way to online work.',
    labels: [],
    additive: true,
  },
  'warmlane.batch.lines.pending': {
    kind: 'gauge',
    unit: '{line}',
    help: 'Lines without a result in all open batches; the same on every replica that shares a store.',
    labels: [],
  },
  'warmlane.batch.open': {
    kind: 'gauge',
    unit: '{batch}',
    help: 'Batches that are not over; the same on every replica that shares a store.',
    labels: [],
  },
  'warmlane.batch.oldest': {
    kind: 'gauge',
    unit: 's',
    help: 'Since the oldest open batch was created; 0: there is none. To be held against its completion window.',
    labels: [],
  },
  'warmlane.batch.store.size': {
    kind: 'gauge',
    unit: 'By',
    help: "What the store of batches takes on disk, without the files' bytes in a directory.",
    labels: [],
  },
} as const satisfies Record<string, MetricSpec>;
