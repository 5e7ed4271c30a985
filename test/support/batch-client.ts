/** Just enough of a client of the Files and Batch API for tests that must see every answer, or its absence, themselves. */
import { request as httpRequest } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

export interface ApiBatch {
  readonly id: string;
  readonly status: string;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly cancelled_at?: number | null;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly errors: { readonly data: readonly { readonly message: string }[] } | null;
}

export interface ApiFile {
  readonly id: string;
  readonly bytes: number;
  readonly purpose: string;
}

export interface ResultLine {
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly request_id: string; readonly body: unknown } | null;
  readonly error: { readonly code: string } | null;
}

export const endedStatuses: ReadonlySet<string> = new Set(['completed', 'failed', 'expired', 'cancelled']);

export async function uploadFile(url: string, content: string): Promise<ApiFile> {
  const form = new FormData();
  form.set('purpose', 'batch');
  form.set('file', new Blob([content]), 'in.jsonl');
  return json(await fetch(`${url}/v1/files`, { method: 'POST', body: form }));
}

/**
 * Sends an upload in so many pieces with a pause between them; `sent` hears of each. Ends when the server's side breaks off.
 * @returns the file; undefined: no answer came
 */
export function uploadSlowly(
  url: string,
  content: string,
  { pieces, pauseMs, sent }: { readonly pieces: number; readonly pauseMs: number; readonly sent: (n: number) => void },
): Promise<ApiFile | undefined> {
  const boundary = 'slow-boundary';
  const body = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n` +
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n${content}\r\n--${boundary}--\r\n`,
  );
  return new Promise((resolve) => {
    const request = httpRequest(`${url}/v1/files`, {
      method: 'POST',
      headers: { 'content-type': `multipart/form-data; boundary=${boundary}`, 'content-length': body.length },
    });
    request.on('error', () => resolve(undefined));
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('end', () => resolve(response.statusCode === 200 ? (JSON.parse(text) as ApiFile) : undefined));
      response.on('error', () => resolve(undefined));
    });
    void (async () => {
      const size = Math.ceil(body.length / pieces);
      for (let n = 0; n < pieces && !request.destroyed; n += 1) {
        request.write(body.subarray(n * size, (n + 1) * size));
        sent(n + 1);
        await pause(pauseMs);
      }
      request.end();
    })();
  });
}

export async function createBatch(url: string, fileId: string, endpoint = '/v1/chat/completions'): Promise<ApiBatch> {
  const body = JSON.stringify({ input_file_id: fileId, endpoint, completion_window: '24h' });
  return json(
    await fetch(`${url}/v1/batches`, { method: 'POST', headers: { 'content-type': 'application/json' }, body }),
  );
}

export async function cancelBatch(url: string, id: string): Promise<ApiBatch> {
  return json(await fetch(`${url}/v1/batches/${id}/cancel`, { method: 'POST' }));
}

export async function getBatch(url: string, id: string): Promise<ApiBatch> {
  return json(await fetch(`${url}/v1/batches/${id}`));
}

export async function listFiles(url: string): Promise<readonly ApiFile[]> {
  return (await json<{ data: readonly ApiFile[] }>(await fetch(`${url}/v1/files?limit=1000`))).data;
}

export async function listBatches(url: string): Promise<readonly ApiBatch[]> {
  return (await json<{ data: readonly ApiBatch[] }>(await fetch(`${url}/v1/batches?limit=100`))).data;
}

export async function contentOf(url: string, fileId: string): Promise<string> {
  const answer = await fetch(`${url}/v1/files/${fileId}/content`);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`content of ${fileId}: ${answer.status} ${text}`);
  return text;
}

/** Every line of one kind, in the file's order; an absent file has none. */
export async function resultLines(url: string, fileId: string | null): Promise<readonly ResultLine[]> {
  if (fileId === null) return [];
  const text = await contentOf(url, fileId);
  if (!text.endsWith('\n')) throw new Error(`${fileId} has no line end at its end`);
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => JSON.parse(line) as ResultLine);
}

/** Looks until the batch is over. @throws after `timeoutMs` */
export async function untilOver(url: string, id: string, timeoutMs: number): Promise<ApiBatch> {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    const batch = await getBatch(url, id);
    if (endedStatuses.has(batch.status)) return batch;
    if (performance.now() > endMs) throw new Error(`not over after ${timeoutMs} ms: ${JSON.stringify(batch)}`);
    await pause(50);
  }
}

async function json<T>(answer: Response): Promise<T> {
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status} ${text}`);
  return JSON.parse(text) as T;
}
