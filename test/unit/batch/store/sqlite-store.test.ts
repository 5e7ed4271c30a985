/** The SQLite store, its service in this thread. As a worker: `sqlite-worker.test.ts`. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSqliteStore } from '../../../../src/batch/store/sqlite-store.ts';
import { itBehavesLikeTheModel } from '../../../support/batch-store-property.ts';
import { describeBatchStore, type StoreWorld } from '../../../support/batch-store-suite.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';

async function open(): Promise<StoreWorld> {
  const directory = await mkdtemp(join(tmpdir(), 'warmlane-store-'));
  const clock = createFakeClock();
  const store = await createSqliteStore({ path: join(directory, 'batches.sqlite'), busyMs: 0 }, { clock });
  return {
    store,
    passMs: async (ms) => clock.advance(ms),
    async close() {
      await store.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

describeBatchStore('SQLite', open);
itBehavesLikeTheModel('SQLite', open, 100);
