/**
 * Finds out who answers at the URL, by routes that generate nothing: engine, facts, models, gateways on the way; and how
 * its counters can be read. Effects only; what it means is said in `identity.ts`.
 */
import { boundedAsk, detect } from '../../fleet/detect.ts';
import { jsonOf, type Ask, type BackendFacts } from '../../fleet/facts.ts';
import { asObject, listOf, textOf } from '../../fleet/json-fields.ts';
import { labelsOf } from '../../fleet/metric-labels.ts';
import { createProbeFetch } from '../../fleet/probe-fetch.ts';
import { isFailure, type ProbeResult } from '../../fleet/probe-port.ts';
import type { ProbeOutcome } from '../../fleet/health.ts';
import type { Clock } from '../../platform/clock.ts';
import { readCounters, type EngineCounters } from './counters.ts';
import { gatewaysIn, type Gateway } from './gateways.ts';

export interface ListedModel {
  readonly id: string;
  /** vLLM: the model that this is an adapter of. */
  readonly parent?: string;
  readonly root?: string;
}

export interface Endpoint {
  readonly url: string;
  readonly outcome: ProbeOutcome;
  readonly facts: BackendFacts | undefined;
  readonly models: readonly ListedModel[];
  readonly gateways: readonly Gateway[];
  /** `Date` of the answer less the clock here, in ms; seconds are all that the header tells. */
  readonly clockSkewMs?: number;
  /** Labels of vLLM's cache configuration. */
  readonly cacheConfig?: ReadonlyMap<string, string>;
  /** Adapters that llama-server has loaded. */
  readonly loraAdapters: number;
  /** What its listing of models answered. */
  readonly listing: ProbeResult;
  /** Status of `/metrics`; absent: no answer. */
  readonly metricsStatus?: number;
  /** undefined: no engine's counters can be read there. */
  counters(timeoutMs?: number): Promise<EngineCounters | undefined>;
}

const probeMs = 5000;

export async function lookAt(
  { url, apiKey }: { readonly url: string; readonly apiKey?: string },
  clock: Clock,
): Promise<Endpoint> {
  const fetch = createProbeFetch({ url, ...(apiKey === undefined ? {} : { apiKey }) }, clock);
  const ask: Ask = (path) => fetch(path, { timeoutMs: probeMs });
  const { outcome, facts } = await detect(boundedAsk(fetch, clock, { timeoutMs: 2 * probeMs }), {});
  const listing = await ask('/v1/models');
  const gone = isFailure(listing);
  const metrics = gone ? undefined : await ask('/metrics');
  // A gateway may answer the listing itself, without a Via, and pass on the rest.
  const passed = metrics === undefined || isFailure(metrics) ? {} : metrics.headers;
  const text = metrics === undefined || isFailure(metrics) || metrics.status !== 200 ? '' : metrics.body;
  const config = labelsOf(text, 'vllm:cache_config_info')[0];
  const date = gone ? Number.NaN : Date.parse(listing.headers['date'] ?? '');
  const adapters = facts?.engine === 'llama-server' ? await ask('/lora-adapters') : undefined;
  return {
    url,
    outcome,
    facts,
    listing,
    models: modelsIn(listing),
    gateways: gone ? [] : gatewaysIn({ ...passed, ...listing.headers }),
    loraAdapters: adapters === undefined || isFailure(adapters) ? 0 : countIn(adapters.body),
    ...(Number.isNaN(date) ? {} : { clockSkewMs: date - clock.wallMs() }),
    ...(config === undefined ? {} : { cacheConfig: config }),
    ...(metrics === undefined || isFailure(metrics) ? {} : { metricsStatus: metrics.status }),
    async counters(timeoutMs = probeMs) {
      const answer = await fetch('/metrics', { timeoutMs: Math.min(probeMs, timeoutMs) });
      return isFailure(answer) || answer.status !== 200 ? undefined : readCounters(answer.body);
    },
  };
}

function modelsIn(listing: ProbeResult): readonly ListedModel[] {
  const data = listOf(jsonOf(listing), 'data') ?? [];
  return data.flatMap((entry) => {
    const object = asObject(entry);
    const id = textOf(object, 'id');
    if (id === undefined) return [];
    const parent = textOf(object, 'parent');
    const root = textOf(object, 'root');
    return [{ id, ...(parent === undefined ? {} : { parent }), ...(root === undefined ? {} : { root }) }];
  });
}

function countIn(body: string): number {
  try {
    const list: unknown = JSON.parse(body);
    return Array.isArray(list) ? list.length : 0;
  } catch {
    // Not a list: a route that isn't there.
    return 0;
  }
}
