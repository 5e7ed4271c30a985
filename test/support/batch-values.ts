/** Files, batches and lines for tests: whole values of which a test changes what it is about. */
import type { BatchLine, LineResult, StoredBatch, StoredFile } from '../../src/batch/batch.ts';

export function sampleFile(id: string, change: Partial<StoredFile> = {}): StoredFile {
  return {
    id,
    tenant: 'anna',
    purpose: 'batch',
    filename: 'in.jsonl',
    bytes: 120,
    createdAt: 1_780_000_000,
    ...change,
  };
}

export function sampleBatch(id: string, change: Partial<StoredBatch> = {}): StoredBatch {
  return {
    id,
    tenant: 'anna',
    endpoint: '/v1/chat/completions',
    inputFileId: 'file-in',
    completionWindow: '24h',
    status: 'validating',
    errors: [],
    createdAt: 1_780_000_000,
    expiresAt: 1_780_086_400,
    counts: { total: 0, completed: 0, failed: 0 },
    usage: { inputTokens: 0, cachedTokens: 0, outputTokens: 0, reasoningTokens: 0 },
    ...change,
  };
}

/** Lines 1 to `count`, sent in the reverse of their order. */
export function sampleLines(count: number): readonly BatchLine[] {
  return Array.from({ length: count }, (_, index) => ({
    line: index + 1,
    customId: `r${index + 1}`,
    at: index * 100,
    bytes: 99,
    rank: count - 1 - index,
  }));
}

export function sampleResult(line: number, change: Partial<LineResult> = {}): LineResult {
  return {
    line,
    ok: true,
    text: `{"custom_id":"r${line}"}`,
    usage: { inputTokens: 10, cachedTokens: 4, outputTokens: 5, reasoningTokens: 1 },
    ...change,
  };
}
