/** Bounds of the waiting room. */
import type { LaneSettings } from './lane-settings.ts';

export interface AdmitSettings {
  /** Online jobs that may wait at once; one more is refused with 429. */
  readonly maxQueuedJobs: number;
  /** Longest wait of an online job for a place; then 503 with Retry-After. */
  readonly queueTimeoutMs: number;
  /** Absent: the shipped ones. */
  readonly lanes?: LaneSettings;
}
