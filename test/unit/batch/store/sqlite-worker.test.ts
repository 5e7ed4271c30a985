/** The SQLite store as users run it: the built program's, in its worker thread, beside other processes. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Worker } from 'node:worker_threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { createBatchStore as CreateBatchStore } from '../../../../src/batch/store/create-batch-store.ts';
import type { StoreError } from '../../../../src/batch/store/port.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { sampleBatch, sampleFile, sampleLines, sampleResult } from '../../../support/batch-values.ts';
import { built } from '../../../support/built.ts';
import { itSurvivesKills } from '../../../support/store-kills.ts';

const folders: string[] = [];
async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'warmlane-store-'));
  folders.push(made);
  return made;
}
afterAll(async () => {
  for (const each of folders) await rm(each, { recursive: true, force: true });
});

describe('the built SQLite store', () => {
  let createBatchStore: typeof CreateBatchStore;
  let file: string;
  const deps = { clock: systemClock, log: silentLog };

  beforeAll(async () => {
    file = join(await built(), '../batch/store/create-batch-store.js');
    ({ createBatchStore } = (await import(pathToFileURL(file).href)) as { createBatchStore: typeof CreateBatchStore });
  }, 60_000);

  it('works in a thread of its own, and the event loop never waits for it', async () => {
    const directory = await folder();
    const { store, shelf } = await createBatchStore({ kind: 'sqlite', directory }, deps);
    await store.addFile(sampleFile('file-in'));
    await store.addBatch(sampleBatch('batch_1'));
    const [taken] = await store.lease({ owner: 'one', ttlMs: 60_000, max: 1 });
    if (taken === undefined) throw new Error('nothing to lease');
    const lines = sampleLines(30_000);
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    for (let from = 0; from < lines.length; from += 500)
      await store.addLines(taken.lease, lines.slice(from, from + 500), from === 0);
    await store.begin(taken.lease, { total: lines.length, model: 'm', nowSeconds: 1 });
    const text = 'x'.repeat(2048);
    for (let from = 0; from < 10_000; from += 100)
      await store.addResults(
        taken.lease,
        lines.slice(from, from + 100).map(({ line }) => sampleResult(line, { text })),
      );
    delay.disable();
    // More than a second of SQLite's work; in this thread a single call of these takes longer than the bound's tenth.
    expect(delay.percentile(99) / 1e6).toBeLessThan(50);
    expect((await store.batch('anna', 'batch_1'))?.counts).toEqual({ total: 30_000, completed: 10_000, failed: 0 });
    const writer = await shelf.create('file-a');
    await writer.write(Buffer.from('bytes'));
    await writer.commit();
    expect(await shelf.bytes('file-a')).toBe(5);
    await store.close();
    await expect(store.stats()).rejects.toMatchObject({ fault: 'away' });
  });

  it('fails the calls of a thread that died, and goes on in another', async () => {
    const directory = await folder();
    const threads: Worker[] = [];
    const note = (thread: Worker) => void threads.push(thread);
    process.on('worker', note);
    const { store } = await createBatchStore({ kind: 'sqlite', directory }, deps);
    await store.addFile(sampleFile('file-in'));
    const waiting = Array.from({ length: 300 }, async (_, index) => await store.addFile(sampleFile(`file-${index}`)));
    const outcomes = Promise.allSettled(waiting);
    await threads[0]?.terminate();
    const ends = (await outcomes).map((each) =>
      each.status === 'fulfilled' ? 'kept' : (each.reason as StoreError).fault,
    );
    expect(new Set(ends)).toContain('away');
    const { files } = (await store.files('anna', { limit: 999, order: 'asc' })) ?? { files: [] };
    expect(files[0]?.id).toBe('file-in');
    expect(files.length).toBeGreaterThanOrEqual(1 + ends.filter((end) => end === 'kept').length);
    expect(threads).toHaveLength(2);
    process.off('worker', note);
    await store.close();
  });

  it('answers all that was asked before it is closed, and can be opened again at once', async () => {
    const directory = await folder();
    for (let round = 1; round <= 30; round += 1) {
      const { store } = await createBatchStore({ kind: 'sqlite', directory }, deps);
      const asked = Array.from(
        { length: 20 },
        async (_, index) => await store.addFile(sampleFile(`f${round}-${index}`)),
      );
      const counted = store.stats();
      await Promise.all([...asked, store.close()]);
      expect((await counted).files).toBe(round * 20);
    }
  });

  it('refuses what no message can carry, and waits for nothing', async () => {
    const directory = await folder();
    const { store } = await createBatchStore({ kind: 'sqlite', directory }, deps);
    const odd = sampleFile('file-a', { bytes: (() => 1) as unknown as number });
    await expect(store.addFile(odd)).rejects.toThrow('could not be cloned');
    expect((await store.stats()).files).toBe(0);
    await store.close();
  });

  it('keeps its process alive while a call waits, and no longer', async () => {
    const directory = await folder();
    const script = `
      const { createBatchStore } = await import(${JSON.stringify(pathToFileURL(file).href)});
      const { store } = await createBatchStore({ kind: 'sqlite', directory: ${JSON.stringify(directory)} }, { clock: { nowMs: () => 1 } });
      console.log((await store.stats()).files);`;
    expect(await run(script)).toEqual({ code: 0, said: '0\n' });
  });

  it("is one process's: another is told so, and can have the file when the first one is gone", async () => {
    const directory = await folder();
    const first = await createBatchStore({ kind: 'sqlite', directory }, deps);
    const open = `
      const { createBatchStore } = await import(${JSON.stringify(pathToFileURL(file).href)});
      try {
        await createBatchStore({ kind: 'sqlite', directory: ${JSON.stringify(directory)} }, { clock: { nowMs: () => 1 } });
        console.log('open');
      } catch (error) { console.log(error.name, error.fault, error.message); }`;
    const refused = await run(open);
    expect(refused.said).toContain('StoreError busy');
    expect(refused.said).toContain(`another process has ${join(directory, 'batches.sqlite')} open`);
    await first.store.close();
    expect((await run(open)).said).toBe('open\n');
  }, 30_000);
});

itSurvivesKills('SQLite', async () => ({ kind: 'sqlite', directory: await folder() }));

async function run(script: string): Promise<{ readonly code: number | null; readonly said: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.on('data', (bytes: Buffer) => (said += bytes.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, said };
}
