/**
 * Facts of llama.cpp's `llama-server`. Asks `/props` only, which never wakes a sleeping one; `/slots` and `/metrics`
 * would, and `/metrics` resets gauges that another scraper may read.
 */
import { noMetrics, noSlots } from '../advice.ts';
import { jsonOf, known, type Ask, type EngineReading, type ModelList } from '../facts.ts';
import { asObject, countOf, flagOf, listIn, textOf } from '../json-fields.ts';
import { isFailure, type ProbeResult } from '../probe-port.ts';

export async function readLlamaServer(ask: Ask, models: ModelList | undefined): Promise<EngineReading> {
  const answer = await ask('/props');
  const props = jsonOf(answer);
  const router = textOf(props, 'role') === 'router';
  const slotsOpen = flagOf(props, 'endpoint_slots') !== false;
  const advice: string[] = [];
  if (flagOf(props, 'endpoint_metrics') === false) advice.push(noMetrics);
  if (!slotsOpen) advice.push(noSlots);
  const generation = asObject(props?.['default_generation_settings']);
  return {
    facts: known({
      version: textOf(props, 'build_info'),
      models: models?.ids,
      slots: router ? undefined : countOf(props, 'total_slots'),
      contextTokens: router ? undefined : (countOf(generation, 'n_ctx') ?? models?.contextTokens),
      modelSize: router ? undefined : models?.modelSize,
      router,
      slotsReadable: props !== undefined && !router && slotsOpen,
      advice,
    }),
    decisive: [answer],
  };
}

/**
 * Slots that work on something now; undefined when that can't be known. A sleeping server works on nothing, and is asked
 * no further: `/slots` would wake it.
 */
export async function readBusySlots(ask: Ask): Promise<number | undefined> {
  const props = jsonOf(await ask('/props'));
  if (props === undefined) return undefined;
  return flagOf(props, 'is_sleeping') === true ? 0 : countBusySlots(await ask('/slots'));
}

function countBusySlots(answer: ProbeResult): number | undefined {
  const slots = isFailure(answer) || answer.status !== 200 ? undefined : listIn(answer.body);
  if (slots === undefined || !slots.every((slot) => flagOf(asObject(slot), 'is_processing') !== undefined))
    return undefined;
  return slots.filter((slot) => flagOf(asObject(slot), 'is_processing')).length;
}
