/**
 * The part of the schema about telemetry. Where traces go, and which are sampled, is said by the standard `OTEL_*`
 * variables, which operators set for all their services alike; here stands what only warmlane has.
 */
import * as v from 'valibot';

import * as field from './field.ts';

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

const traces = field.section(
  {
    enabled: v.exactOptional(
      field.flag('Traces on or off; unless given, on where OTEL_EXPORTER_OTLP_(TRACES_)ENDPOINT is set.'),
    ),
    tokens: v.optional(
      field.oneOf(
        ['arrays', 'events', 'off'],
        "Every token's time on the decode span: compact arrays, one span event each, or none.",
      ),
      'arrays',
    ),
    keep: v.nullish(
      field.list(
        field.oneOf(['slow', 'failed', 'aborted'], 'A reason to export a trace at its end.'),
        3,
        'Requests that are exported though the sampler said no: over their SLO, failed, left by the client.',
      ),
      ['slow', 'failed', 'aborted'],
    ),
    // Some thousand ordinary requests, or a hundred answers of 10,000 tokens as events.
    maxQueueBytes: v.optional(
      field.bytes(
        64 * KiB,
        64 * GiB,
        'Spans that may wait for a collector, by their encoded size; past it new ones are dropped and counted.',
      ),
      32 * MiB,
    ),
  },
  'Traces by OpenTelemetry; see deploy/tracing.md.',
);

const metrics = field.section(
  {
    otlp: v.exactOptional(
      field.flag(
        'Metrics by OTLP on or off; unless given, on where OTEL_EXPORTER_OTLP_(METRICS_)ENDPOINT is set. /metrics is there in any case.',
      ),
    ),
  },
  'Metrics; see deploy/metrics.md.',
);

const promptTrace = field.section(
  {
    file: v.exactOptional(
      field.text(
        4096,
        'Append a line per answered request to this file: lengths, and hashes of its prompt; no text. Relative to this file. Off unless given.',
      ),
    ),
    maxBytes: v.optional(
      field.bytes(MiB, 1024 * GiB, 'Size of that file past which nothing more is written.'),
      256 * MiB,
    ),
  },
  'What warmlane replay can play; see deploy/replay.md.',
  field.belongsTo('file'),
);

export const telemetry = field.section(
  { traces: v.nullish(traces, {}), metrics: v.nullish(metrics, {}), promptTrace: v.nullish(promptTrace, {}) },
  'What others are told of each request.',
);
