/** Registers the engines' own figures and the findings with the meter. Holds nothing: all is read at each collection. */
import type { CounterName } from '../../domain/catalogue.ts';
import type { EngineCounter, EngineReading } from '../../domain/engine-reading.ts';
import type { Meter } from './meter.ts';

export interface EngineState {
  readonly backend: string;
  readonly engine: string;
  readonly latest: EngineReading;
  /** What the counters rose by since the start. */
  readonly totals: { readonly [Counter in EngineCounter]?: number };
}

export interface FindingState {
  readonly finding: string;
  readonly backend: string;
  readonly active: boolean;
  readonly count: number;
}

export interface EngineSources {
  readonly engines: () => Iterable<EngineState>;
  readonly findings: () => Iterable<FindingState>;
  readonly nowMs: () => number;
}

const counters = [
  ['warmlane.engine.tokens.prompt', 'promptTokens'],
  ['warmlane.engine.tokens.cached', 'cachedTokens'],
  ['warmlane.engine.tokens.output', 'generatedTokens'],
  ['warmlane.engine.prefix.queries', 'prefixQueries'],
  ['warmlane.engine.prefix.hits', 'prefixHits'],
  ['warmlane.engine.preemptions', 'preemptions'],
  ['warmlane.engine.speculation.drafts', 'drafts'],
  ['warmlane.engine.speculation.draft_tokens', 'draftTokens'],
  ['warmlane.engine.speculation.accepted_tokens', 'acceptedTokens'],
] as const satisfies readonly (readonly [CounterName, EngineCounter])[];

export function registerEngineMetrics(meter: Meter, { engines, findings, nowMs }: EngineSources): void {
  const each = (pick: (state: EngineState) => number | undefined) => () =>
    [...engines()].flatMap((state) => {
      const value = pick(state);
      return value === undefined ? [] : [{ labels: { backend: state.backend, engine: state.engine }, value }];
    });
  meter.gauge(
    'warmlane.engine.requests.running',
    each(({ latest }) => latest.gauges.running),
  );
  meter.gauge(
    'warmlane.engine.requests.waiting',
    each(({ latest }) => latest.gauges.waiting),
  );
  meter.gauge(
    'warmlane.engine.kv.usage',
    each(({ latest }) => latest.gauges.kvUsage),
  );
  meter.gauge(
    'warmlane.engine.reading.age',
    each(({ latest }) => (nowMs() - latest.atMs) / 1000),
  );
  for (const [name, counter] of counters)
    meter.counterFrom(
      name,
      each(({ totals }) => totals[counter]),
    );
  meter.gauge('warmlane.finding.active', () =>
    [...findings()].map(({ finding, backend, active }) => ({ labels: { finding, backend }, value: active ? 1 : 0 })),
  );
  meter.counterFrom('warmlane.findings', () =>
    [...findings()].map(({ finding, backend, count }) => ({ labels: { finding, backend }, value: count })),
  );
}
