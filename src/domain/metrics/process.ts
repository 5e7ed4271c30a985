/**
 * Metrics of warmlane itself and of its backends' starts: process, event loop, what telemetry lost. Names of
 * OpenTelemetry's process conventions where they fit. Values only.
 */
import type { MetricSpec } from './metric-spec.ts';

export const processMetrics = {
  'process.memory.usage': {
    kind: 'gauge',
    unit: 'By',
    help: 'Resident memory of the process.',
    labels: [],
  },
  'process.cpu.time': {
    kind: 'counter',
    unit: 's',
    help: 'CPU time of the process.',
    labels: ['cpu'],
  },
  'process.uptime': {
    kind: 'gauge',
    unit: 's',
    help: 'Age of the process.',
    labels: [],
  },
  'nodejs.eventloop.time': {
    kind: 'counter',
    unit: 's',
    help: 'Time that the event loop was active and idle: active / (active + idle) is its utilisation.',
    labels: ['state'],
  },
  'warmlane.event_loop.lag': {
    kind: 'histogram',
    unit: 's',
    help: 'How late a timer of 25 ms came, a sample each: what any token may have waited for the process. Requests timed meanwhile bear the mark loop_lag where it is over 25 ms.',
    labels: [],
    buckets: 'fineSeconds',
  },
  'warmlane.backend.health': {
    kind: 'gauge',
    unit: '{backend}',
    help: '1 for the state that a backend is in, 0 for those it was in before.',
    labels: ['backend', 'engine', 'health'],
    additive: true,
  },
  'warmlane.backend.cold_start.duration': {
    kind: 'histogram',
    unit: 's',
    help: 'Backend seen unreachable (from down) or loading (from loading) to the first token that it gave afterwards, or to the end of that answer where it was not streamed. Waits for a request to come too, and an outage is in it as long as it lasted.',
    labels: ['backend', 'engine', 'from'],
    buckets: 'seconds',
  },
  'warmlane.backend.start.duration': {
    kind: 'histogram',
    unit: 's',
    help: 'Backend seen unreachable (from down) or loading (from loading) to seen up again.',
    labels: ['backend', 'engine', 'from'],
    buckets: 'seconds',
  },
  'warmlane.telemetry.records_lost': {
    kind: 'counter',
    unit: '{record}',
    help: 'Finished requests that a sink failed to take.',
    labels: ['sink'],
  },
  'warmlane.telemetry.log_lines_dropped': {
    kind: 'counter',
    unit: '{line}',
    help: 'Log lines that nobody read in time.',
    labels: [],
  },
  'warmlane.telemetry.exports_failed': {
    kind: 'counter',
    unit: '{export}',
    help: 'OTLP exports of metrics that did not arrive; the next one carries the sums again.',
    labels: [],
  },
  'warmlane.telemetry.label_overflows': {
    kind: 'counter',
    unit: '{label}',
    help: 'Labels that became `other` for want of room: model names of finished requests past their cap, label sets past theirs.',
    labels: ['limit'],
  },
} as const satisfies Record<string, MetricSpec>;
