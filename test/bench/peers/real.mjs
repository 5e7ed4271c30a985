/**
 * Warm routing on real engines, the long form: several llama-servers, or vLLMs on the CPU, with one small model, under seeded
 * conversations with shared system prompts, through warmlane with one policy after the other, in interleaved repetitions.
 * Says what the engines delivered by their own counters, what warmlane had predicted, and whether the answers' sum is exactly
 * what the engines counted. The short form is test/real/routing.test.ts. Servers: test/real/install.sh. See ../README.md.
 * usage: node test/bench/peers/real.mjs [--engine llama-server|vllm] [--servers 3] [--seconds 90] [--repetitions 2] …
 */
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, homedir, release, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { median } from '../goals.mjs';
import { ask, assertPortsFree, startProcess, stopAll } from '../processes.mjs';
import { show } from '../summary.mjs';
import { figuresOf, moved, sum } from './figures.mjs';
import { loads } from './loads.mjs';
import { runClient } from './run-client.mjs';
import { startRouter, warmlane } from './routers.mjs';

/** @typedef {import('./counters.mjs').Dialect} Dialect */

const cache = process.env.REAL_SERVERS_CACHE ?? join(homedir(), '.cache', 'warmlane');
const model = 'smollm2';
/** vLLM's block on the CPU, unless told otherwise. */
const blockTokens = 128;
const allocator = '/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4';

function readOptions() {
  const { values } = parseArgs({
    options: {
      engine: { type: 'string', default: 'llama-server' },
      servers: { type: 'string' },
      seconds: { type: 'string', default: '90' },
      warm: { type: 'string', default: '15' },
      repetitions: { type: 'string', default: '2' },
      rate: { type: 'string', default: '1' },
      seed: { type: 'string', default: '1' },
      policies: { type: 'string', default: 'warm,round-robin,least-load' },
      'ram-cache': { type: 'string', default: '1024' },
      'base-port': { type: 'string', default: '18800' },
      output: { type: 'string' },
    },
  });
  if (values.engine !== 'llama-server' && values.engine !== 'vllm') throw new Error(`no engine ${values.engine}`);
  return {
    engine: /** @type {Dialect} */ (values.engine),
    servers: Number(values.servers ?? (values.engine === 'vllm' ? 2 : 3)),
    seconds: Number(values.seconds),
    warmSeconds: Number(values.warm),
    repetitions: Number(values.repetitions),
    rate: Number(values.rate),
    seed: Number(values.seed),
    policies: values.policies.split(','),
    ramCacheMib: Number(values['ram-cache']),
    basePort: Number(values['base-port']),
    outputFolder: values.output ?? join(import.meta.dirname, '../results'),
    slo: { ttftMs: 2000, tpotMs: 200 },
  };
}

/** @typedef {ReturnType<typeof readOptions>} Options */

/** @param {Options} options @param {number} port */
function llamaCommand(options, port) {
  const folder = join(cache, 'llama-server');
  return [
    ...[join(folder, 'env/bin/llama-server-vulkan'), '-m', join(folder, 'model.gguf'), '-a', model],
    ...['--host', '127.0.0.1', '--port', String(port), '-np', '2', '-c', '4096', '-t', '1', '-b', '512'],
    ...['-cram', String(options.ramCacheMib), '--metrics', '--slots', '--threads-http', '48'],
  ];
}

/** @param {number} port */
function vllmCommand(port) {
  const folder = join(cache, 'vllm');
  return [
    ...[join(folder, 'env/bin/python'), '-m', 'vllm.entrypoints.openai.api_server', '--model', join(folder, 'model')],
    ...['--served-model-name', model, '--host', '127.0.0.1', '--port', String(port), '--max-model-len', '2048'],
    ...[
      '--max-num-seqs',
      '4',
      '--block-size',
      String(blockTokens),
      '--enforce-eager',
      '--enable-prompt-tokens-details',
    ],
  ];
}

const vllmEnv = {
  VLLM_CPU_KVCACHE_SPACE: '1',
  VLLM_CPU_OMP_THREADS_BIND: 'nobind',
  VLLM_SERVER_DEV_MODE: '1',
  OMP_NUM_THREADS: '1',
  HF_HUB_OFFLINE: '1',
  VLLM_NO_USAGE_STATS: '1',
  ...(existsSync(allocator) ? { LD_PRELOAD: allocator } : {}),
};

/** One after another, which is quicker than all at once. @param {Options} options @param {string} folder */
async function startEngines(options, folder) {
  const isVllm = options.engine === 'vllm';
  const engines = [];
  for (let number = 0; number < options.servers; number++) {
    const port = options.basePort + 10 + number;
    await assertPortsFree([port]);
    const command = isVllm ? vllmCommand(port) : llamaCommand(options, port);
    const running = startProcess(command, join(folder, `engine-${number}.log`), isVllm ? vllmEnv : {});
    const endsAt = performance.now() + (isVllm ? 300_000 : 60_000);
    while ((await ask({ port, method: 'GET', path: '/health' })).status !== 200) {
      if (performance.now() > endsAt || running.child.exitCode !== null)
        throw new Error(`engine ${number} did not become ready; its log: ${running.logFile}`);
      await sleep(200);
    }
    engines.push({ port, url: `http://127.0.0.1:${port}`, running });
  }
  return engines;
}

/** @typedef {Awaited<ReturnType<typeof startEngines>>} Engines */

/** What a record tells of one answer; see src/domain/record.ts. @typedef {{ requestId: string, outcome: string, backend?: string, tokens: { prompt?: { value: number }, cached?: { value: number } }, routing?: { promptTokens: number, predictedTokens: number, reusableTokens: number } }} WireRecord */

/** @param {number} adminPort @param {number} count @returns {Promise<WireRecord[]>} once all are there */
async function readRecords(adminPort, count) {
  for (let turn = 0; turn < 50; turn++) {
    const answer = await fetch(`http://127.0.0.1:${adminPort}/records?limit=100000`);
    /** @type {{ records: WireRecord[] }} */
    const { records } = await answer.json();
    const own = records.filter(({ requestId }) => requestId.startsWith('real-'));
    if (own.length >= count) return own;
    await sleep(100);
  }
  throw new Error(`warmlane kept no ${count} records`);
}

/** Predicted against delivered, token-weighted shares of the prompts. @param {WireRecord[]} records */
function predictionOf(records) {
  const known = records.flatMap(({ outcome, tokens, routing }) =>
    outcome === 'ok' && tokens.prompt !== undefined && tokens.cached !== undefined && routing !== undefined
      ? [{ prompt: tokens.prompt.value, cached: tokens.cached.value, ...routing }]
      : [],
  );
  const prompts = sum(known.map(({ prompt }) => prompt));
  const share = (/** @type {(one: (typeof known)[number]) => number} */ figure) =>
    prompts === 0 ? null : sum(known.map(figure)) / prompts;
  return {
    coverage: records.length === 0 ? null : known.length / records.length,
    reusable: share(({ reusableTokens }) => reusableTokens),
    predicted: share(({ predictedTokens }) => predictedTokens),
    delivered: share(({ cached }) => cached),
    bias: share(({ predictedTokens, cached }) => predictedTokens - cached),
    error: share(({ predictedTokens, cached }) => Math.abs(predictedTokens - cached)),
    promptError: share(({ promptTokens, prompt }) => Math.abs(promptTokens - prompt)),
    /** vLLM hits full blocks only, and never a prompt's last token */
    unalignedPredictions: known.filter(({ predictedTokens }) => predictedTokens % blockTokens !== 0).length,
    wholePromptPredictions: known.filter(({ predictedTokens, promptTokens }) => predictedTokens >= promptTokens).length,
  };
}

/** @param {Options} options @param {{ policy: string, repetition: number, engines: Engines, folder: string }} what */
async function runPolicy(options, { policy, repetition, engines, folder }) {
  const backends = engines.map(({ url }) => url);
  const place = {
    ...{ port: options.basePort, adminPort: options.basePort + 1, backends, model },
    folder: join(folder, `${policy}-${repetition}`),
  };
  const running = await startRouter(warmlane(policy), place, undefined);
  try {
    const result = await runClient({
      ...{ load: 'real', seed: options.seed + repetition - 1, seconds: options.seconds, rate: options.rate },
      ...{ warmSeconds: options.warmSeconds, urls: [`http://127.0.0.1:${place.port}`], backends },
      ...{ dialect: options.engine, model, sessionHeader: false, answerLimitSeconds: 120 },
    });
    const records = await readRecords(place.adminPort, result.outcomes.length);
    const recorded = sum(records.map(({ tokens }) => tokens.cached?.value ?? 0));
    const queried = sum(moved(result.atStart, result.after, (counters) => counters.queriedTokens));
    const hits = sum(moved(result.atStart, result.after, (counters) => counters.hitTokens));
    return {
      ...{ policy, repetition, ...figuresOf(result, options), ...{ prediction: predictionOf(records) } },
      recordedCachedTokens: recorded,
      queriedTokens: options.engine === 'vllm' ? queried : null,
      hitTokens: options.engine === 'vllm' ? hits : null,
    };
  } finally {
    await running?.stop();
  }
}

/** @typedef {Awaited<ReturnType<typeof runPolicy>>} Row */

/** Do answers, records and engines tell the same? @param {Row} row */
const agrees = (row) =>
  row.toldCachedTokens === row.countedCachedTokens &&
  row.recordedCachedTokens === row.countedCachedTokens &&
  (row.hitTokens === null || row.hitTokens === row.countedCachedTokens);

/** @param {number | null | undefined} value */
const percent = (value) => (value === null || value === undefined ? '–' : `${(value * 100).toFixed(1)} %`);

/** @param {Row[]} rows @param {Options} options */
function renderTable(rows, options) {
  const middle = (/** @type {Row[]} */ own, /** @type {(row: Row) => number | null | undefined} */ figure) => {
    const values = own.map(figure).filter((value) => value !== null && value !== undefined);
    return values.length === 0 ? undefined : median(values);
  };
  /** @type {readonly [title: string, cell: (own: Row[]) => string][]} */
  const columns = [
    ['hit tokens, engines', (own) => percent(middle(own, (row) => row.hitRate))],
    ['TTFT p50, ms', (own) => show(middle(own, (row) => row.ttftMs?.p50))],
    ['TTFT p90, ms', (own) => show(middle(own, (row) => row.ttftMs?.p90))],
    ['TPOT p50, ms', (own) => show(middle(own, (row) => row.tpotMs?.p50))],
    ['reusable', (own) => percent(middle(own, (row) => row.prediction.reusable))],
    ['predicted', (own) => percent(middle(own, (row) => row.prediction.predicted))],
    ['delivered', (own) => percent(middle(own, (row) => row.prediction.delivered))],
    ['bias', (own) => percent(middle(own, (row) => row.prediction.bias))],
    ['error', (own) => percent(middle(own, (row) => row.prediction.error))],
    ['failed', (own) => show(middle(own, (row) => row.failures + row.skipped))],
    ['answers = records = engines', (own) => (own.every(agrees) ? 'yes' : 'NO')],
  ];
  const lines = [
    `| policy | ${columns.map(([title]) => title).join(' | ')} |`,
    `| --- |${' ---: |'.repeat(columns.length)}`,
  ];
  for (const policy of options.policies) {
    const own = rows.filter((row) => row.policy === policy);
    if (own.length > 0) lines.push(`| ${policy} | ${columns.map(([, cell]) => cell(own)).join(' | ')} |`);
  }
  return lines.join('\n');
}

/** @param {Options} options @param {string} folder */
async function runBench(options, folder) {
  const head = {
    form: `peers-real-${options.engine}`,
    startedAt: new Date().toISOString(),
    machine: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, ${process.platform} ${release()}, Node ${process.version}`,
    command: `node test/bench/peers/real.mjs ${process.argv.slice(2).join(' ')}`.trim(),
    ...{ servers: options.servers, seconds: options.seconds, warmSeconds: options.warmSeconds, rate: options.rate },
    ...{ repetitions: options.repetitions, seed: options.seed, load: loads.real, slo: options.slo },
    ...(options.engine === 'vllm' ? { blockTokens } : { ramCacheMib: options.ramCacheMib }),
  };
  const stem = join(options.outputFolder, `${head.startedAt.slice(0, 16).replace(':', '')}-${head.form}`);
  mkdirSync(options.outputFolder, { recursive: true });
  writeFileSync(`${stem}.jsonl`, `${JSON.stringify(head)}\n`);
  /** @type {Row[]} */
  const rows = [];
  /** @type {Engines | undefined} */
  let engines;
  for (let repetition = 1; repetition <= options.repetitions; repetition++) {
    const turn = (repetition - 1) % options.policies.length;
    for (const policy of [...options.policies.slice(turn), ...options.policies.slice(0, turn)]) {
      // Every run begins with nothing cached: llama-server starts in a second, vLLM can be told to forget.
      if (engines !== undefined && options.engine === 'llama-server') {
        for (const { running } of engines) await running.stop();
        engines = undefined;
      }
      engines ??= await startEngines(options, folder);
      if (options.engine === 'vllm')
        for (const { url } of engines) await fetch(`${url}/reset_prefix_cache`, { method: 'POST' });
      const row = await runPolicy(options, { policy, repetition, engines, folder });
      rows.push(row);
      appendFileSync(`${stem}.jsonl`, `${JSON.stringify({ at: new Date().toISOString(), ...row })}\n`);
      const { prediction } = row;
      console.log(
        `${repetition} ${policy.padEnd(12)} hit ${percent(row.hitRate)} · TTFT p50 ${show(row.ttftMs?.p50)} ms · predicted ${percent(prediction.predicted)} delivered ${percent(prediction.delivered)} bias ${percent(prediction.bias)} error ${percent(prediction.error)} · ${row.requests} requests, ${row.failures + row.skipped} failed${row.failures > 0 ? ` (${row.firstFailure})` : ''} · ${agrees(row) ? 'counters agree' : `COUNTERS DIFFER: answers ${row.toldCachedTokens}, records ${row.recordedCachedTokens}, engines ${row.countedCachedTokens}`}`,
      );
    }
  }
  const table = renderTable(rows, options);
  const about = `# Warm routing on ${options.servers} real ${options.engine === 'vllm' ? 'vLLMs on the CPU' : 'llama-servers'}, ${head.startedAt.slice(0, 10)}\n\n${head.machine}. \`${head.command}\`\n\n${options.repetitions} repetitions of ${options.seconds} s, of which the first ${options.warmSeconds} s count for nothing in the first four columns; medians. Shares are of all prompt tokens.\n`;
  writeFileSync(`${stem}.md`, `${about}\n${table}\n`);
  console.log(`\n${table}\n\nrows and table: ${relative(process.cwd(), stem)}.{jsonl,md}`);
  return rows.every((row) => row.failures + row.skipped === 0 && agrees(row)) ? 0 : 1;
}

async function main() {
  const options = readOptions();
  if (!existsSync(join(cache, options.engine, 'complete'))) {
    console.log(`${options.engine} is not installed: test/real/install.sh ${options.engine}`);
    return 1;
  }
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-peers-'));
  const cleanUp = async () => {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  };
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.once(signal, () => void cleanUp().then(() => process.exit(signal === 'SIGINT' ? 130 : 143)));
  }
  try {
    return await runBench(options, folder);
  } catch (error) {
    console.log(`bench: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return 1;
  } finally {
    await cleanUp();
  }
}

process.exitCode = await main();
