/** What can't be opened is told by the name of the setting that says where it is. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { createBatchStore } from '../../../../src/batch/store/create-batch-store.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { createFakeClock } from '../../../support/fake-clock.ts';

const folder = mkdtempSync(join(tmpdir(), 'warmlane-create-store-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const open = (directory: string) =>
  createBatchStore({ kind: 'sqlite', directory }, { clock: createFakeClock(), log: silentLog });

it('names the folder and its option where the folder can not be made', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  await expect(open(join(file, 'below'))).rejects.toMatchObject({
    name: 'StoreError',
    fault: 'away',
    message: expect.stringContaining(`batch.directory (--batch-dir): ${file}/below`) as string,
  });
});

it.runIf(process.platform === 'linux')('also where the system would have it tried for ever', async () => {
  await expect(open('/proc/nope')).rejects.toThrow('batch.directory (--batch-dir): /proc/nope');
});

it('names it too where the folder for the files can not be made beside the database', async () => {
  writeFileSync(join(folder, 'files'), '');
  await expect(open(folder)).rejects.toThrow(`batch.directory (--batch-dir): ${folder}/files: EEXIST`);
});
