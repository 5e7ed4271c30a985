/**
 * A collector that is dead, under load: warmlane exports to a closed port, or to one that accepts and then neither reads
 * nor answers, while streams and short requests go through it. Every half minute: failed requests, latencies, memory, spans dropped.
 * Fails when one request failed or memory did not come to rest. Stops by itself; loopback only; needs what the bench needs.
 * usage: node test/bench/dead-collector.mjs [--mode silent|closed|off] [--seconds 300] [--base-port 18600] [--output FILE] [--priority]
 * `off` is the same load without an exporter, to compare with.
 */
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { candidates, startProxy } from './candidates.mjs';
import { compilePrograms } from './compile.mjs';
import { measure } from './measure.mjs';
import {
  ask,
  assertPortsFree,
  chooseCores,
  pinned,
  prioritise,
  startProcess,
  stopAll,
  waitForPort,
} from './processes.mjs';
import { show } from './summary.mjs';

const benchFolder = import.meta.dirname;
const partSeconds = 30;
/** Of each part: the streams' start, and the client's own end. */
const edgeSeconds = 1.5;
/** 40 streams for the tokens' latency; 100 short streamed requests a second for the spans, five each. */
const load = { streams: 40, rate: 20, ramp: 0.5, warmup: 0.5, 'open-rate': 100, 'open-tokens': 20 };
const shareOfGrowth = 1.1;
/** Before that a heap still finds its size, whoever the collector is. */
const partsToJudge = 6;

/** @typedef {'silent' | 'closed' | 'off'} Mode */
/** @typedef {import('./measure.mjs').RunResult} RunResult */
/** @typedef {RunResult & { rssMb: number, dropped: number, queued: number, queuedBytes: number, exported: number }} Part */

function readOptions() {
  const { values } = parseArgs({
    options: {
      mode: { type: 'string', default: 'silent' },
      seconds: { type: 'string', default: '300' },
      'base-port': { type: 'string', default: '18600' },
      output: { type: 'string' },
      priority: { type: 'boolean' },
    },
  });
  const { mode } = values;
  if (mode !== 'silent' && mode !== 'closed' && mode !== 'off') throw new Error('--mode is silent, closed or off');
  return {
    mode,
    seconds: Number(values.seconds),
    basePort: Number(values['base-port']),
    output: values.output,
    priority: values.priority === true,
  };
}

/** Takes connections and never reads: what was sent stays in the sender's hands. @param {number} port */
function startSilence(port) {
  const server = createServer({ pauseOnConnect: true }, (socket) => socket.on('error', () => undefined));
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server.unref())));
}

/** Sum of a metric over its labels, 0 where it is absent. @param {string} page @param {string} name */
function sumOf(page, name) {
  return page
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

/** Requests that warmlane itself counted, by how they ended. @param {string} page */
function outcomesOf(page) {
  /** @type {Record<string, number>} */
  const outcomes = {};
  for (const line of page.split('\n').filter((text) => text.startsWith('warmlane_requests_total{'))) {
    const outcome = /outcome="([^"]*)"/.exec(line)?.[1] ?? '';
    outcomes[outcome] = (outcomes[outcome] ?? 0) + Number(line.slice(line.lastIndexOf(' ') + 1));
  }
  return outcomes;
}

/** @param {number} from second of the run @param {Part} part */
function describe(from, part) {
  return [
    `${from}–${from + partSeconds} s`.padStart(10),
    `failed ${part.errorCount}`,
    `requests ${show(part.openAnswers)}`,
    `token p50 ${show(part.tokenLatencyMicros?.p50)} p99 ${show(part.tokenLatencyMicros?.p99)} µs`,
    `first token p50 ${show(part.firstTokenMicros?.p50)} p99 ${show(part.firstTokenMicros?.p99)} µs`,
    `RSS ${show(part.rssMb)} MB`,
    `spans dropped ${show(part.dropped)}, waiting ${show(part.queued)} (${show(part.queuedBytes / 2 ** 20)} MiB)`,
  ].join(' · ');
}

/** @param {Part[]} parts */
function meanRss(parts) {
  return parts.reduce((sum, { rssMb }) => sum + rssMb, 0) / parts.length;
}

/** @param {ReturnType<typeof readOptions>} options @param {{ backend: string, client: string }} programs @param {string} folder */
async function run(options, programs, folder) {
  const { mode, basePort } = options;
  /** @param {string} line */
  const say = (line) => {
    console.log(line);
    if (options.output !== undefined) appendFileSync(options.output, `${line}\n`);
  };
  if (options.output !== undefined) writeFileSync(options.output, '');
  const place = {
    port: basePort + 1,
    adminPort: basePort + 2,
    collectorPort: basePort + 3,
    backendPort: basePort,
    folder,
  };
  await assertPortsFree(Object.values(place).filter((value) => typeof value === 'number'));
  const cores = chooseCores();
  const backend = startProcess(pinned(cores?.load, [programs.backend, String(basePort)]), join(folder, 'backend.log'));
  await waitForPort(basePort);
  const found = candidates.find(({ name }) => name === (mode === 'off' ? 'warmlane' : 'warmlane-traced'));
  const missing = found?.missing();
  if (found === undefined || missing !== undefined) throw new Error(missing ?? 'no warmlane');
  const { collector: _, ...candidate } = found;
  if (mode === 'silent') await startSilence(place.collectorPort);
  const proxy = await startProxy(candidate, place, cores);

  say(
    `Dead collector, ${new Date().toISOString()}: ${mode}, ${options.seconds} s, warmlane ${candidate.version()}, Node ${process.version}`,
  );
  say(`load: ${JSON.stringify(load)}`);
  /** @type {Part[]} */
  const parts = [];
  for (let from = 0; from + partSeconds <= options.seconds; from += partSeconds) {
    const result = await measure({
      client: programs.client,
      load: { ...load, seconds: partSeconds - edgeSeconds },
      port: place.port,
      cores,
      backendPort: basePort,
      backendPids: backend.pids(),
      proxyPids: proxy.pids(),
    });
    const { text } = await ask({ port: place.adminPort, method: 'GET', path: '/metrics' });
    parts.push({
      ...result,
      rssMb: result.proxyRssKb / 1024,
      dropped: sumOf(text, 'warmlane_spans_dropped_total'),
      exported: sumOf(text, 'warmlane_spans_exported_total'),
      queued: sumOf(text, 'warmlane_spans_queued'),
      queuedBytes: sumOf(text, 'warmlane_spans_queued_bytes'),
    });
    say(describe(from, /** @type {Part} */ (parts.at(-1))));
  }
  const { text } = await ask({ port: place.adminPort, method: 'GET', path: '/metrics' });
  for (const line of text.split('\n').filter((one) => one.startsWith('warmlane_spans_'))) say(line);
  const outcomes = outcomesOf(text);
  say(`requests by outcome, as warmlane counted them: ${JSON.stringify(outcomes)}`);
  const stopMs = await timeOf(proxy.stop);
  say(`stopped in ${show(stopMs)} ms`);
  return judge(parts, outcomes, say);
}

/** @param {() => Promise<void>} work */
async function timeOf(work) {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Memory is at rest when its last third is no more than a tenth above its middle third. @param {Part[]} parts @param {Record<string, number>} outcomes @param {(line: string) => void} say */
function judge(parts, outcomes, say) {
  const failed = parts.reduce((sum, { errorCount }) => sum + errorCount, 0);
  const others = Object.keys(outcomes).filter((outcome) => outcome !== 'ok');
  const third = Math.floor(parts.length / 3);
  const grown =
    parts.length < partsToJudge ? undefined : meanRss(parts.slice(-third)) / meanRss(parts.slice(third, -third));
  say(`requests failed: ${failed}; outcomes other than ok: ${others.length === 0 ? 'none' : others.join(', ')}`);
  say(
    grown === undefined
      ? `memory is judged from ${partsToJudge * partSeconds} s on`
      : `RSS, last third against the middle one: ${show(grown)} ×`,
  );
  return failed > 0 || others.length > 0 || (grown ?? 1) > shareOfGrowth ? 1 : 0;
}

async function main() {
  const options = readOptions();
  const programs = compilePrograms(benchFolder, join(benchFolder, '../../.cache/bench'));
  if ('missing' in programs) {
    console.log(`dead-collector: ${programs.missing}; nothing was measured`);
    return 0;
  }
  if (options.priority) prioritise();
  const folder = mkdtempSync(join(tmpdir(), 'warmlane-dead-collector-'));
  const cleanUp = async () => {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  };
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
    process.once(signal, () => void cleanUp().then(() => process.exit(1)));
  }
  try {
    return await run(options, programs, folder);
  } finally {
    await cleanUp();
  }
}

process.exitCode = await main();
