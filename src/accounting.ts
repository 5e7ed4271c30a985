/**
 * Composes what is learnt from many requests together: assessments of single ones, metrics, windows, SLOs, ceilings,
 * findings, and the admin pages that show them. Decides nothing itself; `app.ts` starts it and gives it records.
 */
import type { Job } from './domain/job.ts';
import type { RequestRecord } from './domain/record.ts';
import type { RecordSink } from './export/sinks.ts';
import type { AdminPage } from './http/admin-page.ts';

export interface Accounting {
  /** Notes on a record what the settings and the other requests say of it. Before any sink sees it. */
  assess(record: RequestRecord, job: Job | undefined): void;
  /** In the order in which they hear of a record. */
  readonly sinks: Readonly<Record<string, RecordSink>>;
  readonly pages: readonly AdminPage[];
  /** Stops timers and sends what waits for export, within the flush limit. */
  stop(): Promise<void>;
}

export function createAccounting(): Accounting {
  return {
    assess() {},
    sinks: {},
    pages: [],
    stop: () => Promise.resolve(),
  };
}
