/** Bounds of the waiting room. */
export interface AdmitSettings {
  /** Jobs that may wait at once; one more is refused with 429. */
  readonly maxQueuedJobs: number;
  /** Longest wait for a place; then 503 with Retry-After. */
  readonly queueTimeoutMs: number;
}
