/**
 * Where batches are kept. Two implementations, SQLite and Postgres, held to one test body (`test/support/batch-store-suite.ts`).
 * Every call is one transaction: it happened as a whole or not at all, also when the process is killed or the disk is full.
 * Throws `StoreError`; what was asked of it can be asked again.
 */
import type { BatchError, BatchLine, BatchStatus, LineResult, PendingLine, StoredBatch, StoredFile } from '../batch.ts';

/** `busy`: somebody else holds it now; `full`: no room on disk; `away`: it can't be reached; `lost`: the lease is another's. */
export type StoreFault = 'busy' | 'full' | 'away' | 'lost' | 'broken';

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly fault: StoreFault;
  constructor(fault: StoreFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

export interface Page {
  readonly limit: number;
  /** id of the last one seen; an unknown id: `undefined` is returned */
  readonly after?: string;
  readonly order: 'asc' | 'desc';
}

/** The right to work on one batch: who has it writes, everybody else's writes fail with `lost` (fencing by `epoch`). */
export interface Lease {
  readonly batchId: string;
  readonly owner: string;
  /** rises by one each time that somebody takes the batch */
  readonly epoch: number;
}

export interface LeasedBatch {
  readonly lease: Lease;
  readonly batch: StoredBatch;
}

export interface BatchStore {
  readonly kind: 'sqlite' | 'postgres';

  addFile(file: StoredFile): Promise<void>;
  file(tenant: string, id: string): Promise<StoredFile | undefined>;
  /** Newest first under `desc`; `undefined` when `after` isn't there. */
  files(
    tenant: string,
    page: Page & { readonly purpose?: string },
  ): Promise<{ readonly files: readonly StoredFile[]; readonly hasMore: boolean } | undefined>;
  /** Of all files of a tenant together; for its limit. */
  fileBytes(tenant: string): Promise<number>;
  /** `in_use`: a batch that isn't over reads it. The bytes are the caller's to remove, afterwards. */
  removeFile(tenant: string, id: string): Promise<'removed' | 'absent' | 'in_use'>;
  /** Removes the entries of files past their time that no running batch needs. @returns their ids, so that the bytes can go */
  dropExpiredFiles(nowSeconds: number, limit: number): Promise<readonly string[]>;
  /** Every id of `ids` that has no entry: bytes left behind by a crash. */
  unknownFiles(ids: readonly string[]): Promise<readonly string[]>;

  /** `no_file`: the input is gone meanwhile. */
  addBatch(batch: StoredBatch): Promise<'added' | 'no_file'>;
  batch(tenant: string, id: string): Promise<StoredBatch | undefined>;
  batches(
    tenant: string | undefined,
    page: Page & { readonly open?: boolean },
  ): Promise<{ readonly batches: readonly StoredBatch[]; readonly hasMore: boolean } | undefined>;
  /**
   * Forgets batches that ended at `beforeSeconds` or earlier and whose output and error files are gone, the oldest first.
   * @returns how many: as many as `limit` means that there may be more
   */
  dropEndedBatches(beforeSeconds: number, limit: number): Promise<number>;
  /** validating, in_progress → cancelling; others stay as they are. @returns it afterwards */
  cancel(tenant: string, id: string, nowSeconds: number): Promise<StoredBatch | undefined>;

  /** Takes batches that are not over and that nobody living has, oldest deadline first. */
  lease(asked: {
    readonly owner: string;
    readonly ttlMs: number;
    readonly max: number;
  }): Promise<readonly LeasedBatch[]>;
  /** Heartbeat. @returns the batches that are still its own, as they are now (a cancel is seen here) */
  renew(leases: readonly Lease[], ttlMs: number): Promise<readonly LeasedBatch[]>;
  /** Gives it back at once, for others or for later. */
  release(lease: Lease): Promise<void>;

  /** Replaces all lines of a batch that is validating. Many calls may be needed: `first` clears what an earlier try left. */
  addLines(lease: Lease, lines: readonly BatchLine[], first: boolean): Promise<void>;
  /** validating → in_progress with `total` and `model` (a cancel meanwhile: stays cancelling, `total` is set all the same). */
  begin(
    lease: Lease,
    found: { readonly total: number; readonly model: string | undefined; readonly nowSeconds: number },
  ): Promise<StoredBatch>;
  /** validating → failed. */
  fail(lease: Lease, errors: readonly BatchError[], nowSeconds: number): Promise<StoredBatch>;
  /** Lines without result, by rank; those of rank ≤ `afterRank` left out. */
  pending(lease: Lease, page: { readonly afterRank: number; readonly limit: number }): Promise<readonly PendingLine[]>;
  /** Tries that failed: the line stays pending. Whole numbers. */
  noteRetries(
    lease: Lease,
    retries: readonly { readonly line: number; readonly attempts: number; readonly notBeforeMs: number }[],
  ): Promise<void>;
  /** Results with their counts and usage; a line that has one already keeps the first. */
  addResults(lease: Lease, results: readonly LineResult[]): Promise<void>;
  /** in_progress or cancelling → as said: `finalizing` before its files are written; nothing else moves on from there but `finish`. */
  move(lease: Lease, status: BatchStatus, nowSeconds: number): Promise<StoredBatch>;
  /** Of one kind, by line; for writing the files. */
  results(
    lease: Lease,
    page: { readonly ok: boolean; readonly afterLine: number; readonly limit: number },
  ): Promise<readonly LineResult[]>;
  /** The end: status, files and their ids, in one step; lines and results go. */
  finish(
    lease: Lease,
    end: {
      readonly status: 'completed' | 'expired' | 'cancelled' | 'failed';
      readonly output: StoredFile | undefined;
      readonly error: StoredFile | undefined;
      readonly errors?: readonly BatchError[];
      readonly nowSeconds: number;
    },
  ): Promise<StoredBatch>;

  /** Bytes on disk, and batches and lines that wait; for people. */
  stats(): Promise<StoreStats>;
  close(): Promise<void>;
}

export interface StoreStats {
  readonly bytes?: number;
  readonly files: number;
  readonly openBatches: number;
  readonly pendingLines: number;
  /** creation of the oldest batch that isn't over */
  readonly oldestAt?: number;
}
