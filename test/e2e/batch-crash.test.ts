/**
 * `kill -9` in the short form: four seeded moments of a batch on SQLite. The whole matrix, with Postgres and two replicas, is
 * `test/real/batch-crash.test.ts`.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type CrashCase, crashLeaseMs, crashOnce } from '../support/batch-crash.ts';

const cases: readonly CrashCase[] = [
  { seed: 101, phase: 'validating' },
  { seed: 102, phase: 'in_progress' },
  { seed: 103, phase: 'finalizing' },
  { seed: 104, phase: 'cancelling' },
];

describe('a proxy that is killed', () => {
  let folder = '';
  beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'warmlane-crash-'))));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it.each(cases)(
    'C176 C177 while $phase (seed $seed) loses no line and doubles none',
    async (crash) => {
      const directory = join(folder, String(crash.seed));
      const { problems } = await crashOnce(crash, { directory, leaseMs: crashLeaseMs });
      expect(problems).toEqual([]);
    },
    60_000,
  );
});
