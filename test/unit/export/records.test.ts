import { describe, expect, it } from 'vitest';
import type { RequestRecord, TokenStamps } from '../../../src/domain/record.ts';
import { createRecords } from '../../../src/export/records.ts';
import { createLog, type Log, silentLog } from '../../../src/platform/log.ts';
import { observe } from '../../support/observe.ts';
import { sampleNote } from '../../support/sample-routing.ts';

const bare = observe({}, []);

function record(id: number, stamps?: TokenStamps): RequestRecord {
  return { ...bare, requestId: `r${id}`, ...(stamps === undefined ? {} : { stamps }) };
}

/** Stamps of so many bytes. */
function stampsOf(bytes: number): TokenStamps {
  return { atMs: new Float64Array(bytes / 8) };
}

function kept(maxRecords: number, maxRecordBytes = 1_000_000, log: Log = silentLog) {
  return createRecords({ requestLog: false, maxRecords, maxRecordBytes }, { log });
}

const ids = (records: readonly RequestRecord[]) => records.map(({ requestId }) => requestId);

describe('finished requests', () => {
  it('are listed newest first, the oldest gone when there are too many', () => {
    const records = kept(3);
    for (let i = 1; i <= 5; i += 1) records.add(record(i));
    expect(ids(records.list())).toEqual(['r5', 'r4', 'r3']);
  });

  it('need not be kept at all', () => {
    const records = kept(0);
    for (let i = 1; i <= 5; i += 1) records.add(record(i, stampsOf(80)));
    expect(records.list()).toEqual([]);
  });

  it('lose their stamps, oldest first, before they take more memory than they may', () => {
    const records = kept(100, 400);
    for (let i = 1; i <= 6; i += 1) records.add(record(i, stampsOf(160)));
    expect(ids(records.list())).toHaveLength(6);
    expect(records.list().map(({ stamps }) => stamps?.atMs.byteLength)).toEqual([
      160,
      160,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('lose the backends that were considered alike, and keep the decision', () => {
    const considered = Array.from({ length: 64 }, (_, i) => ({ backend: `b${i}`, heldTokens: 0 }));
    const records = kept(100, 40_000);
    for (let i = 1; i <= 6; i += 1) records.add({ ...record(i), routing: sampleNote({ considered }) });
    expect(records.list().map(({ routing }) => routing?.considered?.length)).toEqual([
      64,
      64,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
    expect(records.list().every(({ routing }) => routing?.predictedTokens === 512)).toBe(true);
  });

  it('lose the stamps of one that alone is larger', () => {
    const records = kept(10, 400);
    records.add(record(1, stampsOf(80)));
    records.add(record(2, stampsOf(800)));
    expect(records.list().map(({ stamps }) => stamps)).toEqual([undefined, undefined]);
    records.add(record(3, stampsOf(80)));
    expect(records.list()[0]?.stamps?.atMs.byteLength).toBe(80);
  });

  it('count all arrays of their stamps', () => {
    const records = kept(10, 400);
    const full = {
      atMs: new Float64Array(10),
      choice: new Uint16Array(10),
      tokens: new Uint16Array(10),
      coalesced: new Uint8Array(10),
    };
    for (let i = 1; i <= 4; i += 1) records.add(record(i, full));
    expect(records.list().map(({ stamps }) => stamps !== undefined)).toEqual([true, true, true, false]);
  });

  it('stay within both bounds for ever', () => {
    const records = kept(50, 10_000);
    for (let i = 1; i <= 5000; i += 1) {
      records.add(record(i, i % 3 === 0 ? undefined : stampsOf(8 * (1 + ((i * 7) % 300)))));
      const bytes = records.list().reduce((sum, { stamps }) => sum + (stamps?.atMs.byteLength ?? 0), 0);
      if (bytes > 10_000 || records.list().length > 50)
        throw new Error(`${bytes} bytes in ${records.list().length} records`);
    }
    expect(ids(records.list())).toEqual(Array.from({ length: 50 }, (_, i) => `r${5000 - i}`));
    expect(records.list()[0]?.stamps).toBeDefined();
  });

  it('are not changed by their list', () => {
    const records = kept(5);
    records.add(record(1));
    (records.list() as RequestRecord[]).pop();
    expect(records.list()).toHaveLength(1);
  });
});

describe('the request log', () => {
  it('has a line for each request, if it is on', () => {
    const lines: string[] = [];
    const log = createLog({ level: 'info', format: 'json' }, (line) => void lines.push(line));
    const on = createRecords({ requestLog: true, maxRecords: 1, maxRecordBytes: 0 }, { log });
    on.add(record(1));
    on.add(record(2));
    expect(lines.map((line) => (JSON.parse(line) as { msg: string; requestId: string }).requestId)).toEqual([
      'r1',
      'r2',
    ]);
    kept(5, 0, log).add(record(3));
    expect(lines).toHaveLength(2);
  });

  it('that fails costs a count, nothing else', () => {
    const broken: Log = {
      ...silentLog,
      info() {
        throw new Error('disk full');
      },
    };
    const records = createRecords({ requestLog: true, maxRecords: 5, maxRecordBytes: 0 }, { log: broken });
    records.add(record(1));
    records.add(record(2));
    expect(records.failures).toBe(2);
    expect(ids(records.list())).toEqual(['r2', 'r1']);
  });
});
