/**
 * The engines' own counters, from their /metrics pages: what was really taken from the cache, whoever says what.
 * A series that isn't there is an error: a renamed counter must not read as 0.
 */

/** @typedef {'vllm' | 'llama-server'} Dialect */
/**
 * @typedef {object} Counters since the engine's start
 * @property {number} promptTokens of requests that came to their first token
 * @property {number} cachedTokens of them, found in the cache
 * @property {number} generatedTokens
 * @property {number | null} requests that ended well, where the engine counts them
 * @property {number | null} queriedTokens vLLM: looked up in the prefix cache
 * @property {number | null} hitTokens vLLM: found there
 * @property {number} busy requests running or waiting in it
 */

/** @param {string} url origin of the engine @param {Dialect} dialect @returns {Promise<Counters>} */
export async function readCounters(url, dialect) {
  const answer = await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(10_000) });
  const page = await answer.text();
  const value = (/** @type {string} */ name) => sumOf(page, name);
  if (dialect === 'vllm')
    return {
      promptTokens: value('vllm:prompt_tokens_total'),
      cachedTokens: value('vllm:prompt_tokens_cached_total'),
      generatedTokens: value('vllm:generation_tokens_total'),
      requests: value('vllm:request_success_total'),
      queriedTokens: value('vllm:prefix_cache_queries_total'),
      hitTokens: value('vllm:prefix_cache_hits_total'),
      busy: value('vllm:num_requests_running') + value('vllm:num_requests_waiting'),
    };
  const cachedTokens = value('llamacpp:prompt_tokens_cached_total');
  return {
    // It counts what was computed and what was cached apart.
    promptTokens: value('llamacpp:prompt_tokens_total') + cachedTokens,
    cachedTokens,
    generatedTokens: value('llamacpp:tokens_predicted_total'),
    requests: null,
    queriedTokens: null,
    hitTokens: null,
    busy: value('llamacpp:requests_processing') + value('llamacpp:requests_deferred'),
  };
}

/** @param {string} page @param {string} name */
function sumOf(page, name) {
  const values = page
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .map((line) => Number(line.slice(line.lastIndexOf(' ') + 1)));
  if (values.length === 0) throw new Error(`the engine's /metrics has no ${name}`);
  return values.reduce((sum, each) => sum + each, 0);
}
