/**
 * Processes of one bench: starting them on their core, knowing their children, ending exactly those that were started.
 * Nothing here knows what is measured.
 */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { request } from 'node:http';
import { availableParallelism, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** @typedef {import('node:child_process').ChildProcess} ChildProcess */
/** @typedef {{ child: ChildProcess, logFile: string, pids: () => number[], stop: () => Promise<void> }} Running */

/** @type {Set<Running>} */
const running = new Set();
let stopping = false;
let prioritised = false;
const nice = -15;
/** Without the bench's own variables and whatever sets up a warmlane or its telemetry on this machine: a run shall not depend on them. */
const childEnv = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(WARMLANE|OTEL)_/.test(name)));

/** Core of the proxy and core of backend and client; undefined where the machine has one core only or no `taskset`. */
export function chooseCores() {
  if (availableParallelism() < 2 || spawnSync('taskset', ['--version'], { stdio: 'ignore' }).error) return undefined;
  const allowed = parseCores(spawnSync('taskset', ['-cp', String(process.pid)], { encoding: 'utf8' }).stdout);
  return allowed.length < 2
    ? undefined
    : { proxy: /** @type {number} */ (allowed[1]), load: /** @type {number} */ (allowed[0]) };
}

/** @param {string} text ends like `affinity list: 0-3,5` */
function parseCores(text) {
  const list = text.trim().split(' ').at(-1) ?? '';
  return list.split(',').flatMap((part) => {
    const [from = Number.NaN, to = from] = part.split('-').map(Number);
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  });
}

/** @param {number | undefined} core @param {string[]} command */
export function pinned(core, command) {
  return core === undefined ? command : ['taskset', '-c', String(core), ...command];
}

/** @param {number} pid process ids of `pid` and all below it */
export function processTree(pid) {
  /** @type {Map<number, number[]>} */
  const children = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch (error) {
      // It ended between readdir and read.
      if (!(error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')))
        throw error;
    }
  }
  const tree = [pid];
  for (let at = 0; at < tree.length; at++) tree.push(...(children.get(/** @type {number} */ (tree[at])) ?? []));
  return tree;
}

/** From now on what is started runs before the rest of the machine. Needs the right to do so. */
export function prioritise() {
  setPriority(nice);
  prioritised = true;
}

/**
 * Spawns in a session of its own when prioritised: Linux weighs sessions (autogroups) first and niceness only within one.
 * @param {string[]} command @param {import('node:child_process').StdioOptions} stdio @param {Record<string, string>} [env] added to the bench's own
 */
export function spawnCommand(command, stdio, env) {
  if (stopping) throw new Error('the bench is ending');
  const [file = '', ...args] = command;
  const child = spawn(file, args, { stdio, detached: prioritised, env: { ...childEnv, ...env } });
  const autogroup = `/proc/${child.pid}/autogroup`;
  if (prioritised && existsSync(autogroup)) writeFileSync(autogroup, String(nice));
  child.on('error', (error) => console.error(`bench: ${file}: ${error.message}`));
  return child;
}

/** Sum of one `/proc/PID/status` line (VmRSS, VmHWM) over processes, KiB. @param {number[]} pids @param {string} key */
export function statusKb(pids, key) {
  let sumKb = 0;
  for (const pid of pids) {
    const found = new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    sumKb += Number(found?.[1] ?? 0);
  }
  return sumKb;
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/**
 * Starts a long-running process whose output goes to `logFile`.
 * @param {string[]} command @param {string} logFile @param {Record<string, string>} [env]
 * @returns {Running}
 */
export function startProcess(command, logFile, env) {
  const log = openSync(logFile, 'a');
  const child = spawnCommand(command, ['ignore', log, log], env);
  closeSync(log);
  const pids = () => (child.pid === undefined || child.exitCode !== null ? [] : processTree(child.pid));
  const stop = async () => {
    running.delete(entry);
    const tree = pids();
    child.kill('SIGTERM');
    for (let turn = 0; turn < 60 && tree.some(isAlive); turn++) await sleep(50);
    for (const pid of tree.filter(isAlive)) process.kill(pid, 'SIGKILL');
  };
  const entry = { child, logFile, pids, stop };
  running.add(entry);
  return entry;
}

/** Ends all that were started; nothing can be started after. */
export async function stopAll() {
  stopping = true;
  await Promise.all([...running].map((entry) => entry.stop()));
}

/** Throws with the port's number when one is in use. @param {number[]} ports */
export async function assertPortsFree(ports) {
  for (const port of ports) {
    await new Promise((resolve, reject) => {
      const probe = createServer();
      probe.once('error', (error) =>
        reject(new Error(`port ${port} is not free (${error.message}); choose others with --base-port`)),
      );
      probe.listen(port, '127.0.0.1', () => probe.close(resolve));
    });
  }
}

/** @param {number} port */
export async function waitForPort(port) {
  for (let turn = 0; turn < 500; turn++) {
    const open = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true));
      socket.once('error', () => resolve(false)).once('connect', () => socket.destroy());
    });
    if (open) return;
    await sleep(10);
  }
  throw new Error(`nothing listens on port ${port}`);
}

/**
 * One request with a small JSON answer.
 * @param {{ port: number, method: string, path: string, body?: string }} ask
 * @returns {Promise<{ status: number, text: string }>} status 0: no answer
 */
export function ask({ port, method, path, body }) {
  return new Promise((resolve) => {
    const none = () => resolve({ status: 0, text: '' });
    const headers =
      body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = request({ host: '127.0.0.1', port, method, path, headers, agent: false, timeout: 2000 }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer
        .on('data', (part) => (text += part))
        .on('end', () => resolve({ status: answer.statusCode ?? 0, text }))
        .on('error', none);
    });
    sent.on('error', none).on('timeout', () => sent.destroy());
    sent.end(body);
  });
}
