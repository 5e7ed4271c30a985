/**
 * The engines' own counters, from their /metrics page: the truth against which warmlane's counts are held.
 * llama-server moves its counter of generated tokens only when a slot is released, so it is read after an answer's end.
 */

export interface Counters {
  /** prompt tokens that were computed, without those from the cache */
  readonly promptComputed: number;
  readonly promptCached: number;
  readonly generated: number;
  readonly running: number;
  readonly waiting: number;
}

export type CounterNames = Readonly<Record<keyof Counters, string>>;

export const llamaCounterNames: CounterNames = {
  promptComputed: 'llamacpp:prompt_tokens_total',
  promptCached: 'llamacpp:prompt_tokens_cached_total',
  generated: 'llamacpp:tokens_predicted_total',
  running: 'llamacpp:requests_processing',
  waiting: 'llamacpp:requests_deferred',
};

/** vLLM's `prompt_tokens_total` holds the cached ones too, so the computed ones are taken by their source. */
export const vllmCounterNames: CounterNames = {
  promptComputed: 'vllm:prompt_tokens_by_source_total{source="local_compute"}',
  promptCached: 'vllm:prompt_tokens_cached_total',
  generated: 'vllm:generation_tokens_total',
  running: 'vllm:num_requests_running',
  waiting: 'vllm:num_requests_waiting',
};

export async function readCounters(url: string, names: CounterNames): Promise<Counters> {
  const page = await readPage(url);
  const value = (name: string) => sumOf(page, name);
  return {
    promptComputed: value(names.promptComputed),
    promptCached: value(names.promptCached),
    generated: value(names.generated),
    running: value(names.running),
    waiting: value(names.waiting),
  };
}

/** What an engine's histogram has taken in so far, in its own unit. */
export interface Histogram {
  readonly sum: number;
  readonly count: number;
}

/** @param names of the histograms, without `_sum` and `_count` */
export async function readHistograms<Name extends string>(
  url: string,
  names: Readonly<Record<Name, string>>,
): Promise<Readonly<Record<Name, Histogram>>> {
  const page = await readPage(url);
  const entries = Object.entries<string>(names).map(([key, name]) => [
    key,
    { sum: sumOf(page, `${name}_sum`), count: sumOf(page, `${name}_count`) },
  ]);
  return Object.fromEntries(entries) as Record<Name, Histogram>; // the keys are those of `names`
}

async function readPage(url: string): Promise<string> {
  const answer = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(10_000) });
  return answer.text();
}

/** `after` less `before` for what only grows. */
export function moved(
  before: Counters,
  after: Counters,
): Pick<Counters, 'promptComputed' | 'promptCached' | 'generated'> {
  return {
    promptComputed: after.promptComputed - before.promptComputed,
    promptCached: after.promptCached - before.promptCached,
    generated: after.generated - before.generated,
  };
}

/** @throws when the page has no such series: a renamed counter must not read as 0 */
function sumOf(page: string, wanted: string): number {
  const [name = wanted, label = ''] = wanted.replace(/\}$/, '').split('{');
  const values = page
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || (line.startsWith(`${name}{`) && line.includes(label)))
    .map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
  if (values.length === 0) throw new Error(`the engine's /metrics has no ${wanted}`);
  return values.reduce((sum, value) => sum + value, 0);
}
