/**
 * Which series of each engine's `/metrics` says what, old names and new. Tables only.
 *
 * vLLM: `gpu_cache_usage_perc`, `gpu_prefix_cache_*` and `time_per_output_token_seconds` are the names before 0.10.
 * llama.cpp: `kv_cache_usage_ratio` is gone from newer builds; `prompt_tokens_seconds` and `predicted_tokens_seconds` are
 * averages since anybody's last scrape, so they are nobody's truth and stay unread, as does `n_tokens_max`, a high-water
 * mark that calls itself a counter.
 * SGLang: `spec_verify_calls_total` counts verification steps.
 */
import type { EngineCounter, EngineGauge } from '../../domain/engine-reading.ts';
import type { Engine } from '../../domain/names.ts';

export interface MetricSource {
  /** The first of these that is there is taken. */
  readonly names: readonly string[];
  /** Only series with this label. */
  readonly only?: readonly [label: string, value: string];
}

export interface EngineMetricNames {
  readonly gauges: ReadonlyMap<EngineGauge, MetricSource>;
  readonly counters: ReadonlyMap<EngineCounter, MetricSource>;
}

const named = (...names: string[]): MetricSource => ({ names });

const vllmFinished = (reason: string): MetricSource => ({
  names: ['vllm:request_success_total'],
  only: ['finished_reason', reason],
});

const vllm: EngineMetricNames = {
  gauges: new Map<EngineGauge, MetricSource>([
    ['running', named('vllm:num_requests_running')],
    ['waiting', named('vllm:num_requests_waiting')],
    ['kvUsage', named('vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc')],
  ]),
  counters: new Map<EngineCounter, MetricSource>([
    ['promptTokens', named('vllm:prompt_tokens_total')],
    ['computedTokens', { names: ['vllm:prompt_tokens_by_source_total'], only: ['source', 'local_compute'] }],
    ['cachedTokens', named('vllm:prompt_tokens_cached_total')],
    ['generatedTokens', named('vllm:generation_tokens_total')],
    ['prefixQueries', named('vllm:prefix_cache_queries_total', 'vllm:gpu_prefix_cache_queries_total')],
    ['prefixHits', named('vllm:prefix_cache_hits_total', 'vllm:gpu_prefix_cache_hits_total')],
    ['preemptions', named('vllm:num_preemptions_total')],
    ['drafts', named('vllm:spec_decode_num_drafts_total')],
    ['draftTokens', named('vllm:spec_decode_num_draft_tokens_total')],
    ['acceptedTokens', named('vllm:spec_decode_num_accepted_tokens_total')],
    ['finished.stop', vllmFinished('stop')],
    ['finished.length', vllmFinished('length')],
    ['finished.abort', vllmFinished('abort')],
    ['finished.error', vllmFinished('error')],
    ['finished.other', vllmFinished('repetition')],
    ['ttftSeconds', named('vllm:time_to_first_token_seconds_sum')],
    ['ttftCount', named('vllm:time_to_first_token_seconds_count')],
    ['itlSeconds', named('vllm:inter_token_latency_seconds_sum', 'vllm:time_per_output_token_seconds_sum')],
    ['itlCount', named('vllm:inter_token_latency_seconds_count', 'vllm:time_per_output_token_seconds_count')],
    ['queueSeconds', named('vllm:request_queue_time_seconds_sum')],
    ['queueCount', named('vllm:request_queue_time_seconds_count')],
    ['flops', named('vllm:estimated_flops_per_gpu_total')],
    ['readBytes', named('vllm:estimated_read_bytes_per_gpu_total')],
    ['writeBytes', named('vllm:estimated_write_bytes_per_gpu_total')],
  ]),
};

const llamaServer: EngineMetricNames = {
  gauges: new Map<EngineGauge, MetricSource>([
    ['running', named('llamacpp:requests_processing')],
    ['waiting', named('llamacpp:requests_deferred')],
    ['kvUsage', named('llamacpp:kv_cache_usage_ratio')],
  ]),
  counters: new Map<EngineCounter, MetricSource>([
    ['computedTokens', named('llamacpp:prompt_tokens_total')],
    ['cachedTokens', named('llamacpp:prompt_tokens_cached_total')],
    ['generatedTokens', named('llamacpp:tokens_predicted_total')],
    ['drafts', named('llamacpp:spec_decode_num_drafts_total')],
    ['draftTokens', named('llamacpp:spec_decode_num_draft_tokens_total')],
    ['acceptedTokens', named('llamacpp:spec_decode_num_accepted_tokens_total')],
  ]),
};

const sglang: EngineMetricNames = {
  gauges: new Map<EngineGauge, MetricSource>([
    ['running', named('sglang:num_running_reqs')],
    ['waiting', named('sglang:num_queue_reqs')],
    ['kvUsage', named('sglang:token_usage')],
  ]),
  counters: new Map<EngineCounter, MetricSource>([
    ['promptTokens', named('sglang:prompt_tokens_total')],
    ['cachedTokens', named('sglang:cached_tokens_total')],
    ['generatedTokens', named('sglang:generation_tokens_total')],
    ['drafts', named('sglang:spec_verify_calls_total')],
    ['finished.abort', named('sglang:num_aborted_requests_total')],
    ['ttftSeconds', named('sglang:time_to_first_token_seconds_sum')],
    ['ttftCount', named('sglang:time_to_first_token_seconds_count')],
    ['itlSeconds', named('sglang:inter_token_latency_seconds_sum', 'sglang:time_per_output_token_seconds_sum')],
    ['itlCount', named('sglang:inter_token_latency_seconds_count', 'sglang:time_per_output_token_seconds_count')],
    ['queueSeconds', named('sglang:queue_time_seconds_sum')],
    ['queueCount', named('sglang:queue_time_seconds_count')],
  ]),
};

/** An engine that isn't here: nothing is known of its metrics. */
export const metricNames: ReadonlyMap<Engine, EngineMetricNames> = new Map([
  ['vllm', vllm],
  ['llama-server', llamaServer],
  ['sglang', sglang],
]);
