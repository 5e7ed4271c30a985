/**
 * Works on a batch as the built program would, until it is killed: leases it, writes results with several calls under way, and
 * notes each line in a file once its result was acknowledged. `finish` as last argument: ends the batch when all are written.
 * Usage: node store-writer.mjs SETTINGS-AS-JSON FILE [finish]
 */
import { openSync, writeSync } from 'node:fs';
import { createBatchStore } from '../../dist/batch/store/create-batch-store.js';
import { systemClock } from '../../dist/platform/clock.js';
import { silentLog } from '../../dist/platform/log.js';

const settings = JSON.parse(process.argv[2]);
const finishes = process.argv[4] === 'finish';
const { store } = await createBatchStore(settings, { clock: systemClock, log: silentLog });
const notes = openSync(process.argv[3], 'a');
const say = (text) => writeSync(notes, `${text}\n`);

let taken = [];
while (taken.length === 0) {
  // A predecessor's lease on Postgres runs out by itself.
  taken = await store.lease({ owner: `writer-${process.pid}`, ttlMs: 100, max: 1 });
  if (taken.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
}
const [{ lease }] = taken;
let afterRank = -1;

async function write(lines) {
  const results = lines.map(({ line }) => ({
    line,
    ok: line % 10 > 0,
    text: JSON.stringify({ line, by: process.pid, answer: 'x'.repeat(500) }),
    usage: { inputTokens: 1, cachedTokens: 0, outputTokens: 1, reasoningTokens: 0 },
  }));
  await store.addResults(lease, results);
  for (const { line } of results) say(line);
}

const size = finishes ? 500 : 3;
for (;;) {
  const page = await store.pending(lease, { afterRank, limit: 8 * size });
  if (page.length === 0) break;
  afterRank = page.at(-1).rank;
  const calls = [];
  for (let from = 0; from < page.length; from += size) calls.push(write(page.slice(from, from + size)));
  await Promise.all(calls);
}
say('written');
if (finishes) {
  const file = { tenant: 'anna', purpose: 'batch_output', filename: 'out.jsonl', bytes: 1, createdAt: 1 };
  await store.finish(lease, {
    status: 'completed',
    output: { ...file, id: 'file-out' },
    error: { ...file, id: 'file-err' },
    nowSeconds: 5,
  });
  say('finished');
}
// Stays with the file open, and tidies up, until it is killed.
setInterval(() => undefined, 1000);
