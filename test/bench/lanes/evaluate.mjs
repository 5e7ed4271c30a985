/**
 * Online alone against online with an endless batch, under the shipped rule for lanes and others, on simulated engines:
 *
 *   node test/bench/lanes/evaluate.mjs [--conv FILE] [--code FILE] [--short] [--settings WORD] [--candidates WORD] [--output FOLDER]
 *
 * Writes the raw figures, one JSON line a play. Without Azure's traces their settings are played on generators.
 */
import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runnerImport } from 'vite';

const here = fileURLToPath(new URL('.', import.meta.url));
const { values } = parseArgs({
  options: {
    conv: { type: 'string' },
    code: { type: 'string' },
    short: { type: 'boolean', default: false },
    settings: { type: 'string', default: '' },
    candidates: { type: 'string', default: '' },
    output: { type: 'string', default: join(here, 'results') },
  },
});
const loaded = await runnerImport(join(here, 'evaluation.ts'), { configFile: false, logLevel: 'error' });
const { laneCandidates, laneSettings, playOne } = loaded.module;
mkdirSync(values.output, { recursive: true });
const file = join(values.output, `${new Date().toISOString().slice(0, 16).replace(':', '')}-lanes.jsonl`);
for (const setting of laneSettings.filter(({ name }) => name.includes(values.settings))) {
  const played = values.short ? { ...setting, seconds: 180 } : setting;
  for (const candidate of laneCandidates.filter(({ name }) => name.includes(values.candidates))) {
    const row = playOne(played, candidate, { conv: values.conv, code: values.code });
    appendFileSync(file, `${JSON.stringify(row)}\n`);
    const { attainment, batchTokensPerSecond, waste } = row.figures;
    const text = `${(attainment * 100).toFixed(1)} %, ${batchTokensPerSecond.toFixed(0)} tokens/s, waste ${(waste * 100).toFixed(1)} %`;
    process.stdout.write(`${row.setting}: ${row.candidate}: ${text}\n`);
  }
}
