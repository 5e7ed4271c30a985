import { describe, expect, it } from 'vitest';
import { keepHouse } from '../../../../src/batch/run/housekeeping.ts';
import { createBatchWorld, ids } from '../../../support/batch-world.ts';
import { silentLog } from '../../../../src/platform/log.ts';

const minuteMs = 60_000;

describe('keeping house', () => {
  it('forgets an ended batch once its life and its files are over, and no open one', async () => {
    const world = createBatchWorld();
    const { store, shelf, clock } = world;
    const ended = await world.add(ids(2));
    const runner = world.start({ fileLifeSeconds: 3600 });
    await world.rest();
    world.open().forEach((line) => line.ok());
    await world.pass(300);
    const { outputFileId = '' } = await world.batch(ended.id);
    expect(await store.file('anonymous', outputFileId)).toBeDefined();
    await runner.stop(0);
    const open = await world.add(ids(1));
    const end = keepHouse({ fileLifeSeconds: 3600 }, { store, shelf, clock, log: silentLog });
    await world.pass(50 * minuteMs, minuteMs);
    expect(await store.batch('anonymous', ended.id)).toBeDefined();
    await world.pass(30 * minuteMs, minuteMs);
    expect(await store.file('anonymous', outputFileId)).toBeUndefined();
    expect(await store.batch('anonymous', ended.id)).toBeUndefined();
    expect(await store.batch('anonymous', open.id)).toBeDefined();
    end();
  });

  it('goes on the next time when the store was away', async () => {
    const world = createBatchWorld();
    const { store, shelf, clock } = world;
    const end = keepHouse({ fileLifeSeconds: 1 }, { store, shelf, clock, log: silentLog });
    store.failOn('dropEndedBatches', 'away');
    await world.pass(minuteMs, 10_000);
    expect(store.calls['dropEndedBatches']).toBe(1);
    expect(store.calls['unknownFiles'] ?? 0).toBe(0);
    store.failOn('dropEndedBatches', undefined);
    await world.pass(15 * minuteMs, minuteMs);
    expect(store.calls['dropEndedBatches']).toBe(2);
    end();
  });
});
