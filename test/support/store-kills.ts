/** kill -9 on a process that writes to a store: what it was told to be kept must be there afterwards. One body for each kind of store. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { endedStatuses } from '../../src/batch/batch.ts';
import type { BatchStoreSettings } from '../../src/batch/settings.ts';
import { createBatchStore } from '../../src/batch/store/create-batch-store.ts';
import type { BatchStore, Lease } from '../../src/batch/store/port.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { silentLog } from '../../src/platform/log.ts';
import { sampleBatch, sampleFile, sampleLines } from './batch-values.ts';
import { built } from './built.ts';
import { createChance } from './seed.ts';
import { eventually, sleep } from './stage.ts';

const program = new URL('store-writer.mjs', import.meta.url).pathname;

/** @param place settings of a store that is empty */
export function itSurvivesKills(name: string, place: () => Promise<BatchStoreSettings>): void {
  it(`C176 keeps on ${name} every acknowledged result when its process is killed at 20 moments`, async () => {
    await built();
    const settings = await place();
    const chance = createChance();
    const count = 50_000;
    await onStore(settings, async (store) => await begin(store, count));
    const acknowledged = new Set<number>();
    for (let kill = 0; kill < 20; kill += 1) {
      const said = await runAndKill(settings, [], { word: /^\d+$/m, delayMs: chance.below(80) });
      for (const line of said.matchAll(/^(\d+)$/gm)) acknowledged.add(Number(line[1]));
      await onStore(settings, async (store) => await expectKept(store, acknowledged, count));
    }
    expect(acknowledged.size).toBeGreaterThan(100);
    expect(acknowledged.size).toBeLessThan(count);
  }, 180_000);

  it(`C176 ends a batch on ${name} as a whole or not at all when its process is killed at that moment`, async () => {
    await built();
    const chance = createChance();
    const ends = new Set<string>();
    for (let kill = 0; kill < 6; kill += 1) {
      const settings = await place();
      const count = 4000;
      await onStore(settings, async (store) => await begin(store, count));
      await runAndKill(settings, ['finish'], { word: /^written$/m, delayMs: kill === 0 ? 400 : chance.below(30) });
      await onStore(settings, async (store) => ends.add(await expectWholeEnd(store, count)));
    }
    expect(ends).toContain('completed');
  }, 180_000);
}

async function onStore<Value>(
  settings: BatchStoreSettings,
  work: (store: BatchStore) => Promise<Value>,
): Promise<Value> {
  const { store } = await createBatchStore(settings, { clock: systemClock, log: silentLog });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

async function begin(store: BatchStore, count: number): Promise<void> {
  await store.addFile(sampleFile('file-in'));
  await store.addBatch(sampleBatch('batch_1'));
  const lease = await takeLease(store);
  await store.addLines(lease, sampleLines(count), true);
  await store.begin(lease, { total: count, model: 'm', nowSeconds: 1 });
  await store.release(lease);
}

async function takeLease(store: BatchStore): Promise<Lease> {
  for (;;) {
    const [taken] = await store.lease({ owner: 'test', ttlMs: 60_000, max: 1 });
    if (taken !== undefined) return taken.lease;
    await sleep(10);
  }
}

/** @returns all that it noted */
async function runAndKill(
  settings: BatchStoreSettings,
  words: readonly string[],
  { word, delayMs }: { readonly word: RegExp; readonly delayMs: number },
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-writer-'));
  const notes = join(folder, 'notes');
  const noted = () => (existsSync(notes) ? readFileSync(notes, 'utf8') : '');
  const child = spawn(process.execPath, [program, JSON.stringify(settings), notes, ...words], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let complained = '';
  child.stderr.on('data', (bytes: Buffer) => (complained += bytes.toString()));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  try {
    await eventually(
      () => {
        if (child.exitCode !== null) throw new Error(`the writer ended: ${complained}`);
        return word.test(noted());
      },
      `the writer notes ${word}`,
      30_000,
    );
    await sleep(delayMs);
    child.kill('SIGKILL');
    await ended;
    return noted();
  } finally {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

async function expectKept(store: BatchStore, acknowledged: ReadonlySet<number>, count: number): Promise<void> {
  const lease = await takeLease(store);
  const good = await store.results(lease, { ok: true, afterLine: 0, limit: count });
  const bad = await store.results(lease, { ok: false, afterLine: 0, limit: count });
  const kept = [...good, ...bad].map(({ line }) => line);
  const keptOnce = new Set(kept);
  expect(kept.length).toBe(keptOnce.size);
  expect([...acknowledged].filter((line) => !keptOnce.has(line))).toEqual([]);
  for (const { line, text } of [...good, ...bad]) expect((JSON.parse(text) as { line: number }).line).toBe(line);
  const pending = await store.pending(lease, { afterRank: -1, limit: count });
  expect(pending.length).toBe(count - kept.length);
  const batch = await store.batch('anna', 'batch_1');
  expect(batch?.counts).toEqual({ total: count, completed: good.length, failed: bad.length });
  expect(batch?.usage.inputTokens).toBe(kept.length);
  await store.release(lease);
}

/**
 * What a killed process had handed to the database may still be done there, so that a first look can come too early: it is
 * decided once the batch has ended, in whatever way, or is ours, which shuts the other out.
 */
async function leaseUnlessEnded(store: BatchStore): Promise<Lease | undefined> {
  for (;;) {
    const status = (await store.batch('anna', 'batch_1'))?.status;
    if (status === undefined || endedStatuses.has(status)) return undefined;
    const [taken] = await store.lease({ owner: 'test', ttlMs: 60_000, max: 1 });
    if (taken !== undefined) return taken.lease;
    await sleep(10);
  }
}

async function expectWholeEnd(store: BatchStore, count: number): Promise<string> {
  const lease = await leaseUnlessEnded(store);
  const batch = await store.batch('anna', 'batch_1');
  const files = await Promise.all(['file-out', 'file-err'].map(async (id) => await store.file('anna', id)));
  if (lease === undefined) {
    expect(batch?.status).toBe('completed');
    expect(batch).toMatchObject({ outputFileId: 'file-out', errorFileId: 'file-err', completedAt: 5 });
    expect(files).not.toContain(undefined);
    expect((await store.stats()).openBatches).toBe(0);
    return 'completed';
  }
  expect(files).toEqual([undefined, undefined]);
  expect(batch).toMatchObject({
    status: 'in_progress',
    counts: { total: count, completed: count * 0.9, failed: count / 10 },
  });
  expect(batch?.outputFileId).toBeUndefined();
  expect(await store.results(lease, { ok: false, afterLine: 0, limit: count })).toHaveLength(count / 10);
  return 'in_progress';
}
