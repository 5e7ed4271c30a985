/**
 * Files and batches as they are kept: OpenAI's objects in our own names (backends' reference: OpenAI API, Files and Batch).
 * Values only. Times are whole seconds since the epoch where OpenAI has them so (`At`), else ms.
 */

export const batchEndpoints = ['/v1/chat/completions', '/v1/completions', '/v1/embeddings', '/v1/responses'] as const;
export type BatchEndpoint = (typeof batchEndpoints)[number];

export type FilePurpose = 'batch' | 'batch_output' | (string & {});

export interface StoredFile {
  /** `file-` and 24 letters or digits */
  readonly id: string;
  readonly tenant: string;
  readonly purpose: FilePurpose;
  readonly filename: string;
  readonly bytes: number;
  readonly createdAt: number;
  readonly expiresAt?: number;
}

export type BatchStatus =
  | 'validating'
  | 'failed'
  | 'in_progress'
  | 'finalizing'
  | 'completed'
  | 'expired'
  | 'cancelling'
  | 'cancelled';

/** What is over, and stays as it is. */
export const endedStatuses: ReadonlySet<BatchStatus> = new Set(['failed', 'completed', 'expired', 'cancelled']);

export interface BatchError {
  /** for example `duplicate_custom_id`, `invalid_json_line`, `mismatched_model`, `empty_file` */
  readonly code: string;
  readonly message: string;
  readonly param?: string;
  /** physical line of the input file, from 1 */
  readonly line?: number;
}

export interface BatchUsage {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
}

export interface StoredBatch {
  /** `batch_` and 24 letters or digits */
  readonly id: string;
  readonly tenant: string;
  readonly endpoint: BatchEndpoint;
  /** known once validated */
  readonly model?: string;
  readonly inputFileId: string;
  /** as the client gave it: `24h` */
  readonly completionWindow: string;
  readonly status: BatchStatus;
  readonly errors: readonly BatchError[];
  readonly createdAt: number;
  readonly inProgressAt?: number;
  readonly expiresAt: number;
  readonly finalizingAt?: number;
  readonly completedAt?: number;
  readonly failedAt?: number;
  readonly expiredAt?: number;
  readonly cancellingAt?: number;
  readonly cancelledAt?: number;
  readonly counts: { readonly total: number; readonly completed: number; readonly failed: number };
  /** How many of the failed ones have no answer since the batch was cancelled or expired; absent: none. */
  readonly unrun?: number;
  readonly usage: BatchUsage;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly outputFileId?: string;
  readonly errorFileId?: string;
  /** Seconds after the files' creation at which they go. */
  readonly outputExpiresSeconds?: number;
}

/** One line of the input, as validation found it. */
export interface BatchLine {
  /** physical line, from 1 */
  readonly line: number;
  readonly customId: string;
  /** where its text is in the input file: first byte and length, without the line's end */
  readonly at: number;
  readonly bytes: number;
  /** Place in the order in which lines are sent: those with the longest common beginnings stand together. From 0, unique. */
  readonly rank: number;
}

/** A line that has no result yet. */
export interface PendingLine extends BatchLine {
  /** tries that failed and may be repeated */
  readonly attempts: number;
  /** ms since the epoch before which it isn't sent again; 0: at once */
  readonly notBeforeMs: number;
}

/** What became of a line: one line of the output or the error file. */
export interface LineResult {
  readonly line: number;
  /** true: into the output file and counted `completed`; false: into the error file and counted `failed` */
  readonly ok: boolean;
  /** not `ok` since its batch was cancelled or expired: counted `unrun` too */
  readonly unrun?: true;
  /** the whole JSON object, without line end */
  readonly text: string;
  readonly usage?: BatchUsage;
}
