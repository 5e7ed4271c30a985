/**
 * The page `/cache`: does the prefix cache work, what of it, and why not more. What may be asked, and the page as lists
 * that are made while they are written. Pure.
 */
import type { WarmBackendState, WarmState } from '../../domain/warm-state.ts';
import { windowNames } from '../window-lengths.ts';
import type { WrongQuery } from '../windows-view.ts';
import type { DivergenceRow } from './divergence-table.ts';
import type { EngineHits } from './engine-hits.ts';
import { type HitPopulation, type HitReading, type HitWindow, joined } from './hit-windows.ts';
import { hitsView } from './hits-view.ts';
import { placeText } from './place-text.ts';

export const cacheParams = ['window', 'backend', 'model'] as const;

const windows: readonly HitWindow[] = [...windowNames, 'start'];

export interface CacheQuery {
  readonly windows: readonly HitWindow[];
  readonly wanted: Partial<HitPopulation>;
}

/** @param query of `cacheParams` only, each once */
export function readCacheQuery(query: URLSearchParams): CacheQuery | WrongQuery {
  const asked = query.get('window');
  const named = windows.find((name) => name === asked || name === `${asked}m` || (asked === '1h' && name === '60m'));
  if (asked !== null && named === undefined)
    return { param: 'window', message: `window must be one of ${windows.join(', ')}` };
  const [backend, model] = [query.get('backend'), query.get('model')];
  return {
    windows: named === undefined ? windows : [named],
    wanted: { ...(backend === null ? {} : { backend }), ...(model === null ? {} : { model }) },
  };
}

export interface CacheSources {
  readonly read: (window: HitWindow, wanted: Partial<HitPopulation>) => readonly HitReading[];
  readonly coveredMs: (window: HitWindow) => number;
  /** backends by name */
  readonly backends: () => readonly string[];
  /** by the engine's own counters */
  readonly engine: (backend: string, window: HitWindow) => EngineHits | undefined;
  readonly divergences: { rows(): readonly DivergenceRow[]; readonly dropped: number };
  readonly warm: (() => WarmState) | undefined;
  readonly nowMs: () => number;
}

const mostPlaces = 50;

export function cachePage({ windows: names, wanted }: CacheQuery, sources: CacheSources): object {
  const { divergences, warm, nowMs } = sources;
  const rows = divergences.rows().filter(({ model }) => wanted.model === undefined || wanted.model === model);
  const worst = rows.toSorted((a, b) => b.lostTokens - a.lostTokens).slice(0, mostPlaces);
  return {
    windows: each(names, (name) => windowView(name, wanted, sources)),
    divergences: each(worst, (row) => rowView(row, nowMs())),
    divergencesLeftOut: rows.length - worst.length + divergences.dropped,
    ...(warm === undefined ? {} : { index: indexView(warm(), wanted) }),
  };
}

/** Made one by one: all at once would hold the streams up. */
function* each<T>(items: readonly T[], view: (item: T) => object): Generator<object, void> {
  for (const item of items) yield view(item);
}

function windowView(window: HitWindow, wanted: Partial<HitPopulation>, sources: CacheSources): object {
  const readings = sources.read(window, wanted);
  const backends = sources.backends().filter((name) => wanted.backend === undefined || wanted.backend === name);
  const engines = backends.flatMap((backend) => {
    const hits = sources.engine(backend, window);
    return hits === undefined ? [] : [{ backend, ...hits }];
  });
  return {
    window,
    coveredMs: sources.coveredMs(window),
    all: hitsView(joined(readings.map(({ sums }) => sums))),
    by: each(readings, ({ backend, model, sums }) => ({ backend, model, ...hitsView(sums) })),
    engines,
  };
}

function rowView(row: DivergenceRow, nowMs: number): object {
  const { model, place, requests, promptTokens, lostTokens, examples, firstMs, lastMs } = row;
  return {
    model,
    place: placeText(place),
    requests,
    promptTokens,
    lostTokens,
    firstAgoMs: nowMs - firstMs,
    lastAgoMs: nowMs - lastMs,
    examples,
  };
}

function indexView(state: WarmState, wanted: Partial<HitPopulation>): object {
  const { entries, maxEntries, bytes, trimmed, backends } = state;
  const named = ({ backend }: WarmBackendState) => wanted.backend === undefined || wanted.backend === backend;
  return { entries, maxEntries, bytes, trimmed, backends: backends.filter(named).map(warmView) };
}

function warmView(state: WarmBackendState): object {
  const { backend, entries, heldTokens, horizonTokens, bias, error, flushes, driftResets, distrusted } = state;
  return {
    backend,
    entries,
    heldTokens,
    ...(horizonTokens === undefined ? {} : { horizonTokens }),
    ...(bias === undefined ? {} : { biasPoints: 100 * bias }),
    ...(error === undefined ? {} : { errorPoints: 100 * error }),
    flushes,
    driftResets,
    ...(distrusted ? { distrusted } : {}),
  };
}
