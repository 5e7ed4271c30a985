/** The Postgres store on a real server; and what only a store that is elsewhere can meet. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPostgresShelf } from '../../../../src/batch/shelf/postgres-shelf.ts';
import { openPostgresLink } from '../../../../src/batch/store/postgres-link.ts';
import { createPostgresStore } from '../../../../src/batch/store/postgres-store.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { itBehavesLikeTheModel } from '../../../support/batch-store-property.ts';
import { describeBatchStore, expectFault, type StoreWorld } from '../../../support/batch-store-suite.ts';
import { sampleBatch, sampleFile, sampleLines, sampleResult } from '../../../support/batch-values.ts';
import { eventually } from '../../../support/stage.ts';
import { describeShelf } from '../../../support/shelf-suite.ts';
import { itSurvivesKills } from '../../../support/store-kills.ts';
import { ask, hasPostgres, startPostgres, type PostgresServer } from '../../../support/postgres.ts';

describe.runIf(hasPostgres())('with a server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(async () => await server.close());

  const openStore = async (url: string) => createPostgresStore(await openPostgresLink(url, { log: silentLog }));

  async function open(): Promise<StoreWorld> {
    const url = await server.database();
    const store = await openStore(url);
    return {
      store,
      passMs: async (ms) =>
        void (await ask(
          url,
          `update warmlane_batches set lease_until = lease_until - ${ms} * interval '1 millisecond'`,
        )),
      close: async () => await store.close(),
    };
  }

  describeBatchStore('Postgres', open);
  itBehavesLikeTheModel('Postgres', open, 15);

  describeShelf('Postgres', async () => {
    const url = await server.database();
    const link = await openPostgresLink(url, { log: silentLog });
    return {
      shelf: createPostgresShelf(link),
      age: async (ms) =>
        void (await ask(
          url,
          `update warmlane_shelf_files set touched_at = touched_at - ${ms} * interval '1 millisecond'`,
        )),
      remains: async () => (await ask(url, 'select 1 from warmlane_shelf_files')).length,
      close: async () => await link.close(),
    };
  });

  itSurvivesKills('Postgres', async () => ({ kind: 'postgres', url: await server.database() }));

  it('replicas that start together make the tables once', async () => {
    const url = await server.database();
    const stores = await Promise.all(Array.from({ length: 5 }, async () => await openStore(url)));
    expect(await ask(url, 'select version from warmlane_schema_version')).toEqual([{ version: 1 }]);
    await Promise.all(stores.map(async (store) => await store.close()));
  });

  it('tables of a newer version are left alone', async () => {
    const url = await server.database();
    await (await openStore(url)).close();
    await ask(url, 'insert into warmlane_schema_version (version) values (99)');
    await expectFault(openStore(url), 'broken');
  });

  it('a schema that the search path names is used', async () => {
    const url = await server.database();
    await ask(url, 'create schema batches');
    const store = await openStore(`${url}?options=-c%20search_path%3Dbatches`);
    await store.addFile(sampleFile('file-in'));
    expect(await ask(url, 'select id from batches.warmlane_files')).toEqual([{ id: 'file-in' }]);
    await store.close();
  });

  it("a batch of a dead replica goes to another, which the dead one can't disturb any more", async () => {
    const url = await server.database();
    const [one, two] = [await openStore(url), await openStore(url)];
    await one.addFile(sampleFile('file-in'));
    await one.addBatch(sampleBatch('batch_1'));
    const [mine] = await one.lease({ owner: 'one', ttlMs: 60_000, max: 1 });
    if (mine === undefined) throw new Error('nothing to lease');
    await one.addLines(mine.lease, sampleLines(10), true);
    await one.begin(mine.lease, { total: 10, model: 'm', nowSeconds: 1 });
    expect(await two.lease({ owner: 'two', ttlMs: 60_000, max: 1 })).toEqual([]);
    await one.renew([mine.lease], 50);
    let theirs = await two.lease({ owner: 'two', ttlMs: 60_000, max: 1 });
    await eventually(async () => {
      theirs = await two.lease({ owner: 'two', ttlMs: 60_000, max: 1 });
      return theirs.length > 0;
    }, 'the lease runs out');
    const [taken] = theirs;
    if (taken === undefined) throw new Error('nothing taken');
    await Promise.all([
      expectFault(one.addResults(mine.lease, [sampleResult(1)]), 'lost'),
      two.addResults(taken.lease, [sampleResult(1, { text: '"two"' })]),
    ]);
    await expectFault(one.addResults(mine.lease, [sampleResult(2)]), 'lost');
    expect(await two.results(taken.lease, { ok: true, afterLine: 0, limit: 9 })).toMatchObject([
      { line: 1, text: '"two"' },
    ]);
    await one.close();
    await two.close();
  });

  it('a file is never removed under a batch that is added at the same moment', async () => {
    const url = await server.database();
    const store = await openStore(url);
    for (let round = 0; round < 60; round += 1) {
      const id = `file-${round}`;
      await store.addFile(sampleFile(id, { expiresAt: 5 }));
      const batch = sampleBatch(`batch_${round}`, { inputFileId: id });
      const [added] = await Promise.all([
        store.addBatch(batch),
        round % 2 === 0 ? store.removeFile('anna', id) : store.dropExpiredFiles(10, 9),
      ]);
      expect((await store.file('anna', id)) === undefined).toBe(added === 'no_file');
    }
    await store.close();
  });

  it("a heartbeat doesn't wait for a long write of the same batch, and keeps it", async () => {
    const url = await server.database();
    const link = await openPostgresLink(url, { log: silentLog });
    const store = createPostgresStore(link);
    await store.addFile(sampleFile('file-in'));
    await store.addBatch(sampleBatch('batch_1'));
    const [taken] = await store.lease({ owner: 'one', ttlMs: 1, max: 1 });
    if (taken === undefined) throw new Error('nothing to lease');
    await link.transaction(async (turn) => {
      await turn.rows('select 1 from warmlane_batches for update');
      expect(await store.renew([taken.lease], 60_000)).toHaveLength(1);
      expect(await store.lease({ owner: 'two', ttlMs: 1, max: 1 })).toEqual([]);
    });
    await store.close();
  });

  it("transactions that stand in each other's way are tried again", async () => {
    const url = await server.database();
    const link = await openPostgresLink(url, { log: silentLog });
    await link.once.run('create table pair (id integer primary key, n integer not null)');
    await link.once.run('insert into pair values (1, 0), (2, 0)');
    let tries = 0;
    let both = 0;
    await Promise.all(
      [
        [1, 2],
        [2, 1],
      ].map(
        async (ids) =>
          await link.transaction(async (turn) => {
            tries += 1;
            for (const id of ids) {
              await turn.run('update pair set n = n + 1 where id = $1', id);
              both += 1;
              // Each has its first row before any takes its second.
              if (tries <= 2) await eventually(() => both >= 2, 'both have one');
            }
          }),
      ),
    );
    expect(tries).toBe(3);
    expect(await link.once.rows('select n from pair')).toEqual([{ n: 2 }, { n: 2 }]);
    await link.close();
  });

  it('C177 a database that goes away fails what is asked of it, whole, and works when it is back', async () => {
    const own = await startPostgres();
    try {
      const store = await openStore(own.url);
      await store.addFile(sampleFile('file-in'));
      await store.addBatch(sampleBatch('batch_1'));
      const [taken] = await store.lease({ owner: 'one', ttlMs: 60_000, max: 1 });
      if (taken === undefined) throw new Error('nothing to lease');
      await store.addLines(taken.lease, sampleLines(2000), true);
      await store.begin(taken.lease, { total: 2000, model: 'm', nowSeconds: 1 });
      const acknowledged: number[] = [];
      const faults: unknown[] = [];
      const write = async (line: number) => {
        try {
          await store.addResults(taken.lease, [sampleResult(line)]);
          acknowledged.push(line);
        } catch (error) {
          faults.push((error as { fault?: unknown }).fault);
        }
      };
      let line = 0;
      const stopped = own.stop();
      while (faults.length === 0 && line < 2000) await write((line += 1));
      await stopped;
      await Promise.all([write(1998), write(1999), expectFault(store.stats(), 'away')]);
      expect(new Set(faults)).toEqual(new Set(['away']));
      await own.start();
      await store.addResults(taken.lease, [sampleResult(2000)]);
      const kept = (await store.results(taken.lease, { ok: true, afterLine: 0, limit: 2000 })).map((each) => each.line);
      expect(acknowledged.filter((each) => !kept.includes(each))).toEqual([]);
      expect(kept).toContain(2000);
      expect((await store.batch('anna', 'batch_1'))?.counts.completed).toBe(kept.length);
      await store.close();
    } finally {
      await own.close();
    }
  }, 60_000);

  it("a server that isn't there, or takes no such user, is named without its password", async () => {
    const gone = openStore('postgres://anna:secret@127.0.0.1:1/db');
    await expectFault(gone, 'away');
    await expect(gone).rejects.toThrow("Postgres at 127.0.0.1:1/db can't be reached");
    await expect(gone).rejects.not.toThrow('secret');
    const unknown = openStore(server.url.replace('postgres@', 'nobody:secret@'));
    await expectFault(unknown, 'broken');
    await expect(unknown).rejects.not.toThrow('secret');
  });
});
