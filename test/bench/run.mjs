/**
 * `npm run bench`: starts backend and proxies in processes of their own, runs every scenario against every candidate in
 * interleaved repetitions, keeps the raw rows and writes the summary. See README.md for the options and how to read it.
 * Orders and bounds the work; what is started, measured and judged stands in the files beside.
 */
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';

import { candidates } from './candidates.mjs';
import { compilePrograms } from './compile.mjs';
import { breaches, judgeGoals, median } from './goals.mjs';
import { foreignShare } from './measure.mjs';
import { assertPortsFree, chooseCores, pinned, prioritise, startProcess, stopAll, waitForPort } from './processes.mjs';
import { repeat } from './repetition.mjs';
import { candidatesFor, scenarios } from './scenarios.mjs';
import { describeRow, renderSummary, show } from './summary.mjs';

/** @typedef {import('./candidates.mjs').Candidate} Candidate */
/** @typedef {import('./goals.mjs').Row} Row */
/** @typedef {import('./scenarios.mjs').Scenario} Scenario */

const benchFolder = import.meta.dirname;
const rootFolder = join(benchFolder, '../..');
const forms = {
  short: { repetitions: 3, seconds: 2.2, warmup: 0.5, limitMinutes: 5, retries: 1, warmingRounds: 3 },
  long: { repetitions: 5, seconds: 5, warmup: 1, limitMinutes: 120, retries: 2, warmingRounds: 16 },
};

function readOptions() {
  const { values } = parseArgs({
    options: {
      short: { type: 'boolean' },
      long: { type: 'boolean' },
      repetitions: { type: 'string' },
      seconds: { type: 'string' },
      candidates: { type: 'string' },
      scenarios: { type: 'string' },
      'base-port': { type: 'string' },
      'limit-minutes': { type: 'string' },
      'max-foreign': { type: 'string' },
      priority: { type: 'boolean' },
      output: { type: 'string' },
    },
  });
  const form = /** @type {'short' | 'long'} */ (values.long === true ? 'long' : 'short');
  return {
    form,
    warmup: forms[form].warmup,
    retries: forms[form].retries,
    warmingRounds: forms[form].warmingRounds,
    maxForeign: Number(values['max-foreign'] ?? 0.25),
    repetitions: Number(values.repetitions ?? forms[form].repetitions),
    seconds: Number(values.seconds ?? forms[form].seconds),
    limitMs: Number(values['limit-minutes'] ?? forms[form].limitMinutes) * 60_000,
    basePort: Number(values['base-port'] ?? 18_480),
    candidates: values.candidates?.split(','),
    scenarios: values.scenarios?.split(','),
    priority: values.priority === true,
    outputFolder: values.output ?? join(benchFolder, 'results'),
  };
}

/** @typedef {ReturnType<typeof readOptions>} Options */

/** @param {string} text */
const say = (text) => console.log(text);

/** @param {Options} options @returns {{ chosen: Scenario[], present: Candidate[], notes: string[] }} */
function choose(options) {
  const known = (/** @type {string[] | undefined} */ asked, /** @type {readonly { name: string }[]} */ all) => {
    const unknown = (asked ?? []).filter((name) => !all.some((one) => one.name === name));
    if (unknown.length > 0)
      throw new Error(`unknown: ${unknown.join(', ')}; known: ${all.map(({ name }) => name).join(', ')}`);
  };
  known(options.scenarios, scenarios);
  known(options.candidates, candidates);
  const chosen = scenarios.filter(({ name, forms: in_ }) =>
    options.scenarios === undefined ? in_.includes(options.form) : options.scenarios.includes(name),
  );
  const asked = options.candidates ?? [...new Set(chosen.flatMap((scenario) => candidatesFor(scenario, options.form)))];
  const notes = [];
  const present = [];
  for (const candidate of candidates.filter(({ name }) => asked.includes(name))) {
    const missing = candidate.missing();
    if (missing === undefined) present.push(candidate);
    else notes.push(`${candidate.name} SKIPPED: ${missing}`);
  }
  return { chosen, present, notes };
}

/** @param {Options} options @param {Candidate[]} present */
function describeRun(options, present) {
  return {
    form: options.form,
    startedAt: new Date().toISOString(),
    machine: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, ${process.platform} ${release()}, Node ${process.version}`,
    command: `node test/bench/run.mjs ${process.argv.slice(2).join(' ')}`.trim(),
    repetitions: options.repetitions,
    seconds: options.seconds,
    versions: Object.fromEntries(present.map((candidate) => [candidate.name, candidate.version()])),
  };
}

/** @typedef {{ candidate: string, rounds: (readonly number[])[] }} Warming */

/** What short and streamed answers cost in the first round of warming and in the last. @param {Warming[]} warmings */
function describeWarmings(warmings) {
  const names = [...new Set(warmings.map(({ candidate }) => candidate))];
  const parts = names.map((name) => {
    const own = warmings.filter(({ candidate }) => candidate === name).map(({ rounds }) => rounds);
    const middle = (/** @type {(rounds: (readonly number[])[]) => number} */ figure) =>
      Math.round(median(own.map(figure)));
    const kinds = [0, 1].map(
      (kind) => `${middle((rounds) => rounds[0]?.[kind] ?? 0)} → ${middle((rounds) => rounds.at(-1)?.[kind] ?? 0)}`,
    );
    return `${name} ${kinds.join(', ')} in ${middle(({ length }) => length)} rounds`;
  });
  return `Warmed before measuring, µs of CPU per short and per streamed answer in the first and last round: ${parts.join(' · ')}`;
}

/** Others took more than half a core through most of the runs: nothing can be judged, unless the bench went first. @param {Row[]} rows */
const isBusy = (rows) => rows.length > 0 && median(rows.map(foreignShare)) > 0.5;

/**
 * Exit code: 1 when warmlane broke a guarded goal or a stream, or when nothing could be guarded.
 * @param {Options} options @param {Row[]} rows @param {string[]} failures
 */
function judgeRun(options, rows, failures) {
  const own = rows.filter(({ candidate }) => candidate === 'warmlane');
  const broken = rows.filter(({ candidate, errorCount }) => candidate.startsWith('warmlane') && errorCount > 0);
  for (const row of broken) say(`BROKEN: ${describeRow(row)}`);
  const wanted = options.candidates === undefined || options.candidates.includes('warmlane');
  const absent = wanted && own.length === 0;
  if (absent) say('NOTHING GUARDED: warmlane was not measured');
  const unjudged = isBusy(rows) && !options.priority;
  if (unjudged) say('NOT JUDGED: the machine is too busy; see --priority');
  const over = unjudged ? [] : breaches(judgeGoals(rows));
  for (const { goal, median: figure } of over) {
    say(`TOO DEAR: ${goal.title}: ${show(figure)} ${goal.unit}, at most ${goal.must}`);
  }
  const unwell = failures.some((failure) => failure.includes(' warmlane,'));
  const unguarded = options.form === 'short' && [over.length > 0, absent, unjudged].includes(true);
  return broken.length > 0 || unwell || unguarded ? 1 : 0;
}

/** @param {Options} options @param {{ backend: string, client: string }} programs @param {string} folder */
async function runBench(options, programs, folder) {
  const plan = choose(options);
  const cores = chooseCores();
  if (cores === undefined) plan.notes.push('NOT PINNED: one core only, or no taskset; nothing here is comparable');
  for (const note of plan.notes) say(`!!! ${note}`);
  await assertPortsFree([options.basePort]);
  const backend = startProcess(
    pinned(cores?.load, [programs.backend, String(options.basePort)]),
    join(folder, 'backend.log'),
  );
  await waitForPort(options.basePort);
  const head = describeRun(options, plan.present);
  const stem = join(options.outputFolder, `${head.startedAt.slice(0, 16).replace(':', '')}-${options.form}`);
  mkdirSync(options.outputFolder, { recursive: true });
  writeFileSync(`${stem}.jsonl`, `${JSON.stringify({ ...head, notes: plan.notes })}\n`);
  /** @type {Row[]} */
  const rows = [];
  /** @type {string[]} */
  const failures = [];
  /** @type {Warming[]} */
  const warmings = [];
  const endsAt = performance.now() + options.limitMs;
  const out = {
    add: (/** @type {Row} */ row) => {
      rows.push(row);
      appendFileSync(`${stem}.jsonl`, `${JSON.stringify({ at: new Date().toISOString(), ...row })}\n`);
      say(describeRow(row));
    },
    warmed: (/** @type {string} */ candidate, /** @type {(readonly number[])[]} */ rounds) => {
      const told = { warmed: candidate, cpuMicrosPerShortAndStreamed: rounds };
      appendFileSync(`${stem}.jsonl`, `${JSON.stringify(told)}\n`);
      warmings.push({ candidate, rounds });
      const shown = rounds.map((costs) => costs.map((cost) => Math.round(cost)).join('/'));
      say(`warmed ${candidate}: ${shown.join(' ')} µs CPU per short/streamed answer`);
    },
    fail: (/** @type {string} */ what) => {
      failures.push(what);
      say(`!!! FAILED: ${what}`);
    },
    isLate: () => performance.now() > endsAt,
  };
  // A machine that is never quiet shall not triple the time: three retries for ten runs at most.
  const runs = plan.chosen.reduce((sum, scenario) => sum + scenario.candidates.length, 0) * options.repetitions;
  const bench = { options, programs, cores, backend, folder, retriesLeft: Math.ceil(runs * 0.3) };
  for (let repetition = 1; repetition <= options.repetitions && !out.isLate(); repetition++)
    await repeat(bench, plan, repetition, out);
  if (out.isLate())
    plan.notes.push(`CUT SHORT after ${options.limitMs / 60_000} minutes: medians rest on fewer repetitions`);
  if (isBusy(rows)) {
    const share = Math.round(median(rows.map(foreignShare)) * 100);
    plan.notes.push(`BUSY MACHINE: others took ${share} % of a core in the median run; latencies and tails say little`);
  }
  if (warmings.length > 0) plan.notes.push(describeWarmings(warmings));
  const summary = renderSummary(
    { ...head, notes: [...plan.notes, ...failures.map((failure) => `FAILED: ${failure.split('\n')[0]}`)] },
    rows,
  );
  writeFileSync(`${stem}.md`, `${summary}\n`);
  say(`\n${summary}\n\nraw rows: ${relative(process.cwd(), stem)}.jsonl`);
  return judgeRun(options, rows, failures);
}

async function main() {
  const options = readOptions();
  if (process.platform !== 'linux' || !existsSync('/proc/self/schedstat')) {
    say('bench: needs Linux with /proc/PID/schedstat (CONFIG_SCHED_INFO); nothing was measured');
    return 0;
  }
  const programs = compilePrograms(benchFolder, join(rootFolder, '.cache/bench'));
  if ('missing' in programs) {
    say(`bench: ${programs.missing}; the load tools are C programs, so nothing was measured`);
    return 0;
  }
  if (options.priority) prioritise();
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-bench-'));
  const cleanUp = async () => {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  };
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.once(signal, () => void cleanUp().then(() => process.exit(signal === 'SIGINT' ? 130 : 143)));
  }
  try {
    return await runBench(options, programs, folder);
  } catch (error) {
    say(`bench: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return 1;
  } finally {
    await cleanUp();
  }
}

process.exitCode = await main();
