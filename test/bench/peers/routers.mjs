/**
 * The routers that are compared, and how each is started before a fleet: one table, a row per router and policy.
 * Every one runs with its own defaults but for what is said here: the policy, quiet logs, and that the workers speak vLLM's
 * dialect. One that isn't installed says what is missing; the bench goes on without it, loudly.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { locate, mainFile, packageVersion, versionOf } from '../candidates.mjs';
import { ask, pinned, startProcess } from '../processes.mjs';

/** @typedef {{ port: number, adminPort: number, backends: string[], folder: string, model: string }} Place */
/**
 * @typedef {object} Router
 * @property {string} name
 * @property {() => string | undefined} missing
 * @property {((place: Place) => string[]) | undefined} command absent: the client itself goes to the backends in turn
 * @property {(place: Place) => Promise<boolean>} knowsAll are all backends known and taken for well?
 * @property {() => string} version
 */

const longestStartMs = 60_000;
const smgFile = () => locate('WARMLANE_BENCH_SMG', 'smg');
const vllmRouterFile = () => locate('WARMLANE_BENCH_VLLM_ROUTER', 'vllm-router');

/** @param {Place} place @param {string} policy flags that the two Rust routers share */
function sharedFlags(place, policy) {
  return [
    ...['--worker-urls', ...place.backends, '--policy', policy, '--host', '127.0.0.1', '--port', String(place.port)],
    ...['--prometheus-host', '127.0.0.1', '--prometheus-port', String(place.adminPort)],
  ];
}

/** @param {string} policy @returns {Router} */
const smg = (policy) => ({
  name: `smg ${policy}`,
  missing: () => (smgFile() === undefined ? 'smg is neither on PATH nor named by WARMLANE_BENCH_SMG' : undefined),
  command: (place) => [
    smgFile() ?? '',
    'launch',
    ...sharedFlags(place, policy),
    ...['--backend', 'vllm', '--disable-tokenizer-autoload', '--log-level', 'warn'],
  ],
  async knowsAll(place) {
    const { status, text } = await ask({ port: place.port, method: 'GET', path: '/workers' });
    if (status !== 200) return false;
    /** @type {{ workers: { is_healthy: boolean }[] }} */
    const { workers } = JSON.parse(text);
    return workers.filter(({ is_healthy }) => is_healthy).length === place.backends.length;
  },
  version: () => packageVersion(smgFile(), 'smg'),
});

/** @param {string} policy @returns {Router} */
const vllmRouter = (policy) => ({
  name: `vllm-router ${policy}`,
  missing: () =>
    vllmRouterFile() === undefined
      ? 'vllm-router is neither on PATH nor named by WARMLANE_BENCH_VLLM_ROUTER'
      : undefined,
  command: (place) => [vllmRouterFile() ?? '', ...sharedFlags(place, policy), '--log-level', 'warning'],
  async knowsAll(place) {
    const { status, text } = await ask({ port: place.port, method: 'GET', path: '/list_workers' });
    if (status !== 200) return false;
    /** @type {{ urls: string[] }} */
    const { urls } = JSON.parse(text);
    return urls.length === place.backends.length;
  },
  version: () => packageVersion(vllmRouterFile(), 'vllm-router'),
});

/** @param {string} policy @returns {Router} */
export const warmlane = (policy) => ({
  name: `warmlane ${policy}`,
  missing: () => (existsSync(mainFile) ? undefined : `${mainFile} is absent: run \`npm run build\``),
  command: (place) => {
    const file = join(place.folder, 'warmlane.yaml');
    writeFileSync(file, `routing:\n  policy: ${policy}\n`);
    return [
      ...[process.execPath, mainFile, '--config', file, ...place.backends.flatMap((url) => ['--backend', url])],
      ...['--listen', `127.0.0.1:${place.port}`, '--admin-listen', `127.0.0.1:${place.adminPort}`],
    ];
  },
  async knowsAll(place) {
    const { status, text } = await ask({ port: place.adminPort, method: 'GET', path: '/backends' });
    if (status !== 200) return false;
    /** @type {{ backends: { health: string }[] }} */
    const { backends } = JSON.parse(text);
    return backends.filter(({ health }) => health === 'up').length === place.backends.length;
  },
  version: () => versionOf([process.execPath, mainFile, '--version']),
});

/** @type {readonly Router[]} */
export const routers = [
  {
    name: 'direct round-robin',
    missing: () => undefined,
    command: undefined,
    knowsAll: async () => true,
    version: () => '',
  },
  warmlane('warm'),
  warmlane('round-robin'),
  warmlane('least-load'),
  smg('cache_aware'),
  smg('power_of_two'),
  smg('prefix_hash'),
  vllmRouter('cache_aware'),
  vllmRouter('sticky_least_loaded'),
];

/**
 * Starts a router and waits until it knows all backends and answers a chat request.
 * @param {Router} router @param {Place} place @param {number | undefined} core
 * @returns {Promise<import('../processes.mjs').Running | undefined>} undefined: there is nothing to start
 * @throws with the end of its output when it doesn't become ready
 */
export async function startRouter(router, place, core) {
  if (router.command === undefined) return undefined;
  mkdirSync(place.folder, { recursive: true });
  const running = startProcess(pinned(core, router.command(place)), join(place.folder, 'output.log'));
  const startedAt = performance.now();
  const body = JSON.stringify({
    model: place.model,
    messages: [{ role: 'user', content: 'ready?' }],
    max_tokens: 1,
  });
  while (performance.now() - startedAt < longestStartMs && running.child.exitCode === null) {
    if (await router.knowsAll(place)) {
      const answer = await ask({ port: place.port, method: 'POST', path: '/v1/chat/completions', body });
      if (answer.status === 200) return running;
    }
    await sleep(100);
  }
  await running.stop();
  throw new Error(`${router.name} did not become ready:\n${readFileSync(running.logFile, 'utf8').slice(-2000)}`);
}
