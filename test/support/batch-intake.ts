/**
 * Measures what taking in large files costs the program: several uploads at once, then validation of what came, while one online
 * stream runs beside them. Backend and stream are in this process, the uploads in another, warmlane in a third.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serveBuilt } from './built.ts';
import { eventually, sleep } from './stage.ts';

export interface IntakeLoad {
  readonly uploads: number;
  readonly lines: number;
  readonly lineBytes: number;
}

export interface Intake {
  /** Resident memory before, and the most that it was while uploads, and after them validation, ran. */
  readonly rssBeforeBytes: number;
  readonly rssUploadBytes: number;
  readonly rssPeakBytes: number;
  readonly uploadMs: number;
  /** From the batch's creation to the first look that finds it in progress. */
  readonly validationMs: number;
  /** Of the stream's tokens, each against the one before: without load, during the uploads, and during all that follows. */
  readonly quietGapMs: GapFigures;
  readonly uploadGapMs: GapFigures;
  readonly validationGapMs: GapFigures;
  /** Bytes of the last file as it was downloaded. */
  readonly downloadedBytes: number;
}

interface GapFigures {
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
}

const tokenEveryMs = 10;
const quietMs = 2000;

export async function measureIntake({ uploads, lines, lineBytes }: IntakeLoad): Promise<Intake> {
  const directory = mkdtempSync(join(tmpdir(), 'warmlane-intake-'));
  const backend = await startBackend();
  const warmlane = await serveBuilt({
    config: {
      backends: [{ url: `http://127.0.0.1:${(backend.address() as AddressInfo).port}` }],
      log: { format: 'json', requests: false },
      batch: { directory, maxLines: lines, maxFileBytes: lines * lineBytes, maxTenantBytes: 100 * 1024 ** 3 },
    },
  });
  const url = `http://127.0.0.1:${warmlane.port}`;
  const gaps = openStream(url);
  try {
    await eventually(() => gaps.count() > 20, 'tokens');
    gaps.take();
    await sleep(quietMs);
    const quietGapMs = figures(gaps.take());
    const rssBeforeBytes = memory(warmlane.pid).now;
    const uploaded = await upload(url, [uploads, lines, lineBytes]);
    const uploadGapMs = figures(gaps.take());
    const rssUploadBytes = memory(warmlane.pid).peak;
    const beganMs = performance.now();
    const last = uploaded.at(-1)?.id ?? '';
    await Promise.all(uploaded.map(({ id }) => validated(url, id)));
    const validationMs = performance.now() - beganMs;
    const downloadedBytes = await download(`${url}/v1/files/${last}/content`);
    return {
      rssBeforeBytes,
      rssUploadBytes,
      rssPeakBytes: memory(warmlane.pid).peak,
      uploadMs: Math.max(...uploaded.map(({ ms }) => ms)),
      validationMs,
      quietGapMs,
      uploadGapMs,
      validationGapMs: figures(gaps.take()),
      downloadedBytes,
    };
  } finally {
    gaps.close();
    await warmlane.end();
    backend.closeAllConnections();
    backend.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Streams a token every few milliseconds to the one who streams; leaves lines of batches unanswered. */
async function startBackend(): Promise<Server> {
  const server = createServer((incoming, answer) => {
    if (incoming.url === '/v1/models') {
      answer.end(JSON.stringify({ object: 'list', data: [{ id: 'm', object: 'model' }] }));
      return;
    }
    if (incoming.method === 'GET') {
      answer.writeHead(incoming.url === '/health' ? 200 : 404).end();
      return;
    }
    incoming.resume();
    if (incoming.headers['x-online'] === undefined) return;
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    const token = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x' } }] })}\n\n`;
    const timer = setInterval(() => answer.write(token), tokenEveryMs);
    answer.on('close', () => clearInterval(timer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

interface Gaps {
  count(): number;
  /** Those since the last time. */
  take(): number[];
  close(): void;
}

function openStream(url: string): Gaps {
  let gapsMs: number[] = [];
  let lastMs: number | undefined;
  const asking = request(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-online': '1' },
  });
  asking.on('error', () => {});
  asking.on('response', (answer) => {
    answer.on('data', () => {
      const nowMs = performance.now();
      if (lastMs !== undefined) gapsMs.push(nowMs - lastMs);
      lastMs = nowMs;
    });
    answer.on('error', () => {});
  });
  asking.end(JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] }));
  return {
    count: () => gapsMs.length,
    take() {
      const taken = gapsMs;
      gapsMs = [];
      return taken;
    },
    close: () => asking.destroy(),
  };
}

function figures(gapsMs: readonly number[]): GapFigures {
  const sorted = gapsMs.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99), most: at(1) };
}

function memory(pid: number): { readonly now: number; readonly peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const of = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1024;
  return { now: of('VmRSS'), peak: of('VmHWM') };
}

async function upload(
  url: string,
  words: readonly number[],
): Promise<readonly { readonly id: string; readonly ms: number }[]> {
  const program = new URL('batch-uploader.mjs', import.meta.url).pathname;
  const child = spawn(process.execPath, [program, url, ...words.map(String)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the uploads failed: ${out}`);
  return out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: string; ms: number });
}

async function validated(url: string, id: string): Promise<void> {
  const asked = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  const answer = await fetch(`${url}/v1/batches`, { method: 'POST', body: JSON.stringify(asked) });
  const batch = (await answer.json()) as { readonly id: string };
  let seen: unknown;
  await eventually(
    async () => {
      const look = await fetch(`${url}/v1/batches/${batch.id}`);
      seen = await look.json();
      await sleep(50);
      return (seen as { readonly status: string }).status === 'in_progress';
    },
    'the batch is in progress',
    300_000,
  ).catch((error: unknown) => {
    throw new Error(`not in progress: ${JSON.stringify(seen)}`, { cause: error });
  });
}

async function download(url: string): Promise<number> {
  let bytes = 0;
  const answer = await fetch(url);
  for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) bytes += chunk.length;
  return bytes;
}
