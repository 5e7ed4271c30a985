/**
 * From what the client saw and the engines counted to one row of figures. Pure. Hit rates are the engines' own, in tokens;
 * latencies the client's; a request counts when its planned moment lies in the window.
 */

/** @typedef {import('./client.mjs').Outcome} Outcome */
/** @typedef {import('./counters.mjs').Counters} Counters */
/**
 * @typedef {object} ClientResult one line of client.mjs
 * @property {number} sessions
 * @property {number} skipped turns that could not be asked, since an earlier answer had failed
 * @property {number} windowSeconds
 * @property {number} clientCpuShare of a core
 * @property {number} clientLagP99Ms lateness of its event loop
 * @property {Counters[]} atStart
 * @property {Counters[]} before
 * @property {Counters[]} after
 * @property {Outcome[]} outcomes
 */
/** @typedef {{ ttftMs: number, tpotMs: number }} Slo */
/** @typedef {{ mean: number, p50: number, p90: number, p99: number }} Percentiles */

/** @param {number[]} values @returns {Percentiles | null} */
export function percentiles(values) {
  if (values.length === 0) return null;
  const sorted = values.toSorted((left, right) => left - right);
  const at = (/** @type {number} */ share) =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0;
  return { mean: sum(values) / values.length, p50: at(0.5), p90: at(0.9), p99: at(0.99) };
}

/** @param {number[]} values */
export const sum = (values) => values.reduce((total, value) => total + value, 0);

/** @param {number[]} values largest by mean; null where nothing was done */
const peak = (values) => (sum(values) === 0 ? null : Math.max(...values) / (sum(values) / values.length));

/** What happened between two readings, backend by backend. @param {Counters[]} from @param {Counters[]} to @param {(counters: Counters) => number | null} read */
export function moved(from, to, read) {
  return to.map((counters, index) => (read(counters) ?? 0) - (read(/** @type {Counters} */ (from[index])) ?? 0));
}

/** @param {ClientResult} result @param {{ slo: Slo, warmSeconds: number, seconds: number }} plan */
export function figuresOf(result, { slo, warmSeconds, seconds }) {
  const { before, after } = result;
  const counted = result.outcomes.filter(({ plannedMs }) => plannedMs >= warmSeconds * 1000);
  const good = counted.filter(({ failure }) => failure === undefined);
  const met = good.filter(({ ttftMs, tpotMs }) => ttftMs <= slo.ttftMs && (tpotMs ?? 0) <= slo.tpotMs);
  const promptTokens = moved(before, after, (counters) => counters.promptTokens);
  const cachedTokens = moved(before, after, (counters) => counters.cachedTokens);
  const told = result.outcomes.filter(({ failure, cachedTokens: cached }) => failure === undefined && cached !== null);
  const failures = counted.filter(({ failure }) => failure !== undefined);
  return {
    requests: counted.length,
    failures: failures.length,
    skipped: result.skipped,
    firstFailure: failures[0]?.failure ?? null,
    hitRate: sum(promptTokens) === 0 ? null : sum(cachedTokens) / sum(promptTokens),
    ttftMs: percentiles(good.map(({ ttftMs }) => ttftMs)),
    tpotMs: percentiles(good.flatMap(({ tpotMs }) => tpotMs ?? [])),
    /** of all that were to be asked in the window, those never asked included */
    goodShare: counted.length === 0 ? null : met.length / (counted.length + result.skipped),
    goodPerSecond: met.length / (seconds - warmSeconds),
    /** waiting for the answer before, mostly */
    lateP99Ms: percentiles(counted.map(({ plannedMs, sentMs }) => sentMs - plannedMs))?.p99 ?? null,
    peakRequests: peak(moved(before, after, ({ requests }) => requests)),
    peakUncached: peak(promptTokens.map((tokens, index) => tokens - (cachedTokens[index] ?? 0))),
    perBackend: promptTokens.map((tokens, index) => ({
      requests: moved(before, after, ({ requests }) => requests)[index] ?? 0,
      promptTokens: tokens,
      cachedTokens: cachedTokens[index] ?? 0,
    })),
    /** over the whole load: what the answers told, and what the engines counted; they must agree */
    toldCachedTokens: sum(told.map(({ cachedTokens: cached }) => cached ?? 0)),
    countedCachedTokens: sum(moved(result.atStart, after, (counters) => counters.cachedTokens)),
    windowSeconds: result.windowSeconds,
    clientCpuShare: result.clientCpuShare,
    clientLagP99Ms: result.clientLagP99Ms,
  };
}
