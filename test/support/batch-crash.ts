/**
 * One batch whose proxy is killed with SIGKILL at a seeded moment, some of them twice, and started again; then what came of
 * every line, from the files and from the backend's own book. The proxy is the built program in a process of its own, on a
 * store that outlives it.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { createSeededRandom, wholeBetween } from '../../src/sim/seeded-random.ts';
import {
  type ApiBatch,
  cancelBatch,
  contentOf,
  createBatch,
  endedStatuses,
  getBatch,
  listBatches,
  listFiles,
  resultLines,
  uploadFile,
  uploadSlowly,
} from './batch-client.ts';
import { serveBuilt, type Served } from './built.ts';
import { type LineBackend, startLineBackend } from './line-backend.ts';

export const phases = ['upload', 'validating', 'in_progress', 'finalizing', 'cancelling'] as const;
export type Phase = (typeof phases)[number];

export interface CrashCase {
  readonly seed: number;
  readonly phase: Phase;
}

/** So many moments, spread evenly over the phases. */
export function crashCases(count: number, firstSeed = 1): readonly CrashCase[] {
  return Array.from({ length: count }, (_, n) => ({
    seed: firstSeed + n,
    phase: phases[n % phases.length] ?? 'in_progress',
  }));
}

export interface CrashOutcome {
  readonly batch: ApiBatch;
  /** As a client saw it last before the first kill. */
  readonly statusAtKill: string;
  /** Sendings of lines that had been sent before. */
  readonly sentAgain: number;
  readonly kills: number;
  /** From the last start to the end of the batch. */
  readonly endMs: number;
  /** Empty: as it must be. */
  readonly problems: readonly string[];
}

const lineCount = 120;
const places = 8;
const longestMs = 30_000;
/** From an answer to its row: a group of 50 ms, its write, and a machine that is busy. */
const unwrittenMs = 500;
/** A batch that somebody had is taken over when its lease has run out. */
export const crashLeaseMs = 1500;

/** @param batchConfig the `batch` section of the configuration: a store of its own, empty */
export async function crashOnce({ seed, phase }: CrashCase, batchConfig: object): Promise<CrashOutcome> {
  const random = createSeededRandom(seed * 7919);
  const backend = await startLineBackend({
    seed,
    engine: seed % 2 === 0 ? 'vllm' : 'openai',
    minMs: 4,
    maxMs: 30,
    refuses: (id) => id.endsWith('7'),
  });
  const start = () =>
    serveBuilt({
      config: { backends: [{ name: 'b', url: backend.url, maxInFlight: places }], batch: batchConfig },
    });
  let served = await start();
  try {
    const input = crashInput(lineCount);
    const killed = await killDuring(phase, { served, backend, input, random });
    await untilLeft(backend);
    const kills = [{ ...killed, sent: backend.sent.length }];
    served = await start();
    const id = killed.batchId ?? (await findOrMake(urlOf(served), input));
    // Whoever comes back up can go down at once again.
    if (random() < 0.4) {
      await pause(wholeBetween(random, 0, crashLeaseMs + 500));
      const again = await kill(served, { id, look: true });
      await untilLeft(backend);
      kills.push({ ...again, sent: backend.sent.length });
      served = await start();
    }
    const startedMs = performance.now();
    const batch = await untilOverAnyway(urlOf(served), id);
    const endMs = performance.now() - startedMs;
    const problems = [
      ...(await problemsOfResults(urlOf(served), phase, batch)),
      ...problemsOfSending(backend, kills),
      ...backend.server.faults.map(String),
    ];
    const sentAgain = backend.sent.length - new Set(backend.sent.map((line) => line.id)).size;
    return { batch, statusAtKill: killed.status, sentAgain, kills: kills.length, endMs, problems };
  } finally {
    await served.end();
    await backend.close();
  }
}

/** Lines that begin alike, each with some weight, named `line-000` and on. */
export function crashInput(count: number): string {
  const padding = 'The same words at every beginning, and more of them. '.repeat(30);
  return Array.from({ length: count }, (_, n) => {
    const id = `line-${String(n).padStart(3, '0')}`;
    const body = { model: 'm', messages: [{ role: 'user', content: `${id} ${padding}` }], max_tokens: 4 };
    return `${JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/chat/completions', body })}\n`;
  }).join('');
}

interface Scene {
  readonly served: Served;
  readonly backend: LineBackend;
  readonly input: string;
  readonly random: () => number;
}

interface Killed {
  /** undefined: none was made, or its answer never came */
  readonly batchId: string | undefined;
  readonly status: string;
  /** completed and failed, as the API last said */
  readonly counted: number;
  readonly atMs: number;
}

async function killDuring(phase: Phase, scene: Scene): Promise<Killed> {
  const { served, backend, input, random } = scene;
  const url = urlOf(served);
  if (phase === 'upload') {
    const pieces = 20;
    const at = wholeBetween(random, 1, pieces);
    const upload = uploadSlowly(url, input, {
      pieces,
      pauseMs: 3,
      sent: (n) => void (n === at && served.child.kill('SIGKILL')),
    });
    await upload;
    await served.end();
    return { batchId: undefined, status: 'upload', counted: 0, atMs: performance.now() };
  }
  const file = await uploadFile(url, input);
  if (phase === 'validating') {
    const create = createBatch(url, file.id).catch(() => undefined);
    await pause(wholeBetween(random, 0, 60));
    const made = await Promise.race([create, pause(0)]);
    return kill(served, { id: made?.id, look: random() < 0.5 });
  }
  const batch = await createBatch(url, file.id);
  const share = phase === 'finalizing' ? 1 : 0.05 + 0.8 * random();
  await reach(() => backend.answered() >= Math.floor(share * lineCount));
  if (phase === 'finalizing') await pause(wholeBetween(random, 0, 80));
  if (phase === 'cancelling') {
    await cancelBatch(url, batch.id);
    await pause(wholeBetween(random, 0, 30));
  }
  return kill(served, { id: batch.id, look: random() < 0.5 });
}

/** @param batch `look`: just before the kill, so that what is shown must be kept; it takes some of the moment's chance */
async function kill(
  served: Served,
  { id, look }: { readonly id: string | undefined; readonly look: boolean },
): Promise<Killed> {
  const seen = id === undefined || !look ? undefined : await getBatch(urlOf(served), id);
  const atMs = performance.now();
  await served.end();
  const counts = seen?.request_counts;
  return {
    batchId: id,
    status: seen?.status ?? 'unseen',
    counted: (counts?.completed ?? 0) + (counts?.failed ?? 0),
    atMs,
  };
}

/** A client whose upload or create got no answer: it looks whether the batch is there, and else begins anew. */
async function findOrMake(url: string, input: string): Promise<string> {
  const [there] = await listBatches(url);
  if (there !== undefined) return there.id;
  const file = await uploadFile(url, input);
  return (await createBatch(url, file.id)).id;
}

async function problemsOfResults(url: string, phase: Phase, batch: ApiBatch): Promise<readonly string[]> {
  const problems: string[] = [];
  const say = (isWrong: boolean, what: string) => void (isWrong && problems.push(what));
  const [ok, failed] = [await resultLines(url, batch.output_file_id), await resultLines(url, batch.error_file_id)];
  const times = countBy([...ok, ...failed].map((line) => line.custom_id));
  const doubled = [...times].filter(([, count]) => count > 1);
  say(times.size !== lineCount, `${lineCount - times.size} of ${lineCount} lines have no result`);
  say(doubled.length > 0, `double results: ${JSON.stringify(doubled)}`);
  const cancelled = phase === 'cancelling';
  say(batch.status !== (cancelled ? 'cancelled' : 'completed'), `it ended as ${batch.status}`);
  const { total, completed, failed: failures } = batch.request_counts;
  say(total !== lineCount, `total says ${total}`);
  say(completed !== ok.length, `completed says ${completed}, the output file has ${ok.length}`);
  say(failures !== failed.length, `failed says ${failures}, the error file has ${failed.length}`);
  say(
    ok.some((line) => line.response?.status_code !== 200),
    'an answer in the output file is not 200',
  );
  const cutOff = failed.filter((line) => line.error?.code === 'batch_cancelled');
  say(!cancelled && cutOff.length > 0, `${cutOff.length} lines were cancelled by nobody`);
  const wrong = failed.filter((line) => line.error?.code !== 'batch_cancelled' && !line.custom_id.endsWith('7'));
  say(wrong.length > 0, `failed without a reason: ${JSON.stringify(wrong.slice(0, 3))}`);
  for (const file of await listFiles(url)) {
    const { length } = Buffer.from(await contentOf(url, file.id));
    say(length !== file.bytes, `${file.purpose} file ${file.id} has ${length} of ${file.bytes} bytes`);
  }
  return problems;
}

interface SeenKill extends Killed {
  /** Lines sent until then, each time counted. */
  readonly sent: number;
}

/**
 * What clients were told is done never goes out again. Else only lines that a kill met under way, or whose answer was so new
 * that its row was not written yet: rows are written in groups.
 */
function problemsOfSending({ sent }: Pick<LineBackend, 'sent'>, kills: readonly SeenKill[]): readonly string[] {
  const problems: string[] = [];
  for (const { sent: before, counted } of kills) {
    const after = new Set(sent.slice(before).map((line) => line.id)).size;
    if (after > lineCount - counted) problems.push(`${after} lines were sent after ${counted} were done`);
  }
  const last = new Map(sent.map((line) => [line.id, line]));
  for (const [index, line] of sent.entries()) {
    const { id, answeredMs } = line;
    if (last.get(id) === line || answeredMs === undefined) continue;
    // By order and not by time: this process may read a line off its socket only after it has noted the kill.
    const killed = kills.find((one) => index < one.sent);
    const ageMs = (killed?.atMs ?? Number.NaN) - answeredMs;
    if (!(ageMs < unwrittenMs))
      problems.push(`${id} was sent again, though answered ${Math.round(ageMs)} ms before the kill`);
  }
  return problems;
}

export function countBy(ids: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}

async function untilOverAnyway(url: string, id: string): Promise<ApiBatch> {
  const endMs = performance.now() + longestMs;
  for (;;) {
    const batch = await getBatch(url, id);
    if (endedStatuses.has(batch.status)) return batch;
    if (performance.now() > endMs) throw new Error(`not over after ${longestMs} ms: ${JSON.stringify(batch)}`);
    await pause(20);
  }
}

/** What the killed proxy had under way is seen to be left. */
async function untilLeft(backend: LineBackend): Promise<void> {
  await reach(() => backend.running() === 0);
}

export async function reach(holds: () => boolean): Promise<void> {
  const endMs = performance.now() + longestMs;
  while (!holds()) {
    if (performance.now() > endMs) throw new Error(`not reached within ${longestMs} ms`);
    await pause(2);
  }
}

export function urlOf({ port }: Pick<Served, 'port'>): string {
  return `http://127.0.0.1:${port}`;
}
