/**
 * Plays every policy and every baseline on every setting, and writes a table and the raw figures. Loaded by `evaluate.mjs`.
 * The same seeds give the same figures.
 */
import { readFileSync } from 'node:fs';

import type { PrefixChain } from '../../../src/domain/prefix.ts';
import { type PolicyName, policyNames } from '../../../src/domain/routing.ts';
import { type RouteSettings, routeDefaults } from '../../../src/route/settings.ts';
import { createRouting } from '../../../src/routing.ts';
import type { PlayFigures } from '../../../src/cli/replay/figures.ts';
import { play, type MakeRouter } from '../../../src/cli/replay/play.ts';
import { routerFor } from '../../../src/cli/replay/routers.ts';
import { prepareWorkload, type Workload } from '../../../src/cli/replay/workload.ts';
import { kvTokensOf } from '../../../src/sim/fleet/engine-models.ts';
import { pooledHitShare } from '../../../src/sim/fleet/cache-bounds.ts';
import { generators } from '../../../src/sim/traces/generators/generator.ts';
import { createTraceReader } from '../../../src/sim/traces/read-trace.ts';
import { beginningOf, type Trace } from '../../../src/sim/traces/trace.ts';
import { type BaselineName, baselineNames, createBaseline } from './baselines.ts';
import type { EvaluationSetting } from './settings.ts';

export type Candidate = PolicyName | BaselineName | 'perfect';

export const everyCandidate: readonly Candidate[] = [...policyNames, ...baselineNames, 'perfect'];

export interface Row {
  readonly candidate: Candidate;
  readonly figures: PlayFigures;
  /** microseconds of one choice, of this machine; p50 and p99 */
  readonly choiceMicros: readonly [number, number];
}

export interface Evaluated {
  readonly setting: EvaluationSetting;
  readonly pooledHitShare: number;
  readonly endlessHitShare: number;
  readonly rows: readonly Row[];
}

export interface EvaluateDeps {
  /** where Mooncake's conversation trace is; without it settings that need it are left out */
  readonly mooncake?: string | undefined;
  readonly settings?: RouteSettings;
  readonly done?: (row: Row, setting: EvaluationSetting) => void;
}

export function evaluate(
  setting: EvaluationSetting,
  candidates: readonly Candidate[],
  deps: EvaluateDeps,
): Evaluated | undefined {
  const trace = traceOf(setting, deps.mooncake);
  if (trace === undefined) return undefined;
  const workload = prepareWorkload(trace);
  const prompts = workload.items.map(({ prompt }) => prompt);
  const blockTokens = setting.engine.cache.kind === 'blocks' ? setting.engine.cache.blockTokens : 1;
  const bound = (capacityTokens: number) => pooledHitShare(prompts, { blockTokens, capacityTokens });
  const rows: Row[] = [];
  for (const candidate of candidates) {
    const row = playOne(candidate, { setting, workload, settings: deps.settings ?? routeDefaults });
    deps.done?.(row, setting);
    rows.push(row);
  }
  return {
    setting,
    pooledHitShare: bound(kvTokensOf(setting.engine) * setting.backends),
    endlessHitShare: bound(Infinity),
    rows,
  };
}

export function playOne(
  candidate: Candidate,
  about: { readonly setting: EvaluationSetting; readonly workload: Workload; readonly settings: RouteSettings },
): Row {
  const { setting, workload, settings } = about;
  const { ttftMs, toldTimes = 1 } = setting;
  const router = routerOf(candidate, workload, { ttftMs, settings });
  const choices: number[] = [];
  const figures = play(workload, timed(router, choices), {
    fleet: { backends: setting.backends, engine: setting.engine, tellsCapacity: false },
    scale: setting.scale,
    slo: { ttftMs, tpotMs: 100 },
    tell: ({ upstreamTtftMs, tpotMs, ...told }) => ({
      ...told,
      ...(upstreamTtftMs === undefined ? {} : { upstreamTtftMs: upstreamTtftMs * toldTimes }),
      ...(tpotMs === undefined ? {} : { tpotMs: tpotMs * toldTimes }),
    }),
  });
  choices.sort((a, b) => a - b);
  const at = (share: number) => choices[Math.floor(choices.length * share)] ?? 0;
  return { candidate, figures, choiceMicros: [at(0.5), at(0.99)] };
}

function routerOf(
  candidate: Candidate,
  workload: Workload,
  about: { readonly ttftMs: number; readonly settings: RouteSettings },
): MakeRouter {
  const baseline = baselineNames.find((name) => name === candidate);
  if (baseline === undefined) return routerFor(candidate as PolicyName | 'perfect', workload, about);
  return (deps) => {
    let chain: PrefixChain | undefined;
    const policy = createBaseline(baseline, () => chain);
    const routing = createRouting(about.settings, { ...deps, policy });
    return {
      choose(ask, load, place) {
        chain = ask.job.prefix;
        return routing.choose(ask, load, place);
      },
      sent: routing.sent,
    };
  };
}

function timed(makeRouter: MakeRouter, choices: number[]): MakeRouter {
  return (deps) => {
    const router = makeRouter(deps);
    return {
      ...router,
      choose(ask, load, place) {
        const began = performance.now();
        const choice = router.choose(ask, load, place);
        choices.push((performance.now() - began) * 1000);
        return choice;
      },
    };
  };
}

const traces = new Map<string, Trace>();

/** @returns undefined when the trace's file isn't there */
function traceOf({ source, requests, seed }: EvaluationSetting, mooncake: string | undefined): Trace | undefined {
  const key = `${source} ${requests} ${seed}`;
  const known = traces.get(key);
  if (known !== undefined) return known;
  let trace: Trace;
  if (source === 'mooncake') {
    if (mooncake === undefined) return undefined;
    const reader = createTraceReader({ name: source, seed, maxRequests: Number.MAX_SAFE_INTEGER });
    for (const line of readFileSync(mooncake, 'utf8').split('\n')) reader.line(line);
    trace = beginningOf(reader.end().trace, { most: requests });
  } else {
    const { make, ratePerSecond } = generators[source];
    trace = make({ requests, ratePerSecond, seed });
  }
  traces.clear();
  traces.set(key, trace);
  return trace;
}
