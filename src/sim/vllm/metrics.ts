/**
 * vLLM's `/metrics`: names, labels, buckets and number format of version 0.32, filled from what the simulated engine did.
 * Aborted requests are counted nowhere, as on the real server.
 */
import type { Engine } from '../engine.ts';
import { createHistogram, pythonNumber, type Histogram } from '../histogram.ts';
import type { SequenceEnd } from '../sequence.ts';

export interface VllmMetrics {
  /** A token came: `gapMs` since the one before of the same choice, or since the request's arrival for the first. */
  token(index: number, gapMs: number): void;
  /** A choice ended well; `arrivedMs` is when the request reached the HTTP server. */
  ended(end: SequenceEnd, arrivedMs: number): void;
  rejected(): void;
  step(tokens: number): void;
  render(engine: Engine): string;
}

export interface VllmMetricsSettings {
  readonly model: string;
  /** Wall clock at the start, seconds. */
  readonly startedSeconds: number;
  readonly blockTokens: number;
  readonly blocks: number;
  readonly prefixCaching: boolean;
}

const ttftBounds = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
const itlBounds = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const requestBounds = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680];
const stepBounds = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const tokenBounds = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000];

const histogramTable = {
  'vllm:time_to_first_token_seconds': ['Time to first token, from arrival.', ttftBounds],
  'vllm:inter_token_latency_seconds': ['Time between two tokens of one request.', itlBounds],
  'vllm:request_time_per_output_token_seconds': ['Decode time by output tokens less one.', itlBounds],
  'vllm:e2e_request_latency_seconds': ['Time from arrival to the last token.', requestBounds],
  'vllm:request_queue_time_seconds': ['Time in the waiting queue.', requestBounds],
  'vllm:request_prefill_time_seconds': ['Time from schedule to first token.', requestBounds],
  'vllm:request_decode_time_seconds': ['Time from first to last token.', requestBounds],
  'vllm:request_inference_time_seconds': ['Time from schedule to last token.', requestBounds],
  'vllm:request_prompt_tokens': ['Prompt tokens of a request.', tokenBounds],
  'vllm:request_generation_tokens': ['Output tokens of a request.', tokenBounds],
  'vllm:iteration_tokens_total': ['Tokens of one engine step.', stepBounds],
} as const;

type HistogramName = keyof typeof histogramTable;

export function createVllmMetrics(settings: VllmMetricsSettings): VllmMetrics {
  const names = Object.keys(histogramTable) as HistogramName[]; // keys of the object above
  const histograms = new Map<HistogramName, Histogram>(
    names.map((name) => [name, createHistogram(histogramTable[name][1])]),
  );
  // A step that makes up for a lag begins before what arrived meanwhile; a sum that fell would look like a restart.
  const observe = (name: HistogramName, value: number) => histograms.get(name)?.observe(Math.max(0, value));
  let rejections = 0;
  return {
    token: (index, gapMs) =>
      observe(index === 0 ? 'vllm:time_to_first_token_seconds' : 'vllm:inter_token_latency_seconds', gapMs / 1000),
    ended(end, arrivedMs) {
      const { startedMs, firstTokenMs, lastTokenMs } = end;
      if (startedMs === undefined || firstTokenMs === undefined || lastTokenMs === undefined) return;
      observe('vllm:e2e_request_latency_seconds', (lastTokenMs - arrivedMs) / 1000);
      observe('vllm:request_queue_time_seconds', (startedMs - end.arrivedMs) / 1000);
      observe('vllm:request_prefill_time_seconds', (firstTokenMs - startedMs) / 1000);
      observe('vllm:request_decode_time_seconds', (lastTokenMs - firstTokenMs) / 1000);
      observe('vllm:request_inference_time_seconds', (lastTokenMs - startedMs) / 1000);
      observe('vllm:request_prompt_tokens', end.promptTokens);
      observe('vllm:request_generation_tokens', end.outputTokens);
      if (end.outputTokens > 1)
        observe(
          'vllm:request_time_per_output_token_seconds',
          (lastTokenMs - firstTokenMs) / 1000 / (end.outputTokens - 1),
        );
    },
    rejected() {
      rejections += 1;
    },
    step: (tokens) => observe('vllm:iteration_tokens_total', tokens),
    render: (engine) => render(engine, { settings, histograms, rejections }),
  };
}

interface Rendered {
  readonly settings: VllmMetricsSettings;
  readonly histograms: ReadonlyMap<HistogramName, Histogram>;
  readonly rejections: number;
}

function render(engine: Engine, { settings, histograms, rejections }: Rendered): string {
  const { running, waiting, kvUsage, counters } = engine.view();
  const own = `engine="0",model_name="${settings.model}"`;
  const lines: string[] = [];
  const family = (name: string, type: 'gauge' | 'counter', help: string) => {
    // Prometheus' text format names a counter's family without `_total`; Python's client writes the full name there.
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
  };
  const single = (name: string, type: 'gauge' | 'counter', help: string, value: number) => {
    family(name, type, help);
    lines.push(`${name}{${own}} ${pythonNumber(value)}`);
    if (type === 'gauge') return;
    const created = name.replace(/_total$/, '_created');
    family(created, 'gauge', help);
    lines.push(`${created}{${own}} ${settings.startedSeconds}`);
  };
  const split = (name: string, help: string, values: readonly (readonly [label: string, value: number])[]) => {
    family(name, 'counter', help);
    for (const [label, value] of values) lines.push(`${name}{${label}} ${pythonNumber(value)}`);
  };
  family('process_start_time_seconds', 'gauge', 'Start time of the process since the Unix epoch in seconds.');
  lines.push(`process_start_time_seconds ${settings.startedSeconds}`);
  single('vllm:num_requests_running', 'gauge', 'Number of requests in model execution batches.', running);
  single('vllm:num_requests_waiting', 'gauge', 'Number of requests waiting to be processed.', waiting);
  family('vllm:num_requests_waiting_by_reason', 'gauge', 'Number of waiting requests by reason.');
  lines.push(`vllm:num_requests_waiting_by_reason{${own},reason="capacity"} ${pythonNumber(waiting)}`);
  lines.push(`vllm:num_requests_waiting_by_reason{${own},reason="deferred"} 0.0`);
  single('vllm:kv_cache_usage_perc', 'gauge', 'KV-cache usage. 1 means 100 percent usage.', kvUsage);
  single('vllm:prefix_cache_queries_total', 'counter', 'Prefix cache queries, in tokens.', counters.prefixQueries);
  single('vllm:prefix_cache_hits_total', 'counter', 'Prefix cache hits, in tokens.', counters.prefixHits);
  single('vllm:num_preemptions_total', 'counter', 'Cumulative number of preemptions.', counters.preemptions);
  single('vllm:prompt_tokens_total', 'counter', 'Number of prefill tokens processed.', counters.promptTokens);
  const computed = counters.promptTokens - counters.cachedTokens;
  split('vllm:prompt_tokens_by_source_total', 'Number of prompt tokens by source.', [
    [`${own},source="local_compute"`, computed],
    [`${own},source="local_cache_hit"`, counters.cachedTokens],
    [`${own},source="external_kv_transfer"`, 0],
  ]);
  single('vllm:prompt_tokens_cached_total', 'counter', 'Number of cached prompt tokens.', counters.cachedTokens);
  single('vllm:generation_tokens_total', 'counter', 'Number of generation tokens processed.', counters.generatedTokens);
  split('vllm:request_success_total', 'Count of successfully processed requests.', [
    ...(['stop', 'length'] as const).map((reason): [string, number] => [
      `engine="0",finished_reason="${reason}",model_name="${settings.model}"`,
      counters.ended[reason],
    ]),
    ...(['abort', 'error', 'repetition'] as const).map((reason): [string, number] => [
      `engine="0",finished_reason="${reason}",model_name="${settings.model}"`,
      0,
    ]),
  ]);
  split('vllm:admission_rejections_total', 'Requests refused by the queue limits.', [
    [`model_name="${settings.model}",reason="max_num_queued_reqs"`, rejections],
  ]);
  for (const [name, histogram] of histograms) lines.push(...histogramLines(name, histogram, settings.model));
  family('vllm:cache_config_info', 'gauge', 'Information of the LLMEngine CacheConfig');
  const config = `block_size="${settings.blockTokens}",cache_dtype="auto",enable_prefix_caching="${settings.prefixCaching ? 'True' : 'False'}",engine="0",gpu_memory_utilization="0.9",num_gpu_blocks="${settings.blocks}",prefix_caching_hash_algo="sha256"`;
  lines.push(`vllm:cache_config_info{${config}} 1.0`);
  return `${lines.join('\n')}\n`;
}

function histogramLines(name: HistogramName, histogram: Histogram, model: string): string[] {
  const lines = [`# HELP ${name} ${histogramTable[name][0]}`, `# TYPE ${name} histogram`];
  const labels = (bound: string) => `{engine="0",${bound}model_name="${model}"}`;
  histogram.cumulative().forEach((count, index) => {
    const bound = histogram.bounds[index];
    const le = bound === undefined ? '+Inf' : pythonNumber(bound);
    lines.push(`${name}_bucket${labels(`le="${le}",`)} ${pythonNumber(count)}`);
  });
  lines.push(
    `${name}_count${labels('')} ${pythonNumber(histogram.count)}`,
    `${name}_sum${labels('')} ${pythonNumber(histogram.sum)}`,
  );
  return lines;
}
