/** What the config file says of traces; where they go is said by the standard `OTEL_*` variables. */

/** How the moments of an answer's tokens stand in its trace. */
export type TokenForm = 'arrays' | 'events' | 'off';

/** What is exported though the head decision said no. */
export type KeepReason = 'slow' | 'failed' | 'aborted';

export interface TraceSettings {
  /** Absent: on when the environment names an OTLP endpoint or a trace exporter. */
  readonly enabled?: boolean;
  readonly tokens: TokenForm;
  readonly keep: readonly KeepReason[];
  /** Bytes of spans, as they will be encoded, that may wait for export. */
  readonly maxQueueBytes: number;
}
