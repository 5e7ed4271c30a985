/** Plays one workload under each policy on each fleet, and sets beside it what no router could beat. Knows no text. */
import {
  type EngineChange,
  changed,
  type EngineModelName,
  engineModels,
  kvTokensOf,
  ramTokensOf,
} from '../../sim/fleet/engine-models.ts';
import { pooledHitShare } from '../../sim/fleet/cache-bounds.ts';
import type { EngineSettings } from '../../sim/settings.ts';
import { findCapacity } from './capacity.ts';
import type { PlayFigures, Slo } from './figures.ts';
import { play, type PlaySettings } from './play.ts';
import { type ReplayPolicy, routerFor } from './routers.ts';
import type { Workload } from './workload.ts';

/** One fleet under one load. */
export interface Setting {
  readonly backends: number;
  /** that each can hold */
  readonly kvTokens: number;
  /** of these, in a cache in RAM beside the slots; absent: there is none */
  readonly ramTokens?: number;
  readonly scale: number;
}

export interface PolicyResult extends PlayFigures {
  readonly policy: ReplayPolicy;
  /** the highest multiple of the trace's load with nine good answers in ten; Infinity: higher than was looked for */
  readonly capacityScale?: number;
}

export interface SettingResult extends Setting {
  /** hit shares of one cache that never forgets, and of one as large as all backends' together */
  readonly endlessHitShare: number;
  readonly pooledHitShare: number;
  readonly policies: readonly PolicyResult[];
}

export interface Comparison {
  readonly engine: EngineModelName;
  readonly backends: readonly number[];
  readonly kvTokens: readonly number[];
  readonly scales: readonly number[];
  readonly stepTokens?: number;
  readonly maxSequences?: number;
  readonly policies: readonly ReplayPolicy[];
  readonly slo: Slo;
  readonly capacity: boolean;
  readonly seed: number;
}

export interface CompareDeps {
  /** A policy was played. */
  readonly played: (setting: Setting, result: PolicyResult) => void;
}

export function compare(workload: Workload, comparison: Comparison, { played }: CompareDeps): readonly SettingResult[] {
  const prompts = workload.items.map(({ prompt }) => prompt);
  const results: SettingResult[] = [];
  for (const { setting, engine } of settingsOf(comparison)) {
    const blockTokens = engine.cache.kind === 'blocks' ? engine.cache.blockTokens : 1;
    const bound = (capacityTokens: number) => pooledHitShare(prompts, { blockTokens, capacityTokens });
    const policies: PolicyResult[] = [];
    for (const policy of comparison.policies) {
      const result = playPolicy(policy, workload, { setting, engine, comparison });
      played(setting, result);
      policies.push(result);
    }
    results.push({
      ...setting,
      endlessHitShare: bound(Infinity),
      pooledHitShare: bound(setting.kvTokens * setting.backends),
      policies,
    });
  }
  return results;
}

function settingsOf(comparison: Comparison): readonly { readonly setting: Setting; readonly engine: EngineSettings }[] {
  const { settings } = engineModels[comparison.engine];
  const { stepTokens, maxSequences, seed } = comparison;
  const sizes = {
    ...(stepTokens === undefined ? {} : { stepTokens }),
    ...(maxSequences === undefined ? {} : { maxSequences }),
  };
  const changes: readonly EngineChange[] =
    comparison.kvTokens.length === 0 ? [sizes] : comparison.kvTokens.map((kvTokens) => ({ ...sizes, kvTokens }));
  return comparison.backends.flatMap((backends) =>
    changes.flatMap((change) => {
      const engine = { ...changed(settings, change), seed: settings.seed + seed };
      const kvTokens = kvTokensOf(engine);
      const ramTokens = ramTokensOf(engine);
      const sized = { backends, kvTokens, ...(ramTokens === 0 ? {} : { ramTokens }) };
      return comparison.scales.map((scale) => ({ setting: { ...sized, scale }, engine }));
    }),
  );
}

function playPolicy(
  policy: ReplayPolicy,
  workload: Workload,
  about: { readonly setting: Setting; readonly engine: EngineSettings; readonly comparison: Comparison },
): PolicyResult {
  const { setting, engine, comparison } = about;
  const { slo } = comparison;
  const router = routerFor(policy, workload, slo);
  const at = (scale: number): PlaySettings => ({
    fleet: { backends: setting.backends, engine, tellsCapacity: false },
    scale,
    slo,
  });
  const figures = play(workload, router, at(setting.scale));
  if (!comparison.capacity) return { policy, ...figures };
  const capacityScale = findCapacity((scale) => {
    return scale === setting.scale ? figures.goodShare : play(workload, router, at(scale)).goodShare;
  }, setting.scale);
  return { policy, ...figures, capacityScale };
}
