import { describe, expect, it } from 'vitest';
import { adminJson, longJson, recordJson, recordsJson, streamOf } from '../../../src/http/admin-json.ts';
import { sampleRecord } from '../../support/sample-record.ts';

const textOf = (pieces: AsyncGenerator<string, void>) => new Response(streamOf(pieces)).text();

/** Turns of the event loop while the work goes on. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let over = false;
  const count = () => {
    turns += 1;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  await work();
  over = true;
  return turns;
}

function stampsOf(count: number) {
  return {
    atMs: Float64Array.from({ length: count }, (_, at) => at + 0.12345678),
    choice: Uint16Array.from({ length: count }, (_, at) => at % 3),
    coalesced: new Uint8Array(count),
  };
}

describe('long lists as JSON', () => {
  it('are what they would be in one go, lists that are made as they are written too', async () => {
    const value = () => ({
      about: 'a "b"\nc',
      none: undefined,
      empty: [],
      engines: (function* () {
        yield { name: 'a', points: [{ atMs: 1.23456 }, { atMs: 2 }], left: undefined };
        yield {};
        yield { nested: { list: [1, [2.00004]] } };
      })(),
      flat: [1, 'x', null, undefined],
    });
    const { engines, ...rest } = value();
    const whole = { about: rest.about, empty: [], engines: [...engines], flat: rest.flat };
    expect(await textOf(longJson(value()))).toBe(adminJson(whole));
    expect(adminJson(whole)).toContain('\n          "atMs": 1.235\n');
    expect(await textOf(longJson({}))).toBe('{}\n');
  });

  it('leave the event loop free while items are made and written', async () => {
    function* slow() {
      for (let at = 0; at < 20; at += 1) {
        const untilMs = performance.now() + 1.5;
        while (performance.now() < untilMs);
        yield { at };
      }
    }
    expect(await turnsDuring(() => textOf(longJson({ items: slow() })))).toBeGreaterThan(15);
  });
});

describe('records as JSON', () => {
  it('are whole, with their stamps as arrays and numbers to the microsecond', async () => {
    for (const count of [0, 1, 4096, 4097, 10_000]) {
      const stamps = stampsOf(count);
      const record = sampleRecord({ stamps, timeline: { received: 1.00049999 } });
      const { stamps: read, ...rest } = JSON.parse(await textOf(recordJson(record))) as Record<string, unknown>;
      const { stamps: _stamps, ...plain } = record;
      expect(rest).toEqual({ ...plain, timeline: { received: 1 } });
      expect(read).toEqual({
        atMs: [...stamps.atMs].map((atMs) => Math.round(atMs * 1000) / 1000),
        choice: [...stamps.choice],
        coalesced: [...stamps.coalesced],
      });
    }
  });

  it('say of the one distribution in seconds that it is, and lose nothing of it', async () => {
    const itl = { count: 2, sum: 0.00012345, min: 0.00002345, max: 0.0001, zeros: 0, first: -985, counts: [1, 1] };
    const shown = JSON.parse(await textOf(recordJson(sampleRecord({ itl })))) as Record<string, unknown>;
    expect(shown).toMatchObject({ itlSeconds: itl });
    expect(shown).not.toHaveProperty('itl');
  });

  it('are a list, which may be empty', async () => {
    expect(await textOf(recordsJson([]))).toBe('{"records":[]}\n');
    const records = [sampleRecord({ requestId: 'a', stamps: stampsOf(3) }), sampleRecord({ requestId: 'b' })];
    const read = JSON.parse(await textOf(recordsJson(records))) as { records: { requestId: string }[] };
    expect(read.records.map(({ requestId }) => requestId)).toEqual(['a', 'b']);
  });

  it('leave the event loop free between two records, and within a long one', async () => {
    const records = Array.from({ length: 200 }, () => sampleRecord({ stamps: stampsOf(100) }));
    expect(await turnsDuring(() => textOf(recordsJson(records)))).toBeGreaterThanOrEqual(200);
    const long = sampleRecord({ stamps: stampsOf(100_000) });
    expect(await turnsDuring(() => textOf(recordJson(long)))).toBeGreaterThanOrEqual(3 * 24);
  });
});

it('an ordinary value ends with a newline and keeps null, text and zero as they are', () => {
  expect(adminJson({ a: null, b: '1.23456', c: 0, d: 1.23456 })).toBe(
    '{\n  "a": null,\n  "b": "1.23456",\n  "c": 0,\n  "d": 1.235\n}\n',
  );
});
