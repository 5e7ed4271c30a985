/** Files and batches as OpenAI's API shows them (spec 2.3.0): every key is there, null where there is nothing. Pure. */
import type { BatchUsage, StoredBatch, StoredFile } from '../batch.ts';

export function fileObject(file: StoredFile): object {
  return {
    id: file.id,
    object: 'file',
    bytes: file.bytes,
    created_at: file.createdAt,
    expires_at: file.expiresAt ?? null,
    filename: file.filename,
    purpose: file.purpose,
    status: 'processed',
    status_details: null,
  };
}

export function batchObject(batch: StoredBatch): object {
  const { counts } = batch;
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    model: batch.model ?? null,
    errors: errorList(batch),
    input_file_id: batch.inputFileId,
    completion_window: batch.completionWindow,
    status: batch.status,
    output_file_id: batch.outputFileId ?? null,
    error_file_id: batch.errorFileId ?? null,
    created_at: batch.createdAt,
    in_progress_at: batch.inProgressAt ?? null,
    expires_at: batch.expiresAt,
    finalizing_at: batch.finalizingAt ?? null,
    completed_at: batch.completedAt ?? null,
    failed_at: batch.failedAt ?? null,
    expired_at: batch.expiredAt ?? null,
    cancelling_at: batch.cancellingAt ?? null,
    cancelled_at: batch.cancelledAt ?? null,
    request_counts: { total: counts.total, completed: counts.completed, failed: counts.failed },
    // Before the first answer nothing was used, rather than none.
    usage: counts.completed === 0 ? null : usageObject(batch.usage),
    metadata: batch.metadata ?? null,
  };
}

function errorList({ errors }: StoredBatch): object | null {
  if (errors.length === 0) return null;
  return {
    object: 'list',
    data: errors.map(({ code, message, param, line }) => ({
      code,
      message,
      param: param ?? null,
      line: line ?? null,
    })),
  };
}

function usageObject(usage: BatchUsage): object {
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: { cached_tokens: usage.cachedTokens },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: usage.inputTokens + usage.outputTokens,
  };
}

export function listObject<Item extends { readonly id: string }>(
  items: readonly Item[],
  hasMore: boolean,
  shown: (item: Item) => object,
): object {
  return {
    object: 'list',
    data: items.map(shown),
    first_id: items[0]?.id ?? null,
    last_id: items.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}
