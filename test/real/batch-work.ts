/**
 * Batch work on a real engine through warmlane's Batch API: files made of lines, submitted and followed, and warmlane started
 * with a store of its own that goes with it.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';

import { cancelBatch, createBatch, uploadFile, untilOver, type ApiBatch } from '../support/batch-client.ts';
import { startWarmlane, type Warmlane } from './warmlane.ts';

export interface Line {
  readonly id: string;
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** @param config sections besides `batch` and `backends` */
export async function withBatchWarmlane<T>(
  engine: string | { readonly url: string; readonly maxInFlight: number },
  config: object,
  work: (warmlane: Warmlane) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-real-batch-'));
  const file = join(folder, 'warmlane.yaml');
  const backends = [{ name: 'engine', ...(typeof engine === 'string' ? { url: engine } : engine) }];
  writeFileSync(file, stringify({ backends, batch: { directory: join(folder, 'store') }, ...config }));
  // No backend as a flag: it would take the place of the file's list, and of what that says about it.
  const warmlane = await startWarmlane([], ['--config', file]);
  try {
    return await work(warmlane);
  } finally {
    await warmlane.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

export function jsonl(lines: readonly Line[]): string {
  return lines
    .map(({ id, path, body }) => `${JSON.stringify({ custom_id: id, method: 'POST', url: path, body })}\n`)
    .join('');
}

export interface Submitted {
  readonly id: string;
  untilOver(timeoutMs: number): Promise<ApiBatch>;
  cancel(): Promise<ApiBatch>;
}

/** @throws on no lines */
export async function submit({ url }: Pick<Warmlane, 'url'>, lines: readonly Line[]): Promise<Submitted> {
  const [first] = lines;
  if (first === undefined) throw new Error('a batch needs a line');
  const file = await uploadFile(url, jsonl(lines));
  const { id } = await createBatch(url, file.id, first.path);
  return {
    id,
    untilOver: (timeoutMs) => untilOver(url, id, timeoutMs),
    cancel: () => cancelBatch(url, id),
  };
}
