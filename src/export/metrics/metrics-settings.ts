/** What the config file says of metrics; where they go by OTLP is said by the standard `OTEL_*` variables. */
export interface MetricsSettings {
  /** Absent: on when the environment names an OTLP endpoint or the exporter. */
  readonly otlp?: boolean;
}
