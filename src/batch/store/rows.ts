/**
 * Files and batches as rows: column names and their order, which SQLite and Postgres share, and the way there and back. Text that
 * came from a client is kept as a JSON string, since Postgres takes no NUL and neither takes half a surrogate pair; numbers
 * are whole. Pure; knows no database.
 */
import type {
  BatchEndpoint,
  BatchError,
  BatchStatus,
  BatchUsage,
  LineResult,
  StoredBatch,
  StoredFile,
} from '../batch.ts';

export type Cell = string | number | null;

export interface FileRow {
  readonly id: string;
  readonly tenant: string;
  readonly purpose: string;
  readonly filename: string;
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at: number | null;
}

export interface BatchRow {
  readonly id: string;
  readonly tenant: string;
  readonly endpoint: string;
  readonly model: string | null;
  readonly input_file_id: string;
  readonly completion_window: string;
  readonly status: string;
  readonly errors: string;
  readonly created_at: number;
  readonly in_progress_at: number | null;
  readonly expires_at: number;
  readonly finalizing_at: number | null;
  readonly completed_at: number | null;
  readonly failed_at: number | null;
  readonly expired_at: number | null;
  readonly cancelling_at: number | null;
  readonly cancelled_at: number | null;
  readonly total: number;
  readonly completed: number;
  readonly failed: number;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly reasoning_tokens: number;
  readonly metadata: string | null;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly output_expires_seconds: number | null;
  readonly unrun: number;
}

export const fileColumns = [
  'id',
  'tenant',
  'purpose',
  'filename',
  'bytes',
  'created_at',
  'expires_at',
] as const satisfies readonly (keyof FileRow)[];

export const batchColumns = [
  'id',
  'tenant',
  'endpoint',
  'model',
  'input_file_id',
  'completion_window',
  'status',
  'errors',
  'created_at',
  'in_progress_at',
  'expires_at',
  'finalizing_at',
  'completed_at',
  'failed_at',
  'expired_at',
  'cancelling_at',
  'cancelled_at',
  'total',
  'completed',
  'failed',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'reasoning_tokens',
  'metadata',
  'output_file_id',
  'error_file_id',
  'output_expires_seconds',
  'unrun',
] as const satisfies readonly (keyof BatchRow)[];

/** Where the moment stands at which a batch came to a status; `validating` is its creation. */
export const momentColumns: Readonly<Record<Exclude<BatchStatus, 'validating'>, keyof BatchRow>> = {
  in_progress: 'in_progress_at',
  finalizing: 'finalizing_at',
  completed: 'completed_at',
  failed: 'failed_at',
  expired: 'expired_at',
  cancelling: 'cancelling_at',
  cancelled: 'cancelled_at',
};

/** In the order of `fileColumns`. */
export function fileCells(file: StoredFile): readonly Cell[] {
  const { id, tenant, purpose, filename, bytes, createdAt, expiresAt } = file;
  return [id, tenant, purpose, encodeText(filename), bytes, createdAt, expiresAt ?? null];
}

export function fileOf(row: FileRow): StoredFile {
  return {
    id: row.id,
    tenant: row.tenant,
    purpose: row.purpose,
    filename: decodeText(row.filename),
    bytes: row.bytes,
    createdAt: row.created_at,
    ...(row.expires_at !== null && { expiresAt: row.expires_at }),
  };
}

/** In the order of `batchColumns`. */
export function batchCells(batch: StoredBatch): readonly Cell[] {
  const { counts, usage } = batch;
  return [
    batch.id,
    batch.tenant,
    batch.endpoint,
    batch.model === undefined ? null : encodeText(batch.model),
    batch.inputFileId,
    batch.completionWindow,
    batch.status,
    encodeErrors(batch.errors),
    batch.createdAt,
    batch.inProgressAt ?? null,
    batch.expiresAt,
    batch.finalizingAt ?? null,
    batch.completedAt ?? null,
    batch.failedAt ?? null,
    batch.expiredAt ?? null,
    batch.cancellingAt ?? null,
    batch.cancelledAt ?? null,
    counts.total,
    counts.completed,
    counts.failed,
    usage.inputTokens,
    usage.cachedTokens,
    usage.outputTokens,
    usage.reasoningTokens,
    batch.metadata === undefined ? null : JSON.stringify(batch.metadata),
    batch.outputFileId ?? null,
    batch.errorFileId ?? null,
    batch.outputExpiresSeconds ?? null,
    batch.unrun ?? 0,
  ];
}

export function batchOf(row: BatchRow): StoredBatch {
  return {
    id: row.id,
    tenant: row.tenant,
    // What was written here was a value of these types.
    endpoint: row.endpoint as BatchEndpoint,
    status: row.status as BatchStatus,
    errors: JSON.parse(row.errors) as readonly BatchError[],
    inputFileId: row.input_file_id,
    completionWindow: row.completion_window,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    counts: { total: row.total, completed: row.completed, failed: row.failed },
    usage: {
      inputTokens: row.input_tokens,
      cachedTokens: row.cached_tokens,
      outputTokens: row.output_tokens,
      reasoningTokens: row.reasoning_tokens,
    },
    ...(row.model !== null && { model: decodeText(row.model) }),
    ...(row.in_progress_at !== null && { inProgressAt: row.in_progress_at }),
    ...(row.finalizing_at !== null && { finalizingAt: row.finalizing_at }),
    ...(row.completed_at !== null && { completedAt: row.completed_at }),
    ...(row.failed_at !== null && { failedAt: row.failed_at }),
    ...(row.expired_at !== null && { expiredAt: row.expired_at }),
    ...(row.cancelling_at !== null && { cancellingAt: row.cancelling_at }),
    ...(row.cancelled_at !== null && { cancelledAt: row.cancelled_at }),
    ...(row.metadata !== null && { metadata: JSON.parse(row.metadata) as Readonly<Record<string, string>> }),
    ...(row.output_file_id !== null && { outputFileId: row.output_file_id }),
    ...(row.error_file_id !== null && { errorFileId: row.error_file_id }),
    ...(row.output_expires_seconds !== null && { outputExpiresSeconds: row.output_expires_seconds }),
    ...(row.unrun > 0 && { unrun: row.unrun }),
  };
}

export function encodeText(text: string): string {
  return JSON.stringify(text);
}

export function decodeText(kept: string): string {
  return JSON.parse(kept) as string;
}

export function encodeErrors(errors: readonly BatchError[]): string {
  return JSON.stringify(errors);
}

/** What results add to their batch: counts and tokens. */
export interface ResultSums extends BatchUsage {
  readonly completed: number;
  readonly failed: number;
  readonly unrun: number;
}

export function sumResults(results: readonly LineResult[]): ResultSums {
  const sums = {
    completed: 0,
    failed: 0,
    unrun: 0,
    inputTokens: 0,
    cachedTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
  };
  for (const { ok, unrun, usage } of results) {
    if (ok) sums.completed += 1;
    else sums.failed += 1;
    if (unrun === true) sums.unrun += 1;
    if (usage === undefined) continue;
    sums.inputTokens += usage.inputTokens;
    sums.cachedTokens += usage.cachedTokens;
    sums.outputTokens += usage.outputTokens;
    sums.reasoningTokens += usage.reasoningTokens;
  }
  return sums;
}
