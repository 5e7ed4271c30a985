/**
 * Two replicas of the built program on one store, each with a backend of its own, so that it shows who sends a line; the one
 * that works is ended in the middle of a batch, and the other one must bring it to its end.
 */
import { setTimeout as pause } from 'node:timers/promises';

import { crashInput, crashLeaseMs, countBy, reach, urlOf } from './batch-crash.ts';
import { createBatch, resultLines, untilOver, uploadFile } from './batch-client.ts';
import { serveBuilt, type Served } from './built.ts';
import { startLineBackend, type LineBackend } from './line-backend.ts';

export interface TakeOver {
  /** From the end of the one to the other's first line. */
  readonly takenOverMs: number;
  readonly sentTwice: number;
  /** Empty: as it must be. */
  readonly problems: readonly string[];
}

const lineCount = 200;
const places = 8;
/** A lease that has just been renewed, and the look at the store that finds it over. */
const mostMs = 3 * crashLeaseMs + 3000;

interface Replica {
  readonly served: Served;
  readonly backend: LineBackend;
}

export async function killTheWorker(signal: 'SIGKILL' | 'SIGTERM', batchConfig: object): Promise<TakeOver> {
  const replicas = await Promise.all([1, 2].map((seed) => startReplica(seed, batchConfig)));
  try {
    const [first] = replicas;
    if (first === undefined) throw new Error('no replica');
    const file = await uploadFile(urlOf(first.served), crashInput(lineCount));
    const { id } = await createBatch(urlOf(first.served), file.id);
    const answered = () => replicas.reduce((sum, { backend }) => sum + backend.answered(), 0);
    await reach(() => answered() >= lineCount / 4);
    const [worker, other] = replicas[0]?.backend.sent.length === 0 ? replicas.toReversed() : replicas;
    if (worker === undefined || other === undefined) throw new Error('no replica');
    const isAlone = other.backend.sent.length === 0;
    worker.served.child.kill(signal);
    const killedMs = performance.now();
    if (signal === 'SIGKILL') await worker.served.exited;
    await reach(() => other.backend.sent.length > 0);
    const takenOverMs = (other.backend.sent[0]?.atMs ?? Number.NaN) - killedMs;
    const batch = await untilOver(urlOf(other.served), id, 30_000);
    const results = [
      ...(await resultLines(urlOf(other.served), batch.output_file_id)),
      ...(await resultLines(urlOf(other.served), batch.error_file_id)),
    ];
    // What the killed one had under way is seen to be left.
    await pause(50);
    const sent = replicas.flatMap(({ backend }) => backend.sent.map((line) => line.id));
    const sentTwice = sent.length - new Set(sent).size;
    const times = countBy(results.map((line) => line.custom_id));
    const problems = [
      [!isAlone, 'both worked on it before the kill'],
      [batch.status !== 'completed', `it ended as ${batch.status}`],
      [times.size !== lineCount, `${lineCount - times.size} lines have no result`],
      [results.length !== times.size, `${results.length - times.size} results are doubled`],
      // Under way, or answered while the group of rows before was being written.
      [sentTwice > 3 * places, `${sentTwice} lines were sent again`],
      [takenOverMs > mostMs, `it was taken over after ${takenOverMs} ms`],
    ] as const;
    return { takenOverMs, sentTwice, problems: problems.flatMap(([isWrong, what]) => (isWrong ? [what] : [])) };
  } finally {
    await Promise.all(
      replicas.map(async ({ served, backend }) => {
        await served.end();
        await backend.close();
      }),
    );
  }
}

async function startReplica(seed: number, batchConfig: object): Promise<Replica> {
  const backend = await startLineBackend({ seed, engine: 'vllm', minMs: 20, maxMs: 60, refuses: () => false });
  const served = await serveBuilt({
    config: { backends: [{ name: 'b', url: backend.url, maxInFlight: places }], batch: batchConfig },
  });
  return { served, backend };
}
