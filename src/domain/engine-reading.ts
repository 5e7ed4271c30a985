/**
 * What an engine says of itself at one moment, in one vocabulary for all engines. Values only; `fleet/engine-metrics`
 * reads them, `account/engines` compares them with what warmlane itself saw. Absent is unknown, never 0.
 */

export type FinishKind = 'stop' | 'length' | 'abort' | 'error' | 'other';

/** Numbers that only rise while the engine's process lives. */
export type EngineCounter =
  /** prompt tokens of requests that got as far as their first token, cached ones included */
  | 'promptTokens'
  /** of those, computed anew */
  | 'computedTokens'
  /** of those, taken from the prefix cache */
  | 'cachedTokens'
  | 'generatedTokens'
  /** prompt tokens looked up in the prefix cache, and found there */
  | 'prefixQueries'
  | 'prefixHits'
  | 'preemptions'
  /** speculation: verification steps, tokens proposed, tokens accepted */
  | 'drafts'
  | 'draftTokens'
  | 'acceptedTokens'
  | `finished.${FinishKind}`
  /** sums and counts of the engine's own histograms; seconds */
  | 'ttftSeconds'
  | 'ttftCount'
  | 'itlSeconds'
  | 'itlCount'
  | 'queueSeconds'
  | 'queueCount'
  /** the engine's estimates for one GPU (vLLM with --enable-mfu-metrics) */
  | 'flops'
  | 'readBytes'
  | 'writeBytes';

export type EngineGauge =
  /** requests in its batches or slots */
  | 'running'
  /** requests that it took and hasn't started */
  | 'waiting'
  /** 0 to 1; of several caches the fullest */
  | 'kvUsage';

export interface EngineReading {
  /** Monotonic ms at which it was asked. */
  readonly atMs: number;
  readonly gauges: { readonly [Gauge in EngineGauge]?: number };
  readonly counters: { readonly [Counter in EngineCounter]?: number };
  /** Unix time at which its process began, where it says so. */
  readonly startedSeconds?: number;
}

/** Why there is no reading, for good or until the engine is another process. */
export type NoReading =
  /** `probes.engineMetrics` is off */
  | 'off'
  /** nothing is known of this engine's metrics */
  | 'engine_has_none'
  /** its route is not there, or not for us */
  | 'closed'
  /** it answered with none of the names that are known */
  | 'unreadable';

/** This once nothing could be read; it will be asked again. */
export interface FailedReading {
  /** for people */
  readonly why: string;
  /** Monotonic ms at which it was asked. */
  readonly atMs: number;
}

export type EngineScrape =
  | { readonly kind: 'read'; readonly reading: EngineReading }
  | { readonly kind: 'none'; readonly why: NoReading }
  | ({ readonly kind: 'failed' } & FailedReading);
