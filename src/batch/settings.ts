/** Where batches are kept and what is accepted. Values only. */

export interface BatchSettings {
  /** Absent: there is no Files and Batch API; its routes pass to the backends. */
  readonly store?: BatchStoreSettings;
  readonly maxLines: number;
  readonly maxFileBytes: number;
  /** One line of an input file. */
  readonly maxLineBytes: number;
  /** All files of a tenant together. */
  readonly maxTenantBytes: number;
  /** Files that come at one time: in all, and of one tenant. */
  readonly maxUploads: number;
  readonly maxTenantUploads: number;
  /** Batches of a tenant that are not over. */
  readonly maxOpenBatches: number;
  /** Lines that are under way or wait for a place, of all batches together. */
  readonly maxLinesInFlight: number;
  /** Times that a line is tried in all. */
  readonly maxAttempts: number;
  /** Of files that say no expiry of their own. */
  readonly fileLifeSeconds: number;
  readonly leaseMs: number;
  /** Answer of one line; a longer one fails. */
  readonly maxAnswerBytes: number;
}

export type BatchStoreSettings =
  | { readonly kind: 'sqlite'; readonly directory: string }
  | {
      readonly kind: 'postgres';
      readonly url: string;
      /** for the files' bytes; absent: in Postgres too */
      readonly directory?: string;
    };
