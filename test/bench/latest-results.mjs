/** What the latest kept bench results say, for benches that set their own figures beside them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { median } from './goals.mjs';

const resultsFolder = join(import.meta.dirname, 'results');

/** warmlane's CPU per token with 128 streams in the latest results that have it, µs. */
export function latestCpuPerToken() {
  const files = existsSync(resultsFolder)
    ? readdirSync(resultsFolder)
        .filter((name) => name.endsWith('.jsonl'))
        .toSorted()
        .toReversed()
    : [];
  for (const name of files) {
    const values = readFileSync(join(resultsFolder, name), 'utf8')
      .split('\n')
      .filter((text) => text.includes('"scenario":"streams-128"') && text.includes('"candidate":"warmlane"'))
      .map((text) => JSON.parse(text).cpuMicrosPerToken);
    if (values.length > 0) return { micros: median(values), name };
  }
  return undefined;
}
