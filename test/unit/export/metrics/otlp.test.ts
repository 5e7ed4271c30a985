import { ValueType } from '@opentelemetry/api';
import { AggregationTemporality, DataPointType } from '@opentelemetry/sdk-metrics';
import { afterEach, describe, expect, it } from 'vitest';
import { createMeter } from '../../../../src/export/metrics/meter.ts';
import { readMetricsEnvironment } from '../../../../src/export/metrics/metrics-environment.ts';
import { metricDataOf } from '../../../../src/export/metrics/otlp-data.ts';
import { type OtlpMetrics, startOtlpMetrics } from '../../../../src/export/metrics/otlp.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { createLog } from '../../../../src/platform/log.ts';
import { bucketOf } from '../../../../src/platform/sketch.ts';
import { type OtlpMetricsReceiver, startOtlpMetricsReceiver } from '../../../support/otlp-metrics-receiver.ts';

const opened: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).toReversed()) await close();
});

async function receiver(): Promise<OtlpMetricsReceiver> {
  const made = await startOtlpMetricsReceiver();
  opened.push(() => made.close());
  return made;
}

interface Started {
  readonly meter: ReturnType<typeof createMeter>;
  readonly otlp: OtlpMetrics;
  readonly logged: readonly string[];
}

async function started(env: Readonly<Record<string, string>>): Promise<Started> {
  const meter = createMeter({ maxSeries: 100 });
  const logged: string[] = [];
  const { environment } = readMetricsEnvironment({ OTEL_METRIC_EXPORT_INTERVAL: '3600000', ...env });
  const otlp = await startOtlpMetrics(environment, {
    meter,
    clock: systemClock,
    log: createLog({ level: 'info', format: 'logfmt' }, (line) => void logged.push(line)),
    version: '1.2.3',
    secure: false,
    startMs: 1_700_000_000_123,
  });
  return { meter, otlp, logged };
}

describe('metrics by OTLP', () => {
  for (const protocol of ['http/protobuf', 'http/json']) {
    it(`carry names, units, labels as attributes, and exact distributions (${protocol})`, async () => {
      const collector = await receiver();
      const { meter, otlp } = await started({
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_SERVICE_NAME: 'mine',
      });
      const labels = {
        model: 'm',
        backend: 'b',
        engine: 'vllm',
        endpoint: 'completions',
        lane: 'online',
        warmth: 'resident',
      };
      for (const value of [0.02, 0.02, 0.3, 0])
        meter.observe('gen_ai.server.time_to_first_token', { ...labels, outcome: 'timeout' }, value);
      meter.count('warmlane.requests', { ...labels, outcome: 'ok', stream: 'true' }, 3);
      meter.observe(
        'http.server.request.duration',
        { method: 'POST', status: '200', endpoint: 'chat', outcome: 'ok' },
        1,
      );
      meter.observe('http.server.request.duration', { method: 'POST', status: 'none', outcome: 'client_abort' }, 1);
      meter.count('warmlane.attempts', { backend: 'a', outcome: 'client_error', reason: 'status_404' });
      meter.observe('http.server.request.duration', { method: 'GET', status: '429', outcome: 'rejected' }, 1);
      meter.gauge('warmlane.requests.queued', () => [{ labels: {}, value: 2 }]);
      meter.gauge('process.uptime', () => [{ labels: {}, value: 9 }]);
      await otlp.flush();
      expect(collector.resource).toMatchObject({ 'service.name': 'mine', 'service.version': '1.2.3' });
      const { metrics } = collector;
      const ttft = metrics.get('gen_ai.server.time_to_first_token');
      expect(ttft).toMatchObject({ unit: 's', kind: 'exponentialHistogram', temporality: 2 });
      const [point] = ttft?.points ?? [];
      expect(point?.startNs).toBe(1_700_000_000_123_000_000n);
      expect(point?.attributes).toEqual({
        'gen_ai.request.model': 'm',
        'gen_ai.provider.name': 'vllm',
        'gen_ai.operation.name': 'text_completion',
        'error.type': 'timeout',
        'warmlane.backend': 'b',
        'warmlane.endpoint': 'completions',
        'warmlane.lane': 'online',
        'warmlane.outcome': 'timeout',
        'warmlane.warmth': 'resident',
      });
      expect(point?.histogram).toMatchObject({
        count: 4,
        min: 0,
        max: 0.3,
        zeroCount: 1,
        scale: 5,
        offset: bucketOf(0.02) >> 1,
      });
      expect(point?.histogram?.sum).toBeCloseTo(0.34, 9);
      expect(point?.histogram?.counts.at(0)).toBe(2);
      expect(point?.histogram?.counts.at(-1)).toBe(1);
      expect(point?.histogram?.counts.length).toBeLessThanOrEqual(160);
      expect(metrics.get('warmlane.requests')).toMatchObject({
        kind: 'sum',
        isMonotonic: true,
        temporality: 2,
        unit: '{request}',
      });
      expect(metrics.get('warmlane.requests')?.points[0]).toMatchObject({
        value: 3,
        attributes: { 'gen_ai.request.stream': true },
      });
      expect(metrics.get('warmlane.requests.queued')).toMatchObject({ kind: 'sum', isMonotonic: false });
      expect(metrics.get('process.uptime')).toMatchObject({ kind: 'gauge' });
      expect(metrics.get('http.server.request.duration')?.points.map(({ attributes }) => attributes)).toEqual([
        {
          'http.request.method': 'POST',
          'http.response.status_code': 200,
          'warmlane.endpoint': 'chat',
          'warmlane.outcome': 'ok',
          'url.scheme': 'http',
        },
        { 'http.request.method': 'POST', 'warmlane.outcome': 'client_abort', 'url.scheme': 'http' },
        {
          'http.request.method': 'GET',
          'http.response.status_code': 429,
          'warmlane.outcome': 'rejected',
          'url.scheme': 'http',
        },
      ]);
      expect(metrics.get('warmlane.attempts')?.points[0]?.attributes).toEqual({
        'warmlane.backend': 'a',
        'warmlane.outcome': 'client_error',
        'warmlane.reason': 'status_404',
        'error.type': 'client_error',
      });
      await otlp.stop();
      expect(collector.contentTypes[0]).toContain(protocol === 'http/json' ? 'json' : 'protobuf');
    });
  }

  it('C187 tell prompts of 20,000, 120,000 and 900,000 tokens apart, within 2.2 %', async () => {
    const collector = await receiver();
    const { meter, otlp } = await started({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: collector.url });
    const sizes = [20_000, 120_000, 900_000];
    for (const size of sizes) meter.observe('gen_ai.client.inference.operation.input_tokens', {}, size);
    await otlp.stop();
    const histogram = collector.metrics.get('gen_ai.client.inference.operation.input_tokens')?.points[0]?.histogram;
    if (histogram === undefined) throw new Error('no histogram');
    const { scale, offset, counts } = histogram;
    const middles = counts.flatMap((count, i) => (count === 0 ? [] : [2 ** ((offset + i + 0.5) / 2 ** scale)]));
    expect(middles).toHaveLength(3);
    for (const [i, size] of sizes.entries()) expect(Math.abs((middles[i] ?? 0) - size) / size).toBeLessThan(0.022);
  });

  it('that do not arrive cost a count and a line, and the next export carries the sums', async () => {
    const collector = await receiver();
    collector.answerWith(400);
    const { meter, otlp, logged } = await started({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: collector.url });
    meter.count('warmlane.io', {}, 5);
    await otlp.flush();
    await otlp.flush();
    expect(otlp.failures).toBe(2);
    expect(logged.filter((line) => line.includes('could not be exported'))).toHaveLength(1);
    collector.answerWith(200);
    await otlp.flush();
    expect(collector.metrics.get('warmlane.io')?.points[0]?.value).toBe(5);
    expect(logged.at(-1)).toContain('exported again');
    await otlp.stop();
  });

  it('that find no metrics pipeline there say how to turn them off', async () => {
    const collector = await receiver();
    collector.answerWith(404);
    const { meter, otlp, logged } = await started({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: collector.url });
    meter.count('warmlane.io', {}, 5);
    await otlp.flush();
    expect(logged.at(-1)).toContain('OTEL_METRICS_EXPORTER=none');
    await otlp.stop();
  });

  it('go in several requests where they are many, and a failed one is the end of that export, counted once', async () => {
    const collector = await receiver();
    const { meter, otlp } = await started({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: collector.url });
    const names = ['warmlane.slo.judged', 'warmlane.slo.met', 'warmlane.slo.good_tokens'] as const;
    const sizes = [
      'gen_ai.client.inference.operation.input_tokens',
      'gen_ai.client.inference.operation.output_tokens',
    ] as const;
    for (let i = 0; i < 100; i += 1) {
      for (const name of names) meter.count(name, { model: `m${i}` });
      for (const name of sizes) meter.observe(name, { model: `m${i}` }, 5);
      meter.count('warmlane.io', { endpoint: `e${i}` }, 1);
    }
    await otlp.flush();
    expect(collector.exports).toBe(2);
    collector.answerWith(400);
    await otlp.flush();
    expect(otlp.failures).toBe(1);
    await otlp.stop();
  });

  it('let the event loop turn while thousands of distributions are made ready', async () => {
    const meter = createMeter({ maxSeries: 2000 });
    for (let i = 0; i < 2000; i += 1)
      meter.observe('gen_ai.client.inference.operation.input_tokens', { model: `m${i}` }, i);
    let turns = 0;
    let going = true;
    const count = (): void => {
      turns += 1;
      if (going) setImmediate(count);
    };
    setImmediate(count);
    const [metric] = meter.collect();
    if (metric === undefined) throw new Error('nothing was collected');
    const { dataPoints } = await metricDataOf(metric, [1, 0], {
      types: {
        point: DataPointType,
        cumulative: AggregationTemporality.CUMULATIVE,
        double: ValueType.DOUBLE,
      },
      startTime: [0, 0],
      scheme: 'http',
    });
    going = false;
    expect(dataPoints).toHaveLength(2000);
    expect(turns).toBeGreaterThanOrEqual(19);
  });

  it('C199 never hold up a stop for more than two seconds, whether the collector hangs or is away, by HTTP or grpc', async () => {
    const collector = await receiver();
    collector.answerWith('hang');
    const grpc = { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://127.0.0.1:1' };
    const away = { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://127.0.0.1:1/v1/metrics' };
    for (const env of [{ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: collector.url }, away, grpc]) {
      const { meter, otlp } = await started(env);
      meter.count('warmlane.io', {}, 5);
      const fromMs = performance.now();
      await otlp.stop();
      expect(performance.now() - fromMs).toBeLessThan(2000);
      expect(otlp.failures).toBeGreaterThan(0);
    }
  });
});

describe('the environment', () => {
  const read = (env: Readonly<Record<string, string>>) => readMetricsEnvironment(env);

  it('asks for metrics by an endpoint or an exporter, and forbids them', () => {
    expect(read({}).environment).toMatchObject({
      asked: false,
      disabled: false,
      intervalMs: 60_000,
      timeoutMs: 30_000,
    });
    expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318/' }).environment).toMatchObject({
      asked: true,
      otlp: { url: 'http://c:4318/v1/metrics', protocol: 'http/protobuf' },
    });
    expect(read({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://c/x' }).environment).toMatchObject({
      asked: true,
      otlp: { url: 'http://c/x' },
    });
    expect(read({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://c/x' }).environment.asked).toBe(false);
    expect(read({ OTEL_METRICS_EXPORTER: 'otlp' }).environment.asked).toBe(true);
    expect(read({ OTEL_METRICS_EXPORTER: 'none' }).environment.disabled).toBe(true);
    expect(read({ OTEL_METRICS_EXPORTER: 'prometheus' }).environment.disabled).toBe(true);
    expect(read({ OTEL_SDK_DISABLED: 'true' }).environment.disabled).toBe(true);
  });

  it('sets pace and limits; an export is over before the next begins', () => {
    expect(read({ OTEL_METRIC_EXPORT_INTERVAL: '5000' }).environment).toMatchObject({
      intervalMs: 5000,
      timeoutMs: 5000,
    });
    expect(read({ OTEL_METRIC_EXPORT_TIMEOUT: '100' }).environment.timeoutMs).toBe(100);
    expect(read({ OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: '77' }).environment.otlp.timeoutMs).toBe(77);
    expect(
      read({ OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'a=b', OTEL_EXPORTER_OTLP_HEADERS: 'a=c,d=e' }).environment.otlp
        .headers,
    ).toEqual({ a: 'b', d: 'e' });
  });

  it('is told what is not served', () => {
    expect(read({ OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: 'delta' }).problems.join()).toContain(
      'cumulative',
    );
    expect(
      read({ OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: 'explicit_bucket_histogram' }).problems.join(),
    ).toContain('base2_exponential');
    expect(read({ OTEL_METRICS_EXPORTER: 'console' }).problems.join()).toContain('console');
    expect(read({ OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: 'cumulative' }).problems).toEqual([]);
  });
});
