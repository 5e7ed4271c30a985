/** What goes wrong with a file on a disk, and what the store says of it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StoreError } from '../../../../src/batch/store/port.ts';
import type { SqliteCall } from '../../../../src/batch/store/sqlite-call.ts';
import { closeSqliteFile, openSqliteFile, type SqliteDatabase } from '../../../../src/batch/store/sqlite-file.ts';
import { createSqliteStore } from '../../../../src/batch/store/sqlite-store.ts';
import { createSqliteTurns, type SqliteTurns } from '../../../../src/batch/store/sqlite-turns.ts';
import { expectFault } from '../../../support/batch-store-suite.ts';
import { sampleBatch, sampleFile, sampleLines, sampleResult } from '../../../support/batch-values.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';

const lease = { batchId: 'batch_1', owner: 'one', epoch: 1 };
let folder: string;
let path: string;
let database: SqliteDatabase;
let turns: SqliteTurns;
let lastId = 0;

const call = <Name extends SqliteCall['name']>(
  name: Name,
  ...given: Extract<SqliteCall, { name: Name }>['given']
): SqliteCall => ({ id: (lastId += 1), nowMs: 1, name, given }) as unknown as SqliteCall;

/** Answers without their numbers. */
function ask(...calls: readonly SqliteCall[]): readonly object[] {
  return turns.answer(calls).map((answer) => {
    const { id, ...rest } = answer;
    expect(id).toBeGreaterThan(0);
    return rest;
  });
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'warmlane-store-'));
  path = join(folder, 'batches.sqlite');
  database = openSqliteFile({ path, busyMs: 0 });
  turns = createSqliteTurns(database, path);
  ask(
    call('addFile', sampleFile('file-in')),
    call('addBatch', sampleBatch('batch_1')),
    call('lease', { owner: 'one', ttlMs: 1000, max: 1 }),
    call('addLines', lease, sampleLines(50), true),
    call('begin', lease, { total: 50, model: 'm', nowSeconds: 1 }),
  );
});
afterEach(() => {
  closeSqliteFile(database);
  rmSync(folder, { recursive: true, force: true });
});

const big = (line: number) => sampleResult(line, { text: JSON.stringify('x'.repeat(200_000)) });
const counts = () => (ask(call('batch', 'anna', 'batch_1'))[0] as { value: { counts: unknown } }).value.counts;

describe('a disk that is full', () => {
  beforeEach(() => {
    const [row] = database.pragma('page_count') as { page_count: number }[];
    database.pragma(`max_page_count = ${(row?.page_count ?? 0) + 20}`);
  });

  it('C177 fails what finds no room, whole and by name, and keeps what was there', () => {
    expect(ask(call('addResults', lease, [sampleResult(1)]))).toEqual([{ value: undefined }]);
    const refused = ask(call('addResults', lease, [2, 3, 4, 5].map(big)));
    expect(refused).toEqual([
      { fault: 'full', message: `the disk under ${path} is full: work goes on once there is room` },
    ]);
    expect(counts()).toEqual({ total: 50, completed: 1, failed: 0 });
    expect(database.inTransaction).toBe(false);
  });

  it('takes no call along that finds room, though they came together', () => {
    const answers = ask(
      call('addResults', lease, [sampleResult(1)]),
      call('addResults', lease, [2, 3, 4, 5].map(big)),
      call('addResults', lease, [sampleResult(6)]),
      call('addResults', { ...lease, epoch: 9 }, [sampleResult(7)]),
    );
    expect(answers).toMatchObject([{ value: undefined }, { fault: 'full' }, { value: undefined }, { fault: 'lost' }]);
    expect(counts()).toEqual({ total: 50, completed: 2, failed: 0 });
  });

  it('works again once there is room', () => {
    expect(ask(call('addResults', lease, [2, 3, 4, 5].map(big)))).toMatchObject([{ fault: 'full' }]);
    database.pragma('max_page_count = 100000');
    expect(ask(call('addResults', lease, [2, 3, 4, 5].map(big)))).toEqual([{ value: undefined }]);
    expect(counts()).toEqual({ total: 50, completed: 4, failed: 0 });
  });
});

describe('a file', () => {
  it('that is read-only says so, and is read on', () => {
    database.pragma('query_only = on');
    expect(ask(call('addFile', sampleFile('file-b')))).toMatchObject([
      { fault: 'away', message: expect.stringContaining(`${path} is read-only`) as string },
    ]);
    database.pragma('query_only = off');
    expect(ask(call('addFile', sampleFile('file-b')))).toEqual([{ value: undefined }]);
  });

  it('that is no database is called damaged, with what to do', () => {
    const other = join(folder, 'other.sqlite');
    writeFileSync(other, 'no database at all, but long enough to be taken for the beginning of one. '.repeat(200));
    const open = () => openSqliteFile({ path: other, busyMs: 0 });
    expect(open).toThrow(StoreError);
    expect(open).toThrow(/other\.sqlite is damaged: .*put a backup in its place, or move it away/);
    expect(open).toThrow(expect.objectContaining({ fault: 'broken' }) as Error);
  });

  it('whose pages were overwritten is called damaged when they are read', async () => {
    closeSqliteFile(database);
    const bytes = await readFile(path);
    bytes.fill(0x5a, 16 * 1024);
    const other = join(folder, 'other.sqlite');
    await writeFile(other, bytes);
    expect(() => openSqliteFile({ path: other, busyMs: 0 })).toThrow(
      expect.objectContaining({ fault: 'broken' }) as Error,
    );
    database = openSqliteFile({ path, busyMs: 0 });
  });

  it('of a newer version is left alone', () => {
    database.exec('insert into schema_version (version) values (99)');
    closeSqliteFile(database);
    expect(() => openSqliteFile({ path, busyMs: 0 })).toThrow(
      /made by a newer warmlane \(schema 99; this one knows 1\)/,
    );
    database = openSqliteFile({ path: join(folder, 'fresh.sqlite'), busyMs: 0 });
  });

  it("that can't be made where it should be is away", async () => {
    writeFileSync(join(folder, 'plain'), '');
    const clock = createFakeClock();
    await expectFault(
      createSqliteStore({ path: join(folder, 'plain', 'batches.sqlite'), busyMs: 0 }, { clock }),
      'away',
    );
    await expectFault(createSqliteStore({ path: folder, busyMs: 0 }, { clock }), 'away');
  });

  it('that another store has open is busy, and free when that one is closed', async () => {
    const clock = createFakeClock();
    await expectFault(createSqliteStore({ path, busyMs: 0 }, { clock }), 'busy');
    closeSqliteFile(database);
    const store = await createSqliteStore({ path, busyMs: 0 }, { clock });
    // Nobody else can have had it: leases of the process before count no more.
    expect(await store.lease({ owner: 'two', ttlMs: 1000, max: 1 })).toMatchObject([{ lease: { epoch: 2 } }]);
    await store.close();
    database = openSqliteFile({ path, busyMs: 0 });
  });
});

describe('what ended batches leave behind', () => {
  it('goes piece by piece, and the file gives its room back', () => {
    // More than what is kept free for later.
    const text = JSON.stringify('x'.repeat(500_000));
    for (const { line } of sampleLines(50)) ask(call('addResults', lease, [sampleResult(line, { text })]));
    const pages = () => (database.pragma('page_count') as { page_count: number }[])[0]?.page_count ?? 0;
    const full = pages();
    ask(call('finish', lease, { status: 'completed', output: undefined, error: undefined, nowSeconds: 2 }));
    let pieces = 0;
    while (turns.tidy()) pieces += 1;
    expect(pieces).toBeGreaterThan(1);
    const left = database.prepare('select (select count(*) from lines) + (select count(*) from results) as n').get([]);
    expect(left).toMatchObject({ n: 0 });
    const [free] = database.pragma('freelist_count') as { freelist_count: number }[];
    expect(free?.freelist_count).toBeLessThanOrEqual(1024);
    expect(pages()).toBeLessThan(full);
    expect(turns.tidy()).toBe(false);
  });
});
