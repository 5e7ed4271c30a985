import { describe, expect, it } from 'vitest';
import type { EngineReading } from '../../../../src/domain/engine-reading.ts';
import { readEngineMetrics } from '../../../../src/fleet/engine-metrics/read-engine-metrics.ts';
import { loadRecorded } from '../../../support/recorded.ts';

function reading(engine: Parameters<typeof readEngineMetrics>[0], ...lines: string[]): EngineReading {
  const found = readEngineMetrics(engine, `${lines.join('\n')}\n`, 5);
  if (found === undefined) throw new Error('nothing was read');
  return found;
}

const vllm = '{engine="0",model_name="m"}';

describe('an engine’s metrics', () => {
  it('of llama-server, as recorded, are its counters and live gauges; averages since a scrape stay unread', () => {
    const { body } = loadRecorded('llama-server', 'metrics-queued');
    const found = readEngineMetrics('llama-server', body.toString('utf8'), 5);
    expect(found).toEqual({
      atMs: 5,
      gauges: { running: 2, waiting: 1 },
      counters: {
        promptTokens: 2009 + 1286,
        computedTokens: 2009,
        cachedTokens: 1286,
        generatedTokens: 415,
        drafts: 0,
        draftTokens: 0,
        acceptedTokens: 0,
      },
    });
  });

  it('that can be no counts are none, so that no sum is infinite', () => {
    const found = reading(
      'vllm',
      'vllm:generation_tokens_total{a="1"} 1e308',
      'vllm:generation_tokens_total{a="2"} 1e308',
      'vllm:prompt_tokens_total{a="1"} +Inf',
      'vllm:prompt_tokens_total{a="2"} 7',
      'vllm:num_preemptions_total -1',
    );
    expect(found.counters).toEqual({ promptTokens: 7 });
  });

  it('of vLLM are read by their new names', () => {
    const found = reading(
      'vllm',
      `vllm:num_requests_running${vllm} 3.0`,
      `vllm:num_requests_waiting${vllm} 1.0`,
      `vllm:kv_cache_usage_perc${vllm} 0.97`,
      `vllm:prompt_tokens_total${vllm} 100.0`,
      'vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 60.0',
      'vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 40.0',
      `vllm:prompt_tokens_cached_total${vllm} 40.0`,
      `vllm:generation_tokens_total${vllm} 1.25e+06`,
      'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 7.0',
      'vllm:request_success_total{engine="0",finished_reason="repetition",model_name="m"} 2.0',
      `vllm:time_to_first_token_seconds_sum${vllm} 2.5`,
      `vllm:time_to_first_token_seconds_count${vllm} 5.0`,
      `vllm:num_preemptions_total${vllm} 1.0`,
    );
    expect(found.gauges).toEqual({ running: 3, waiting: 1, kvUsage: 0.97 });
    expect(found.counters).toEqual({
      promptTokens: 100,
      computedTokens: 60,
      cachedTokens: 40,
      generatedTokens: 1_250_000,
      'finished.stop': 7,
      'finished.other': 2,
      ttftSeconds: 2.5,
      ttftCount: 5,
      preemptions: 1,
    });
  });

  it('of an old vLLM are read by its old names, and a new name wins', () => {
    const old = [`vllm:gpu_cache_usage_perc${vllm} 0.5`, `vllm:gpu_prefix_cache_hits_total${vllm} 8`];
    expect(reading('vllm', ...old)).toMatchObject({ gauges: { kvUsage: 0.5 }, counters: { prefixHits: 8 } });
    expect(reading('vllm', ...old, `vllm:kv_cache_usage_perc${vllm} 0.25`).gauges.kvUsage).toBe(0.25);
  });

  it('of several engines behind one port are summed, and of several caches the fullest counts', () => {
    const found = reading(
      'vllm',
      'vllm:generation_tokens_total{engine="0",model_name="m"} 5',
      'vllm:generation_tokens_total{engine="1",model_name="m"} 7',
      'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2',
      'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.9',
    );
    expect([found.counters.generatedTokens, found.gauges.kvUsage]).toEqual([12, 0.9]);
  });

  it('of SGLang’s ranks of one computation one counts; its data-parallel parts are summed', () => {
    const found = reading(
      'sglang',
      'sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="0"} 4',
      'sglang:num_running_reqs{dp_rank="0",model_name="m",tp_rank="1"} 4',
      'sglang:num_running_reqs{dp_rank="1",model_name="m",tp_rank="0"} 3',
      'sglang:prompt_tokens_total{model_name="m"} 50',
      'sglang:cached_tokens_total{cache_source="device",model_name="m"} 20',
      'sglang:cached_tokens_total{cache_source="host",model_name="m"} 5',
    );
    expect(found.gauges).toEqual({ running: 7 });
    expect(found.counters).toEqual({ promptTokens: 50, cachedTokens: 25, computedTokens: 25 });
  });

  it('leaves out what is missing, NaN or negative: absent is not zero', () => {
    const found = reading(
      'vllm',
      `vllm:num_requests_running${vllm} NaN`,
      `vllm:generation_tokens_total${vllm} -1`,
      `vllm:num_requests_waiting${vllm} 0`,
    );
    expect([found.gauges, found.counters]).toEqual([{ waiting: 0 }, {}]);
  });

  it('are none where the text is of another engine, or the engine’s metrics are not known', () => {
    const { body } = loadRecorded('llama-server', 'metrics');
    expect(readEngineMetrics('vllm', body.toString(), 5)).toBeUndefined();
    expect(readEngineMetrics('ollama', body.toString(), 5)).toBeUndefined();
    expect(readEngineMetrics('vllm', '<html>', 5)).toBeUndefined();
  });
});
