/** What every store of batches must do, whatever it is made of: one body of tests, run for each. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { BatchStatus, LineResult, StoredBatch, StoredFile } from '../../src/batch/batch.ts';
import type { BatchStore, Lease, StoreFault } from '../../src/batch/store/port.ts';
import { StoreError } from '../../src/batch/store/port.ts';
import { sampleBatch, sampleFile, sampleLines, sampleResult } from './batch-values.ts';

export interface StoreWorld {
  readonly store: BatchStore;
  /** Lets `ms` pass for leases. */
  passMs(ms: number): Promise<void>;
  close(): Promise<void>;
}

const now = 1_780_000_100;

/** @param open an empty store */
export function describeBatchStore(name: string, open: () => Promise<StoreWorld>): void {
  describe(`the batch store on ${name}`, () => {
    let world: StoreWorld;
    let store: BatchStore;

    beforeEach(async () => {
      world = await open();
      store = world.store;
    });
    afterEach(async () => await world.close());

    async function leaseOne(owner = 'one', ttlMs = 1000): Promise<Lease> {
      const [taken] = await store.lease({ owner, ttlMs, max: 1 });
      if (taken === undefined) throw new Error('nothing to lease');
      return taken.lease;
    }

    /** A batch with its input file, leased. */
    async function validating(id = 'batch_1', change: Partial<StoredBatch> = {}): Promise<Lease> {
      await store.addFile(sampleFile('file-in'));
      expect(await store.addBatch(sampleBatch(id, change))).toBe('added');
      return await leaseOne();
    }

    async function begun(count: number, id = 'batch_1'): Promise<Lease> {
      const lease = await validating(id);
      await store.addLines(lease, sampleLines(count), true);
      await store.begin(lease, { total: count, model: 'm', nowSeconds: now });
      return lease;
    }

    const pendingLines = async (lease: Lease) =>
      (await store.pending(lease, { afterRank: -1, limit: 1000 })).map(({ line }) => line);

    describe('files', () => {
      it('come back as they were put in, to their tenant alone', async () => {
        const plain = sampleFile('file-a');
        const odd = sampleFile('file-b', {
          filename: 'näïve "x"\u0000\ud800.jsonl',
          purpose: 'vision',
          expiresAt: now,
          bytes: 2 ** 33,
        });
        await store.addFile(plain);
        await store.addFile(odd);
        expect(await store.file('anna', 'file-a')).toStrictEqual(plain);
        expect(await store.file('anna', 'file-b')).toStrictEqual(odd);
        expect(await store.file('bert', 'file-a')).toBeUndefined();
        expect(await store.file('anna', 'file-c')).toBeUndefined();
        expect(await store.file('anna', 'file-a\u0000')).toBeUndefined();
      });

      it('that are put in twice are there once', async () => {
        await store.addFile(sampleFile('file-a'));
        await store.addFile(sampleFile('file-a'));
        expect((await store.files('anna', { limit: 10, order: 'asc' }))?.files).toHaveLength(1);
      });

      it("are listed in pages, in both orders, by purpose, each tenant's own", async () => {
        for (const id of ['a', 'b', 'c', 'd', 'e'])
          await store.addFile(sampleFile(id, { purpose: id === 'c' ? 'batch_output' : 'batch' }));
        await store.addFile(sampleFile('x', { tenant: 'bert' }));
        const list = async (page: Parameters<BatchStore['files']>[1]) => {
          const found = await store.files('anna', page);
          return found && [found.files.map(({ id }) => id).join(''), found.hasMore];
        };
        expect(await list({ limit: 2, order: 'desc' })).toEqual(['ed', true]);
        expect(await list({ limit: 2, order: 'desc', after: 'd' })).toEqual(['cb', true]);
        expect(await list({ limit: 2, order: 'desc', after: 'b' })).toEqual(['a', false]);
        expect(await list({ limit: 2, order: 'desc', after: 'a' })).toEqual(['', false]);
        expect(await list({ limit: 3, order: 'asc', after: 'b' })).toEqual(['cde', false]);
        expect(await list({ limit: 10, order: 'asc', purpose: 'batch' })).toEqual(['abde', false]);
        expect(await list({ limit: 10, order: 'asc', purpose: 'batch_output' })).toEqual(['c', false]);
        expect(await list({ limit: 2, order: 'asc', after: 'nobody' })).toBeUndefined();
        expect(await list({ limit: 2, order: 'asc', after: 'x' })).toBeUndefined();
      });

      it('are counted in bytes for each tenant', async () => {
        expect(await store.fileBytes('anna')).toBe(0);
        await store.addFile(sampleFile('a', { bytes: 2 ** 40 }));
        await store.addFile(sampleFile('b', { bytes: 1 }));
        await store.addFile(sampleFile('c', { bytes: 5, tenant: 'bert' }));
        expect(await store.fileBytes('anna')).toBe(2 ** 40 + 1);
      });

      it('can be removed unless a batch that is not over reads them', async () => {
        const lease = await validating();
        expect(await store.removeFile('bert', 'file-in')).toBe('absent');
        expect(await store.removeFile('anna', 'file-in')).toBe('in_use');
        await store.fail(lease, [], now);
        expect(await store.removeFile('anna', 'file-in')).toBe('removed');
        expect(await store.removeFile('anna', 'file-in')).toBe('absent');
      });

      it('past their time go, but for those that a running batch reads', async () => {
        await store.addFile(sampleFile('a', { expiresAt: 10 }));
        await store.addFile(sampleFile('b', { expiresAt: 20 }));
        await store.addFile(sampleFile('c', { expiresAt: 5 }));
        await store.addFile(sampleFile('file-in', { expiresAt: 1 }));
        await store.addFile(sampleFile('e'));
        await store.addBatch(sampleBatch('batch_1'));
        expect(await store.dropExpiredFiles(10, 1)).toEqual(['c']);
        expect(await store.dropExpiredFiles(10, 9)).toEqual(['a']);
        expect(await store.dropExpiredFiles(10, 9)).toEqual([]);
        const lease = await leaseOne();
        await store.fail(lease, [], now);
        expect(await store.dropExpiredFiles(10, 9)).toEqual(['file-in']);
        expect(await store.file('anna', 'b')).toBeDefined();
      });

      it('without an entry are named', async () => {
        await store.addFile(sampleFile('a'));
        expect(new Set(await store.unknownFiles(['a', 'b', 'c']))).toEqual(new Set(['b', 'c']));
        expect(await store.unknownFiles([])).toEqual([]);
      });
    });

    describe('batches', () => {
      it('come back as they were put in, to their tenant alone', async () => {
        await store.addFile(sampleFile('file-in'));
        const full: StoredBatch = sampleBatch('batch_1', {
          metadata: { note: 'ü\u0000', other: '' },
          outputExpiresSeconds: 3600,
          model: 'm',
        });
        expect(await store.addBatch(full)).toBe('added');
        expect(await store.addBatch(full)).toBe('added');
        expect(await store.batch('anna', 'batch_1')).toStrictEqual(full);
        expect(await store.batch('bert', 'batch_1')).toBeUndefined();
        const plain = sampleBatch('batch_2');
        await store.addBatch(plain);
        expect(await store.batch('anna', 'batch_2')).toStrictEqual(plain);
      });

      it("C167 are not taken in whose input file is gone or another tenant's", async () => {
        expect(await store.addBatch(sampleBatch('batch_1'))).toBe('no_file');
        await store.addFile(sampleFile('file-in', { tenant: 'bert' }));
        expect(await store.addBatch(sampleBatch('batch_1'))).toBe('no_file');
        expect(await store.batch('anna', 'batch_1')).toBeUndefined();
      });

      it('are listed in pages, for a tenant or all, open ones or ended ones', async () => {
        await store.addFile(sampleFile('file-in'));
        await store.addFile(sampleFile('file-bert', { tenant: 'bert' }));
        for (const id of ['a', 'b', 'c', 'd']) await store.addBatch(sampleBatch(id, { expiresAt: id === 'b' ? 1 : 9 }));
        await store.addBatch(sampleBatch('x', { tenant: 'bert', inputFileId: 'file-bert' }));
        await store.fail(await leaseOne(), [], now);
        const list = async (tenant: string | undefined, page: Parameters<BatchStore['batches']>[1]) => {
          const found = await store.batches(tenant, page);
          return found && [found.batches.map(({ id }) => id).join(''), found.hasMore];
        };
        expect(await list('anna', { limit: 3, order: 'desc' })).toEqual(['dcb', true]);
        expect(await list('anna', { limit: 3, order: 'desc', after: 'b' })).toEqual(['a', false]);
        expect(await list('anna', { limit: 3, order: 'asc', after: 'b' })).toEqual(['cd', false]);
        expect(await list('anna', { limit: 9, order: 'asc', open: true })).toEqual(['acd', false]);
        expect(await list('anna', { limit: 9, order: 'asc', open: false })).toEqual(['b', false]);
        expect(await list(undefined, { limit: 9, order: 'asc', open: true })).toEqual(['acdx', false]);
        expect(await list(undefined, { limit: 1, order: 'desc', after: 'x' })).toEqual(['d', true]);
        expect(await list('anna', { limit: 9, order: 'asc', after: 'x' })).toBeUndefined();
      });

      it('are cancelled while they are validated or run, and stay as they are else', async () => {
        const lease = await validating();
        expect(await store.cancel('bert', 'batch_1', now)).toBeUndefined();
        expect(await store.cancel('anna', 'batch_1', now)).toMatchObject({ status: 'cancelling', cancellingAt: now });
        expect(await store.cancel('anna', 'batch_1', now + 5)).toMatchObject({
          status: 'cancelling',
          cancellingAt: now,
        });
        const ended = await store.finish(lease, {
          status: 'cancelled',
          output: undefined,
          error: undefined,
          nowSeconds: now + 6,
        });
        expect(ended).toMatchObject({ status: 'cancelled', cancelledAt: now + 6 });
        expect(await store.cancel('anna', 'batch_1', now + 9)).toStrictEqual(ended);
      });

      it('C177 that are cancelled while they are validated stay so when validation ends', async () => {
        const lease = await validating();
        await store.cancel('anna', 'batch_1', now);
        await store.addLines(lease, sampleLines(2), true);
        const after = await store.begin(lease, { total: 2, model: 'm', nowSeconds: now });
        expect(after).toMatchObject({ status: 'cancelling', counts: { total: 2 }, model: 'm' });
        expect(after.inProgressAt).toBeUndefined();
        expect(await store.fail(lease, [], now)).toMatchObject({ status: 'cancelling' });
      });

      it('that are finalizing are not cancelled, and move nowhere but to their end', async () => {
        const lease = await begun(1);
        expect(await store.move(lease, 'finalizing', now)).toMatchObject({ status: 'finalizing', finalizingAt: now });
        expect(await store.cancel('anna', 'batch_1', now)).toMatchObject({ status: 'finalizing' });
        expect(await store.move(lease, 'in_progress', now)).toMatchObject({ status: 'finalizing' });
        expect(await store.move(lease, 'finalizing', now + 9)).toMatchObject({ finalizingAt: now });
      });

      it('come from cancelling to finalizing and keep both moments', async () => {
        const lease = await begun(1);
        await store.cancel('anna', 'batch_1', now);
        expect(await store.move(lease, 'finalizing', now + 1)).toMatchObject({
          status: 'finalizing',
          cancellingAt: now,
          finalizingAt: now + 1,
        });
      });

      it('that fail keep every error with its line', async () => {
        const lease = await validating();
        const errors = [
          { code: 'duplicate_custom_id', message: 'twice\u0000', line: 3 },
          { code: 'invalid_json_line', message: 'no', param: 'body', line: 4 },
        ];
        const failed = await store.fail(lease, errors, now);
        expect(failed).toMatchObject({ status: 'failed', failedAt: now, errors });
        expect(await store.fail(lease, errors, now)).toStrictEqual(failed);
      });
    });

    describe('leases', () => {
      it('go to those that nobody has, the nearest deadline first', async () => {
        await store.addFile(sampleFile('file-in'));
        for (const [id, expiresAt] of [
          ['a', 30],
          ['b', 10],
          ['c', 20],
        ] as const)
          await store.addBatch(sampleBatch(id, { expiresAt }));
        const first = await store.lease({ owner: 'one', ttlMs: 1000, max: 2 });
        expect(first.map(({ batch }) => batch.id)).toEqual(['b', 'c']);
        expect(first[0]).toMatchObject({
          lease: { batchId: 'b', owner: 'one', epoch: 1 },
          batch: { status: 'validating' },
        });
        expect((await store.lease({ owner: 'two', ttlMs: 1000, max: 9 })).map(({ batch }) => batch.id)).toEqual(['a']);
        expect(await store.lease({ owner: 'one', ttlMs: 1000, max: 9 })).toEqual([]);
      });

      it('run out unless they are renewed, and then another takes the batch', async () => {
        const lease = await validating();
        await world.passMs(900);
        expect(await store.renew([lease], 1000)).toHaveLength(1);
        await world.passMs(900);
        expect(await store.lease({ owner: 'two', ttlMs: 1000, max: 1 })).toEqual([]);
        await world.passMs(200);
        const taken = await leaseOne('two');
        expect(taken).toEqual({ batchId: 'batch_1', owner: 'two', epoch: 2 });
        expect(await store.renew([lease], 1000)).toEqual([]);
      });

      it('that ran out but that nobody took can be renewed and written with', async () => {
        const lease = await validating();
        await world.passMs(5000);
        await store.addLines(lease, sampleLines(1), true);
        expect(await store.renew([lease], 1000)).toHaveLength(1);
        expect(await store.lease({ owner: 'two', ttlMs: 1000, max: 1 })).toEqual([]);
      });

      it('show a cancel when they are renewed', async () => {
        const lease = await begun(1);
        await store.cancel('anna', 'batch_1', now);
        expect(await store.renew([lease], 1000)).toMatchObject([{ lease, batch: { status: 'cancelling' } }]);
      });

      it('that are given back are free at once', async () => {
        const lease = await validating();
        await store.release(lease);
        await store.release(lease);
        const again = await leaseOne('one');
        expect(again.epoch).toBe(2);
        await store.release(lease);
        expect(await store.renew([lease], 1000)).toEqual([]);
        expect(await store.renew([again], 1000)).toHaveLength(1);
      });

      it('of ended batches are no more', async () => {
        const lease = await validating();
        await store.fail(lease, [], now);
        expect(await store.renew([lease], 1000)).toEqual([]);
        await world.passMs(5000);
        expect(await store.lease({ owner: 'two', ttlMs: 1000, max: 1 })).toEqual([]);
      });

      it('fence every write of one who lost it', async () => {
        const old = await begun(3);
        await world.passMs(2000);
        const taken = await leaseOne('two');
        const writes: readonly (() => Promise<unknown>)[] = [
          async () => await store.addLines(old, sampleLines(1), true),
          async () => await store.begin(old, { total: 1, model: 'm', nowSeconds: now }),
          async () => await store.fail(old, [], now),
          async () => await store.pending(old, { afterRank: -1, limit: 1 }),
          async () => await store.noteRetries(old, [{ line: 1, attempts: 1, notBeforeMs: 1 }]),
          async () => await store.addResults(old, [sampleResult(1)]),
          async () => await store.move(old, 'finalizing', now),
          async () => await store.results(old, { ok: true, afterLine: 0, limit: 1 }),
          async () =>
            await store.finish(old, { status: 'completed', output: undefined, error: undefined, nowSeconds: now }),
        ];
        for (const write of writes) await expectFault(write(), 'lost');
        await store.release(old);
        expect(await pendingLines(taken)).toEqual([3, 2, 1]);
        expect(await store.batch('anna', 'batch_1')).toMatchObject({ status: 'in_progress', counts: { completed: 0 } });
      });

      it('are never two at once, however many ask', async () => {
        await store.addFile(sampleFile('file-in'));
        for (let index = 0; index < 20; index += 1) await store.addBatch(sampleBatch(`batch_${index}`));
        const taken = await Promise.all(
          Array.from({ length: 8 }, async (_, owner) => await store.lease({ owner: `o${owner}`, ttlMs: 1000, max: 4 })),
        );
        const ids = taken.flat().map(({ batch }) => batch.id);
        expect(new Set(ids).size).toBe(ids.length);
        const rest = await store.lease({ owner: 'last', ttlMs: 1000, max: 99 });
        expect(ids.length + rest.length).toBe(20);
      });
    });

    describe('lines', () => {
      it('are pending by rank, in pages, as validation found them', async () => {
        const lease = await begun(5);
        const page = await store.pending(lease, { afterRank: -1, limit: 2 });
        expect(page).toStrictEqual([
          { line: 5, customId: 'r5', at: 400, bytes: 99, rank: 0, attempts: 0, notBeforeMs: 0 },
          { line: 4, customId: 'r4', at: 300, bytes: 99, rank: 1, attempts: 0, notBeforeMs: 0 },
        ]);
        expect((await store.pending(lease, { afterRank: 1, limit: 9 })).map(({ line }) => line)).toEqual([3, 2, 1]);
        expect(await store.pending(lease, { afterRank: 4, limit: 9 })).toEqual([]);
      });

      it('come in several calls, and the first clears what an earlier try left', async () => {
        const lease = await validating();
        await store.addLines(lease, sampleLines(9), true);
        await store.addLines(lease, sampleLines(2), true);
        await store.addLines(lease, [{ line: 7, customId: 'ü\u0000\ud800', at: 2 ** 33, bytes: 1, rank: 9 }], false);
        await store.addLines(lease, [{ line: 7, customId: 'again', at: 0, bytes: 1, rank: 9 }], false);
        const found = await store.pending(lease, { afterRank: -1, limit: 99 });
        expect(found.map(({ line }) => line)).toEqual([2, 1, 7]);
        expect(found[2]).toMatchObject({ customId: 'ü\u0000\ud800', at: 2 ** 33 });
        await store.addLines(lease, [], true);
        expect(await pendingLines(lease)).toEqual([]);
      });

      it('stand once the batch has begun', async () => {
        const lease = await begun(2);
        await expectFault(store.addLines(lease, sampleLines(1), true), 'broken');
        expect(await store.begin(lease, { total: 9, model: 'other', nowSeconds: now + 9 })).toMatchObject({
          counts: { total: 2 },
          model: 'm',
          inProgressAt: now,
        });
        expect(await pendingLines(lease)).toEqual([2, 1]);
      });

      it('keep their failed tries', async () => {
        const lease = await begun(2);
        await store.noteRetries(lease, [
          { line: 1, attempts: 2, notBeforeMs: 1_780_000_000_123 },
          { line: 77, attempts: 1, notBeforeMs: 1 },
        ]);
        expect(await store.pending(lease, { afterRank: 0, limit: 9 })).toMatchObject([
          { line: 1, attempts: 2, notBeforeMs: 1_780_000_000_123 },
        ]);
      });
    });

    describe('results', () => {
      it('take their line from those that are pending, and are counted', async () => {
        const lease = await begun(4);
        await store.addResults(lease, [
          sampleResult(2),
          sampleResult(4, { ok: false }),
          { line: 3, ok: true, text: '{}' },
        ]);
        expect(await pendingLines(lease)).toEqual([1]);
        expect(await store.batch('anna', 'batch_1')).toMatchObject({
          counts: { total: 4, completed: 2, failed: 1 },
          usage: { inputTokens: 20, cachedTokens: 8, outputTokens: 10, reasoningTokens: 2 },
        });
      });

      it('are told apart where their batch was over before them', async () => {
        const lease = await begun(4);
        await store.addResults(lease, [sampleResult(1, { ok: false }), sampleResult(2)]);
        expect(await store.batch('anna', 'batch_1')).not.toHaveProperty('unrun');
        const unrun = sampleResult(3, { ok: false, unrun: true });
        await store.addResults(lease, [unrun, sampleResult(4, { ok: false, unrun: true })]);
        await store.addResults(lease, [unrun]);
        expect(await store.batch('anna', 'batch_1')).toMatchObject({
          counts: { total: 4, completed: 1, failed: 3 },
          unrun: 2,
        });
      });

      it('C176 of a line that has one already change nothing', async () => {
        const lease = await begun(3);
        await store.addResults(lease, [sampleResult(1, { text: '"first"' }), sampleResult(1, { text: '"same call"' })]);
        await store.addResults(lease, [sampleResult(1, { text: '"second"', ok: false }), sampleResult(2)]);
        await store.addResults(lease, [sampleResult(1, { text: '"second"', ok: false }), sampleResult(2)]);
        const kept = await store.results(lease, { ok: true, afterLine: 0, limit: 9 });
        expect(kept.map(({ line, text }) => [line, text])).toEqual([
          [1, '"first"'],
          [2, '{"custom_id":"r2"}'],
        ]);
        expect(await store.results(lease, { ok: false, afterLine: 0, limit: 9 })).toEqual([]);
        expect(await store.batch('anna', 'batch_1')).toMatchObject({
          counts: { completed: 2, failed: 0 },
          usage: { inputTokens: 20 },
        });
      });

      it('of many calls at once are all there', async () => {
        const lease = await begun(300);
        const calls = Array.from(
          { length: 150 },
          async (_, index) =>
            await store.addResults(lease, [sampleResult(index + 1), sampleResult(((index + 1) % 150) + 1)]),
        );
        await Promise.all(calls);
        expect((await store.batch('anna', 'batch_1'))?.counts).toEqual({ total: 300, completed: 150, failed: 0 });
        expect(await pendingLines(lease)).toHaveLength(150);
      });

      it('of an unknown line are refused as a whole, and take no other call along', async () => {
        const lease = await begun(3);
        const good = store.addResults(lease, [sampleResult(1)]);
        const bad = store.addResults(lease, [sampleResult(2), sampleResult(99)]);
        const other = store.addResults(lease, [sampleResult(3)]);
        await good;
        await expectFault(bad, 'broken');
        await other;
        expect(await pendingLines(lease)).toEqual([2]);
      });

      it('are read by line and kind, in pages', async () => {
        const lease = await begun(6);
        await store.addResults(
          lease,
          [6, 2, 4].map((line) => sampleResult(line)),
        );
        await store.addResults(
          lease,
          [5, 1].map((line) => sampleResult(line, { ok: false, text: `é"${line}` })),
        );
        const list = async (ok: boolean, afterLine: number, limit: number) =>
          (await store.results(lease, { ok, afterLine, limit })).map(({ line }) => line);
        expect(await list(true, 0, 2)).toEqual([2, 4]);
        expect(await list(true, 4, 2)).toEqual([6]);
        expect(await list(true, 6, 2)).toEqual([]);
        expect(await list(false, 0, 9)).toEqual([1, 5]);
        const [first] = await store.results(lease, { ok: false, afterLine: 0, limit: 1 });
        expect(first).toMatchObject({ line: 1, ok: false, text: 'é"1' } satisfies Partial<LineResult>);
      });
    });

    describe('the end', () => {
      const output: StoredFile = sampleFile('file-out', { purpose: 'batch_output' });
      const error: StoredFile = sampleFile('file-err', { purpose: 'batch_output', expiresAt: now + 5 });

      it('C185 brings status, files and their ids in one step, and the same ids for ever', async () => {
        const lease = await begun(2);
        await store.addResults(lease, [sampleResult(1), sampleResult(2, { ok: false })]);
        await store.move(lease, 'finalizing', now);
        const ended = await store.finish(lease, { status: 'completed', output, error, nowSeconds: now + 1 });
        expect(ended).toMatchObject({
          status: 'completed',
          completedAt: now + 1,
          outputFileId: 'file-out',
          errorFileId: 'file-err',
          counts: { total: 2, completed: 1, failed: 1 },
        });
        expect(await store.file('anna', 'file-out')).toStrictEqual(output);
        expect(await store.file('anna', 'file-err')).toStrictEqual(error);
        expect(await store.batch('anna', 'batch_1')).toStrictEqual(ended);
        expect(await store.cancel('anna', 'batch_1', now + 2)).toStrictEqual(ended);
      });

      it('asked for again is the same end, since an answer can get lost', async () => {
        const lease = await begun(1);
        const end = { status: 'completed', output, error: undefined, nowSeconds: now } as const;
        const first = await store.finish(lease, end);
        expect(await store.finish(lease, { ...end, nowSeconds: now + 60 })).toStrictEqual(first);
        await expectFault(store.addResults(lease, [sampleResult(1)]), 'lost');
        await expectFault(store.finish({ ...lease, epoch: 7 }, end), 'lost');
      });

      it.each(['completed', 'expired', 'cancelled', 'failed'] as const)('may be %s, without files', async (status) => {
        const lease = await begun(1);
        const errors = [{ code: 'x', message: 'y' }];
        const ended = await store.finish(lease, {
          status,
          output: undefined,
          error: undefined,
          errors,
          nowSeconds: now,
        });
        expect(ended).toMatchObject({ status, errors, [`${status}At`]: now });
        expect(ended.outputFileId).toBeUndefined();
        expect(ended.errorFileId).toBeUndefined();
      });

      it('takes lines and results away, of this batch alone', async () => {
        const lease = await begun(2);
        await store.addBatch(sampleBatch('batch_2'));
        const other = await leaseOne('two');
        await store.addLines(other, sampleLines(3), true);
        await store.begin(other, { total: 3, model: 'm', nowSeconds: now });
        await store.addResults(other, [sampleResult(1)]);
        await store.finish(lease, { status: 'completed', output, error: undefined, nowSeconds: now });
        expect(await pendingLines(other)).toEqual([3, 2]);
        expect(await store.results(other, { ok: true, afterLine: 0, limit: 9 })).toHaveLength(1);
        await expectFault(store.pending(lease, { afterRank: -1, limit: 9 }), 'lost');
      });
    });

    it('forgets batches that ended long ago, and none that is open or has a file', async () => {
      const lease = await begun(2);
      await store.addResults(lease, [sampleResult(1)]);
      const output = sampleFile('file-out', { purpose: 'batch_output' });
      await store.finish(lease, { status: 'expired', output, error: undefined, nowSeconds: now + 1 });
      for (const id of ['batch_2', 'batch_3', 'batch_4']) await store.addBatch(sampleBatch(id));
      await store.fail(await leaseOne(), [], now);
      await store.fail(await leaseOne(), [], now + 1);
      const known = async () => {
        const page = await store.batches(undefined, { limit: 9, order: 'asc' });
        return page?.batches.map(({ id }) => id);
      };
      expect(await store.dropEndedBatches(now - 1, 9)).toBe(0);
      // SQLite removes what an ended batch left behind piece by piece, and then only the batch.
      await vi.waitFor(async () => expect(await store.dropEndedBatches(now, 9)).toBe(1), 5000);
      expect(await known()).toEqual(['batch_1', 'batch_3', 'batch_4']);
      await vi.waitFor(async () => expect(await store.dropEndedBatches(now + 9, 1)).toBe(1), 5000);
      expect(await known()).toEqual(['batch_1', 'batch_4']);
      expect(await store.dropEndedBatches(now + 9, 9)).toBe(0);
      await store.removeFile('anna', 'file-out');
      await vi.waitFor(async () => expect(await store.dropEndedBatches(now + 9, 9)).toBe(1), 5000);
      expect(await known()).toEqual(['batch_4']);
      expect(await store.batch('anna', 'batch_1')).toBeUndefined();
    });

    it('tells people how much there is', async () => {
      expect(await store.stats()).toMatchObject({ files: 0, openBatches: 0, pendingLines: 0 });
      expect((await store.stats()).oldestAt).toBeUndefined();
      const lease = await begun(5);
      await store.addBatch(sampleBatch('batch_2', { createdAt: 77 }));
      await store.addResults(lease, [sampleResult(1), sampleResult(2, { ok: false })]);
      const stats = await store.stats();
      expect(stats).toMatchObject({ files: 1, openBatches: 2, pendingLines: 3, oldestAt: 77 });
      expect(stats.bytes).toBeGreaterThan(8192);
    });

    it('refuses work after it was closed, and closes twice', async () => {
      await store.close();
      await store.close();
      await expectFault(store.stats(), 'away');
    });

    it('holds 50,000 lines, each with one result, found again page by page', async () => {
      const count = 50_000;
      const lease = await validating();
      const lines = sampleLines(count);
      for (let from = 0; from < count; from += 5000)
        await store.addLines(lease, lines.slice(from, from + 5000), from === 0);
      await store.begin(lease, { total: count, model: 'm', nowSeconds: now });
      const calls: Promise<void>[] = [];
      let afterRank = -1;
      for (;;) {
        const page = await store.pending(lease, { afterRank, limit: 2000 });
        const last = page.at(-1);
        if (last === undefined) break;
        afterRank = last.rank;
        for (let from = 0; from < page.length; from += 100)
          calls.push(
            store.addResults(
              lease,
              page.slice(from, from + 100).map(({ line }) => sampleResult(line, { ok: line % 50 > 0 })),
            ),
          );
      }
      await Promise.all(calls);
      const seen = new Set<number>();
      for (const ok of [true, false]) {
        let afterLine = 0;
        for (;;) {
          const page = await store.results(lease, { ok, afterLine, limit: 3000 });
          for (const { line } of page) seen.add(line);
          const last = page.at(-1);
          if (last === undefined) break;
          afterLine = last.line;
        }
      }
      expect(seen.size).toBe(count);
      expect((await store.batch('anna', 'batch_1'))?.counts).toEqual({ total: count, completed: 49_000, failed: 1000 });
      const status: BatchStatus = (
        await store.finish(lease, { status: 'completed', output: undefined, error: undefined, nowSeconds: now })
      ).status;
      expect(status).toBe('completed');
    }, 60_000);
  });
}

export async function expectFault(work: Promise<unknown>, fault: StoreFault): Promise<void> {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(StoreError);
  expect(error).toMatchObject({ fault });
}
