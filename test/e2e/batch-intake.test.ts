/** The program itself while large files come in: its memory doesn't grow with them. `test/real/batch-intake.test.ts` has the full size. */
import { expect, it } from 'vitest';
import { measureIntake } from '../support/batch-intake.ts';

const MB = 1e6;

it(
  'C179 three uploads at once and their validation take memory that has nothing to do with their size',
  {
    timeout: 120_000,
  },
  async () => {
    const load = { uploads: 3, lines: 30_000, lineBytes: 2000 };
    const found = await measureIntake(load);
    expect(found.downloadedBytes).toBe(load.lines * load.lineBytes);
    // Of 180 MB.
    expect(found.rssUploadBytes - found.rssBeforeBytes).toBeLessThan(110 * MB);
    expect(found.rssPeakBytes - found.rssBeforeBytes).toBeLessThan(130 * MB);
  },
);
