/**
 * From what the experiment saw to what the cache is: what is kept, in which portions, who may use it, what it saves. Where
 * hits are reported they decide; else times to first token do, and say "can't tell" sooner than guess. Pure.
 */
import { compareGroups, spreadOf, type Spread } from '../statistics.ts';
import { granularityOf, type Granularity, type HitPair } from './granularity.ts';
import { only, timesOf, type Observation, type Source, type Step } from './observation.ts';

export type Hit = 'hit' | 'miss' | 'unclear' | 'untried';

export type CacheKind =
  /** whatever begins alike */
  | 'prefixes'
  /** the same prompt, or one that continues it: what stands behind the first difference spoils all */
  | 'growing'
  /** only the very same prompt */
  | 'whole_prompts'
  | 'none'
  | 'unknown';

export interface CacheReading {
  readonly kind: CacheKind;
  /** How it was found out. */
  readonly by: 'counts' | 'times';
  readonly sources: readonly Source[];
  readonly granularity: Granularity;
  readonly hits: Readonly<Record<'repeat' | 'prefix' | 'continuation' | 'session' | 'concurrent' | 'displaced', Hit>>;
  /** Repetitions of the same prompt that hit, of those tried: not all where several servers take turns. */
  readonly repeats: { readonly hit: number; readonly tried: number };
  /** Reported hits on a prompt that differs from its first word on, past what fresh prompts have. */
  readonly changedFirst: { readonly hit: Hit; readonly cached?: number; readonly shared?: number };
  readonly otherModel: { readonly hit: Hit; readonly cached?: number };
  readonly tools: ToolReading;
  readonly ttft: { readonly first?: number; readonly resident?: Spread; readonly hit?: Spread };
  /** What a hit saves, if the two are clearly apart. */
  readonly savedMs?: number;
}

export interface ToolReading {
  readonly state: 'untried' | 'refused' | 'ignored' | 'used';
  readonly same?: number;
  readonly reordered?: number;
}

export function interpret(observations: readonly Observation[]): CacheReading {
  const counted = only(observations, 'fresh').some(({ cached }) => cached !== undefined);
  const hitOf = counted ? hitByCounts(observations) : hitByTimes(observations);
  const hits = {
    repeat: hitOf('repeat'),
    prefix: hitOf('prefix'),
    continuation: hitOf('continuation'),
    session: hitOf('session'),
    concurrent: hitOf('concurrent'),
    displaced: hitOf('displaced'),
  };
  const resident = spreadOf(timesOf(observations, 'fresh'));
  const hit = spreadOf(hits.repeat === 'hit' ? timesOf(hitRepeats(observations, counted), 'repeat') : []);
  const [first] = timesOf(observations, 'first');
  const apart =
    hit !== undefined && compareGroups(timesOf(observations, 'repeat'), timesOf(observations, 'fresh')) === 'below';
  return {
    kind: kindOf(hits),
    by: counted ? 'counts' : 'times',
    sources: [...new Set(observations.flatMap(({ sources }) => sources))],
    granularity: counted ? granularityOf(pairsOf(observations)) : { kind: 'unclear' },
    hits,
    repeats: repeatsOf(observations, counted),
    changedFirst: { hit: hitOf('changed_first'), ...changedOf(observations, counted) },
    otherModel: { hit: hitOf('other_model'), ...cachedOf(observations, 'other_model') },
    tools: toolsOf(observations),
    ttft: {
      ...(first === undefined ? {} : { first }),
      ...(resident === undefined ? {} : { resident }),
      ...(hit === undefined ? {} : { hit }),
    },
    ...(apart && resident !== undefined ? { savedMs: resident.median - hit.median } : {}),
  };
}

function kindOf({ repeat, prefix, continuation }: CacheReading['hits']): CacheKind {
  if (prefix === 'hit') return 'prefixes';
  if (prefix === 'unclear' || repeat === 'unclear' || repeat === 'untried') return 'unknown';
  if (continuation === 'hit') return 'growing';
  if (repeat === 'hit') return prefix === 'miss' ? 'whole_prompts' : 'unknown';
  return 'none';
}

/** Fewer tokens than this are the template's, which all prompts share. */
const leastGain = 8;

/** Most that a prompt with a new first word has: the template's part before it. */
function baselineOf(observations: readonly Observation[]): number {
  return Math.max(0, ...only(observations, 'fresh').map(({ cached }) => cached ?? 0));
}

function isHit({ cached }: Observation, baseline: number): boolean {
  return cached !== undefined && cached >= baseline + leastGain;
}

function hitByCounts(observations: readonly Observation[]): (step: Step) => Hit {
  const baseline = baselineOf(observations);
  return (step) => {
    const seen = only(observations, step).filter(({ cached }) => cached !== undefined);
    if (seen.length === 0) return 'untried';
    return seen.some((one) => isHit(one, baseline)) ? 'hit' : 'miss';
  };
}

function hitByTimes(observations: readonly Observation[]): (step: Step) => Hit {
  const fresh = timesOf(observations, 'fresh');
  // An engine too quick for a long prompt to show in its time could hide any cache.
  const visible = compareGroups(timesOf(observations, 'short'), fresh) === 'below';
  return (step) => {
    const times = timesOf(observations, step);
    if (times.length === 0) return 'untried';
    const comparison = compareGroups(times, fresh);
    if (comparison === 'below') return 'hit';
    return comparison === 'alike' && visible ? 'miss' : 'unclear';
  };
}

/** Where hits are counted, only those repetitions that were hits. */
function hitRepeats(observations: readonly Observation[], counted: boolean): readonly Observation[] {
  if (!counted) return observations;
  const baseline = baselineOf(observations);
  return observations.filter((seen) => seen.step !== 'repeat' || isHit(seen, baseline));
}

function repeatsOf(observations: readonly Observation[], counted: boolean): CacheReading['repeats'] {
  const tried = only(observations, 'repeat').filter(({ cached }) => !counted || cached !== undefined);
  if (!counted) return { hit: 0, tried: tried.length };
  const baseline = baselineOf(observations);
  return { hit: tried.filter((one) => isHit(one, baseline)).length, tried: tried.length };
}

/** What was hit, beside what could have been. */
export function pairsOf(observations: readonly Observation[]): readonly HitPair[] {
  return (['prefix', 'repeat'] as const).flatMap((step) =>
    only(observations, step).flatMap(({ cached, shared, promptTokens }) => {
      if (cached === undefined) return [];
      if (step === 'prefix') return [{ cached, ...(shared === undefined ? {} : { shared }) }];
      // Of the same prompt at least the last token is computed.
      return promptTokens === undefined
        ? [{ cached }]
        : [{ cached, shared: { tokens: promptTokens - 1, exact: true } }];
    }),
  );
}

function cachedOf(observations: readonly Observation[], step: Step): { readonly cached?: number } {
  const cached = only(observations, step).find((seen) => seen.cached !== undefined)?.cached;
  return cached === undefined ? {} : { cached };
}

function changedOf(observations: readonly Observation[], counted: boolean) {
  if (!counted) return {};
  const seen = only(observations, 'changed_first').find(({ cached }) => cached !== undefined);
  return {
    ...(seen?.cached === undefined ? {} : { cached: seen.cached }),
    ...(seen?.shared?.exact === true ? { shared: seen.shared.tokens } : {}),
  };
}

function toolsOf(observations: readonly Observation[]): ToolReading {
  const tried = observations.filter(({ step }) => step === 'tools');
  if (tried.length === 0) return { state: 'untried' };
  const [tools] = only(observations, 'tools');
  if (tools === undefined) return { state: 'refused' };
  const without = only(observations, 'no_tools')[0]?.promptTokens;
  if (without !== undefined && tools.promptTokens !== undefined && tools.promptTokens <= without + leastGain)
    return { state: 'ignored' };
  const same = cachedOf(observations, 'tools_same').cached;
  const reordered = cachedOf(observations, 'tools_reordered').cached;
  return {
    state: 'used',
    ...(same === undefined ? {} : { same }),
    ...(reordered === undefined ? {} : { reordered }),
  };
}
