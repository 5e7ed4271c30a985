import { describe, expect, it } from 'vitest';
import { catalogue, metricNames, prometheusName } from '../../../src/domain/catalogue.ts';
import { bucketBounds } from '../../../src/domain/metrics/buckets.ts';
import { labelSpecs, type MetricSpec } from '../../../src/domain/metrics/metric-spec.ts';

const specs = metricNames.map((name) => ({ name, spec: catalogue[name] as MetricSpec }));

describe('the catalogue', () => {
  it('has names that OpenTelemetry takes, and no two that are one in Prometheus text', () => {
    for (const name of metricNames) expect(name).toMatch(/^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$/);
    expect(new Set(metricNames.map(prometheusName)).size).toBe(metricNames.length);
  });

  it('gives each metric a unit and a sentence; histograms, and only they, have buckets', () => {
    for (const { name, spec } of specs) {
      expect(spec.unit, name).toMatch(/^(s|By|1|\{[a-z_]+\}|By\/s|.+\/s|By\/\{[a-z_]+\})$/i);
      expect(spec.help, name).toMatch(/\.$/);
      expect(spec.buckets !== undefined, name).toBe(spec.kind === 'histogram');
      expect(spec.additive === true && spec.kind !== 'gauge', name).toBe(false);
    }
  });

  it('ends Prometheus names with their unit, and counters with _total', () => {
    expect(prometheusName('gen_ai.server.time_to_first_token')).toBe('gen_ai_server_time_to_first_token_seconds');
    expect(prometheusName('process.cpu.time')).toBe('process_cpu_time_seconds_total');
    expect(prometheusName('warmlane.io')).toBe('warmlane_io_bytes_total');
    expect(prometheusName('process.memory.usage')).toBe('process_memory_usage_bytes');
    expect(prometheusName('gen_ai.client.inference.usage.input_tokens')).toBe(
      'gen_ai_client_inference_usage_input_tokens_total',
    );
    for (const { name, spec } of specs) {
      expect(prometheusName(name)).toMatch(/^[a-z_][a-z0-9_]*$/);
      expect(prometheusName(name).endsWith('_total'), name).toBe(spec.kind === 'counter');
      if (spec.unit === 's') expect(prometheusName(name)).toContain('_seconds');
    }
  });

  it('has no two labels with one attribute on the same metric', () => {
    for (const { name, spec } of specs) {
      const attributes = spec.labels.map((label) => labelSpecs[label].attribute);
      expect(new Set(attributes).size, name).toBe(attributes.length);
    }
  });

  it('C187 has durations in seconds from 1 ms to 10 minutes, and tokens from 1 to a million', () => {
    for (const { name, spec } of specs) {
      if (spec.kind !== 'histogram') continue;
      const bounds = bucketBounds[spec.buckets ?? 'seconds'];
      expect(bounds, name).toEqual(bounds.toSorted((a, b) => a - b));
      if (spec.unit === 's') {
        expect(bounds[0], name).toBeLessThanOrEqual(0.001);
        expect(bounds.at(-1), name).toBeGreaterThanOrEqual(600);
      } else if (spec.unit === '{token}') {
        expect(bounds[0], name).toBe(1);
        expect(bounds.at(-1), name).toBeGreaterThan(1_000_000);
      }
    }
  });

  it('has the bounds of the shipped latency objectives among its buckets', () => {
    for (const bound of [0.03, 0.04, 0.15, 0.18, 0.2, 0.45, 2]) expect(bucketBounds.seconds).toContain(bound);
  });
});
