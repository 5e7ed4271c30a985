/**
 * The engine's own counters, out of the Prometheus text of vLLM or llama-server: what runs, what was made, what the cache
 * gave. The doctor's proof where an answer itself says nothing. Pure.
 */

export interface EngineCounters {
  readonly running?: number;
  readonly waiting?: number;
  /** vLLM: moves with each step; llama-server: only when a slot is let go. */
  readonly generated?: number;
  /** Prompt tokens looked up in the cache, and found there. */
  readonly lookedUp?: number;
  readonly cached?: number;
}

type Key = keyof EngineCounters;

const vllmNames: Readonly<Record<Key, string>> = {
  running: 'vllm:num_requests_running',
  waiting: 'vllm:num_requests_waiting',
  generated: 'vllm:generation_tokens_total',
  lookedUp: 'vllm:prefix_cache_queries_total',
  cached: 'vllm:prefix_cache_hits_total',
};

const llamaNames: Readonly<Record<Key, string>> = {
  running: 'llamacpp:requests_processing',
  waiting: 'llamacpp:requests_deferred',
  generated: 'llamacpp:tokens_predicted_total',
  lookedUp: 'llamacpp:prompt_tokens_total',
  cached: 'llamacpp:prompt_tokens_cached_total',
};

/** @returns undefined when the text is no engine's */
export function readCounters(text: string): EngineCounters | undefined {
  const names = text.includes('vllm:') ? vllmNames : text.includes('llamacpp:') ? llamaNames : undefined;
  if (names === undefined) return undefined;
  const found: { [K in Key]?: number } = {};
  for (const key of Object.keys(names) as Key[]) {
    // keys of the table above
    const sum = sumOf(text, names[key]);
    if (sum !== undefined) found[key] = sum;
  }
  // llama-server counts what it computed apart from what it found.
  if (names === llamaNames && found.lookedUp !== undefined) found.lookedUp += found.cached ?? 0;
  return found;
}

/** Over all series of that name; undefined when there is none. */
function sumOf(text: string, name: string): number | undefined {
  let sum: number | undefined;
  for (const line of text.split('\n')) {
    if (!line.startsWith(name)) continue;
    const rest = line.slice(name.length);
    if (!/^[{ ]/.test(rest)) continue;
    const value = Number(rest.slice(rest.lastIndexOf(' ') + 1));
    if (Number.isFinite(value)) sum = (sum ?? 0) + value;
  }
  return sum;
}
