/**
 * One repetition of the bench: every scenario against every candidate, neighbours in time, in an order that turns.
 * A candidate that fails is reported and left out; the others go on.
 */
import { join } from 'node:path';

import { candidates, startProxy } from './candidates.mjs';
import { foreignShare, measure } from './measure.mjs';
import { assertPortsFree } from './processes.mjs';
import { candidatesFor, warmingLoads, warmUpLoad, watchedLoads } from './scenarios.mjs';
import { warmUntilLevel } from './warming.mjs';

/** @typedef {import('./candidates.mjs').Candidate} Candidate */
/** @typedef {import('./goals.mjs').Row} Row */
/** @typedef {import('./scenarios.mjs').Scenario} Scenario */
/** @typedef {import('./run.mjs').Options} Options */
/** @typedef {{ options: Options, programs: { backend: string, client: string }, cores: { proxy: number, load: number } | undefined, backend: import('./processes.mjs').Running, folder: string, retriesLeft: number }} Bench */

/** Ports of a candidate: 10 apart, the fresh instance's 5 after the kept one's. @param {Bench} bench @param {string} name @param {boolean} fresh */
function placeOf(bench, name, fresh) {
  const { basePort } = bench.options;
  const port = basePort + 10 * (1 + candidates.findIndex((candidate) => candidate.name === name)) + (fresh ? 5 : 0);
  return {
    port,
    adminPort: port + 1,
    collectorPort: port + 2,
    backendPort: basePort,
    folder: join(bench.folder, fresh ? `${name}-fresh` : name),
  };
}

/** @param {Bench} bench @param {Scenario} scenario @param {Record<string, number>} load @param {{ port: number, pids: number[] }} proxy */
function measureOn(bench, scenario, load, proxy) {
  return measure({
    client: bench.programs.client,
    load,
    port: proxy.port,
    cores: bench.cores,
    backendPort: bench.options.basePort,
    backendPids: bench.backend.pids(),
    proxyPids: proxy.pids,
    fresh: scenario.fresh === true,
  });
}

/** One round. @param {Bench} bench @param {{ port: number, pids: number[] }} proxy @returns {Promise<number[]>} CPU per short and per streamed answer, µs */
async function warmOnce(bench, proxy) {
  const costs = [];
  for (const load of warmingLoads) {
    const { proxyCpuMicros, openAnswers, closedAnswers } = await warmBy(bench, load, proxy);
    costs.push(proxyCpuMicros / Math.max(1, openAnswers + closedAnswers));
  }
  return costs.slice(0, watchedLoads);
}

/** @param {Bench} bench @param {Record<string, number>} load @param {{ port: number, pids: number[] }} proxy */
function warmBy(bench, load, proxy) {
  return measure({
    client: bench.programs.client,
    load,
    port: proxy.port,
    cores: bench.cores,
    backendPort: bench.options.basePort,
    backendPids: bench.backend.pids(),
    proxyPids: proxy.pids,
    fresh: false,
  });
}

/** @param {Bench} bench @param {Scenario} scenario @param {Candidate} candidate */
async function measureFresh(bench, scenario, candidate) {
  const place = placeOf(bench, candidate.name, true);
  await assertPortsFree([place.port, place.adminPort, place.collectorPort]);
  const proxy = await startProxy(candidate, place, bench.cores);
  try {
    await measureOn(bench, scenario, warmUpLoad, { port: place.port, pids: proxy.pids() });
    const seconds = scenario.windowSeconds ?? bench.options.seconds;
    const result = await measureOn(
      bench,
      scenario,
      { ...scenario.load, warmup: 1, seconds },
      { port: place.port, pids: proxy.pids() },
    );
    return { ...result, startMs: proxy.startMs };
  } finally {
    await proxy.stop();
  }
}

/** Starts the candidates that stay for one repetition; one that fails to start is reported and left out. @param {Bench} bench @param {Candidate[]} present @param {Out} out */
async function startKept(bench, present, out) {
  /** @type {Map<string, import('./candidates.mjs').Proxy>} */
  const kept = new Map();
  for (const candidate of present.filter(({ command }) => command !== undefined)) {
    if (out.isLate()) break;
    const place = placeOf(bench, candidate.name, false);
    await assertPortsFree([place.port, place.adminPort, place.collectorPort]);
    try {
      const proxy = await startProxy(candidate, place, bench.cores);
      kept.set(candidate.name, proxy);
      const at = { port: place.port, pids: proxy.pids() };
      // What isn't compiled as it runs only opens its connections.
      const rounds = candidate.compiled === true ? 1 : bench.options.warmingRounds;
      out.warmed(candidate.name, await warmUntilLevel(rounds, () => warmOnce(bench, at)));
    } catch (error) {
      out.fail(`start ${candidate.name}, ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return kept;
}

/**
 * One run, repeated while others disturb it, as far as retries and time allow; the least disturbed counts,
 * but a run with errors always stands.
 * @param {Bench} bench @param {() => Promise<import('./measure.mjs').RunResult>} run @param {() => boolean} isLate
 */
async function runUndisturbed(bench, run, isLate) {
  let best = await run();
  let attempts = 1;
  while (
    attempts <= bench.options.retries &&
    bench.retriesLeft > 0 &&
    best.errorCount === 0 &&
    foreignShare(best) > bench.options.maxForeign &&
    !isLate()
  ) {
    bench.retriesLeft--;
    const again = await run();
    attempts++;
    if (again.errorCount > 0 || foreignShare(again) < foreignShare(best)) best = again;
  }
  return { ...best, attempts };
}

/**
 * @typedef {{ add: (row: Row) => void, warmed: (candidate: string, rounds: (readonly number[])[]) => void, fail: (what: string) => void, isLate: () => boolean }} Out
 * @typedef {{ chosen: Scenario[], present: Candidate[] }} Plan
 */

/** Who takes part in a scenario. @param {Bench} bench @param {Plan} plan @param {Scenario} scenario */
function entrants(bench, plan, scenario) {
  const listed = bench.options.candidates ?? candidatesFor(scenario, bench.options.form);
  return plan.present.filter(({ name }) => listed.includes(name) && scenario.candidates.includes(name));
}

/**
 * One repetition: every scenario, every candidate, in an order that turns with repetition and scenario.
 * @param {Bench} bench @param {Plan} plan @param {number} repetition @param {Out} out
 */
export async function repeat(bench, plan, repetition, out) {
  const lasting = plan.chosen
    .filter(({ fresh }) => fresh !== true)
    .flatMap((scenario) => entrants(bench, plan, scenario));
  const kept = await startKept(
    bench,
    plan.present.filter((candidate) => lasting.includes(candidate)),
    out,
  );
  for (const [index, scenario] of plan.chosen.entries()) {
    const all = entrants(bench, plan, scenario);
    const turn = all.length === 0 ? 0 : (repetition + index) % all.length;
    for (const candidate of [...all.slice(turn), ...all.slice(0, turn)]) {
      if (out.isLate()) break;
      const proxy = kept.get(candidate.name);
      if (scenario.fresh !== true && candidate.command !== undefined && proxy === undefined) continue;
      const load = {
        warmup: bench.options.warmup,
        ...scenario.load,
        seconds: scenario.windowSeconds ?? bench.options.seconds,
      };
      const port = proxy === undefined ? bench.options.basePort : placeOf(bench, candidate.name, false).port;
      const run = () =>
        scenario.fresh === true
          ? measureFresh(bench, scenario, candidate)
          : measureOn(bench, scenario, load, { port, pids: proxy?.pids() ?? [] });
      try {
        const result = await runUndisturbed(bench, run, out.isLate);
        out.add({ ...result, scenario: scenario.name, candidate: candidate.name, repetition });
      } catch (error) {
        out.fail(
          `${scenario.name} ${candidate.name}, repetition ${repetition}: ${error instanceof Error ? error.message : String(error)}`,
        );
      }
    }
  }
  for (const proxy of kept.values()) await proxy.stop();
}
