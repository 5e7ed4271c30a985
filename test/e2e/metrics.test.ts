/** Metrics over real sockets: `/metrics`, `/stats` and OTLP of a whole warmlane, against its records and log lines. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { run, send, waitForClose } from '../../src/sim/fault-steps.ts';
import { createSimServer } from '../../src/sim/server.ts';
import { instantVllmServer } from '../../src/sim/server-settings.ts';
import {
  chunk,
  DONE,
  FIN,
  responseHead,
  ROLE,
  sseHead,
  T,
  USE,
  wholeAnswer,
  wholeStream,
} from '../../src/sim/sse-script.ts';
import type { RequestRecord } from '../../src/domain/record.ts';
import { backendsAre, scripted } from '../support/exchange.ts';
import { type OtlpMetricsReceiver, startOtlpMetricsReceiver, total } from '../support/otlp-metrics-receiver.ts';
import { type Family, parsePrometheus, sumOf } from '../support/prometheus-text.ts';
import { type ConfigChange, type Proxy, startProxy } from '../support/proxy.ts';
import { chatBody, postBytes, R0 } from '../support/raw-http.ts';
import { createChance } from '../support/seed.ts';
import { severalBackends } from '../support/several-backends.ts';
import { createStage, eventually, type Stage, untilAsked } from '../support/stage.ts';

let stage: Stage;
const opened: { close(): Promise<void> }[] = [];
beforeEach(() => {
  stage = createStage();
});
afterEach(async () => {
  await stage.close();
  for (const one of opened.splice(0).toReversed()) await one.close();
});

async function scrape({ adminUrl }: Proxy): Promise<ReadonlyMap<string, Family>> {
  const answer = await fetch(`${adminUrl}/metrics`);
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  return parsePrometheus(await answer.text());
}

async function ask(proxy: Proxy, body: object): Promise<void> {
  const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  await answer.text();
}

const events = [ROLE, T('a'), T('b'), FIN('stop'), USE(12, 2, { prompt_tokens_details: { cached_tokens: 8 } }), DONE];
const answered = {
  id: 'x',
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'a b' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 12, completion_tokens: 2, total_tokens: 14 },
};

describe('requests of every kind', () => {
  it('C191 are all counted, streamed or not, by HTTP/1.0, and left half-way; tokens too', async () => {
    let number = 0;
    const backend = await scripted(
      stage,
      () => {
        number += 1;
        if (number === 2) return [send(wholeAnswer(200, answered))];
        if (number === 4) return [send(sseHead()), send(chunk(ROLE)), send(chunk(T('a'))), waitForClose()];
        return [send(wholeStream(...events))];
      },
      'vllm',
    );
    const proxy = await stage.proxy(backend, { change: backendsAre([backend], 'vllm') });
    const requests = [
      R0,
      postBytes('/v1/chat/completions', { ...chatBody, stream: false }),
      R0.replace('HTTP/1.1', 'HTTP/1.0'),
      R0,
    ];
    for (const [at, request] of requests.entries()) {
      const client = await stage.client(proxy);
      client.send(request);
      if (at === 3) {
        await client.until(() => client.received.includes('"a"'));
        client.leave();
      } else await client.answer();
      await proxy.records(at + 1);
    }
    const families = await scrape(proxy);
    const name = 'warmlane_requests_total';
    expect(sumOf(families, name)).toBe(4);
    expect(sumOf(families, name, { stream: 'true', outcome: 'ok' })).toBe(2);
    expect(sumOf(families, name, { stream: 'false', outcome: 'ok' })).toBe(1);
    expect(sumOf(families, name, { stream: 'true', outcome: 'client_abort' })).toBe(1);
    const output = 'gen_ai_client_inference_usage_output_tokens_total';
    expect(sumOf(families, output, { outcome: 'ok' })).toBe(6);
    expect(sumOf(families, output, { outcome: 'client_abort' })).toBe(1);
    expect(sumOf(families, 'warmlane_tokens_estimated_total')).toBe(1);
    expect(sumOf(families, 'gen_ai_server_time_to_first_token_seconds_count', { outcome: 'client_abort' })).toBe(1);
  });

  it('that a second backend answered show the first one’s failure, also while tracing is off', async () => {
    const fleet = await severalBackends(stage, { count: 2 }, (nth) =>
      nth === 1 ? [send(responseHead(503, { 'Content-Length': '0' }))] : [wholeStream(...events)],
    );
    const { answer, record } = await fleet.send();
    expect(answer.status).toBe(200);
    const [failed, good] = fleet.asked.map((number) => `b${fleet.backends[number]?.port}`);
    expect(record).toMatchObject({ backend: good, attempts: 2 });
    expect(record.failedAttempts).toEqual([{ backend: failed, outcome: 'rejected', reason: 'backend_busy' }]);
    const families = await scrape(fleet.proxy);
    expect(families.get('warmlane_attempts_total')?.samples.map(({ labels, value }) => [labels, value])).toEqual([
      [{ backend: failed, outcome: 'rejected', reason: 'backend_busy' }, 1],
      [{ backend: good, outcome: 'ok' }, 1],
    ]);
    expect(sumOf(families, 'warmlane_retries_total', { backend: good ?? '', outcome: 'ok' })).toBe(1);
  });

  it('C190 leave /metrics well-formed, whatever they name as their model', async () => {
    const backend = await scripted(stage, () => [send(wholeStream(...events))]);
    const proxy = await stage.proxy(backend);
    const names = ['x'.repeat(100_000), 42, { a: 1 }, null, undefined, 'm"\n# HELP x', '🦙', 'nul\u0000', '\\"}'];
    for (const model of names) await ask(proxy, { ...chatBody, model });
    const records = await proxy.records(names.length);
    const families = await scrape(proxy);
    expect(sumOf(families, 'warmlane_requests_total')).toBe(records.length);
    expect(sumOf(families, 'warmlane_requests_total', { model: '🦙' })).toBe(1);
    for (const { samples } of families.values())
      for (const { labels } of samples) expect((labels['model'] ?? '').length).toBeLessThanOrEqual(128);
  });

  it('C189 keep the config’s model its label behind 200 made-up names, and gauges fall where they rose', async () => {
    let go = () => {};
    const going = new Promise<void>((resolve) => (go = resolve));
    const backend = await scripted(stage, (request) =>
      request.body.toString().includes('"early"')
        ? [
            send(sseHead()),
            send(chunk(ROLE)),
            send(chunk(T('a'))),
            run(() => going),
            send(chunk(FIN('stop'), DONE)),
            send('0\r\n\r\n'),
          ]
        : [send(wholeStream(...events))],
    );
    const proxy = await stage.proxy(backend, { change: { classify: { modelAliases: { configured: 'm' } } } });
    const client = await stage.client(proxy);
    client.send(postBytes('/v1/chat/completions', { ...chatBody, model: 'early' }));
    await untilAsked(backend, 1);
    await client.until(() => client.received.includes('"a"'));
    const running = 'warmlane_requests_running';
    expect(sumOf(await scrape(proxy), running, { model: 'early', phase: 'streaming' })).toBe(1);
    for (let i = 0; i < 200; i += 1) await ask(proxy, { ...chatBody, model: `junk-${i}` });
    await ask(proxy, { ...chatBody, model: 'configured' });
    const under = await scrape(proxy);
    expect(sumOf(under, running, { model: 'early' })).toBe(1);
    expect(sumOf(under, 'http_server_active_requests', { method: 'POST' })).toBe(1);
    go();
    await client.answer();
    await proxy.records(202);
    const families = await scrape(proxy);
    expect(sumOf(families, running)).toBe(0);
    expect(families.get(running)?.samples.filter(({ labels }) => labels['model'] === 'early').length).toBeGreaterThan(
      0,
    );
    expect(sumOf(families, 'http_server_active_requests')).toBe(0);
    const name = 'warmlane_requests_total';
    expect(sumOf(families, name)).toBe(202);
    expect(sumOf(families, name, { model: 'configured' })).toBe(1);
    expect(sumOf(families, name, { model: 'early' })).toBe(1);
    expect(sumOf(families, name, { model: 'other' })).toBeGreaterThan(100);
    expect(sumOf(families, 'warmlane_telemetry_label_overflows_total', { limit: 'models' })).toBeGreaterThan(100);
  });
});

describe('50 seeded requests', () => {
  it('C192 say the same in records, log lines, /metrics, /stats and by OTLP', async () => {
    const receiver: OtlpMetricsReceiver = await startOtlpMetricsReceiver();
    opened.push(receiver);
    const server = await createSimServer(instantVllmServer);
    opened.push(server);
    const change: ConfigChange = { log: { level: 'info', format: 'json' } };
    const proxy = await startProxy([server.url], change, {
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: receiver.url,
      OTEL_METRIC_EXPORT_INTERVAL: '100',
    });
    opened.push(proxy);
    const chance = createChance();
    const bodies = Array.from({ length: 50 }, () => ({
      ...chatBody,
      model: instantVllmServer.model,
      messages: [{ role: 'user', content: 'word '.repeat(1 + chance.below(400)) }],
      max_tokens: 1 + chance.below(40),
      stream: chance.below(10) < 7,
    }));
    for (let at = 0; at < bodies.length; at += 5)
      await Promise.all(bodies.slice(at, at + 5).map((body) => ask(proxy, body)));
    const records = await proxy.records(50);
    const rows = proxy.logged.filter(({ msg }) => msg === 'request');
    const families = await scrape(proxy);
    const metrics = await receiver.next();
    expect(records).toHaveLength(50);
    expect(rows).toHaveLength(50);
    expect(sumOf(families, 'warmlane_requests_total')).toBe(50);
    expect(total(metrics, 'warmlane.requests', ({ value = 0 }) => value)).toBe(50);

    const tokens = (count: (record: RequestRecord) => number | undefined) =>
      records.reduce((sum, record) => sum + (count(record) ?? 0), 0);
    const logged = (field: string) => rows.reduce((sum, row) => sum + Number(row[field] ?? 0), 0);
    for (const [field, name, sum] of [
      ['promptTokens', 'gen_ai.client.inference.usage.input_tokens', tokens(({ tokens: { prompt } }) => prompt?.value)],
      [
        'outputTokens',
        'gen_ai.client.inference.usage.output_tokens',
        tokens(({ tokens: { output } }) => output?.value),
      ],
      [
        'cachedTokens',
        'gen_ai.client.inference.usage.cache_read.input_tokens',
        tokens(({ tokens: { cached } }) => cached?.value),
      ],
    ] as const) {
      expect(logged(field), name).toBe(sum);
      expect(sumOf(families, `${name.replaceAll('.', '_')}_total`), name).toBe(sum);
      expect(
        total(metrics, name, ({ value = 0 }) => value),
        name,
      ).toBe(sum);
    }
    expect(tokens(({ tokens: { output } }) => output?.value)).toBeGreaterThan(0);

    const figures = [
      ['ttftMs', 'gen_ai.server.time_to_first_token'],
      ['tpotMs', 'gen_ai.server.time_per_output_token'],
      ['e2eMs', 'warmlane.time_to_last_token'],
      ['queueMs', 'warmlane.queue.duration'],
      ['connectMs', 'warmlane.connect.duration'],
      ['overheadMs', 'warmlane.overhead.duration'],
      ['durationMs', 'http.server.request.duration'],
    ] as const;
    for (const [figure, name] of figures) {
      const values = records.flatMap((record) => record.figures[figure] ?? []);
      const sumMs = values.reduce((sum, value) => sum + value, 0);
      const text = `${name.replaceAll('.', '_')}_seconds`;
      expect(values.length, name).toBeGreaterThan(0);
      expect(rows.filter((row) => row[figure] !== undefined).length, name).toBe(values.length);
      // Records and log lines are rounded to the microsecond.
      expect(logged(figure), name).toBeCloseTo(sumMs, 3);
      expect(sumOf(families, `${text}_count`), name).toBe(values.length);
      expect(sumOf(families, `${text}_sum`) * 1000, name).toBeCloseTo(sumMs, 1);
      expect(
        total(metrics, name, ({ histogram }) => histogram?.count ?? 0),
        name,
      ).toBe(values.length);
      expect(
        total(metrics, name, ({ histogram }) => histogram?.sum ?? 0),
        name,
      ).toBeCloseTo(sumOf(families, `${text}_sum`), 9);
    }

    const gaps = records.reduce((sum, { itl }) => sum + (itl?.count ?? 0), 0);
    const gapSeconds = records.reduce((sum, { itl }) => sum + (itl?.sum ?? 0), 0);
    expect(gaps).toBeGreaterThan(0);
    expect(sumOf(families, 'warmlane_inter_token_latency_seconds_count')).toBe(gaps);
    expect(sumOf(families, 'warmlane_inter_token_latency_seconds_sum')).toBeCloseTo(gapSeconds, 9);
    expect(total(metrics, 'warmlane.inter_token_latency', ({ histogram }) => histogram?.count ?? 0)).toBe(gaps);

    const stats = (await (await fetch(`${proxy.adminUrl}/stats?window=60m`)).json()) as Stats;
    const ttfts = records.flatMap(({ figures: { ttftMs } }) => ttftMs ?? []).toSorted((a, b) => a - b);
    expect(stats.all).toMatchObject({ requests: 50, outcomes: { ok: 50 } });
    expect(stats.all.figures['itl']).toMatchObject({ gaps });
    for (const [share, name] of [
      [0.5, 'p50Ms'],
      [0.9, 'p90Ms'],
      [0.99, 'p99Ms'],
    ] as const) {
      const exactMs = ttfts[Math.ceil(share * ttfts.length) - 1] ?? Number.NaN;
      expect(Math.abs(Number(stats.all.figures['ttft']?.[name]) - exactMs) / exactMs, name).toBeLessThan(0.01);
    }
    expect(stats.populations.reduce((sum, { requests }) => sum + requests, 0)).toBe(50);
  });
});

interface StatsRow {
  readonly requests: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly figures: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}
interface Stats {
  readonly window: string;
  readonly coveredMs: number;
  readonly all: StatsRow;
  readonly populations: readonly (StatsRow & Readonly<Record<'model' | 'backend' | 'lane' | 'warmth', string>>)[];
}

describe('/stats', () => {
  it('keeps requests that failed beside the percentiles, and refuses a wrong question', async () => {
    let number = 0;
    const backend = await scripted(stage, () => {
      number += 1;
      return number === 1 ? [send(wholeAnswer(500, { error: { message: 'no' } }))] : [send(wholeStream(...events))];
    });
    const proxy = await stage.proxy(backend);
    await ask(proxy, chatBody);
    await ask(proxy, chatBody);
    await proxy.records(2);
    const stats = (await (await fetch(`${proxy.adminUrl}/stats`)).json()) as Stats;
    expect(stats).toMatchObject({ window: '5m', all: { requests: 2, outcomes: { ok: 1, upstream_error: 1 } } });
    expect(stats.all.figures['ttft']).toMatchObject({ requests: 1, without: { upstream_error: 1 } });
    expect(stats.coveredMs).toBeGreaterThan(0);
    const wrong = await fetch(`${proxy.adminUrl}/stats?window=2m`);
    expect(wrong.status).toBe(400);
    expect(await wrong.json()).toEqual({ error: { message: 'window must be one of 1m, 5m, 60m', param: 'window' } });
  });
});

describe('a backend that comes back', () => {
  it('has its start and its first answer timed', async () => {
    const server = await createSimServer(instantVllmServer);
    opened.push({ close: () => server.close().catch(() => {}) });
    const { port } = server;
    await server.close();
    const proxy = await startProxy([`http://127.0.0.1:${port}`], { fleet: { probeDownIntervalMs: 20 } });
    opened.push(proxy);
    await eventually(() => proxy.app.fleet.snapshot().backends[0]?.health === 'down', 'down');
    opened.push(await createSimServer(instantVllmServer, { port }));
    await eventually(() => proxy.app.fleet.snapshot().backends[0]?.health === 'up', 'up again');
    await ask(proxy, { ...chatBody, model: instantVllmServer.model, max_tokens: 3 });
    const [record] = await proxy.records(1);
    expect(record?.warmth).toBe('cold_start');
    const families = await scrape(proxy);
    expect(sumOf(families, 'warmlane_backend_start_duration_seconds_count', { from: 'down' })).toBe(1);
    expect(sumOf(families, 'warmlane_backend_cold_start_duration_seconds_count', { from: 'down' })).toBe(1);
    expect(sumOf(families, 'warmlane_backend_health', { health: 'up' })).toBe(1);
    expect(sumOf(families, 'warmlane_backend_health', { health: 'down' })).toBe(0);
    expect(sumOf(families, 'gen_ai_server_time_to_first_token_seconds_count', { warmth: 'cold_start' })).toBe(1);
  });
});
