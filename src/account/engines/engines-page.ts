/**
 * The page `/engines`: each engine's own account beside warmlane's, now and over windows. What differs is foreign traffic,
 * the network, or something that doesn't report. Pure.
 */
import type { NoReading } from '../../domain/engine-reading.ts';
import { mergePoints, type EnginePoint } from './engine-point.ts';
import type { EngineSeries } from './engine-series.ts';

export interface EngineRow {
  readonly backend: string;
  readonly engine: string;
  readonly series: EngineSeries | undefined;
  readonly noReading: NoReading | undefined;
  /** Engine places that own requests hold now. */
  readonly ownRunning: number;
}

const windows: readonly (readonly [string, number])[] = [
  ['1m', 60_000],
  ['5m', 300_000],
  ['60m', 3_600_000],
];

const reasons: Readonly<Record<NoReading, string>> = {
  off: 'switched off by probes.engineMetrics',
  engine_has_none: "nothing is known of this engine's metrics",
  closed:
    'its /metrics does not answer (llama-server: start it with --metrics; SGLang: --enable-metrics); not asked again',
  unreadable: 'its /metrics holds none of the known names; not asked again',
};

/** @param withPoints each window's readings too */
export function enginesPage(rows: readonly EngineRow[], nowMs: number, withPoints: boolean): object {
  return { engines: rows.map((row) => engineRow(row, nowMs, withPoints)) };
}

function engineRow(
  { backend, engine, series, noReading, ownRunning }: EngineRow,
  nowMs: number,
  withPoints: boolean,
): object {
  const latest = series?.latest();
  if (noReading !== undefined)
    return { backend, engine, metrics: 'none', why: reasons[noReading], here: { running: ownRunning } };
  if (series === undefined || latest === undefined)
    return { backend, engine, metrics: 'not read yet', here: { running: ownRunning } };
  const points = series.points();
  return {
    backend,
    engine,
    metrics: 'read',
    ageMs: nowMs - latest.atMs,
    now: { there: latest.gauges, here: { running: ownRunning } },
    windows: Object.fromEntries(windows.map(([name, ms]) => [name, windowOf(points, nowMs, ms)])),
    /** Since warmlane began to read; restarts of the engine are passed over. */
    totals: series.totals(),
    ...(withPoints ? { points: points.map((point) => pointOf(point, nowMs)) } : {}),
  };
}

function windowOf(points: readonly EnginePoint[], nowMs: number, ms: number): object | undefined {
  const within = points.filter(({ toMs }) => toMs > nowMs - ms);
  const [first, ...others] = within;
  if (first === undefined) return undefined;
  const all = others.reduce(mergePoints, first);
  const seconds = (all.toMs - all.fromMs) / 1000;
  const { own, deltas } = all;
  return {
    overMs: all.toMs - all.fromMs,
    ...(all.restarted ? { restarted: true } : {}),
    there: {
      ...deltas,
      outputTokensPerSecond: ratio(deltas.generatedTokens, seconds),
      promptTokensPerSecond: ratio(deltas.promptTokens, seconds),
      cachedShare: ratio(deltas.cachedTokens, deltas.promptTokens),
      prefixHitShare: ratio(deltas.prefixHits, deltas.prefixQueries),
      ttftMs: inMs(deltas.ttftSeconds, deltas.ttftCount),
      itlMs: inMs(deltas.itlSeconds, deltas.itlCount),
      queueMs: inMs(deltas.queueSeconds, deltas.queueCount),
      acceptance: ratio(deltas.acceptedTokens, deltas.draftTokens),
      mostRunning: all.running,
      mostWaiting: all.waiting,
      highestKvUsage: all.kvUsage,
    },
    here: {
      requests: own.requests,
      promptTokens: own.promptTokens,
      cachedTokens: own.cachedOfTokens > 0 ? own.cachedTokens : undefined,
      outputTokens: own.outputTokens,
      outputTokensPerSecond: ratio(own.outputTokens, seconds),
      promptTokensPerSecond: ratio(own.promptTokens, seconds),
      cachedShare: ratio(own.cachedOfTokens > 0 ? own.cachedTokens : undefined, own.cachedOfTokens),
      upstreamTtftMs: ratio(own.ttftMs, own.ttftCount),
      mostRunning: all.ownRunning,
      // Aborted, failed, unread or estimated requests may have cost more than is known.
      certain: own.blind === 0,
    },
  };
}

function pointOf(point: EnginePoint, nowMs: number): object {
  const { fromMs, toMs, ...rest } = point;
  return { agoMs: nowMs - toMs, overMs: toMs - fromMs, ...rest };
}

function ratio(of: number | undefined, by: number | undefined): number | undefined {
  return of === undefined || by === undefined || by <= 0 ? undefined : of / by;
}

function inMs(seconds: number | undefined, count: number | undefined): number | undefined {
  const mean = ratio(seconds, count);
  return mean === undefined ? undefined : 1000 * mean;
}
