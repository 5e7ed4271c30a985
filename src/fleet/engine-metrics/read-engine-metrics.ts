/**
 * From an engine's `/metrics` text to one reading. Pure. Series of several engines or models behind one port are summed;
 * of ranks that compute the same thing together one counts.
 */
import type { EngineCounter, EngineGauge, EngineReading } from '../../domain/engine-reading.ts';
import type { Engine } from '../../domain/names.ts';
import { metricNames, type EngineMetricNames, type MetricSource } from './metric-names.ts';
import { readSamples, type Sample } from './prometheus-text.ts';

/** Labels that tell apart the ranks of one computation (SGLang). */
const rankLabels: ReadonlySet<string> = new Set(['tp_rank', 'pp_rank', 'moe_ep_rank', 'pid']);

/** FLOPs of many years are less. Larger ones are no counts: their sums would end as infinite, and rises as no numbers. */
const largestValue = 1e30;

/** Of Python's client library, so of vLLM and SGLang; in vLLM only where one process serves. */
const startName = 'process_start_time_seconds';

const wanted: ReadonlyMap<Engine, ReadonlySet<string>> = new Map(
  [...metricNames].map(([engine, names]) => [engine, allNames(names).add(startName)]),
);

/** @returns undefined when the text holds nothing that is known of this engine */
export function readEngineMetrics(engine: Engine, text: string, atMs: number): EngineReading | undefined {
  const names = metricNames.get(engine);
  const known = wanted.get(engine);
  if (names === undefined || known === undefined) return undefined;
  const byName = new Map<string, Sample[]>();
  for (const sample of readSamples(text, known).samples) {
    const same = byName.get(sample.name);
    if (same === undefined) byName.set(sample.name, [sample]);
    else same.push(sample);
  }
  const started = byName.get(startName)?.[0]?.value;
  byName.delete(startName);
  if (byName.size === 0) return undefined;
  const gauges: { [Gauge in EngineGauge]?: number } = {};
  for (const [gauge, source] of names.gauges) {
    const values = valuesOf(byName, source);
    if (values !== undefined) gauges[gauge] = gauge === 'kvUsage' ? Math.max(...values) : sum(values);
  }
  const counters: { [Counter in EngineCounter]?: number } = {};
  for (const [counter, source] of names.counters) {
    const values = valuesOf(byName, source);
    if (values !== undefined) counters[counter] = sum(values);
  }
  completePrompt(counters);
  const reading: EngineReading = { atMs, gauges, counters };
  return started === undefined || !(started > 0) ? reading : { ...reading, startedSeconds: started };
}

/** llama.cpp counts computed and cached tokens apart, SGLang all and cached: the third follows. */
function completePrompt(counters: { [Counter in EngineCounter]?: number }): void {
  const { promptTokens, computedTokens, cachedTokens } = counters;
  if (cachedTokens === undefined) return;
  if (promptTokens === undefined && computedTokens !== undefined) counters.promptTokens = computedTokens + cachedTokens;
  if (computedTokens === undefined && promptTokens !== undefined && promptTokens >= cachedTokens)
    counters.computedTokens = promptTokens - cachedTokens;
}

/** One value for each label set, ranks of one computation taken together; undefined without any that makes sense. */
function valuesOf(byName: ReadonlyMap<string, readonly Sample[]>, source: MetricSource): number[] | undefined {
  const { only } = source;
  for (const name of source.names) {
    const groups = new Map<string, number>();
    for (const { labels, value } of byName.get(name) ?? []) {
      if (only !== undefined && labels.get(only[0]) !== only[1]) continue;
      if (!(value >= 0 && value <= largestValue)) continue;
      const key = labels.size === 0 ? '' : groupOf(labels);
      groups.set(key, Math.max(value, groups.get(key) ?? 0));
    }
    if (groups.size > 0) return [...groups.values()];
  }
  return undefined;
}

function groupOf(labels: ReadonlyMap<string, string>): string {
  return JSON.stringify([...labels].filter(([name]) => !rankLabels.has(name)));
}

function allNames(names: EngineMetricNames): Set<string> {
  return new Set([...names.gauges.values(), ...names.counters.values()].flatMap((source) => source.names));
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
