/**
 * The page `/engines`: each engine's own account beside warmlane's, now and over windows. What differs is foreign traffic,
 * the network, or something that doesn't report. Pure.
 */
import type { EngineReading, FailedReading, NoReading } from '../../domain/engine-reading.ts';
import { windowLengths, windowNames } from '../window-lengths.ts';
import { mergePoints, type EnginePoint } from './engine-point.ts';
import type { EngineSeries } from './engine-series.ts';
import type { OwnTraffic } from './own-traffic.ts';

export interface EngineRow {
  readonly backend: string;
  readonly engine: string;
  readonly series: EngineSeries | undefined;
  readonly traffic: OwnTraffic | undefined;
  readonly noReading: NoReading | undefined;
  /** The last try came to nothing. */
  readonly failing: FailedReading | undefined;
  /** Engine places that own requests hold now. */
  readonly ownRunning: number;
}

const reasons: Readonly<Record<NoReading, string>> = {
  off: 'switched off by probes.engineMetrics',
  engine_has_none: "nothing is known of this engine's metrics",
  closed:
    'its /metrics does not answer (llama-server: start it with --metrics; SGLang: --enable-metrics); not asked again',
  unreadable: 'its /metrics holds none of the known names (a web page, say); not asked again',
};

/** @param withPoints each window's readings too */
export function enginesPage(
  rows: Iterable<EngineRow>,
  nowMs: () => number,
  withPoints: boolean,
): { readonly engines: Iterable<object> } {
  return { engines: rowsOf(rows, nowMs, withPoints) };
}

/** Each is made when it is asked for: all at once would hold the streams up. */
function* rowsOf(rows: Iterable<EngineRow>, nowMs: () => number, withPoints: boolean): Generator<object, void> {
  for (const row of rows) yield engineRow(row, nowMs(), withPoints);
}

function engineRow(
  { backend, engine, series, traffic, noReading, failing, ownRunning }: EngineRow,
  nowMs: number,
  withPoints: boolean,
): object {
  const latest = series?.latest();
  const alone = {
    now: { here: { running: ownRunning } },
    ...(traffic === undefined ? {} : { windows: byWindow((ms) => ownWindowOf(traffic, nowMs, ms)) }),
  };
  if (noReading !== undefined) return { backend, engine, metrics: 'none', why: reasons[noReading], ...alone };
  const failed = failing === undefined ? undefined : { why: failing.why, ageMs: nowMs - failing.atMs };
  if (series === undefined || latest === undefined)
    return { backend, engine, metrics: failed === undefined ? 'not read yet' : 'failing', failed, ...alone };
  const points = series.points();
  return {
    backend,
    engine,
    metrics: 'read',
    ageMs: nowMs - latest.atMs,
    failed,
    now: { there: gaugesOf(latest.gauges), here: { running: ownRunning } },
    windows: byWindow((ms) => windowOf(points, nowMs, ms)),
    /** Since warmlane began to read; restarts of the engine are passed over. */
    totals: series.totals(),
    ...(withPoints ? { points: points.map((point) => pointOf(point, nowMs)) } : {}),
  };
}

function byWindow(view: (ms: number) => object | undefined): object {
  return Object.fromEntries(windowNames.map((name) => [name, view(windowLengths[name])]));
}

/** Where nothing is read there: requests count when they end. */
function ownWindowOf(traffic: OwnTraffic, nowMs: number, ms: number): object {
  const { overMs, sums } = traffic.view(nowMs, ms);
  const { promptTokens, cachedTokens } = sums.cache;
  return { overMs, here: hereOf({ ...sums, cachedTokens, cachedOfTokens: promptTokens }, overMs) };
}

type HereSums = Pick<
  EnginePoint['own'],
  'requests' | 'promptTokens' | 'outputTokens' | 'cachedTokens' | 'cachedOfTokens' | 'ttftMs' | 'ttftCount' | 'blind'
>;

function hereOf(own: HereSums, overMs: number) {
  const told = own.cachedOfTokens > 0;
  return {
    requests: own.requests,
    promptTokens: own.promptTokens,
    // Of answers that told; where none did, it is unknown, not 0.
    cachedTokens: told ? own.cachedTokens : undefined,
    cachedOfTokens: told ? own.cachedOfTokens : undefined,
    cachedPercent: percent(told ? own.cachedTokens : undefined, own.cachedOfTokens),
    outputTokens: own.outputTokens,
    outputTokensPerSecond: ratio(own.outputTokens, overMs / 1000),
    promptTokensPerSecond: ratio(own.promptTokens, overMs / 1000),
    upstreamTtftMs: ratio(own.ttftMs, own.ttftCount),
    // Aborted, failed, unread or estimated requests may have cost more than is known.
    certain: own.blind === 0,
  };
}

function windowOf(points: readonly EnginePoint[], nowMs: number, ms: number): object | undefined {
  const within = points.filter(({ toMs }) => toMs > nowMs - ms);
  // Nothing is known of the moments around a restart: with them, nothing would be of the rest.
  const [first, ...others] = within.filter(({ restarted }) => !restarted);
  if (first === undefined) return undefined;
  const all = others.reduce(mergePoints, first);
  const overMs = others.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, first.toMs - first.fromMs);
  const seconds = overMs / 1000;
  const { own, deltas } = all;
  return {
    overMs,
    ...(within.some(({ restarted }) => restarted) ? { restarted: true } : {}),
    there: {
      ...deltas,
      outputTokensPerSecond: ratio(deltas.generatedTokens, seconds),
      promptTokensPerSecond: ratio(deltas.promptTokens, seconds),
      cachedPercent: percent(deltas.cachedTokens, deltas.promptTokens),
      prefixHitPercent: percent(deltas.prefixHits, deltas.prefixQueries),
      ttftMs: inMs(deltas.ttftSeconds, deltas.ttftCount),
      itlMs: inMs(deltas.itlSeconds, deltas.itlCount),
      queueMs: inMs(deltas.queueSeconds, deltas.queueCount),
      acceptedPercent: percent(deltas.acceptedTokens, deltas.draftTokens),
      mostRunning: all.running,
      mostWaiting: all.waiting,
      mostKvUsedPercent: percent(all.kvUsage, 1),
    },
    here: { ...hereOf(own, overMs), mostRunning: all.ownRunning },
  };
}

function gaugesOf({ kvUsage, ...gauges }: EngineReading['gauges']): object {
  return { ...gauges, kvUsedPercent: percent(kvUsage, 1) };
}

function pointOf(point: EnginePoint, nowMs: number): object {
  const { fromMs, toMs, kvUsage, ...rest } = point;
  return { agoMs: nowMs - toMs, overMs: toMs - fromMs, kvUsedPercent: percent(kvUsage, 1), ...rest };
}

function percent(part: number | undefined, of: number | undefined): number | undefined {
  const share = ratio(part, of);
  return share === undefined ? undefined : 100 * share;
}

function ratio(of: number | undefined, by: number | undefined): number | undefined {
  return of === undefined || by === undefined || by <= 0 ? undefined : of / by;
}

function inMs(seconds: number | undefined, count: number | undefined): number | undefined {
  const mean = ratio(seconds, count);
  return mean === undefined ? undefined : 1000 * mean;
}
