/**
 * Online alone against online with an endless batch, under the shipped lanes and other rules, on simulated engines:
 *
 *   node test/bench/lanes/evaluate.mjs [--conv FILE] [--code FILE] [--short] [--held-out] [--settings WORD]... [--candidates WORD]... [--output FOLDER]
 *
 * `--held-out`: only the parts that nothing was chosen by. Writes the raw figures (a JSON line for each play) and a table. Without Azure's traces their settings are played on generators.
 */
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
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
    'held-out': { type: 'boolean', default: false },
    settings: { type: 'string', multiple: true, default: [''] },
    candidates: { type: 'string', multiple: true, default: [''] },
    output: { type: 'string', default: fileURLToPath(new URL('../results', import.meta.url)) },
  },
});
const loaded = await runnerImport(join(here, 'evaluation.ts'), { configFile: false, logLevel: 'error' });
const { laneCandidates, laneSettings, partsOf, playOne, tableOf } = loaded.module;
mkdirSync(values.output, { recursive: true });
const file = join(values.output, `${new Date().toISOString().slice(0, 16).replace(':', '')}-lanes`);
rmSync(`${file}.jsonl`, { force: true });
const isMeant = (name, words) => words.some((word) => name.includes(word));
// What all are compared with is played in any case.
const always = ['online only', 'unbounded'];
const candidates = laneCandidates.filter(({ name, kind }) => always.includes(kind) || isMeant(name, values.candidates));
const rows = [];
for (const setting of laneSettings.filter(({ name }) => isMeant(name, values.settings))) {
  for (const part of partsOf(setting, values)) {
    let alone;
    for (const candidate of candidates.filter(({ name }) => setting.compares?.includes(name) ?? true)) {
      const files = { conv: values.conv, code: values.code };
      const { row, lived } = playOne(setting, part, { candidate, files, alone });
      if (candidate.kind === 'online only') alone = lived;
      rows.push(row);
      appendFileSync(`${file}.jsonl`, `${JSON.stringify(row)}\n`);
      const { attainment, batchTokensPerSecond, waste } = row.figures;
      const text = `${(attainment * 100).toFixed(2)} %, ${batchTokensPerSecond.toFixed(0)} tokens/s, waste ${(waste * 100).toFixed(1)} %`;
      process.stderr.write(`${row.setting} ${part.seed}: ${row.candidate}: ${text}\n`);
    }
  }
}
writeFileSync(`${file}.md`, tableOf(rows));
process.stdout.write(tableOf(rows));
