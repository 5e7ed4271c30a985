/**
 * What the bench compares, and how each is started: one table, a row per candidate. `direct` is no proxy at all.
 * A candidate that isn't installed says what is missing; the bench goes on without it, loudly.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { ask, pinned, startProcess, waitForPort } from './processes.mjs';

/** @typedef {{ port: number, adminPort: number, collectorPort: number, backendPort: number, folder: string }} Place */
/**
 * @typedef {object} Candidate
 * @property {string} name
 * @property {() => string | undefined} missing
 * @property {(place: Place) => string[]} [command]
 * @property {(place: Place) => Record<string, string>} [env]
 * @property {boolean} [compiled] before it runs: one round of warming is enough
 * @property {(place: Place) => string[]} [collector] takes its telemetry; on the load's core, so that its own cost isn't the proxy's
 * @property {() => string} version
 */
/** @typedef {import('./processes.mjs').Running & { startMs: number }} Proxy */

const benchFolder = import.meta.dirname;
export const mainFile = process.env.WARMLANE_BENCH_MAIN ?? join(benchFolder, '../../dist/main.js');
const longestStartMs = 60_000;

/** @param {string} variable @param {string} program an environment variable names the program, else PATH has it */
export function locate(variable, program) {
  const given = process.env[variable];
  if (given !== undefined) return existsSync(given) ? given : undefined;
  const found = spawnSync('sh', ['-c', `command -v ${program}`], { encoding: 'utf8' });
  return found.status === 0 ? found.stdout.trim() : undefined;
}

/** @param {string[]} command first line of what it prints about its version */
export function versionOf(command) {
  const [file = '', ...args] = command;
  const result = spawnSync(file, args, { encoding: 'utf8', timeout: 20_000 });
  if (result.status !== 0) return 'unknown';
  return `${result.stdout}${result.stderr}`.trim().split('\n')[0] ?? '';
}

/** Version of a Python package, asked of the interpreter beside its script. @param {string | undefined} script @param {string} name */
export function packageVersion(script, name) {
  const python = join(dirname(script ?? ''), 'python3');
  return existsSync(python)
    ? versionOf([python, '-c', `from importlib.metadata import version; print(version('${name}'))`])
    : 'unknown';
}

/** @param {Place} place @param {string} template */
function writeNginxConfig(place, template) {
  mkdirSync(place.folder, { recursive: true });
  const file = join(place.folder, 'nginx.conf');
  const text = readFileSync(join(benchFolder, template), 'utf8')
    .replace('@USER@', process.getuid?.() === 0 ? 'user root;' : '')
    .replaceAll('@FOLDER@', place.folder)
    .replace('@BACKEND_PORT@', String(place.backendPort))
    .replace('@PORT@', String(place.port));
  writeFileSync(file, text);
  return file;
}

/** Flags that the two Rust routers share. @param {Place} place */
function routerFlags(place) {
  return [
    ...['--worker-urls', `http://127.0.0.1:${place.backendPort}`, '--policy', 'cache_aware', '--host', '127.0.0.1'],
    ...['--port', String(place.port), '--prometheus-port', String(place.adminPort)],
  ];
}

const smg = () => locate('WARMLANE_BENCH_SMG', 'smg');
const vllmRouter = () => locate('WARMLANE_BENCH_VLLM_ROUTER', 'vllm-router');
const nginx = () =>
  locate('WARMLANE_BENCH_NGINX', 'nginx') ?? (existsSync('/usr/sbin/nginx') ? '/usr/sbin/nginx' : undefined);
/** @param {string | undefined} found @param {string} remedy */
const unless = (found, remedy) => (found === undefined ? remedy : undefined);

/** @param {Place} place */
function warmlaneFlags(place) {
  return [
    ...[process.execPath, mainFile, '--backend', `http://127.0.0.1:${place.backendPort}`],
    ...['--listen', `127.0.0.1:${place.port}`, '--admin-listen', `127.0.0.1:${place.adminPort}`],
  ];
}

/** @param {string} name @param {string} template its configuration @returns {Candidate} */
function nginxWith(name, template) {
  return {
    name,
    compiled: true,
    missing: () => unless(nginx(), 'nginx is not installed: no ratio to it can be given'),
    command: (place) => [nginx() ?? '', '-e', 'stderr', '-p', place.folder, '-c', writeNginxConfig(place, template)],
    version: () => versionOf([nginx() ?? '', '-v']).replace('nginx version: ', ''),
  };
}

/**
 * warmlane with a trace of every request, sent to a collector that reads it and throws it away.
 * @param {string} name @param {'arrays' | 'events'} tokens how each token's moment stands in the trace
 * @returns {Candidate}
 */
function traced(name, tokens) {
  return {
    name,
    missing: () => unless(existsSync(mainFile) ? mainFile : undefined, `${mainFile} is absent: run \`npm run build\``),
    command: (place) => {
      const file = join(place.folder, 'warmlane.yaml');
      writeFileSync(file, `telemetry:\n  traces:\n    tokens: ${tokens}\n`);
      return [...warmlaneFlags(place), '--config', file];
    },
    env: (place) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${place.collectorPort}` }),
    collector: (place) => [
      process.execPath,
      join(benchFolder, 'swallowing-collector.mjs'),
      String(place.collectorPort),
    ],
    version: () => versionOf([process.execPath, mainFile, '--version']),
  };
}

/** @type {readonly Candidate[]} */
export const candidates = [
  { name: 'direct', missing: () => undefined, version: () => '' },
  nginxWith('nginx', 'nginx.conf'),
  nginxWith('nginx-plain', 'nginx-plain.conf'),
  {
    name: 'bare-node',
    missing: () => undefined,
    command: (place) => [
      process.execPath,
      join(benchFolder, 'bare-proxy.mjs'),
      String(place.port),
      String(place.backendPort),
    ],
    version: () => `node ${process.version}`,
  },
  {
    name: 'hono-fetch',
    missing: () => undefined,
    command: (place) => [
      process.execPath,
      join(benchFolder, 'fetch-proxy.mjs'),
      String(place.port),
      `http://127.0.0.1:${place.backendPort}`,
    ],
    version: () => `node ${process.version}`,
  },
  {
    name: 'smg',
    compiled: true,
    missing: () => unless(smg(), 'smg is neither on PATH nor named by WARMLANE_BENCH_SMG'),
    command: (place) => [
      smg() ?? '',
      'launch',
      ...routerFlags(place),
      '--prometheus-host',
      '127.0.0.1',
      '--log-level',
      'warn',
    ],
    version: () => packageVersion(smg(), 'smg'),
  },
  {
    name: 'vllm-router',
    compiled: true,
    missing: () => unless(vllmRouter(), 'vllm-router is neither on PATH nor named by WARMLANE_BENCH_VLLM_ROUTER'),
    command: (place) => [
      vllmRouter() ?? '',
      ...routerFlags(place),
      '--prometheus-host',
      '127.0.0.1',
      '--log-level',
      'warning',
    ],
    version: () => packageVersion(vllmRouter(), 'vllm-router'),
  },
  {
    name: 'warmlane',
    missing: () => unless(existsSync(mainFile) ? mainFile : undefined, `${mainFile} is absent: run \`npm run build\``),
    command: warmlaneFlags,
    version: () => versionOf([process.execPath, mainFile, '--version']),
  },
  traced('warmlane-traced', 'arrays'),
  traced('warmlane-events', 'events'),
];

const readyRequest = {
  method: 'POST',
  path: '/v1/chat/completions',
  body: JSON.stringify({ model: 'bench', messages: [{ role: 'user', content: 'ready?' }], max_tokens: 1 }),
};

/**
 * Starts a proxy and waits until it answers a chat request. Throws with the end of its output when it doesn't.
 * @param {Candidate} candidate @param {Place} place @param {{ proxy: number, load: number } | undefined} cores
 * @returns {Promise<Proxy>} `startMs`: from its start to the first good answer
 */
export async function startProxy(candidate, place, cores) {
  if (candidate.command === undefined) throw new Error(`${candidate.name} can't be started`);
  mkdirSync(place.folder, { recursive: true });
  const collector = await startCollector(candidate, place, cores?.load);
  const command = pinned(cores?.proxy, candidate.command(place));
  const startedAt = performance.now();
  const proxy = startProcess(command, join(place.folder, 'output.log'), candidate.env?.(place));
  const stop = async () => {
    await proxy.stop();
    await collector?.stop();
  };
  while (performance.now() - startedAt < longestStartMs && proxy.child.exitCode === null) {
    const answer = await ask({ port: place.port, ...readyRequest });
    if (answer.status === 200) return { ...proxy, stop, startMs: performance.now() - startedAt };
    await sleep(5);
  }
  await stop();
  throw new Error(`${candidate.name} did not become ready:\n${readFileSync(proxy.logFile, 'utf8').slice(-2000)}`);
}

/** @param {Candidate} candidate @param {Place} place @param {number | undefined} core */
async function startCollector(candidate, place, core) {
  if (candidate.collector === undefined) return undefined;
  const running = startProcess(pinned(core, candidate.collector(place)), join(place.folder, 'collector.log'));
  await waitForPort(place.collectorPort);
  return running;
}
