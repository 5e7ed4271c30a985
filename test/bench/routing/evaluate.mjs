/**
 * Compares all policies with other routers' rules on traces and generated workloads, on simulated engines:
 *
 *   node test/bench/routing/evaluate.mjs [--mooncake FILE] [--settings WORD] [--candidates a,b] [--seed N] [--output FOLDER]
 *
 * Writes a table (Markdown) and the raw figures (JSON lines). Without Mooncake's trace its settings are left out.
 * A seed replaces that of every generated workload: what holds for one alone is chance.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { runnerImport } from 'vite';

const here = fileURLToPath(new URL('.', import.meta.url));
const load = async (file) => (await runnerImport(join(here, file), { configFile: false, logLevel: 'error' })).module;
const { values } = parseArgs({
  options: {
    mooncake: { type: 'string', default: process.env.WARMLANE_MOONCAKE_TRACE },
    settings: { type: 'string', default: '' },
    candidates: { type: 'string', default: '' },
    seed: { type: 'string' },
    output: { type: 'string', default: fileURLToPath(new URL('../results', import.meta.url)) },
  },
});
const { evaluate, everyCandidate } = await load('evaluation.ts');
const { evaluationSettings } = await load('settings.ts');
const { tableOf } = await load('evaluation-text.ts');
const wanted = values.candidates === '' ? everyCandidate : values.candidates.split(',');
const seed = values.seed === undefined ? undefined : Number(values.seed);
if (seed !== undefined && !Number.isSafeInteger(seed)) {
  process.stderr.write(`--seed: must be a whole number, not ${values.seed}\n`);
  process.exit(2);
}
const seeded = (setting) => (seed === undefined || setting.source === 'mooncake' ? setting : { ...setting, seed });
const results = [];
const day = new Date().toISOString().slice(0, 16).replace(':', '');
const file = join(values.output, `${day}-routing`);
mkdirSync(values.output, { recursive: true });
for (const setting of evaluationSettings.filter(({ name }) => name.includes(values.settings)).map(seeded)) {
  const result = evaluate(setting, wanted, {
    mooncake: values.mooncake,
    done: ({ candidate, figures }) =>
      process.stderr.write(`${setting.name}: ${candidate} ${(figures.goodShare * 100).toFixed(1)}\n`),
  });
  if (result === undefined) {
    process.stderr.write(`${setting.name}: left out, its trace is not at hand\n`);
    continue;
  }
  results.push(result);
  // After each setting, since the whole takes an hour.
  writeFileSync(`${file}.md`, tableOf(results));
  writeFileSync(`${file}.jsonl`, results.map((one) => JSON.stringify(one)).join('\n') + '\n');
}
if (results.length === 0) {
  process.stderr.write('no setting was played\n');
  process.exit(1);
}
process.stdout.write(tableOf(results));
