/**
 * `npm run bench:peers`: warmlane's policies, SMG's and vllm-router's, each before the same fleet of simulated servers over
 * real sockets, under the same seeded load, in interleaved repetitions. Keeps the raw rows and writes the tables.
 * See ../README.md. Orders and bounds the work; what is started, played and computed stands in the files beside.
 */
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { parseArgs } from 'node:util';

import { assertPortsFree, chooseCores, pinned, prioritise, startProcess, stopAll, waitForPort } from '../processes.mjs';
import { cpuSeconds, machineSeconds } from './cpu.mjs';
import { modelName } from './engines.mjs';
import { figuresOf } from './figures.mjs';
import { loads } from './loads.mjs';
import { runClient } from './run-client.mjs';
import { routers, startRouter } from './routers.mjs';
import { describeRow, renderTables } from './table.mjs';

/** @typedef {import('./routers.mjs').Router} Router */
/** @typedef {import('./table.mjs').Row} Row */

const peersFolder = import.meta.dirname;
const forms = {
  short: { repetitions: 1, seconds: 20, warmSeconds: 5, loads: ['chat'] },
  long: { repetitions: 3, seconds: 32, warmSeconds: 8, loads: ['chat', 'dense', 'agents', 'hot', 'documents'] },
};

function readOptions() {
  const { values } = parseArgs({
    options: {
      long: { type: 'boolean' },
      repetitions: { type: 'string' },
      seconds: { type: 'string' },
      warm: { type: 'string' },
      rate: { type: 'string' },
      loads: { type: 'string' },
      routers: { type: 'string' },
      seed: { type: 'string' },
      'slo-ttft': { type: 'string' },
      'slo-tpot': { type: 'string' },
      'no-session-header': { type: 'boolean' },
      'base-port': { type: 'string' },
      priority: { type: 'boolean' },
      output: { type: 'string' },
      outcomes: { type: 'string' },
    },
  });
  const form = values.long === true ? 'long' : 'short';
  const given = forms[form];
  return {
    form,
    repetitions: Number(values.repetitions ?? given.repetitions),
    seconds: Number(values.seconds ?? given.seconds),
    warmSeconds: Number(values.warm ?? given.warmSeconds),
    rate: Number(values.rate ?? 1),
    loads: chosen(values.loads, given.loads, Object.keys(loads)),
    routers: chosen(
      values.routers,
      routers.map(({ name }) => name),
      routers.map(({ name }) => name),
    ),
    seed: Number(values.seed ?? 1),
    slo: { ttftMs: Number(values['slo-ttft'] ?? 500), tpotMs: Number(values['slo-tpot'] ?? 25) },
    sessionHeader: values['no-session-header'] !== true,
    basePort: Number(values['base-port'] ?? 18_700),
    priority: values.priority === true,
    outputFolder: values.output ?? join(peersFolder, '../results'),
    outcomesFolder: values.outcomes,
  };
}

/** @typedef {ReturnType<typeof readOptions>} Options */

/** @param {string | undefined} asked comma-separated @param {string[]} otherwise @param {string[]} known */
function chosen(asked, otherwise, known) {
  const names = asked?.split(',') ?? otherwise;
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(', ')}; known: ${known.join(', ')}`);
  return names;
}

/** @param {string} text */
const say = (text) => console.log(text);

/**
 * One router before a fresh fleet, one load.
 * @param {Options} options @param {{ router: Router, load: string, repetition: number, folder: string }} what
 * @returns {Promise<Row>}
 */
async function runOnce(options, { router, load: name, repetition, folder }) {
  const load = /** @type {import('./loads.mjs').Load} */ (loads[name]);
  const cores = chooseCores();
  const port = options.basePort;
  const ports = Array.from({ length: load.servers }, (_, index) => port + 10 + index);
  await assertPortsFree([port, port + 1, ...ports]);
  const fleet = startProcess(
    pinned(cores?.load, [
      process.execPath,
      join(peersFolder, 'fleet.mjs'),
      String(port + 10),
      String(load.servers),
      String(load.kvTokens),
    ]),
    join(folder, 'fleet.log'),
  );
  try {
    for (const each of ports) await waitForPort(each);
    const backends = ports.map((each) => `http://127.0.0.1:${each}`);
    const place = { port, adminPort: port + 1, backends, folder: join(folder, router.name), model: modelName };
    const running = await startRouter(router, place, cores?.proxy);
    try {
      const cpuOf = () => ({
        router: running === undefined ? 0 : cpuSeconds(running.pids()),
        fleet: cpuSeconds(fleet.pids()),
        machine: machineSeconds(),
        atMs: performance.now(),
      });
      const from = cpuOf();
      const result = await runClient(
        {
          load: name,
          // The same for all routers of a repetition, another in the next.
          seed: options.seed + repetition - 1,
          seconds: options.seconds,
          rate: options.rate,
          warmSeconds: options.warmSeconds,
          urls: running === undefined ? backends : [`http://127.0.0.1:${port}`],
          backends,
          dialect: 'vllm',
          model: modelName,
          sessionHeader: options.sessionHeader,
          answerLimitSeconds: 60,
        },
        cores?.load,
      );
      const to = cpuOf();
      if (options.outcomesFolder !== undefined)
        keepOutcomes(options.outcomesFolder, { name, router, repetition }, result);
      const seconds = (to.atMs - from.atMs) / 1000;
      const figures = figuresOf(result, options);
      const routerCpuShare = running === undefined ? null : (to.router - from.router) / seconds;
      const fleetCpuShare = (to.fleet - from.fleet) / seconds;
      const own = (routerCpuShare ?? 0) + fleetCpuShare + figures.clientCpuShare;
      return {
        ...{ load: name, router: router.name, repetition, ...figures, routerCpuShare, fleetCpuShare },
        othersCpuShare: Math.max(0, (to.machine - from.machine) / seconds - own),
      };
    } finally {
      await running?.stop();
    }
  } finally {
    await fleet.stop();
  }
}

/** @param {string} folder @param {{ name: string, router: Router, repetition: number }} of @param {import('./figures.mjs').ClientResult} result */
function keepOutcomes(folder, { name, router, repetition }, result) {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${name}-${router.name.replaceAll(' ', '-')}-${repetition}.jsonl`);
  writeFileSync(file, result.outcomes.map((outcome) => `${JSON.stringify(outcome)}\n`).join(''));
}

/** Every router once for each load in each repetition, in an order that turns. @param {Options} options @param {Router[]} present */
function orderOf(options, present) {
  return Array.from({ length: options.repetitions }, (_, index) => index + 1).flatMap((repetition) =>
    options.loads.flatMap((load, index) => {
      const turn = (repetition - 1 + index) % present.length;
      return [...present.slice(turn), ...present.slice(0, turn)].map((router) => ({ repetition, load, router }));
    }),
  );
}

/** @param {Options} options @param {string} folder */
async function runBench(options, folder) {
  const notes = [];
  const present = routers.filter((router) => {
    if (!options.routers.includes(router.name)) return false;
    const missing = router.missing();
    if (missing !== undefined) notes.push(`${router.name} SKIPPED: ${missing}`);
    return missing === undefined;
  });
  if (chooseCores() === undefined) notes.push('NOT PINNED: one core only, or no taskset; nothing here is comparable');
  for (const note of notes) say(`!!! ${note}`);
  const head = {
    form: `peers-${options.form}`,
    startedAt: new Date().toISOString(),
    machine: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, ${process.platform} ${release()}, Node ${process.version}`,
    command: `node test/bench/peers/run.mjs ${process.argv.slice(2).join(' ')}`.trim(),
    ...{
      repetitions: options.repetitions,
      seconds: options.seconds,
      warmSeconds: options.warmSeconds,
      rate: options.rate,
    },
    ...{ seed: options.seed, slo: options.slo, sessionHeader: options.sessionHeader },
    loads: Object.fromEntries(options.loads.map((name) => [name, loads[name]])),
    versions: Object.fromEntries(present.map((router) => [router.name, router.version()])),
    notes,
  };
  const stem = join(options.outputFolder, `${head.startedAt.slice(0, 16).replace(':', '')}-${head.form}`);
  mkdirSync(options.outputFolder, { recursive: true });
  writeFileSync(`${stem}.jsonl`, `${JSON.stringify(head)}\n`);
  /** @type {Row[]} */
  const rows = [];
  let broken = 0;
  for (const { repetition, load, router } of orderOf(options, present)) {
    const isOwn = router.name.startsWith('warmlane');
    try {
      const row = await runOnce(options, { router, load, repetition, folder });
      rows.push(row);
      appendFileSync(`${stem}.jsonl`, `${JSON.stringify({ at: new Date().toISOString(), ...row })}\n`);
      say(describeRow(row));
      if (isOwn && row.failures + row.skipped > 0) broken += 1;
    } catch (error) {
      notes.push(`${router.name}, ${load}, repetition ${repetition}: ${String(error).slice(0, 600)}`);
      say(`!!! ${notes.at(-1)}`);
      if (isOwn) broken += 1;
    }
  }
  const tables = renderTables(rows, {
    names: present.map(({ name }) => name),
    loads: options.loads.map((name) => ({ name, title: loads[name]?.title ?? name })),
    slo: options.slo,
  });
  const versions = Object.entries(head.versions).map(
    ([name, version]) => `* ${name}: ${version === '' ? '–' : version}`,
  );
  const about = [
    `# Routers side by side, ${head.startedAt.slice(0, 10)}`,
    `${head.machine}. \`${head.command}\``,
    `${options.repetitions} repetitions of ${options.seconds} s, of which the first ${options.warmSeconds} s count for nothing; medians, (smallest–largest).`,
    ...notes.map((note) => `* **${note}**`),
  ];
  writeFileSync(`${stem}.md`, `${about.join('\n\n')}\n\n${tables}\n## Versions\n\n${versions.join('\n')}\n`);
  say(`\n${tables}`);
  say(`rows and tables: ${relative(dirname(dirname(dirname(peersFolder))), stem)}.{jsonl,md}`);
  return broken > 0 ? 1 : 0;
}

async function main() {
  const options = readOptions();
  if (process.platform !== 'linux') {
    say('bench:peers needs Linux with /proc; nothing was measured');
    return 0;
  }
  if (options.priority) prioritise();
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
    say(`bench:peers: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
    return 1;
  } finally {
    await cleanUp();
  }
}

process.exitCode = await main();
