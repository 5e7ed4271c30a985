/**
 * The end of a batch: its results, row by row, into an output and an error file. Ids come of the batch's own, so that whoever does it
 * again after a crash writes the same files again, and nothing is ever half there.
 */
import { createHash } from 'node:crypto';
import type { LineResult, StoredBatch, StoredFile } from '../batch.ts';
import type { Shelf } from '../shelf/port.ts';
import type { BatchStore, Lease } from '../store/port.ts';
import { isExpired } from './result-text.ts';

export interface ResultFileDeps {
  readonly store: Pick<BatchStore, 'results'>;
  readonly shelf: Pick<Shelf, 'create'>;
  readonly lease: Lease;
  readonly signal: AbortSignal;
  /** Of files whose life the client didn't say. */
  readonly fileLifeSeconds: number;
}

export interface ResultFile {
  /** Absent where there would be no lines in it. */
  readonly file: StoredFile | undefined;
  readonly hasExpired: boolean;
}

export type FileKind = 'output' | 'error';

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export function resultFileId(batchId: string, kind: FileKind): string {
  const digest = createHash('sha256').update(`${batchId}:${kind}`).digest();
  return `file-${Array.from(digest.subarray(0, 24), (byte) => letters[byte % letters.length]).join('')}`;
}

/** Rows are read in pages of about so many bytes. */
const pageChars = 4 * 1024 * 1024;
const mostRows = 1000;
const firstRows = 16;

/** Writes one of the two. Can be done again from the start. @throws StoreError, and the signal's reason */
export async function writeResultFile(
  batch: StoredBatch,
  kind: FileKind,
  deps: ResultFileDeps & { readonly nowSeconds: number },
): Promise<ResultFile> {
  const { shelf, signal, nowSeconds, fileLifeSeconds } = deps;
  const rows = pages(deps, kind === 'output');
  const first: IteratorResult<readonly LineResult[], void> = await rows.next();
  if (first.done === true) return { file: undefined, hasExpired: false };
  const id = resultFileId(batch.id, kind);
  const writer = await shelf.create(id);
  let hasExpired = false;
  try {
    for (let page: IteratorResult<readonly LineResult[], void> = first; page.done !== true; page = await rows.next()) {
      signal.throwIfAborted();
      hasExpired ||= kind === 'error' && page.value.some(isExpired);
      await writer.write(Buffer.from(page.value.map(({ text }) => `${text}\n`).join('')));
    }
    await writer.commit();
  } catch (error) {
    await writer.discard();
    throw error;
  }
  const file: StoredFile = {
    id,
    tenant: batch.tenant,
    purpose: 'batch_output',
    filename: `${batch.id}_${kind}.jsonl`,
    bytes: writer.bytes,
    createdAt: nowSeconds,
    expiresAt: nowSeconds + (batch.outputExpiresSeconds ?? fileLifeSeconds),
  };
  return { file, hasExpired };
}

async function* pages({ store, lease }: ResultFileDeps, ok: boolean): AsyncGenerator<readonly LineResult[], void> {
  let limit = firstRows;
  for (let afterLine = 0; ;) {
    const page = await store.results(lease, { ok, afterLine, limit });
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    if (page.length < limit) return;
    afterLine = last.line;
    const meanChars = page.reduce((sum, { text }) => sum + text.length, 0) / page.length;
    limit = Math.max(1, Math.min(mostRows, Math.floor(pageChars / Math.max(1, meanChars))));
  }
}
