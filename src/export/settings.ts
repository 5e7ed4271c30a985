/** Where records go. */
export interface ExportSettings {
  /** A log line per request. */
  readonly requestLog: boolean;
}
