/**
 * One run: the client against one candidate in one scenario, and the row of results that it gives.
 * Derived figures are computed here, once, so that raw rows, summary and goals speak of the same numbers.
 */
import { ask, pinned, spawnCommand, statusKb } from './processes.mjs';

/** @typedef {{ count: number, mean: number, p50: number, p90: number, p99: number, p999: number, max: number }} Percentiles */
/**
 * What the client prints; see client.c.
 * @typedef {object} ClientResult
 * @property {number} windowSeconds
 * @property {number} tokens
 * @property {number} readsWithTokens
 * @property {number} openAnswers
 * @property {number} closedAnswers
 * @property {number} stale
 * @property {Percentiles | null} tokenLatencyMicros
 * @property {Percentiles | null} firstTokenMicros
 * @property {Percentiles | null} openLatencyMicros
 * @property {Percentiles | null} closedLatencyMicros
 * @property {Record<string, number>} errors
 * @property {string} firstError
 * @property {number} proxyCpuMicros
 * @property {number} proxyWaitMicros
 * @property {number} backendCpuMicros
 * @property {number} clientCpuMicros
 * @property {number} proxyCoreBusyMicros
 * @property {number} loadCoreBusyMicros
 * @property {number} stealMicros
 * @property {number} proxyRssKb
 */
/**
 * @typedef {object} Derived
 * @property {number | undefined} cpuMicrosPerToken of the proxy, all its threads and processes; the requests beside the streams are in it
 * @property {number | undefined} cpuMicrosPerRequest the same, where no streams run
 * @property {number} requestsPerSecond
 * @property {number} errorCount
 * @property {number} proxyShare of its core, by the proxy
 * @property {number} loadShare of its core, by backend and client; past 0.9 they are the bottleneck
 * @property {number | undefined} foreignProxyShare of the proxy's core, by others
 * @property {number | undefined} foreignLoadShare of the load's core, by others
 * @property {number | undefined} proxyPeakKb
 * @property {number | undefined} rssBeforeKb
 */
/** @typedef {ClientResult & Derived & { lateness?: Record<string, number>, startMs?: number, attempts?: number }} RunResult */

const graceMs = 40_000;

/** @param {Record<string, number>} load @param {Record<string, number | string>} others */
function clientArguments(load, others) {
  return Object.entries({ ...load, ...others }).flatMap(([name, value]) => [`--${name}`, String(value)]);
}

/** @param {string[]} command @param {number} limitMs @returns {Promise<ClientResult>} */
function runClient(command, limitMs) {
  return new Promise((resolve, reject) => {
    const child = spawnCommand(command, ['ignore', 'pipe', 'inherit']);
    let text = '';
    const limit = setTimeout(() => child.kill('SIGKILL'), limitMs);
    const end = () => child.kill('SIGTERM');
    process.once('exit', end);
    child.stdout?.setEncoding('utf8').on('data', (part) => (text += part));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(limit);
      process.off('exit', end);
      if (code === 0) resolve(JSON.parse(text));
      else reject(new Error(`the client ended with ${signal ?? code}`));
    });
  });
}

/** @param {ClientResult} result @param {boolean} isPinned @param {boolean} isProxied @returns {Omit<Derived, 'proxyPeakKb' | 'rssBeforeKb'>} */
function derive(result, isPinned, isProxied) {
  const windowMicros = result.windowSeconds * 1e6;
  const requests = result.openAnswers + result.closedAnswers;
  const loadMicros = result.backendCpuMicros + result.clientCpuMicros;
  const foreign = (/** @type {number} */ busy, /** @type {number} */ own) =>
    isPinned ? Math.max(0, busy - own) / windowMicros : undefined;
  return {
    cpuMicrosPerToken: isProxied && result.tokens > 0 ? result.proxyCpuMicros / result.tokens : undefined,
    cpuMicrosPerRequest:
      isProxied && requests > 0 && result.tokens === 0 ? result.proxyCpuMicros / requests : undefined,
    requestsPerSecond: requests / result.windowSeconds,
    errorCount: Object.values(result.errors).reduce((sum, count) => sum + count, 0),
    proxyShare: result.proxyCpuMicros / windowMicros,
    loadShare: loadMicros / windowMicros,
    foreignProxyShare: foreign(result.proxyCoreBusyMicros, result.proxyCpuMicros),
    foreignLoadShare: foreign(result.loadCoreBusyMicros, loadMicros),
  };
}

/** What others took of the two cores, added up. @param {RunResult} result */
export function foreignShare(result) {
  return (result.foreignProxyShare ?? 0) + (result.foreignLoadShare ?? 0);
}

/**
 * @param {object} run
 * @param {string} run.client program
 * @param {Record<string, number>} run.load
 * @param {number} run.port
 * @param {{ proxy: number, load: number } | undefined} run.cores
 * @param {number} run.backendPort
 * @param {number[]} run.backendPids
 * @param {number[]} run.proxyPids empty when the client speaks to the backend directly
 * @param {boolean} [run.fresh] the proxy was started for this run: its memory before and at its peak is worth reading
 * @returns {Promise<RunResult>}
 */
export async function measure(run) {
  const { load, cores } = run;
  const rssBeforeKb = run.fresh === true ? statusKb(run.proxyPids, 'VmRSS') : undefined;
  await ask({ port: run.backendPort, method: 'GET', path: '/bench/lateness' });
  const command = pinned(cores?.load, [
    run.client,
    ...clientArguments(load, {
      port: run.port,
      'backend-pid': run.backendPids.at(-1) ?? 0,
      ...(run.proxyPids.length > 0 ? { 'proxy-pids': run.proxyPids.join(',') } : {}),
      ...(cores === undefined ? {} : { 'proxy-core': cores.proxy, 'load-core': cores.load }),
    }),
  ]);
  const plannedMs = 1000 * ((load['ramp'] ?? 1) + (load['warmup'] ?? 1) + (load['seconds'] ?? 5));
  const result = await runClient(command, plannedMs + graceMs);
  const lateness = await ask({ port: run.backendPort, method: 'GET', path: '/bench/lateness' });
  return {
    ...result,
    ...derive(result, cores !== undefined, run.proxyPids.length > 0),
    rssBeforeKb,
    proxyPeakKb: run.fresh === true ? statusKb(run.proxyPids, 'VmHWM') : undefined,
    ...(lateness.status === 200 ? { lateness: JSON.parse(lateness.text) } : {}),
  };
}
