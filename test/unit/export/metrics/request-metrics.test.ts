import { describe, expect, it } from 'vitest';
import { bucketBounds } from '../../../../src/domain/metrics/buckets.ts';
import type { RequestRecord } from '../../../../src/domain/record.ts';
import { createMeter } from '../../../../src/export/metrics/meter.ts';
import { createModelLabels } from '../../../../src/export/metrics/model-labels.ts';
import { loadPrometheusText } from '../../../../src/export/metrics/prometheus.ts';
import { createRequestMetrics } from '../../../../src/export/metrics/request-metrics.ts';
import { Sketch } from '../../../../src/platform/sketch.ts';
import { type Family, histogramQuantile, parsePrometheus, sumOf } from '../../../support/prometheus-text.ts';
import { sampleRecord } from '../../../support/sample-record.ts';

async function metricsOf(records: readonly RequestRecord[], maxUnknown = 50): Promise<ReadonlyMap<string, Family>> {
  const meter = createMeter({ maxSeries: 2000 });
  const sink = createRequestMetrics({ meter, models: createModelLabels({ maxUnknown, maxPinned: 100 }) });
  for (const record of records) sink.add(record);
  const write = await loadPrometheusText({ 'service.name': 'warmlane', 'service.version': '1.2.3' });
  return parsePrometheus(await write(meter.collect()));
}

function measured(over: Partial<RequestRecord> = {}): RequestRecord {
  const itl = new Sketch();
  for (const gap of [0.02, 0.021, 0, 0.4]) itl.add(gap);
  return sampleRecord({
    model: 'm',
    backend: 'b',
    engine: 'vllm',
    status: 200,
    warmth: 'prefix_hit',
    tokens: {
      prompt: { value: 100, source: 'usage' },
      output: { value: 5, source: 'usage' },
      cached: { value: 64, source: 'usage' },
      reasoning: { value: 2, source: 'usage' },
    },
    figures: {
      tpotWindow: 'visible',
      ttftMs: 150,
      ttfaMs: 180,
      tpotMs: 20,
      e2eMs: 600,
      durationMs: 610,
      queueMs: 3,
      connectMs: 0.5,
      prefillMs: 140,
      prefillKind: 'joint',
      overheadMs: 0.2,
    },
    itl: itl.data(),
    marks: ['coalesced'],
    ...over,
  });
}

describe('a finished request', () => {
  it('is in every histogram for which it has a figure, in seconds', async () => {
    const families = await metricsOf([measured()]);
    const one = { model: 'm', backend: 'b', engine: 'vllm', endpoint: 'chat', lane: 'online', outcome: 'ok' };
    const sums = {
      gen_ai_server_time_to_first_token_seconds: 0.15,
      warmlane_time_to_first_answer_seconds: 0.18,
      gen_ai_server_time_per_output_token_seconds: 0.02,
      gen_ai_server_request_duration_seconds: 0.61,
      warmlane_time_to_last_token_seconds: 0.6,
    };
    for (const [name, seconds] of Object.entries(sums)) {
      expect(sumOf(families, `${name}_sum`, { ...one, warmth: 'prefix_hit' }), name).toBeCloseTo(seconds, 9);
      expect(sumOf(families, `${name}_count`, one), name).toBe(1);
    }
    expect(sumOf(families, 'warmlane_inter_token_latency_seconds_count', one)).toBe(4);
    expect(sumOf(families, 'warmlane_inter_token_latency_seconds_sum', one)).toBeCloseTo(0.441, 9);
    expect(sumOf(families, 'warmlane_prefill_duration_seconds_sum', { prefill: 'joint' })).toBeCloseTo(0.14, 9);
    expect(sumOf(families, 'warmlane_queue_duration_seconds_sum')).toBeCloseTo(0.003, 9);
    expect(sumOf(families, 'warmlane_connect_duration_seconds_sum')).toBeCloseTo(0.0005, 9);
    expect(sumOf(families, 'warmlane_overhead_duration_seconds_sum')).toBeCloseTo(0.0002, 9);
    expect(sumOf(families, 'http_server_request_duration_seconds_sum', { method: 'POST', status: '200' })).toBeCloseTo(
      0.61,
      9,
    );
    expect(sumOf(families, 'gen_ai_client_inference_usage_input_tokens_total', one)).toBe(100);
    expect(sumOf(families, 'gen_ai_client_inference_usage_cache_read_input_tokens_total', one)).toBe(64);
    expect(sumOf(families, 'gen_ai_client_inference_usage_reasoning_output_tokens_total', one)).toBe(2);
    expect(sumOf(families, 'warmlane_tokens_cacheable_total', one)).toBe(100);
    expect(sumOf(families, 'warmlane_attempts_total', { backend: 'b', outcome: 'ok' })).toBe(1);
    expect(sumOf(families, 'warmlane_retries_total', { backend: 'b' })).toBe(0);
    expect(sumOf(families, 'warmlane_requests_marked_total', { mark: 'coalesced' })).toBe(1);
    expect(sumOf(families, 'warmlane_io_bytes_total', { direction: 'receive' })).toBe(10);
    expect(sumOf(families, 'warmlane_io_bytes_total', { direction: 'transmit' })).toBe(20);
    expect(sumOf(families, 'target_info', { service_version: '1.2.3' })).toBe(1);
  });

  it('without a figure is only in the counts: absent is not zero', async () => {
    const families = await metricsOf([
      sampleRecord({ outcome: 'rejected', figures: { tpotWindow: 'none_no_answer', durationMs: 0 } }),
    ]);
    expect(sumOf(families, 'warmlane_requests_total', { outcome: 'rejected', model: 'none', backend: 'none' })).toBe(1);
    expect(families.has('gen_ai_server_time_to_first_token_seconds')).toBe(false);
    expect(families.has('gen_ai_client_inference_usage_cache_read_input_tokens_total')).toBe(false);
    expect(sumOf(families, 'http_server_request_duration_seconds_count', { status: 'none' })).toBe(1);
  });

  it('that another backend made good shows each attempt under its own backend, with what ended it', async () => {
    const lost = { backend: 'a', outcome: 'upstream_error', reason: 'backend_unreachable' } as const;
    const busy = { backend: 'c', outcome: 'rejected', reason: 'backend_busy' } as const;
    const families = await metricsOf([
      measured({ attempts: 3, failedAttempts: [lost, busy] }),
      // Nobody else had a place: both attempts failed, and the request ended of something else.
      measured({ attempts: 1, backend: 'a', outcome: 'rejected', reason: 'queue_timeout', failedAttempts: [lost] }),
      measured({ attempts: 1, backend: 'a', outcome: 'timeout', reason: 'head_timeout' }),
    ]);
    const attempts = families.get('warmlane_attempts_total')?.samples.map(({ labels, value }) => [labels, value]);
    expect(attempts).toEqual([
      [lost, 2],
      [busy, 1],
      [{ backend: 'b', outcome: 'ok' }, 1],
      [{ backend: 'a', outcome: 'timeout', reason: 'head_timeout' }, 1],
    ]);
    const retries = families.get('warmlane_retries_total')?.samples.filter(({ value }) => value > 0);
    expect(retries?.map(({ labels, value }) => [labels, value])).toEqual([
      [{ backend: 'c', outcome: 'rejected' }, 1],
      [{ backend: 'b', outcome: 'ok' }, 1],
    ]);
  });

  it('that was told of no cached tokens shows a 0, and one that was told nothing shows none', async () => {
    const tokens = { prompt: { value: 9, source: 'usage' }, cached: { value: 0, source: 'usage' } } as const;
    const told = await metricsOf([measured({ tokens })]);
    expect(told.get('gen_ai_client_inference_usage_cache_read_input_tokens_total')?.samples[0]?.value).toBe(0);
    const untold = await metricsOf([measured({ tokens: { prompt: tokens.prompt } })]);
    expect(untold.has('gen_ai_client_inference_usage_cache_read_input_tokens_total')).toBe(false);
    expect(untold.has('warmlane_tokens_cacheable_total')).toBe(false);
  });

  it('that was left after its first token counts in the time to it, under its own outcome', async () => {
    const families = await metricsOf([
      measured(),
      measured({ outcome: 'client_abort' }),
      measured({ outcome: 'timeout' }),
    ]);
    const name = 'gen_ai_server_time_to_first_token_seconds_count';
    expect(sumOf(families, name)).toBe(3);
    expect(sumOf(families, name, { outcome: 'client_abort' })).toBe(1);
    expect(sumOf(families, name, { outcome: 'timeout' })).toBe(1);
  });

  it('keeps cold starts, residents, hits, replays and the unknown apart', async () => {
    const all = ['cold_start', 'resident', 'prefix_hit', 'replayed', 'unknown'] as const;
    const families = await metricsOf(all.map((warmth) => measured({ warmth })));
    for (const warmth of all)
      for (const name of ['gen_ai_server_time_to_first_token_seconds_count', 'warmlane_requests_total'])
        expect(sumOf(families, name, { warmth }), `${name} ${warmth}`).toBe(1);
  });
});

describe('Prometheus text', () => {
  it('C187 tells prompts of 20,000, 120,000 and 900,000 tokens apart', async () => {
    const sizes = [20_000, 120_000, 900_000];
    const families = await metricsOf(
      sizes.map((value) => measured({ model: `m${value}`, tokens: { prompt: { value, source: 'usage' } } })),
    );
    const family = families.get('gen_ai_client_inference_operation_input_tokens');
    if (family === undefined) throw new Error('no histogram of prompt tokens');
    for (const value of sizes) {
      const p50 = histogramQuantile(0.5, family, { model: `m${value}` });
      expect(p50).toBeGreaterThan(value / 2);
      expect(p50).toBeLessThan(value * 2);
    }
  });

  it('C190 stays well-formed whatever a model is called', async () => {
    const names = [
      'm"\n# HELP x y',
      'back\\slash',
      '🦙',
      'nul\u0000',
      'x'.repeat(100_000),
      '\ud800',
      '{a="b"}',
      ' ',
      'ü',
    ];
    const families = await metricsOf(names.map((model) => measured({ model })));
    expect(sumOf(families, 'warmlane_requests_total')).toBe(names.length);
    for (const { samples } of families.values())
      for (const { labels } of samples)
        for (const value of Object.values(labels)) expect(value.length).toBeLessThanOrEqual(128);
  });

  it('has quantiles that lie in the bucket of the exact ones, at both ends', async () => {
    const { seconds } = bucketBounds;
    for (const centreMs of [2, 30, 700, 20_000, 350_000]) {
      const valuesMs = Array.from({ length: 1000 }, (_, i) => centreMs * (0.5 + i / 1000));
      const families = await metricsOf(
        valuesMs.map((ttftMs) => measured({ figures: { tpotWindow: 'visible', durationMs: 1, ttftMs } })),
      );
      const family = families.get('gen_ai_server_time_to_first_token_seconds');
      if (family === undefined) throw new Error('no histogram');
      for (const share of [0.5, 0.9, 0.99]) {
        const exact = (valuesMs[Math.ceil(share * 1000) - 1] ?? 0) / 1000;
        const told = histogramQuantile(share, family);
        // The sketch counts a value within 1 % of a bound on either side of it.
        expect(told, `${centreMs} ms, ${share}`).toBeLessThanOrEqual(
          seconds.find((bound) => bound >= exact * 1.01) ?? 0,
        );
        expect(told, `${centreMs} ms, ${share}`).toBeGreaterThanOrEqual(
          seconds.findLast((bound) => bound < exact * 0.99) ?? 0,
        );
      }
    }
  });

  it('says a metric’s help and type once, however many slices it takes', async () => {
    const many = Array.from({ length: 200 }, (_, i) => measured({ model: `m${i}` }));
    const families = await metricsOf(many, 500);
    expect(sumOf(families, 'gen_ai_server_time_to_first_token_seconds_count')).toBe(200);
    expect(new Set(families.get('warmlane_requests_total')?.samples.map(({ labels }) => labels['model'])).size).toBe(
      200,
    );
  });
});

describe('the cost of all metrics', () => {
  it('is a few microseconds per request', () => {
    const meter = createMeter({ maxSeries: 2000 });
    const sink = createRequestMetrics({ meter, models: createModelLabels({ maxUnknown: 50, maxPinned: 100 }) });
    const records = Array.from({ length: 8 }, (_, i) => measured({ backend: `b${i}` }));
    const round = () => {
      const fromMs = performance.now();
      for (let i = 0; i < 250; i += 1) for (const record of records) sink.add(record);
      return ((performance.now() - fromMs) * 1000) / 2000;
    };
    const micros = Math.min(...Array.from({ length: 20 }, round));
    expect(micros).toBeLessThan(15);
  });
});

it('cached tokens of a prompt whose length nobody told are in no hit rate', async () => {
  const cached = { value: 64, source: 'usage' } as const;
  const families = await metricsOf([measured(), measured({ tokens: { cached } })]);
  expect(sumOf(families, 'gen_ai_client_inference_usage_cache_read_input_tokens_total')).toBe(64);
  expect(sumOf(families, 'warmlane_tokens_cacheable_total')).toBe(100);
});

it('C190 resource attributes that make no labels, or the same one, leave the text well-formed', async () => {
  const meter = createMeter({ maxSeries: 10 });
  meter.count('warmlane.io', {}, 1);
  const write = await loadPrometheusText({
    'a.b': '1',
    a_b: '2',
    '1x': '3',
    ü: '4',
    n: 'l\nx"\\',
    'service.name': 'w',
  });
  const families = parsePrometheus(await write(meter.collect()));
  const [info] = families.get('target_info')?.samples ?? [];
  expect(info?.labels).toEqual({ a_b: '1', _1x: '3', _: '4', n: 'l\nx"\\', service_name: 'w' });
});
